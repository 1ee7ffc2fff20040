"""Fine-tuning, out: the keys of TRL, and the same as a recipe of torchtune. `finetuning.py` reads what is written here."""

from __future__ import annotations

from typing import Any

from amped.estimation.estimation import Estimation
from amped.interop.fields import table
from amped.interop.finetuning import FORM, MODEL, READERS, F, P
from amped.interop.outgoing import Outgoing, Rule, heading, run_line, servers, written
from amped.interop.sections import as_yaml
from amped.tables.table_files import MODELS
from amped.tables.tables import user_tables
from amped.theory.language.quantity import NETWORK

TRL, TORCHTUNE = "TRL 1.16", "torchtune 0.6.1"
# The modules with adapters by Hugging Face's names, and torchtune's name of the one that differs.
MODULES = {"query_adapters": "q_proj", "key_adapters": "k_proj", "value_adapters": "v_proj", "attention_output_adapters": "o_proj",
           "gate_adapters": "gate_proj", "up_adapters": "up_proj", "down_adapters": "down_proj"}  # fmt: skip
IN_ATTENTION = ("q_proj", "k_proj", "v_proj", "o_proj")
OPTIMIZERS = {
    "adam": "adamw_torch",
    "adam_8bit": "adamw_bnb_8bit",
    "adafactor": "adafactor",
    "lion": "lion_32bit",
    "sgd": "sgd",
}
# torchtune's classes of optimizers; those of 8 bits are torchao's.
CLASSES = {"adam": "torch.optim.AdamW", "adam_8bit": "torchao.optim.AdamW8bit", "sgd": "torch.optim.SGD",
           "adafactor": "torch.optim.Adafactor"}  # fmt: skip


def modules(out: Outgoing) -> list[str]:
    """The names of the modules with adapters, as Hugging Face's networks have them."""
    ungated = () if out["gated_mlp"] else ("gate_adapters",)
    return [name for switch, name in MODULES.items() if out[switch] and switch not in ungated]


def lose_unadapted(out: Outgoing, *, ends: bool) -> None:
    """Notes as lost what is said of adapters and has no key: those of experts, of some layers and of joined products.

    Args:
        out: the configuration.
        ends: whether the format has a key for parts that are trained whole.
    """
    adapted, layers = out.values.get("number_of_adapted_layers"), out.values.get("layers")
    if out["expert_adapters"] != "none":
        out.lose("expert_adapters", "adapters of experts: how they are named depends on the network's code")
    if "number_of_adapted_layers" in out.given and adapted != layers:
        out.lose("number_of_adapted_layers", f"adapters in the last {adapted} layers: written for all layers")
    if out["joint_adapters"]:
        out.lose("joint_adapters", "one adapter for joined products: one is written for each of them")
    if out["trained_ends"] != "none" and not ends:
        out.lose("trained_ends", "embedding and output head are trained whole")


def write_adapters(out: Outgoing) -> None:
    """Writes PEFT's adapters, what is trained whole beside them, and frozen weights of 4 bits."""
    if out["adapters"] == "none":
        return
    out.write("adapters are trained, all else is frozen", use_peft=True, use_dora=out["adapters"] == "dora" or None)
    out.write("width of the adapters", lora_r=out["adapter_rank"])
    out.write("dropout before an adapter", lora_dropout=out["adapter_dropout"])
    out.write("modules with adapters", lora_target_modules=modules(out))
    if out["trained_ends"] != "none":
        out.write("embedding and output head are trained whole", lora_modules_to_save=["embed_tokens", "lm_head"])
    if out["frozen_weight_format"] != "given":
        out.write("frozen weights have 4 bits", load_in_4bit=True, bnb_4bit_quant_type="nf4")
        out.write("scales in 8 bits", use_bnb_nested_quant=out["frozen_weight_format"] == "nf4_double")
    lose_unadapted(out, ends=True)


def write_batch(out: Outgoing) -> None:
    """Writes the sequences of a micro-batch, and the micro-batches of a step."""
    out.write("sequences of a micro-batch", per_device_train_batch_size=out["microbatch_size"])
    out.write("micro-batches of a step", gradient_accumulation_steps=out["number_of_microbatches_per_minibatch"])


def write_lengths(out: Outgoing) -> None:
    """Writes the longest sequence."""
    out.write("tokens of a sequence", max_length=out["context"])


def write_precision(out: Outgoing) -> None:
    """Writes the format of weights and of products."""
    products, is_whole = out["matrix_precision"], out["weight_precision"] >= 4
    out.write("format of weights", dtype="float32" if is_whole else "float16" if products == "fp16" else "bfloat16")
    out.write("format of products", bf16=products not in ("fp16", "fp32", "tf32"), fp16=products == "fp16" or None)
    if products == "tf32":
        out.write("products of fp32 in tf32", tf32=True)
    if products in ("fp8", "fp4"):
        out.lose("matrix_precision", f"{products} has no key here; bf16 is written")


