"""Files of other performance models, in: SimuMax, Calculon and llm-analysis."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from amped.base.errors import ConfigError, Problem
from amped.configuring.layout_text import as_pattern
from amped.interop.outgoing import Rule
from amped.interop.records import Imported, Reading
from amped.interop.sections import flat, read_sections

# --- SimuMax ---------------------------------------------------------------------------------------------------------

# Its networks are like Llama's.
LIKE_LLAMA = {"norm_vectors": 1, "positions": "rope", "tied_embeddings": False}


def simumax_heads(reading: Reading) -> dict[str, Any]:
    """The width of a head, and latent attention."""
    if not reading.values.get("layers"):
        return {}
    latent = reading.number("kv_lora_rank", "key_value_latent_dimension", 0)
    width = reading.number("head_size", "head_dimension")
    reading.word("attention_type", "attention_kind")
    if not latent:
        return {**LIKE_LLAMA, "head_dimension": width}
    plain = reading.needed("qk_head_dim", "head_dimension")
    rotary = reading.needed("qk_pos_emb_head_dim", "rotary_head_dimension")
    return {
        **LIKE_LLAMA, "attention_kind": "multi_latent", "head_dimension": plain + rotary, "rotary_head_dimension": rotary,
        "value_head_dimension": reading.number("v_head_dim", "value_head_dimension"), "key_value_latent_dimension": latent,
        "query_latent_dimension": reading.number("q_lora_rank", "query_latent_dimension", 0),
    }  # fmt: skip


def simumax_experts(reading: Reading) -> dict[str, Any]:
    """Mixtures of experts behind some dense layers."""
    experts = reading.number("expert_num", "number_of_experts", 1) or 1
    dense = reading.number("dense_layers", "number_of_MoE_layers", 0) or 0
    if experts <= 1 or "layers" not in reading.values:
        return {}
    layers = int(reading.values["layers"])
    if dense > layers:
        raise ConfigError(Problem(f"{dense} dense layers are more than all {layers}", reading.place("dense_layers")))
    found: dict[str, Any] = {
        "number_of_experts": experts, "experts_per_token": reading.number("topk", "experts_per_token", 1), "number_of_MoE_layers": layers - dense,
        "expert_feedforward_dimension": reading.number("moe_ffn_hidden_size", "expert_feedforward_dimension") or reading.values.get("feedforward_dimension"),
        "shared_experts_feedforward_dimension": reading.number("moe_shared_expert_intermediate_size", "shared_experts_feedforward_dimension"),
    }  # fmt: skip
    return found | ({"mixture_layer_pattern": as_pattern([0] * dense + [1] * (layers - dense))} if dense else {})


def simumax_batch(reading: Reading) -> dict[str, Any]:
    """The sequences of a step: those of a micro-batch, for every micro-batch and replica."""
    number, micro = reading.number("micro_batch_num", "batch_size"), reading.values.get("microbatch_size")
    if not number or not micro or not reading.values.get("number_of_accelerators"):
        return {}
    replicas = int(reading.values["number_of_accelerators"]) // reading.accelerators_of_a_replica
    return {"batch_size": number * int(micro) * max(replicas, 1)}


def simumax_precision(reading: Reading) -> dict[str, Any]:
    """The formats of products and of gradients."""
    form = reading.word("dtype", "matrix_precision")
    fp8 = reading.flag("fp8", "matrix_precision")
    found: dict[str, Any] = {"matrix_precision": "fp8" if fp8 else form} if form else {}
    wide = reading.flag("use_fp32_accum_grad", "gradient_precision")
    return found | ({"gradient_precision": 32 if wide else 16} if "use_fp32_accum_grad" in reading.taken else {})


def simumax_recomputation(reading: Reading) -> dict[str, Any]:
    """Whole layers, attention, or norms."""
    into = "activation_recomputation"
    on, kind = reading.flag("enable_recompute", into), reading.word("recompute_granularity", into, "")
    layers, parts = reading.number("recompute_layer_num", "number_of_recomputed_layers", 0), {}
    for name in ("attn_recompute", "mla_rms_recompute", "mlp_recompute", "mlp_rms_recompute"):
        parts[name] = reading.flag(name, into)
    if not on:
        return {into: "none"} if "enable_recompute" in reading.taken else {}
    if "full" in kind:
        return {into: "block", "number_of_recomputed_layers": layers} if layers else {into: "full"}
    if parts["mlp_recompute"]:
        reading.unsupported("mlp_recompute", "amped computes no feed-forward network again by itself")
    if "selective" not in kind:
        reading.unsupported("recompute_granularity", f"{kind}, read as selective")
    return {into: "selective" if parts["attn_recompute"] or "selective" not in kind else "none",
            "norm_recomputation": parts["mla_rms_recompute"] or parts["mlp_rms_recompute"]}  # fmt: skip


def simumax_switches(reading: Reading) -> dict[str, Any]:
    """Fused attention, and dropout."""
    flash, dropout = reading.flag("use_flash_sdp", "flash_attention"), reading.flag("enable_dropout", "dropout")
    found: dict[str, Any] = {"flash_attention": flash} if "use_flash_sdp" in reading.taken else {}
    return found | ({"dropout": 0.1 if dropout else 0} if "enable_dropout" in reading.taken else {})


def simumax_ends(reading: Reading) -> dict[str, Any]:
    """First and last stages with layers of their own."""
    return {
        f"number_of_{end}_stage_layers": number
        for end in ("first", "last")
        if (number := reading.number(f"num_layers_in_{end}_pipeline_stage", f"number_of_{end}_stage_layers"))
    }


SIMUMAX = {
    "heads": Rule(simumax_heads), "experts": Rule(simumax_experts), "batch": Rule(simumax_batch), "precision": Rule(simumax_precision),
    "recomputation": Rule(simumax_recomputation), "switches": Rule(simumax_switches), "ends": Rule(simumax_ends),
}  # fmt: skip

# --- Calculon --------------------------------------------------------------------------------------------------------

LIKE_GPT = {
    "norm_vectors": 2, "gated_mlp": False, "query_key_value_bias": True, "attention_output_bias": True, "mlp_bias": True, "vocabulary_size": 0,
    "dropout": 0.1,
}  # fmt: skip


def calculon_network(reading: Reading) -> dict[str, Any]:
    """Calculon's networks are like GPT's, without embedding and output head."""
    if "layers" not in reading.values:
        return {}
    reading.defaulted(
        "vocabulary_size", "0: Calculon has no embedding and no output head; give --set vocabulary_size=N"
    )
    return dict(LIKE_GPT)


def calculon_precision(reading: Reading) -> dict[str, Any]:
    """The format of products."""
    known = {"float16": "fp16", "bfloat16": "bf16", "float32": "fp32", "float8": "fp8"}
    form = _known(reading, "datatype", "matrix_precision", known, "float16")
    return {"matrix_precision": form} if form else {}


def calculon_recomputation(reading: Reading) -> dict[str, Any]:
    """Nothing, attention alone, or all."""
    known = {"none": "none", "attn_only": "selective", "full": "full"}
    kind = _known(reading, "activation_recompute", "activation_recomputation", known, "none")
    return {"activation_recomputation": kind} if kind else {}


def _known(reading: Reading, key: str, into: str, known: Mapping[str, str], otherwise: str) -> str | None:
    """What a word of a key is in amped's words; an unknown one is told and read as another one."""
    word = reading.word(key, into)
    if word is not None and word not in known:
        reading.unsupported(key, f"{word}, read as {otherwise}")
    return None if word is None else known.get(word, known[otherwise])


