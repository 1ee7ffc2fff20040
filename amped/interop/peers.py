"""Files of other performance models, in: SimuMax, Calculon and llm-analysis."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from amped.interop.outgoing import Rule
from amped.interop.patterns import runs
from amped.interop.records import Imported, Reading, Report, Told
from amped.interop.sections import flat, read_sections

# --- SimuMax ---------------------------------------------------------------------------------------------------------

# Its networks are like Llama's.
LIKE_LLAMA = {"norm_vectors": 1, "positions": "rope", "tied_embeddings": False}


def simumax_heads(own: Reading) -> dict[str, Any]:
    """The width of a head, and latent attention."""
    if not own.values.get("layers"):
        return {}
    latent = own.keys.number("kv_lora_rank", "key_value_latent_dimension", 0)
    width = own.keys.number("head_size", "head_dimension")
    own.keys.get("attention_type", "attention_kind")
    if not latent:
        return {**LIKE_LLAMA, "head_dimension": width}
    plain, rotary = (own.keys.number(key, "head_dimension", 0) or 0 for key in ("qk_head_dim", "qk_pos_emb_head_dim"))
    return {
        **LIKE_LLAMA, "attention_kind": "multi_latent", "head_dimension": plain + rotary, "rotary_head_dimension": rotary,
        "value_head_dimension": own.keys.number("v_head_dim", "value_head_dimension"), "key_value_latent_dimension": latent,
        "query_latent_dimension": own.keys.number("q_lora_rank", "query_latent_dimension", 0),
    }  # fmt: skip


def simumax_experts(own: Reading) -> dict[str, Any]:
    """Mixtures of experts behind some dense layers."""
    experts = own.keys.number("expert_num", "number_of_experts", 1) or 1
    dense = own.keys.number("dense_layers", "number_of_MoE_layers", 0) or 0
    if experts <= 1:
        return {}
    layers = int(own.values["layers"])
    found: dict[str, Any] = {
        "number_of_experts": experts, "experts_per_token": own.keys.number("topk", "experts_per_token", 1), "number_of_MoE_layers": layers - dense,
        "expert_feedforward_dimension": own.keys.number("moe_ffn_hidden_size", "expert_feedforward_dimension") or own.values.get("feedforward_dimension"),
        "shared_experts_feedforward_dimension": own.keys.number("moe_shared_expert_intermediate_size", "shared_experts_feedforward_dimension"),
    }  # fmt: skip
    return found | ({"mixture_layer_pattern": runs([0] * dense + [1] * (layers - dense))} if dense else {})


def simumax_batch(own: Reading) -> dict[str, Any]:
    """The sequences of a step: those of a micro-batch, for every micro-batch and replica."""
    number, micro = own.keys.number("micro_batch_num", "batch_size"), own.values.get("microbatch_size")
    if not number or not micro or not own.values.get("number_of_accelerators"):
        return {}
    shared = 1
    for kind in ("tensor", "pipeline", "context"):
        shared *= max(int(own.values.get(f"{kind}_parallel_degree", 1)), 1)
    return {"batch_size": number * int(micro) * max(int(own.values["number_of_accelerators"]) // shared, 1)}


def simumax_precision(own: Reading) -> dict[str, Any]:
    """The formats of products and of gradients."""
    form = own.keys.get("dtype", "matrix_precision")
    fp8 = own.keys.get("fp8", "matrix_precision")
    wide = own.keys.get("use_fp32_accum_grad", "gradient_precision")
    found: dict[str, Any] = {"matrix_precision": "fp8" if fp8 else form} if form else {}
    return found | ({"gradient_precision": 32 if wide else 16} if wide is not None else {})


def simumax_recomputation(own: Reading) -> dict[str, Any]:
    """Whole layers, attention, or norms."""
    into = "activation_recomputation"
    on, kind = own.keys.get("enable_recompute", into), str(own.keys.get("recompute_granularity", into, ""))
    layers, parts = own.keys.number("recompute_layer_num", "number_of_recomputed_layers", 0), {}
    for name in ("attn_recompute", "mla_rms_recompute", "mlp_recompute", "mlp_rms_recompute"):
        parts[name] = bool(own.keys.get(name, into, False))
    if not on:
        return {into: "none"} if on is not None else {}
    if "full" in kind:
        return {into: "block", "number_of_recomputed_layers": layers} if layers else {into: "full"}
    if parts["mlp_recompute"]:
        own.report.unsupported.append(Told("mlp_recompute", "amped computes no feed-forward network again by itself"))
    if "selective" not in kind:
        own.report.unsupported.append(Told("recompute_granularity", f"{kind}, read as selective"))
    return {into: "selective" if parts["attn_recompute"] or "selective" not in kind else "none",
            "norm_recomputation": parts["mla_rms_recompute"] or parts["mlp_rms_recompute"]}  # fmt: skip


def simumax_switches(own: Reading) -> dict[str, Any]:
    """Fused attention, and dropout."""
    flash, dropout = own.keys.get("use_flash_sdp", "flash_attention"), own.keys.get("enable_dropout", "dropout")
    found: dict[str, Any] = {"flash_attention": bool(flash)} if flash is not None else {}
    return found | ({"dropout": 0.1 if dropout else 0} if dropout is not None else {})


def simumax_ends(own: Reading) -> dict[str, Any]:
    """First and last stages with layers of their own."""
    return {
        f"number_of_{end}_stage_layers": number
        for end in ("first", "last")
        if (number := own.keys.number(f"num_layers_in_{end}_pipeline_stage", f"number_of_{end}_stage_layers"))
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


def calculon_network(own: Reading) -> dict[str, Any]:
    """Calculon's networks are like GPT's, without embedding and output head."""
    if "layers" not in own.values:
        return {}
    own.report.defaulted.append(
        Told("vocabulary_size", "0: Calculon has no embedding and no output head; give --set vocabulary_size=N")
    )
    return dict(LIKE_GPT)


def calculon_precision(own: Reading) -> dict[str, Any]:
    """The format of products."""
    form = own.keys.get("datatype", "matrix_precision")
    known = {"float16": "fp16", "bfloat16": "bf16", "float32": "fp32", "float8": "fp8"}
    return {"matrix_precision": known.get(str(form), "fp16")} if form else {}


def calculon_recomputation(own: Reading) -> dict[str, Any]:
    """Nothing, attention alone, or all."""
    kind = own.keys.get("activation_recompute", "activation_recomputation")
    known = {"none": "none", "attn_only": "selective", "full": "full"}
    return {"activation_recomputation": known.get(str(kind), "none")} if kind else {}


def calculon_sharding(own: Reading) -> dict[str, Any]:
    """Sharded optimizer states are ZeRO 1."""
    on = own.keys.get("optimizer_sharding", "zero_stage")
    own.keys.get("data_par", "number_of_accelerators")
    return {"zero_stage": int(bool(on))} if on is not None else {}


def calculon_tensor(own: Reading) -> dict[str, Any]:
    """Messages of tensor parallelism: all-reduces, or gathers and scatters; beside products or not."""
    kind, over = (
        own.keys.get("tensor_par_comm_type", "sequence_parallel"),
        own.keys.get("tensor_par_overlap", "overlap_forward_tensor_communication"),
    )
    found: dict[str, Any] = {"sequence_parallel": "rs_ag" in str(kind)} if kind else {}
    return found | ({"overlap_forward_tensor_communication": str(over) != "none"} if over else {})


CALCULON = {
    "network": Rule(calculon_network), "precision": Rule(calculon_precision), "recomputation": Rule(calculon_recomputation),
    "sharding": Rule(calculon_sharding), "tensor": Rule(calculon_tensor),
}  # fmt: skip

# --- llm-analysis ----------------------------------------------------------------------------------------------------


def llm_analysis_network(own: Reading) -> dict[str, Any]:
    """llm-analysis counts no norms and no biases."""
    if "layers" not in own.values:
        return {}
    own.report.defaulted.append(
        Told("norm_vectors", "1, and no biases: llm-analysis counts neither; a config.json says both")
    )
    return {"norm_vectors": 1, "positions": "rope"}


LLM_ANALYSIS = {"network": Rule(llm_analysis_network)}


def read_simumax(raw: Mapping[str, Any], file: str) -> Imported:
    """A network or a strategy of SimuMax."""
    return read_sections(
        "simumax", flat(raw, file), file, SIMUMAX, "Megatron-Core" if "world_size" in raw else None, Report()
    )


def read_calculon(raw: Mapping[str, Any], file: str) -> Imported:
    """An application or an execution of Calculon."""
    return read_sections("calculon", flat(raw, file), file, CALCULON, None, Report())


def read_llm_analysis(raw: Mapping[str, Any], file: str) -> Imported:
    """A network of llm-analysis."""
    return read_sections("llm_analysis", flat(raw, file), file, LLM_ANALYSIS, None, Report())
