"""Megatron-Bridge's YAML: Megatron-LM's arguments in sections, by the names of megatron-core's dataclasses."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from amped.base.errors import FileError, Problem
from amped.estimation.estimation import Estimation
from amped.interop import megatron
from amped.interop.fields import table
from amped.interop.outgoing import Outgoing, heading, run_line
from amped.interop.records import Imported, Reading, Report, Told
from amped.interop.sections import as_yaml, flat, parse_yaml

FORM, SOFTWARE, VERSION = "bridge", "Megatron-Bridge", "Megatron-Bridge 26.08 (v0.6.0)"
SECTIONS = {
    "TransformerConfig": "model", "MLATransformerConfig": "model", "ModelParallelConfig": "model", "DistributedDataParallelConfig": "ddp",
    "OptimizerConfig": "optimizer",
}  # fmt: skip
# Arguments of megatron/training, and where Bridge has them; a minus means the opposite.
TRAINING = {
    "micro_batch_size": "train.micro_batch_size", "global_batch_size": "train.global_batch_size", "train_iters": "train.train_iters",
    "num_virtual_stages_per_pipeline_rank": "model.virtual_pipeline_model_parallel_size", "seq_length": "model.seq_length", "padded_vocab_size": "model.vocab_size", "position_embedding_type": "model.position_embedding_type",
    "untie_embeddings_and_output_weights": "-model.share_embeddings_and_output_weights", "max_position_embeddings": "dataset.sequence_length",
}  # fmt: skip
PRESETS: dict[str, dict[str, Any]] = {"bf16": {"bf16": True}, "fp16": {"fp16": True}, "fp8": {"bf16": True, "fp8": "hybrid"}, "mxfp8": {"bf16": True, "fp8": "e4m3", "fp8_recipe": "mxfp8"},
           "nvfp4": {"bf16": True, "fp4": "e2m1"}}  # fmt: skip
NEVER = (
    "group_query_attention",
    "vocab_size",
    "tokenizer_type",
    "mock_data",
    "make_vocab_size_divisible_by",
    "grad_reduce_in_bf16",
    "nnodes",
    "nproc_per_node",
)


@lru_cache(maxsize=1)
def places() -> Mapping[str, str]:
    """For each argument of Megatron-LM its place in Bridge's sections; a minus means the opposite."""
    own = {
        name: f"{SECTIONS[row['home']]}.{row.get('field', name)}"
        for name, row in table(megatron.FORM)["arguments"].items()
        if row["home"] in SECTIONS
    }
    return {**own, **TRAINING}


def read(text: str, file: str) -> Imported:
    """The training of a saved YAML.

    Raises:
        FileError: for another file.
    """
    given, report = flat(parse_yaml(text)), Report()
    if not any(key.startswith("model.") for key in given):
        raise FileError(
            Problem("has no section 'model'", "line 1", "amped reads the YAML that a run of Megatron-Bridge saves")
        )
    back = {place.lstrip("-"): (name, place.startswith("-")) for name, place in places().items()}
    found: dict[str, Any] = {}
    found_at: dict[str, str] = {}
    rest: list[str] = []
    for key, value in given.items():
        name, opposite = back.get(key, ("", False))
        if name and value is not None:
            found[name] = not value if opposite and isinstance(value, bool) else _plain(value)
            found_at[name] = key
        elif (
            key.split(".")[0] in ("model", "ddp", "optimizer", "comm_overlap")
            and value is not None
            and not key.endswith("_target_")
        ):
            found.setdefault(key.rpartition(".")[2], _plain(value))
        else:
            rest.append(key)
    found |= _preset(given, report)
    if found.get("accumulate_allreduce_grads_in_fp32") is False:
        found["grad_reduce_in_bf16"] = True
    if found.get("num_query_groups"):
        found["group_query_attention"] = True
    _tell_rest(rest, given, report)
    reading = Reading(found, found_at, report=report)
    return megatron.imported(reading, file, "a default of the dataclass in a saved config", SOFTWARE, FORM)


def _tell_rest(rest: list[str], given: Mapping[str, Any], report: Report) -> None:
    """What is no argument of Megatron-LM: an adapter, which changes what is trained; the rest costs nothing."""
    frozen = [key for key in rest if key.partition(".")[0] == "peft" and given[key] is not None]
    if frozen:
        report.unsupported.append(Told(", ".join(frozen), "LoRA: most weights are frozen, which amped does not model"))
    others = [key for key in rest if key not in frozen]
    if others:
        report.ignored.append(Told(", ".join(others), "data, logs, checkpoints, the learning rate, or not set"))


def _plain(value: Any) -> Any:
    """A value of the file; a dtype loses the name of its module."""
    return value.rpartition(".")[2] if isinstance(value, str) and value.startswith("torch.") else value


def _preset(given: Mapping[str, Any], report: Report) -> dict[str, Any]:
    """What a preset of mixed precision sets, or the section that says it."""
    name = given.get("mixed_precision")
    if isinstance(name, str):
        known = next((preset for preset in ("mxfp8", "nvfp4", "fp8", "bf16", "fp16") if preset in name), None)
        if known is None:
            report.unsupported.append(Told("mixed_precision", f"{name} is no preset that amped knows"))
        blocks = {"fp8_recipe": "blockwise"} if "sub" in name or "block" in name else {}
        preset: dict[str, Any] = PRESETS.get(known or "", {})
        return {**preset, **(blocks if known == "fp8" else {})}
    own = {
        key.partition(".")[2]: value
        for key, value in given.items()
        if key.startswith("mixed_precision.") and value is not None
    }
    names = {
        "bf16": "bf16",
        "fp16": "fp16",
        "fp8": "fp8",
        "fp8_recipe": "fp8_recipe",
        "fp4": "fp4",
        "grad_reduce_in_fp32": "accumulate_allreduce_grads_in_fp32",
    }
    return {theirs: own[key] for key, theirs in names.items() if key in own}


def fields_of(e: Estimation) -> Outgoing:
    """A configuration in Bridge's sections."""
    out = megatron.every_field(e)
    fields, why = out.fields, out.why
    if fields.get("vocab_size") is not None:
        out.write("tokens of the vocabulary", padded_vocab_size=out["vocabulary_size"])
    if "accumulate_allreduce_grads_in_fp32" not in fields:
        out.write("gradients are added up in bf16", accumulate_allreduce_grads_in_fp32=False)
    if fields.get("position_embedding_type") == "rope":
        fields.pop("max_position_embeddings", None)
    out.fields, out.why = {}, {}
    for name in (name for name in fields if name not in NEVER):
        place = places()[name]
        value = not fields[name] if place.startswith("-") else fields[name]
        out.fields[place.lstrip("-")], out.why[place.lstrip("-")] = value, why[name]
    if "model.recompute_modules" in out.fields:
        out.fields["model.recompute_modules"] = str(out.fields["model.recompute_modules"]).split()
    return out


def write(e: Estimation) -> str:
    """Overrides of a recipe of Megatron-Bridge as YAML, each with its reason."""
    out = fields_of(e)
    return as_yaml(out, [*heading(out, VERSION, e), run_line(out, "(a recipe's script) --config-file THIS_FILE")])