def calculon_sharding(reading: Reading) -> dict[str, Any]:
    """Sharded optimizer states are ZeRO 1."""
    on = reading.flag("optimizer_sharding", "zero_stage")
    reading.number("data_par", "number_of_accelerators", least=1)
    return {"zero_stage": int(on)} if "optimizer_sharding" in reading.taken else {}


def calculon_tensor(reading: Reading) -> dict[str, Any]:
    """Messages of tensor parallelism: all-reduces, or gathers and scatters; beside products or not."""
    kind = reading.word("tensor_par_comm_type", "sequence_parallel")
    over = reading.word("tensor_par_overlap", "overlap_forward_tensor_communication")
    found: dict[str, Any] = {"sequence_parallel": "rs_ag" in kind} if kind else {}
    return found | ({"overlap_forward_tensor_communication": over != "none"} if over else {})


CALCULON = {
    "network": Rule(calculon_network), "precision": Rule(calculon_precision), "recomputation": Rule(calculon_recomputation),
    "sharding": Rule(calculon_sharding), "tensor": Rule(calculon_tensor),
}  # fmt: skip

# --- llm-analysis ----------------------------------------------------------------------------------------------------


def llm_analysis_network(reading: Reading) -> dict[str, Any]:
    """llm-analysis counts no norms and no biases."""
    if "layers" not in reading.values:
        return {}
    reading.defaulted("norm_vectors", "1, and no biases: llm-analysis counts neither; a config.json says both")
    return {"norm_vectors": 1, "positions": "rope"}


LLM_ANALYSIS = {"network": Rule(llm_analysis_network)}


def read_simumax(raw: Mapping[str, Any], file: str) -> Imported:
    """A network or a strategy of SimuMax."""
    software = "Megatron-Core" if "world_size" in raw else None
    return read_sections("simumax", Reading(flat(raw)), file, SIMUMAX, software)


def read_calculon(raw: Mapping[str, Any], file: str) -> Imported:
    """An application or an execution of Calculon."""
    return read_sections("calculon", Reading(flat(raw)), file, CALCULON)


def read_llm_analysis(raw: Mapping[str, Any], file: str) -> Imported:
    """A network of llm-analysis."""
    return read_sections("llm_analysis", Reading(flat(raw)), file, LLM_ANALYSIS)
