"""DeepSpeed's JSON: in, and out. The network and the pipeline are in the program that reads it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from amped.estimation.estimation import Estimation
from amped.interop.outgoing import Outgoing, Rule, written
from amped.interop.records import Imported, Reading, ReportLine
from amped.interop.sections import as_json, flat, read_sections

FORM, SOFTWARE, VERSION = "deepspeed", "Megatron-DeepSpeed", "DeepSpeed 0.19.8"
Z = "zero_optimization."
AUTO = "auto"
# The size of the groups of MiCS where there are none.
NO_GROUPS = -1


# The three numbers of a batch, and their keys.
BATCH = {"batch_size": "train_batch_size", "microbatch_size": "train_micro_batch_size_per_gpu",
         "number_of_microbatches_per_minibatch": "gradient_accumulation_steps"}  # fmt: skip


def read_batch(reading: Reading) -> dict[str, Any]:
    """Reads the sequences of a step and of a micro-batch, and the micro-batches of a step, from DeepSpeed's three keys.

    "auto" means that the program's arguments say the number; the report then asks for it. If all three are given, the third
    follows from the others and is left out.
    """
    sizes = {}
    for name, key in BATCH.items():
        reading.refuse_section((key,))
        if reading.get(key, name) == AUTO:
            reading.defaulted(key, f"auto: the program says it; give --set {name}=N")
        elif (size := reading.number(key, name)) is not None:
            sizes[name] = size
    if len(sizes) == len(BATCH):  # two of them say the third
        del sizes["number_of_microbatches_per_minibatch"]
    return sizes


def write_batch(out: Outgoing) -> None:
    """Writes the sequences of a step and of a micro-batch, and the micro-batches of a step (gradient accumulation)."""
    batch, microbatch = out["batch_size"], out["microbatch_size"]
    out.write("sequences of a step, of a micro-batch, and micro-batches of a step", train_batch_size=batch, train_micro_batch_size_per_gpu=microbatch,
              gradient_accumulation_steps=batch // (microbatch * out["data_parallel_degree"]))  # fmt: skip


def read_precision(reading: Reading) -> dict[str, Any]:
    """Reads the format of matrix products: that of `bf16` and `fp16` which is enabled, else fp32.

    "auto" means that the program's arguments say it; then that format is taken, with a line in the report.
    """
    keys = {number_format: f"{number_format}.enabled" for number_format in ("bf16", "fp16")}
    for number_format, key in keys.items():
        if reading.raw.get(key) == AUTO:
            for section_key in keys.values():
                reading.get(section_key, "matrix_precision")
            reading.defaulted(key, f"auto: the program says it; {number_format} is taken")
            return {"matrix_precision": number_format}
        if reading.flag(key, "matrix_precision"):
            return {"matrix_precision": number_format}
    return {"matrix_precision": "fp32"}


def write_precision(out: Outgoing) -> None:
    """Writes bf16 or fp16 as enabled, and nothing for fp32. Reports formats below 16 bits and tf32 as lost."""
    number_format = out["matrix_precision"]
    if number_format not in ("fp32", "tf32"):
        out.write("format of products", "fp16." if number_format == "fp16" else "bf16.", enabled=True)
    if number_format not in ("bf16", "fp16", "fp32"):
        out.lose(
            "matrix_precision",
            f"{number_format} is set in the program (Transformer Engine, PyTorch), not in DeepSpeed's file",
        )


BITS_OF_FORMAT = {"fp32": 32, "bf16": 16, "fp16": 16}


def read_gradients(reading: Reading) -> dict[str, Any]:
    """Reads the bits of the format in which gradients are added up; empty if the file does not say it."""
    key = "data_types.grad_accum_dtype"
    number_format = reading.word(key, "gradient_precision")
    if number_format is not None and number_format not in BITS_OF_FORMAT:
        reading.unsupported(key, f"{number_format}, read as fp32")
    return {"gradient_precision": BITS_OF_FORMAT.get(number_format, 32)} if number_format else {}


def write_gradients(out: Outgoing) -> None:
    """Writes the format in which gradients are added up: fp32, or the 16-bit format of matrix products."""
    is_fp32 = out["gradient_precision"] >= 4
    half = "fp16" if out["matrix_precision"] == "fp16" else "bf16"
    out.write("gradients are added up in this format", "data_types.", grad_accum_dtype="fp32" if is_fp32 else half)


def read_offload(reading: Reading) -> dict[str, Any]:
    """Reads the shares of optimizer states and of weights that the host keeps, from 0 to 1.

    A disk (device nvme) is read as the memory of the host, with a line in the report.
    """
    shares = {}
    for key, name in (("offload_optimizer", "optimizer_offload"), ("offload_param", "weight_offload")):
        device, share = reading.word(f"{Z}{key}.device", name, "none"), reading.share(f"{Z}{key}.ratio", name, 1.0)
        if device not in ("none", "cpu"):
            reading.unsupported(f"{Z}{key}.device", f"{device}, read as the memory of the host")
        shares[name] = share if device != "none" else 0.0
    return shares


def write_offload(out: Outgoing) -> None:
    """Writes the offload of optimizer states (any share) and of weights (all or none; else reported as lost)."""
    if share := out["optimizer_offload"]:
        out.write("the host keeps the optimizer's states", f"{Z}offload_optimizer.", device="cpu", ratio=share)
    if out["weight_offload"] == 1:
        out.write("the host keeps the weights", f"{Z}offload_param.", device="cpu")
    elif out["weight_offload"]:
        out.lose("weight_offload", "DeepSpeed offloads all weights or none")


def read_sequence(reading: Reading) -> dict[str, Any]:
    """Reads DeepSpeed-Ulysses as context parallelism by an all-to-all; empty if sequences are not split."""
    degree = reading.number("sequence_parallel_size", "context_parallel_degree", 1, least=1)
    return {"context_parallel_degree": degree, "context_parallel_kind": "all_to_all"} if degree > 1 else {}


def write_sequence(out: Outgoing) -> None:
    """Writes context parallelism as the degree of DeepSpeed-Ulysses. Reports any kind but the all-to-all as lost."""
    degree, kind = out["context_parallel_degree"], out["context_parallel_kind"]
    if degree == 1:
        out.idle.add("context_parallel_kind")
        return
    out.write("accelerators that share a sequence (Ulysses)", sequence_parallel_size=degree)
    if kind != "all_to_all":
        out.lose(
            "context_parallel_kind", f"{kind}: DeepSpeed exchanges tokens for heads by an all-to-all, which is written"
        )


def read_sharding(reading: Reading) -> dict[str, Any]:
    """Reads the sharding degree from MiCS: replicas share out their states in groups, and each group has a copy.

    DeepSpeed reads the key only at ZeRO 3. At another stage it is reported as not supported.
    """
    key = f"{Z}mics_shard_size"
    if reading.get(key, "sharding_degree", NO_GROUPS) == NO_GROUPS:
        return {}
    degree = reading.number(key, "sharding_degree", least=1)
    if reading.values.get("zero_stage") != 3:
        reading.unsupported(key, f"{degree}: DeepSpeed reads it at stage 3 alone; not read")
        return {}
    return {"sharding_degree": degree}


def write_sharding(out: Outgoing) -> None:
    """Writes the sharding degree as MiCS if groups of replicas have copies. Reports it as lost below ZeRO 3."""
    stage, degree = out["zero_stage"], int(out["sharding_degree"])
    if "sharding_degree" not in out.given or not stage or degree == out["data_parallel_degree"]:
        out.idle.add("sharding_degree")
    elif stage == 3:
        out.write("replicas that share out their states; each such group has a copy", Z, mics_shard_size=degree)
    else:
        out.lose("sharding_degree", f"{degree}: DeepSpeed has groups of replicas (MiCS) at ZeRO 3 alone")


def read_experts(reading: Reading) -> dict[str, Any]:
    """Reads the expert-parallel degree from DeepSpeed's `expert_parallel` section; empty if experts are not split."""
    is_enabled = reading.flag("expert_parallel.enabled", "expert_parallel_degree")
    degree = reading.number("expert_parallel.autoep_size", "expert_parallel_degree", 1, least=1)
    return {"expert_parallel_degree": degree, "expert_tensor_parallel_degree": 1} if is_enabled and degree > 1 else {}


