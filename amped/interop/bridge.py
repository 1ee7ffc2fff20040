"""Megatron-Bridge's YAML: Megatron-LM's arguments in sections, by the names of megatron-core's dataclasses."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from amped.base.errors import FileError, Problem
from amped.estimation.estimation import Estimation
from amped.interop import megatron
from amped.interop.fields import table
from amped.interop.outgoing import Outgoing, heading, run_line
from amped.interop.records import Imported, Reading, Report, ReportLine
from amped.interop.sections import as_yaml, flat, parse_yaml

FORM, SOFTWARE, VERSION = "bridge", "Megatron-Bridge", "Megatron-Bridge 26.08 (v0.6.0)"
# The sections with fields that are arguments of Megatron-LM.
OF_MEGATRON = ("model", "ddp", "optimizer", "comm_overlap")


@lru_cache(maxsize=1)
def places() -> Mapping[str, str]:
    """For each argument of Megatron-LM its place in Bridge's sections; a minus means the opposite."""
    sections, arguments = table(FORM)["sections"], table(megatron.FORM)["arguments"]
    fields = {
        name: f"{sections[row['home']]}.{row.get('field', name)}"
        for name, row in arguments.items()
        if row["home"] in sections
    }
    return {**fields, **table(FORM)["places"]}


def read(text: str, file: str) -> Imported:
    """The training of a saved YAML.

    Raises:
        FileError: for another file.
    """
    saved = flat(parse_yaml(text))
    if not any(key.startswith("model.") for key in saved):
        advice = "amped reads the YAML that a run of Megatron-Bridge saves"
        raise FileError(Problem("has no section 'model'", "line 1", advice))
    reading = _arguments(saved)
    return megatron.imported(reading, file, "a default of the dataclass in a saved config", SOFTWARE, FORM)


def _arguments(saved: Mapping[str, Any]) -> Reading:
    """The arguments of Megatron-LM that a saved config has, and what follows from them; the rest is told."""
    names = {place.lstrip("-"): (name, place.startswith("-")) for name, place in places().items()}
    arguments, keys, rest, report = dict[str, Any](), dict[str, str](), list[str](), Report()
    for key, value in saved.items():
        name, opposite = names.get(key, ("", False))
        if name and value is not None:
            arguments[name] = not value if opposite and isinstance(value, bool) else _plain(value)
            keys[name] = key
        elif key.split(".")[0] in OF_MEGATRON and value is not None and not key.endswith("_target_"):
            arguments.setdefault(key.rpartition(".")[2], _plain(value))
        else:
            rest.append(key)
    arguments |= _preset(saved, report)
    if arguments.get("accumulate_allreduce_grads_in_fp32") is False:
        arguments["grad_reduce_in_bf16"] = True
    if arguments.get("num_query_groups"):
        arguments["group_query_attention"] = True
    _tell_rest(rest, saved, report)
    return Reading(arguments, keys, report=report)


def _tell_rest(rest: list[str], saved: Mapping[str, Any], report: Report) -> None:
    """What is no argument of Megatron-LM: an adapter, which changes what is trained; the rest costs nothing."""
    frozen = [key for key in rest if key.partition(".")[0] == "peft" and saved[key] is not None]
    if frozen:
        report.unsupported.append(
            ReportLine(", ".join(frozen), "LoRA: most weights are frozen, which amped does not model")
        )
    others = [key for key in rest if key not in frozen]
    if others:
        report.ignored.append(ReportLine(", ".join(others), "data, logs, checkpoints, the learning rate, or not set"))


def _plain(value: Any) -> Any:
    """A value of the file; a dtype loses the name of its module."""
    return value.rpartition(".")[2] if isinstance(value, str) and value.startswith("torch.") else value


def _preset(saved: Mapping[str, Any], report: Report) -> dict[str, Any]:
    """What a preset of mixed precision sets, or the section that says it."""
    name = saved.get("mixed_precision")
    if not isinstance(name, str):
        fields: dict[str, str] = table(FORM)["mixed_precision"]
        return {argument: saved[key] for key, argument in fields.items() if saved.get(key) is not None}
    presets = (preset for pattern, preset in table(FORM)["presets"] if re.search(pattern, name))
    preset: dict[str, Any] | None = next(presets, None)
    if preset is None:
        report.unsupported.append(ReportLine("mixed_precision", f"{name} is no preset that amped knows"))
    return preset or {}


def fields_of(e: Estimation) -> Outgoing:
    """A configuration in Bridge's sections."""
    out = megatron.every_field(e)
    fields, why = out.fields, out.why
    out.write("tokens of the vocabulary", padded_vocab_size=out["vocabulary_size"])
    if "accumulate_allreduce_grads_in_fp32" not in fields:
        out.write("gradients are added up in bf16", accumulate_allreduce_grads_in_fp32=False)
    if fields["position_embedding_type"] == "rope":
        fields.pop("max_position_embeddings", None)
    if "recompute_modules" in fields:
        fields["recompute_modules"] = fields["recompute_modules"].split()
    out.fields, out.why = {}, {}
    for name in (name for name in fields if name not in table(FORM)["unwritten"]):
        place = places()[name]
        out.write(why[name], **{place.lstrip("-"): not fields[name] if place.startswith("-") else fields[name]})
    return out


def write(e: Estimation) -> str:
    """Overrides of a recipe of Megatron-Bridge as YAML, each with its reason."""
    out = fields_of(e)
    return as_yaml(out, [*heading(out, VERSION, e), run_line(out, "(a recipe's script) --config-file THIS_FILE")])
