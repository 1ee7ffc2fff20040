"""Megatron-Bridge's YAML: Megatron-LM's arguments in sections, by the names of megatron-core's dataclasses."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from amped.base.errors import FileError, Problem
from amped.estimation.estimation import Estimation
from amped.interop import finetuning, megatron
from amped.interop.fields import table
from amped.interop.outgoing import Outgoing, heading, run_line
from amped.interop.records import Imported, Reading, Report, ReportLine
from amped.interop.sections import as_yaml, flat, parse_yaml

FORM, SOFTWARE, VERSION = "bridge", "Megatron-Bridge", "Megatron-Bridge 26.08 (v0.6.0)"
# The table of the section `peft`.
ADAPTERS = "bridge_adapters"
# The sections with fields that are arguments of Megatron-LM.
OF_MEGATRON = ("model", "ddp", "optimizer", "comm_overlap")
# The sizes of a hierarchical context group: a list here, numbers with blanks between them on a command line.
SIZES = "hierarchical_context_parallel_sizes"


@lru_cache(maxsize=1)
def places() -> Mapping[str, str]:
    """The place of each argument of Megatron-LM in Bridge's sections, such as "model.num_layers", by the argument's name.

    A minus before a place says that the field is the opposite of the switch.
    """
    sections, arguments = table(FORM)["sections"], table(megatron.FORM)["arguments"]
    places_by_home = {
        name: f"{sections[row['home']]}.{row.get('field', name)}"
        for name, row in arguments.items()
        if row["home"] in sections
    }
    return {**places_by_home, **table(FORM)["places"]}


def read(text: str, file: str) -> Imported:
    """The training that a saved YAML of Megatron-Bridge describes.

    Raises:
        FileError: if the file has no section `model`.
    """
    saved = flat(parse_yaml(text))
    if not any(key.startswith("model.") for key in saved):
        advice = "amped reads the YAML that a run of Megatron-Bridge saves"
        raise FileError(Problem("has no section 'model'", "line 1", advice))
    reading = _arguments({key: value for key, value in saved.items() if not key.startswith("peft.")})
    training = megatron.imported(reading, file, "a default of the dataclass in a saved config", SOFTWARE, FORM)
    return finetuning.with_adapters(training, ADAPTERS, saved)


def _arguments(saved: Mapping[str, Any]) -> Reading:
    """The arguments of Megatron-LM that a saved config has, with those of its preset and those that follow from others.

    Keys that are no arguments are reported.
    """
    arguments_by_place = {place.lstrip("-"): (name, place.startswith("-")) for name, place in places().items()}
    arguments, keys, other_keys, report = dict[str, Any](), dict[str, str](), list[str](), Report()
    for key, value in saved.items():
        name, is_opposite = arguments_by_place.get(key, ("", False))
        if name and value is not None:
            arguments[name] = not value if is_opposite and isinstance(value, bool) else _without_module(value)
            keys[name] = key
        elif key.split(".")[0] in OF_MEGATRON and value is not None and not key.endswith("_target_"):
            arguments.setdefault(key.rpartition(".")[2], _without_module(value))
        else:
            other_keys.append(key)
    arguments |= _arguments_of_mixed_precision(saved, report)
    if arguments.get("accumulate_allreduce_grads_in_fp32") is False:
        arguments["grad_reduce_in_bf16"] = True
    if arguments.get("num_query_groups"):
        arguments["group_query_attention"] = True
    _report_other_keys(other_keys, report)
    return Reading(arguments, keys, report=report)


def _report_other_keys(keys: list[str], report: Report) -> None:
    """Reports the keys that are no arguments of Megatron-LM: they cost nothing."""
    if keys:
        report.ignored.append(ReportLine(", ".join(keys), "data, logs, checkpoints, the learning rate, or not set"))


def _without_module(value: Any) -> Any:
    """A value of the file; a data type loses the name of its module: torch.bfloat16 becomes bfloat16."""
    return value.rpartition(".")[2] if isinstance(value, str) and value.startswith("torch.") else value


def _arguments_of_mixed_precision(saved: Mapping[str, Any], report: Report) -> dict[str, Any]:
    """Megatron's arguments from `mixed_precision`, by name.

    If that is the name of a preset, those of the preset; an unknown name gives none, and a line in the report. Else the values
    that are written out in the saved config.
    """
    name = saved.get("mixed_precision")
    if not isinstance(name, str):
        arguments_by_key: dict[str, str] = table(FORM)["mixed_precision"]
        return {argument: saved[key] for key, argument in arguments_by_key.items() if saved.get(key) is not None}
    matching = (preset for pattern, preset in table(FORM)["presets"] if re.search(pattern, name))
    preset: dict[str, Any] | None = next(matching, None)
    if preset is None:
        report.unsupported.append(ReportLine("mixed_precision", f"{name} is no preset that amped knows"))
    return preset or {}


def fields_of(e: Estimation) -> Outgoing:
    """An estimated configuration as fields of Bridge's sections, by place, without the arguments that Bridge lacks or derives itself."""
    out = megatron.every_field(e)
    fields, why = out.fields, out.why
    out.write("tokens of the vocabulary", padded_vocab_size=out["vocabulary_size"])
    if "accumulate_allreduce_grads_in_fp32" not in fields:
        out.write("gradients are added up in bf16", accumulate_allreduce_grads_in_fp32=False)
    if fields["position_embedding_type"] == "rope":
        fields.pop("max_position_embeddings", None)
    if "recompute_modules" in fields:
        fields["recompute_modules"] = fields["recompute_modules"].split()
    if SIZES in fields:
        fields[SIZES] = [int(size) for size in fields[SIZES].split()]
    out.fields, out.why = {}, {}
    for name in (name for name in fields if name not in table(FORM)["unwritten"]):
        place = places()[name]
        out.write(why[name], **{place.lstrip("-"): not fields[name] if place.startswith("-") else fields[name]})
    return out


def write(e: Estimation) -> str:
    """Overrides of a recipe of Megatron-Bridge as YAML, each with its reason."""
    out = fields_of(e)
    return as_yaml(out, [*heading(out, VERSION, e), run_line(out, "(a recipe's script) --config-file THIS_FILE")])