def write_experts(out: Outgoing) -> None:
    """Writes DeepSpeed's `expert_parallel` section (enabled, autoep_size), if the network has several experts and they are split."""
    degree = out["expert_parallel_degree"]
    if out["number_of_experts"] > 1 and degree > 1:
        why = "accelerators that each hold a share of the experts"
        out.write(why, "expert_parallel.", enabled=True, autoep_size=degree)


RULES = {
    "batch": Rule(read_batch, write_batch), "precision": Rule(read_precision, write_precision), "gradients": Rule(read_gradients, write_gradients),
    "offload": Rule(read_offload, write_offload), "sequence": Rule(read_sequence, write_sequence),
    "experts": Rule(read_experts, write_experts), "sharding": Rule(read_sharding, write_sharding),
}  # fmt: skip


def read(raw: Mapping[str, Any], file: str) -> Imported:
    """The training that a DeepSpeed JSON describes.

    Fused attention is assumed. The file does not say it, because the user's program decides; the row of DeepSpeed in the table of
    software has the kernels of 2021.
    """
    training = read_sections(FORM, Reading(flat(raw)), file, RULES, SOFTWARE)
    training.report.defaulted.append(ReportLine("flash_attention", "the program says it; a fused attention is taken"))
    return replace(training, values={**training.values, "flash_attention": True})


def fields_of(e: Estimation) -> Outgoing:
    """The mapping of an estimated configuration as DeepSpeed's keys.

    The network, its sequence length and the number of accelerators have no keys, and are reported as lost.
    """
    out = written(e, FORM, RULES)
    what = "the network, its sequence length and the number of accelerators are in the program and the launcher"
    out.lose("model", what)
    return out


def write(e: Estimation) -> str:
    """The text of a DeepSpeed JSON, with its reasons under keys that DeepSpeed does not read."""
    return as_json(fields_of(e), f"{VERSION}, written by amped: {e.scenario.title}")