def write_optimizer(out: Outgoing) -> None:
    """Writes the optimizer; those without a name there are lost."""
    kind = out["optimizer"]
    name = OPTIMIZERS.get(kind)
    if name is None:
        out.lose("optimizer", f"{kind} has no name here; AdamW is written")
    is_fused = kind == "adam" and out.values.get("optimizer_traffic_factor") == 1
    out.write("the optimizer", optim=f"{name or OPTIMIZERS['adam']}{'_fused' if is_fused else ''}")
    if out["optimizer_placement"] != "after_backward":
        out.lose("optimizer_placement", "the trainer updates weights after the backward pass")


def write_sharding(out: Outgoing) -> None:
    """Writes FSDP2, which shards weights too and may keep them gathered; or plain replicas."""
    stage, replicas = out["zero_stage"], out["data_parallel_degree"]
    shard = out.values.get("sharding_degree") or replicas if stage else 1
    if stage and replicas > 1:
        out.write("replicas share out weights, gradients and states", fsdp="full_shard")
        out.write("version of FSDP", F, version=2)
        out.write("weights are gathered again for the backward pass", F, reshard_after_forward=stage == 3)
    if stage == 1 and replicas > 1:
        out.lose("zero_stage", "FSDP shards gradients too: ZeRO 2 is written for ZeRO 1")
    if out["optimizer_offload"] and stage:
        out.write("weights and states are on the host", F, offload_params=True)
    tensor, context = out["tensor_parallel_degree"], out["context_parallel_degree"]
    if tensor * context > 1 or shard < replicas:
        out.write("tensor parallelism", P, tp_size=tensor)
        out.write("context parallelism", P, cp_size=context)
        out.write("replicas that share a copy of the weights", P, dp_shard_size=int(shard))
        out.write("copies of the weights", P, dp_replicate_size=int(replicas // shard))
    for name in ("pipeline_parallel_degree", "expert_parallel_degree"):
        if out[name] and out[name] > 1:
            out.lose(name, f"{out[name]} has no key here")


def write_memory(out: Outgoing) -> None:
    """Writes which layers run again in the backward pass, and whether activations wait on the host."""
    kind = out["activation_recomputation"]
    out.write("layers run again in the backward pass", gradient_checkpointing=kind != "none")
    if kind not in ("none", "full"):
        out.lose("activation_recomputation", f"{kind}: all layers are written")
    if out["activation_offload"]:
        out.write("activations wait on the host", activation_offloading=True)


def write_kernels(out: Outgoing) -> None:
    """Writes whether attention is one fused kernel, and whether the loss is."""
    out.write("attention in one kernel", attn_implementation="sdpa" if out["flash_attention"] else "eager")
    if out["fused_cross_entropy"]:
        out.write("the loss in one kernel", use_liger_kernel=True)


def write_clipping(out: Outgoing) -> None:
    """Writes the largest norm of gradients; 0 is none."""
    out.write("largest norm of the gradients", max_grad_norm=1.0 if out["gradient_clipping"] else 0.0)


WRITERS = {
    "sharding": write_sharding, "adapters": write_adapters, "batch": write_batch, "lengths": write_lengths,
    "precision": write_precision, "optimizer": write_optimizer, "memory": write_memory, "kernels": write_kernels,
    "clipping": write_clipping,
}  # fmt: skip
_RULES = {name: Rule(reader, WRITERS[name]) for name, reader in READERS.items()}


def fields_of(e: Estimation) -> Outgoing:
    """The fine-tuning of an estimate as TRL's keys."""
    out = written(e, FORM, _RULES)
    row = e.scenario.sources.rows.get(NETWORK)
    if out["tensor_parallel_degree"] == 1:
        out.lost = [line for line in out.lost if line.key != "sequence_parallel"]
    if f"{P}dp_shard_size" not in out.fields:
        out.fields = {name: value for name, value in out.fields.items() if not name.startswith(P)}
    out.fields = {MODEL: row.name if row else "yours", **out.fields}
    out.why[MODEL] = "the network: put its folder, or its name on the hub, here"
    return out


def write(e: Estimation) -> str:
    """A file of `trl sft`, with the command that starts it."""
    out = fields_of(e)
    return as_yaml(out, [*heading(out, TRL, e), run_line(out, "-m trl.scripts.sft --config THIS_FILE")])


def torchtune_fields_of(e: Estimation) -> Outgoing:
    """The fine-tuning of an estimate as torchtune's keys: TRL's under other names, with the builder of the network."""
    out, keys = fields_of(e), {theirs: own for own, theirs in table("torchtune")["names"].items()}
    fields, why, out.fields, out.why = out.fields, out.why, {}, {}
    adapts, frozen = "use_peft" in fields, "load_in_4bit" in fields
    builder = _builder(out, str(fields[MODEL]), "qlora_" if frozen else "lora_" if adapts else "")
    out.write("the network", "model.", _component_=builder)
    if adapts:
        _write_adapters(out, fields)
    for name in ("per_device_train_batch_size", "gradient_accumulation_steps", "max_length"):
        out.write(why[name], **{keys.get(name, name): fields[name]})
    kind = out["optimizer"]
    if kind not in CLASSES and not any(line.key == "optimizer" for line in out.lost):
        out.lose("optimizer", f"{kind} has no class here; AdamW is written")
    out.write("the optimizer", "optimizer.", _component_=CLASSES.get(kind, CLASSES["adam"]))
    out.write("one kernel updates many weights", "optimizer.", fused=fields["optim"].endswith("_fused") or None)
    out.lost = [line for line in out.lost if line.key != "optimizer_placement"]
    if out["optimizer_placement"] == "in_backward":
        out.write("each weight is updated in the backward pass", optimizer_in_bwd=True)
    out.write("largest norm of the gradients", clip_grad_norm=fields["max_grad_norm"] or None)
    out.write("layers run again", enable_activation_checkpointing=fields["gradient_checkpointing"])
    out.write("format of weights and products", dtype="fp32" if fields["dtype"] == "float32" else "bf16")
    for name in (
        "activation_offloading",
        f"{F}reshard_after_forward",
        f"{F}offload_params",
        *(n for n in fields if n.startswith(P)),
    ):
        if name in fields:
            out.write(why[name], **{keys.get(name, name): fields[name]})
    return out


def _builder(out: Outgoing, network: str, prefix: str) -> str:
    """The builder of a network in torchtune; a network that it has no builder for is noted as lost."""
    tables = user_tables()
    for builder, words in table("torchtune")["builders"].items():
        row = tables.meant(MODELS, words)
        if tables.has(MODELS, row) and tables.row(MODELS, row).name == network:
            family, _, name = builder.partition(".")
            return f"torchtune.models.{family}.{prefix}{name}"
    out.lose("model", f"{network} has no builder that amped knows: write yours")
    return f"torchtune.models.YOURS.{prefix}YOURS"


def _write_adapters(out: Outgoing, fields: dict[str, Any]) -> None:
    """Writes torchtune's adapters: in attention by module, in feed-forward networks all or none."""
    named = fields["lora_target_modules"]
    of_network = [name for name in named if name not in IN_ATTENTION]
    if of_network and len(of_network) < 2 + bool(out["gated_mlp"]):
        out.lose("gate_adapters", f"only {', '.join(of_network)}: adapters are written for all of the network")
    attention = ["output_proj" if name == "o_proj" else name for name in named if name in IN_ATTENTION]
    out.write("projections of attention with adapters", "model.", lora_attn_modules=attention)
    out.write("feed-forward networks with adapters", "model.", apply_lora_to_mlp=bool(of_network))
    out.write("no adapter beside the output head", "model.", apply_lora_to_output=False)
    out.write("width of the adapters", "model.", lora_rank=fields["lora_r"])
    out.write("scale of the adapters: yours", "model.", lora_alpha=2 * fields["lora_r"])
    out.write("dropout before an adapter", "model.", lora_dropout=fields["lora_dropout"])
    out.write("adapters with lengths of rows", "model.", use_dora=fields.get("use_dora"))
    if "lora_modules_to_save" in fields:
        out.lose("trained_ends", "embedding and output head are trained whole")
    if fields.get("use_bnb_nested_quant") is False:
        out.lose("frozen_weight_format", "nf4: torchtune quantizes the scales again")


def torchtune_write(e: Estimation) -> str:
    """A config of torchtune's own recipes, with the command that starts it."""
    out = torchtune_fields_of(e)
    nodes, accelerators = servers(out)
    task = "lora_finetune" if out["adapters"] != "none" else "full_finetune"
    is_alone = nodes * accelerators == 1
    recipe = f"{task}_{'single_device' if is_alone else 'distributed'}"
    words = "" if is_alone else f"--nnodes {nodes} --nproc_per_node {accelerators} "
    run = f"# run, with a tokenizer, a checkpointer and data of yours: tune run {words}{recipe} --config THIS_FILE"
    return as_yaml(out, [*heading(out, TORCHTUNE, e), run])
