"""NeMo AutoModel's YAML: in, and out."""

from __future__ import annotations

from typing import Any

from amped.estimation.estimation import Estimation
from amped.interop import finetuning, finetuning_out
from amped.interop.outgoing import Outgoing, Rule, heading, run_line, written
from amped.interop.records import Imported, Reading
from amped.interop.sections import as_yaml, flat, parse_yaml, read_sections

FORM, SOFTWARE, VERSION = "automodel", "NeMo AutoModel", "NeMo AutoModel"
D = "distributed."
# The table of the section `peft`, and the class that it names.
ADAPTERS, TARGET = "automodel_adapters", "nemo_automodel.components._peft.lora.PeftConfig"


def read_sharding(reading: Reading) -> dict[str, Any]:
    """Reads the ZeRO stage, the number of accelerators and the sharding degree from the keys of `distributed`.

    FSDP2 shards weights, gradients and states (ZeRO 3) over all replicas, or over those of one of `dp_replicate_size` copies.
    DDP shards nothing. Without `dp_size`, the number of accelerators stays open.
    """
    replicas = reading.number(f"{D}dp_size", "number_of_accelerators", least=1)
    copies = reading.number(f"{D}dp_replicate_size", "sharding_degree", 1, least=1)
    target = reading.word(f"{D}_target_", "zero_stage", "fsdp2")
    strategy = reading.word(f"{D}strategy", "zero_stage", target).lower()
    stage = 0 if "ddp" in strategy.rpartition(".")[2] else 3
    if not replicas:
        reading.defaulted(f"{D}dp_size", "all accelerators that the other degrees leave; give --gpus")
        return {"zero_stage": stage}
    return {
        "zero_stage": stage,
        "number_of_accelerators": replicas * reading.accelerators_of_a_replica,
        "sharding_degree": replicas // copies if copies > 1 else None,
    }


def write_sharding(out: Outgoing) -> None:
    """Writes FSDP2 over all replicas or over those of one copy, or DDP without ZeRO.

    FSDP2 always shards weights too, so that ZeRO 1 and 2 are reported as lost.
    """
    stage, replicas = out["zero_stage"], out["data_parallel_degree"]
    shard = int(out["sharding_degree"]) if stage and "sharding_degree" in out.given else replicas
    why = "replicas share out weights, gradients and states" if stage else "replicas are whole"
    out.write(why, D, strategy="fsdp2" if stage else "ddp")
    out.write("replicas", D, dp_size=replicas)
    out.write("copies of the shards", D, dp_replicate_size=replicas // shard)
    if stage in (1, 2):
        out.lose("zero_stage", f"FSDP2 shards weights too: ZeRO 3 is written for ZeRO {stage}")
    if stage == 0 or shard == replicas:
        out.idle.add("sharding_degree")


def read_precision(reading: Reading) -> dict[str, Any]:
    """Reads the format of matrix products: fp8 if it is enabled, else fp32 or bf16 by `torch_dtype` (by default bf16)."""
    has_fp8 = reading.flag("fp8.enabled", "matrix_precision")
    torch_format = reading.word("model.torch_dtype", "matrix_precision", "bf16")
    return {"matrix_precision": "fp8" if has_fp8 else "fp32" if "32" in torch_format else "bf16"}


def write_precision(out: Outgoing) -> None:
    """Writes the format of matrix products as fp32 or bf16, and fp8 as a section. Reports any other format as lost."""
    number_format = out["matrix_precision"]
    out.write("format of products", "model.", torch_dtype="fp32" if number_format in ("fp32", "tf32") else "bf16")
    if number_format == "fp8":
        out.write("products in fp8", "fp8.", enabled=True)
    elif number_format not in ("bf16", "fp32"):
        out.lose("matrix_precision", f"{number_format} has no key here")


def write_adapters(out: Outgoing) -> None:
    """Writes the section of adapters; the format of frozen weights has a section of its own, and is reported as lost."""
    out.lost = [line for line in out.lost if line.key != "adapters"]
    if out["adapters"] == "none":
        return
    out.write("adapters are trained, all else is frozen", "peft.", _target_=TARGET)
    out.write("width of the adapters", "peft.", dim=out["adapter_rank"])
    out.write("dropout before an adapter", "peft.", dropout=out["adapter_dropout"])
    out.write("modules with adapters", "peft.", target_modules=finetuning_out.modules(out))
    out.write("lengths of rows are trained, too", "peft.", use_dora=out["adapters"] == "dora" or None)
    finetuning_out.lose_unadapted(out, ends=False)
    if out["frozen_weight_format"] != "given":
        out.lose("frozen_weight_format", f"{out['frozen_weight_format']}: frozen weights of 4 bits are not written")


RULES = {
    "sharding": Rule(read_sharding, write_sharding), "precision": Rule(read_precision, write_precision),
}  # fmt: skip


def read(text: str, file: str) -> Imported:
    """The training of an AutoModel YAML."""
    saved = flat(parse_yaml(text))
    others = {key: value for key, value in saved.items() if not key.startswith("peft.")}
    training = read_sections(FORM, Reading(others), file, RULES, SOFTWARE)
    return finetuning.with_adapters(training, ADAPTERS, saved)


def fields_of(e: Estimation) -> Outgoing:
    """The mapping of an estimated configuration as AutoModel's keys; the network has none and is reported as lost."""
    out = written(e, FORM, RULES)
    write_adapters(out)
    if out["number_of_experts"] <= 1:
        out.fields.pop(f"{D}ep_size", None)
    out.lose("model", "the network: put the config.json that you train under model.pretrained_model_name_or_path")
    return out


def write(e: Estimation) -> str:
    """The text of an AutoModel YAML; each key has its reason as a comment."""
    out = fields_of(e)
    return as_yaml(out, [*heading(out, VERSION, e), run_line(out, "(AutoModel's recipe) --config THIS_FILE")])
