"""Files of other performance models, in: SimuMax, Calculon and llm-analysis."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from amped.base.errors import ConfigError, Problem
from amped.configuring.layout_text import as_pattern
from amped.interop.outgoing import Rule
from amped.interop.records import Imported, Reading
from amped.interop.sections import flat, read_sections


def simumax_heads(reading: Reading) -> dict[str, Any]:
    """The width of a head, and latent attention."""
    if not reading.values.get("layers"):
        return {}
    latent = reading.number("kv_lora_rank", "key_value_latent_dimension", 0)
    width = reading.number("head_size", "head_dimension")
    reading.word("attention_type", "attention_kind")
    if not latent:
        return {"head_dimension": width}
    plain = reading.needed("qk_head_dim", "head_dimension")
    rotary = reading.needed("qk_pos_emb_head_dim", "rotary_head_dimension")
    return {
        "attention_kind": "multi_latent", "head_dimension": plain + rotary, "rotary_head_dimension": rotary,
        "value_head_dimension": reading.number("v_head_dim", "value_head_dimension"), "key_value_latent_dimension": latent,
        "query_latent_dimension": reading.number("q_lora_rank", "query_latent_dimension", 0),
    }  # fmt: skip


def simumax_experts(reading: Reading) -> dict[str, Any]:
    """Mixtures of experts behind some dense layers."""
    dense = reading.number("dense_layers", "number_of_MoE_layers", 0)
    values, width = reading.values, "expert_feedforward_dimension"
    if not {"number_of_experts", "layers"} <= values.keys():
        return {}
    layers = int(values["layers"])
    if dense > layers:
        raise ConfigError(Problem(f"{dense} dense layers are more than all {layers}", reading.place("dense_layers")))
    return {
        width: values.get(width, values.get("feedforward_dimension")),
        "number_of_MoE_layers": layers - dense,
        "mixture_layer_pattern": as_pattern([0] * dense + [1] * (layers - dense)) if dense else None,
    }


def simumax_batch(reading: Reading) -> dict[str, Any]:
    """The sequences of a step: those of a micro-batch, for every micro-batch and replica."""
    number, micro = reading.number("micro_batch_num", "batch_size"), reading.values.get("microbatch_size")
    if not number or not micro or not reading.values.get("number_of_accelerators"):
        return {}
    replicas = int(reading.values["number_of_accelerators"]) // reading.accelerators_of_a_replica
    return {"batch_size": number * int(micro) * max(replicas, 1)}


def simumax_precision(reading: Reading) -> dict[str, Any]:
    """The format of products."""
    form, fp8 = reading.word("dtype", "matrix_precision"), reading.flag("fp8", "matrix_precision")
    return {"matrix_precision": "fp8" if fp8 and form else form or None}


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


SIMUMAX = {
    "heads": Rule(simumax_heads), "experts": Rule(simumax_experts), "batch": Rule(simumax_batch), "precision": Rule(simumax_precision),
    "recomputation": Rule(simumax_recomputation),
}  # fmt: skip


def read_simumax(raw: Mapping[str, Any], file: str) -> Imported:
    """A network or a strategy of SimuMax."""
    software = "Megatron-Core" if "world_size" in raw else None
    return read_sections("simumax", Reading(flat(raw)), file, SIMUMAX, software)


def read_calculon(raw: Mapping[str, Any], file: str) -> Imported:
    """An application or an execution of Calculon."""
    return read_sections("calculon", Reading(flat(raw)), file, {})


def read_llm_analysis(raw: Mapping[str, Any], file: str) -> Imported:
    """A network of llm-analysis."""
    return read_sections("llm_analysis", Reading(flat(raw)), file, {})
