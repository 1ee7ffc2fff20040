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
    """Sequences of a step and of a micro-batch; what is "auto" stands in the arguments of the program."""
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
    """The three numbers of a batch, which must agree."""
    whole, micro = out["batch_size"], out["microbatch_size"]
    out.write("sequences of a step, of a micro-batch, and micro-batches of a step", train_batch_size=whole, train_micro_batch_size_per_gpu=micro,
              gradient_accumulation_steps=whole // (micro * out["data_parallel_degree"]))  # fmt: skip


def read_precision(reading: Reading) -> dict[str, Any]:
    """bf16, fp16 or fp32."""
    keys = {form: f"{form}.enabled" for form in ("bf16", "fp16")}
    for form, key in keys.items():
        if reading.raw.get(key) == AUTO:
            for other in keys.values():
                reading.get(other, "matrix_precision")
            reading.defaulted(key, f"auto: the program says it; {form} is taken")
            return {"matrix_precision": form}
        if reading.flag(key, "matrix_precision"):
            return {"matrix_precision": form}
    return {"matrix_precision": "fp32"}


def write_precision(out: Outgoing) -> None:
    """bf16, fp16 or fp32."""
    form = out["matrix_precision"]
    if form not in ("fp32", "tf32"):
        out.write("format of products", "fp16." if form == "fp16" else "bf16.", enabled=True)
    if form not in ("bf16", "fp16", "fp32"):
        out.lose(
            "matrix_precision", f"{form} is set in the program (Transformer Engine, PyTorch), not in DeepSpeed's file"
        )


BITS_OF_FORMAT = {"fp32": 32, "bf16": 16, "fp16": 16}


def read_gradients(reading: Reading) -> dict[str, Any]:
    """The format in which gradients are added up."""
    key = "data_types.grad_accum_dtype"
    form = reading.word(key, "gradient_precision")
    if form is not None and form not in BITS_OF_FORMAT:
        reading.unsupported(key, f"{form}, read as fp32")
    return {"gradient_precision": BITS_OF_FORMAT.get(form, 32)} if form else {}


def write_gradients(out: Outgoing) -> None:
    """The format in which gradients are added up."""
    wide = out["gradient_precision"] >= 4
    half = "fp16" if out["matrix_precision"] == "fp16" else "bf16"
    out.write("gradients are added up in this format", "data_types.", grad_accum_dtype="fp32" if wide else half)


def read_offload(reading: Reading) -> dict[str, Any]:
    """What the host keeps."""
    shares = {}
    for key, name in (("offload_optimizer", "optimizer_offload"), ("offload_param", "weight_offload")):
        device, share = reading.word(f"{Z}{key}.device", name, "none"), reading.share(f"{Z}{key}.ratio", name, 1.0)
        if device not in ("none", "cpu"):
            reading.unsupported(f"{Z}{key}.device", f"{device}, read as the memory of the host")
        shares[name] = share if device != "none" else 0.0
    return shares


def write_offload(out: Outgoing) -> None:
    """What the host keeps."""
    if share := out["optimizer_offload"]:
        out.write("the host keeps the optimizer's states", f"{Z}offload_optimizer.", device="cpu", ratio=share)
    if out["weight_offload"] == 1:
        out.write("the host keeps the weights", f"{Z}offload_param.", device="cpu")
    elif out["weight_offload"]:
        out.lose("weight_offload", "DeepSpeed offloads all weights or none")


def read_sequence(reading: Reading) -> dict[str, Any]:
    """Ulysses: an all-to-all turns shares of the sequence into shares of the heads."""
    degree = reading.number("sequence_parallel_size", "context_parallel_degree", 1, least=1)
    return {"context_parallel_degree": degree, "context_parallel_kind": "all_to_all"} if degree > 1 else {}


def write_sequence(out: Outgoing) -> None:
    """Ulysses."""
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
    """MiCS: replicas share out their states in groups, and each group has a copy."""
    key = f"{Z}mics_shard_size"
    if reading.get(key, "sharding_degree", NO_GROUPS) == NO_GROUPS:
        return {}
    degree = reading.number(key, "sharding_degree", least=1)
    if reading.values.get("zero_stage") != 3:
        reading.unsupported(key, f"{degree}: DeepSpeed reads it at stage 3 alone; not read")
        return {}
    return {"sharding_degree": degree}


def write_sharding(out: Outgoing) -> None:
    """MiCS, where groups of replicas have copies."""
    stage, shard = out["zero_stage"], int(out["sharding_degree"])
    if "sharding_degree" not in out.given or not stage or shard == out["data_parallel_degree"]:
        out.idle.add("sharding_degree")
    elif stage == 3:
        out.write("replicas that share out their states; each such group has a copy", Z, mics_shard_size=shard)
    else:
        out.lose("sharding_degree", f"{shard}: DeepSpeed has groups of replicas (MiCS) at ZeRO 3 alone")


def read_experts(reading: Reading) -> dict[str, Any]:
    """Shares of the experts."""
    on = reading.flag("expert_parallel.enabled", "expert_parallel_degree")
    degree = reading.number("expert_parallel.autoep_size", "expert_parallel_degree", 1, least=1)
    return {"expert_parallel_degree": degree, "expert_tensor_parallel_degree": 1} if on and degree > 1 else {}


def write_experts(out: Outgoing) -> None:
    """Shares of the experts."""
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
    """The training of a DeepSpeed JSON. Its row of software has the attention of 2021; programs of today have a fused one."""
    training = read_sections(FORM, Reading(flat(raw)), file, RULES, SOFTWARE)
    training.report.defaulted.append(ReportLine("flash_attention", "the program says it; a fused attention is taken"))
    return replace(training, values={**training.values, "flash_attention": True})


def fields_of(e: Estimation) -> Outgoing:
    """A configuration in DeepSpeed's keys."""
    out = written(e, FORM, RULES)
    what = "the network, its sequence length and the number of accelerators are in the program and the launcher"
    out.lose("model", what)
    return out


def write(e: Estimation) -> str:
    """DeepSpeed's JSON."""
    return as_json(fields_of(e), f"{VERSION}, written by amped: {e.scenario.title}")
