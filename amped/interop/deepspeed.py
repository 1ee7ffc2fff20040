"""DeepSpeed's JSON: in, and out. The network and the pipeline are in the program that reads it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from amped.estimation.estimation import Estimation
from amped.interop.outgoing import Outgoing, Rule, written
from amped.interop.records import Imported, Reading, Told
from amped.interop.sections import as_json, flat, read_sections

FORM, SOFTWARE, VERSION = "deepspeed", "Megatron-DeepSpeed", "DeepSpeed 0.19.8"
Z = "zero_optimization."
AUTO = "auto"
# The size of the groups of MiCS where there are none.
NO_GROUPS = -1


def read_batch(own: Reading) -> dict[str, Any]:
    """Sequences of a step and of a micro-batch; what is "auto" stands in the arguments of the program."""
    found = {}
    for key, name in (
        ("train_batch_size", "batch_size"),
        ("train_micro_batch_size_per_gpu", "microbatch_size"),
        ("gradient_accumulation_steps", "number_of_microbatches_per_minibatch"),
    ):
        own.keys.refuse_section((key,))
        value = own.keys.get(key, name)
        if value == AUTO:
            own.defaulted(key, f"auto: the program says it; give --set {name}=N")
        elif value is not None:
            found[name] = own.keys.number(key, name)
    if len(found) == 3:  # two of them say the third
        del found["number_of_microbatches_per_minibatch"]
    return found


def write_batch(out: Outgoing) -> None:
    """The three numbers of a batch, which must agree."""
    whole, micro = out.get("batch_size", 1), out.get("microbatch_size", 1)
    out.write("sequences of a step, of a micro-batch, and micro-batches of a step", train_batch_size=whole, train_micro_batch_size_per_gpu=micro,
              gradient_accumulation_steps=whole // (micro * out.get("data_parallel_degree", 1)))  # fmt: skip


def read_precision(own: Reading) -> dict[str, Any]:
    """bf16, fp16 or fp32."""
    keys = {form: f"{form}.enabled" for form in ("bf16", "fp16")}
    for form, key in keys.items():
        if own.keys.raw.get(key) == AUTO:
            for other in keys.values():
                own.keys.get(other, "matrix_precision")
            own.defaulted(key, f"auto: the program says it; {form} is taken")
            return {"matrix_precision": form}
        if own.keys.flag(key, "matrix_precision"):
            return {"matrix_precision": form}
    return {"matrix_precision": "fp32"}


def write_precision(out: Outgoing) -> None:
    """bf16, fp16 or fp32."""
    form = str(out.get("matrix_precision", "bf16"))
    if form not in ("fp32", "tf32"):
        out.write("format of products", **{f"{'fp16' if form == 'fp16' else 'bf16'}.enabled": True})
    if form not in ("bf16", "fp16", "fp32"):
        out.lose(
            "matrix_precision", f"{form} is set in the program (Transformer Engine, PyTorch), not in DeepSpeed's file"
        )


BITS_OF_FORMAT = {"fp32": 32, "bf16": 16, "fp16": 16}


def read_gradients(own: Reading) -> dict[str, Any]:
    """The format in which gradients are added up."""
    key = "data_types.grad_accum_dtype"
    form = own.keys.word(key, "gradient_precision")
    if form is not None and form not in BITS_OF_FORMAT:
        own.unsupported(key, f"{form}, read as fp32")
    return {"gradient_precision": BITS_OF_FORMAT.get(form, 32)} if form else {}


def write_gradients(out: Outgoing) -> None:
    """The format in which gradients are added up."""
    wide = out.get("gradient_precision", 4) >= 4
    half = "fp16" if out.get("matrix_precision") == "fp16" else "bf16"
    out.write("gradients are added up in this format", **{"data_types.grad_accum_dtype": "fp32" if wide else half})


def read_optimizer(own: Reading) -> dict[str, Any]:
    """Adam and its kin, or SGD."""
    kind = own.keys.word("optimizer.type", "optimizer")
    if kind is not None and kind.lower() not in ("adam", "adamw", "fusedadam", "sgd"):
        own.unsupported("optimizer.type", f"{kind}, read as adam")
    return {"optimizer": "sgd" if kind.lower() == "sgd" else "adam"} if kind else {}


def write_optimizer(out: Outgoing) -> None:
    """Adam or SGD."""
    kind = str(out.get("optimizer", "adam"))
    out.write("the optimizer", **{"optimizer.type": {"sgd": "SGD"}.get(kind, "AdamW")})
    if kind not in ("adam", "sgd"):
        out.lose("optimizer", f"{kind}: every run of DeepSpeed has an optimizer; AdamW is written")


def read_offload(own: Reading) -> dict[str, Any]:
    """What the host keeps."""
    found = {}
    for key, name in (("offload_optimizer", "optimizer_offload"), ("offload_param", "weight_offload")):
        device, share = own.keys.word(f"{Z}{key}.device", name, "none"), own.keys.share(f"{Z}{key}.ratio", name, 1.0)
        if device not in ("none", "cpu"):
            own.unsupported(f"{Z}{key}.device", f"{device}, read as the memory of the host")
        found[name] = share if device != "none" else 0.0
    return found


def write_offload(out: Outgoing) -> None:
    """What the host keeps."""
    share = out.get("optimizer_offload", 0)
    if share:
        out.write(
            "the host keeps the optimizer's states",
            **{f"{Z}offload_optimizer.device": "cpu", f"{Z}offload_optimizer.ratio": share},
        )
    if out.get("weight_offload", 0) == 1:
        out.write("the host keeps the weights", **{f"{Z}offload_param.device": "cpu"})
    elif out.get("weight_offload", 0):
        out.lose("weight_offload", "DeepSpeed offloads all weights or none")


def read_sequence(own: Reading) -> dict[str, Any]:
    """Ulysses: an all-to-all turns shares of the sequence into shares of the heads."""
    degree = own.keys.number("sequence_parallel_size", "context_parallel_degree", 1, least=1)
    return {"context_parallel_degree": degree, "context_parallel_kind": "all_to_all"} if degree > 1 else {}


def write_sequence(out: Outgoing) -> None:
    """Ulysses."""
    degree, kind = out.get("context_parallel_degree", 1), out.get("context_parallel_kind", "ring")
    if degree == 1:
        out.idle.add("context_parallel_kind")
        return
    out.write("accelerators that share a sequence (Ulysses)", sequence_parallel_size=degree)
    if kind != "all_to_all":
        out.lose(
            "context_parallel_kind", f"{kind}: DeepSpeed exchanges tokens for heads by an all-to-all, which is written"
        )


def read_sharding(own: Reading) -> dict[str, Any]:
    """MiCS: replicas share out their states in groups, and each group has a copy."""
    key = f"{Z}mics_shard_size"
    shard = own.keys.get(key, "sharding_degree", NO_GROUPS)
    if shard == NO_GROUPS:
        return {}
    degree = own.keys.number(key, "sharding_degree", least=1)
    if own.values.get("zero_stage") != 3:
        own.unsupported(key, f"{degree}: DeepSpeed reads it at stage 3 alone; not read")
        return {}
    return {"sharding_degree": degree}


def write_sharding(out: Outgoing) -> None:
    """MiCS, where groups of replicas have copies."""
    stage, shard = out.get("zero_stage", 0), int(out.get("sharding_degree", 1))
    if "sharding_degree" not in out.given or not stage or shard == out.get("data_parallel_degree", 1):
        out.idle.add("sharding_degree")
    elif stage == 3:
        out.write("replicas that share out their states; each such group has a copy", **{f"{Z}mics_shard_size": shard})
    else:
        out.lose("sharding_degree", f"{shard}: DeepSpeed has groups of replicas (MiCS) at ZeRO 3 alone")


def read_experts(own: Reading) -> dict[str, Any]:
    """Shares of the experts."""
    on = own.keys.flag("expert_parallel.enabled", "expert_parallel_degree")
    degree = own.keys.number("expert_parallel.autoep_size", "expert_parallel_degree", 1, least=1)
    return {"expert_parallel_degree": degree, "expert_tensor_parallel_degree": 1} if on and degree > 1 else {}


def write_experts(out: Outgoing) -> None:
    """Shares of the experts."""
    degree = out.get("expert_parallel_degree", 1)
    if out.get("number_of_experts", 1) > 1 and degree > 1:
        out.write(
            "accelerators that each hold a share of the experts",
            **{"expert_parallel.enabled": True, "expert_parallel.autoep_size": degree},
        )


RULES = {
    "batch": Rule(read_batch, write_batch), "precision": Rule(read_precision, write_precision), "gradients": Rule(read_gradients, write_gradients),
    "optimizer": Rule(read_optimizer, write_optimizer), "offload": Rule(read_offload, write_offload), "sequence": Rule(read_sequence, write_sequence),
    "experts": Rule(read_experts, write_experts), "sharding": Rule(read_sharding, write_sharding),
}  # fmt: skip


def read(raw: Mapping[str, Any], file: str) -> Imported:
    """The training of a DeepSpeed JSON. Its row of software has the attention of 2021; programs of today have a fused one."""
    found = read_sections(FORM, flat(raw, file), file, RULES, SOFTWARE)
    found.report.defaulted.append(Told("flash_attention", "the program says it; a fused attention is taken"))
    return replace(found, values={**found.values, "flash_attention": True})


IN_THE_PROGRAM = {"pipeline_parallel_degree": 1, "activation_recomputation": "none", "tensor_parallel_strategy": "1d"}


def fields_of(e: Estimation) -> Outgoing:
    """A configuration in DeepSpeed's keys."""
    out = written(e, FORM, RULES)
    told = {line.key for line in out.lost}
    for name, usual in IN_THE_PROGRAM.items():
        if out.get(name, usual) != usual:
            out.lost = [line for line in out.lost if line.key != name]
            out.lose(name, f"{out.get(name)}: the program says it (PipelineModule, checkpoint), not DeepSpeed's file")
    if "model" not in told:
        out.lose(
            "model",
            "the network, its sequence length and the number of accelerators are in the program and the launcher",
        )
    return out


def write(e: Estimation) -> str:
    """DeepSpeed's JSON."""
    return as_json(fields_of(e), f"{VERSION}, written by amped: {e.scenario.title}")
