"""Files of other performance models, in: SimuMax, Calculon and llm-analysis."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from amped.base.errors import ConfigError, Problem
from amped.configuring.layout_text import as_pattern
from amped.interop.outgoing import Rule
from amped.interop.records import Imported, Reading
from amped.interop.sections import flat, read_sections


def read_simumax_heads(reading: Reading) -> dict[str, Any]:
    """Reads the width of a head; with latent attention, also the widths of latent vectors and of the rotary part."""
    if not reading.values.get("layers"):
        return {}
    latent_width = reading.number("kv_lora_rank", "key_value_latent_dimension", 0)
    width = reading.number("head_size", "head_dimension")
    reading.word("attention_type", "attention_kind")
    if not latent_width:
        return {"head_dimension": width}
    unrotated_width = reading.needed("qk_head_dim", "head_dimension")
    rotated_width = reading.needed("qk_pos_emb_head_dim", "rotary_head_dimension")
    return {
        "attention_kind": "multi_latent", "head_dimension": unrotated_width + rotated_width, "rotary_head_dimension": rotated_width,
        "value_head_dimension": reading.number("v_head_dim", "value_head_dimension"), "key_value_latent_dimension": latent_width,
        "query_latent_dimension": reading.number("q_lora_rank", "query_latent_dimension", 0),
    }  # fmt: skip


def read_simumax_experts(reading: Reading) -> dict[str, Any]:
    """Reads the layers that are mixtures of experts, which follow the dense layers, and the width of an expert.

    Empty for a dense network.

    Raises:
        ConfigError: for more dense layers than layers.
    """
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


def read_simumax_batch(reading: Reading) -> dict[str, Any]:
    """Reads the sequences of a step: micro-batch size times micro-batches times replicas; empty if one of them is missing."""
    microbatches = reading.number("micro_batch_num", "batch_size")
    microbatch_size = reading.values.get("microbatch_size")
    if not microbatches or not microbatch_size or not reading.values.get("number_of_accelerators"):
        return {}
    replicas = int(reading.values["number_of_accelerators"]) // reading.accelerators_of_a_replica
    return {"batch_size": microbatches * int(microbatch_size) * max(replicas, 1)}


def read_simumax_precision(reading: Reading) -> dict[str, Any]:
    """Reads the format of matrix products: `dtype`, or fp8 if that is switched on too."""
    number_format, has_fp8 = reading.word("dtype", "matrix_precision"), reading.flag("fp8", "matrix_precision")
    return {"matrix_precision": "fp8" if has_fp8 and number_format else number_format or None}


def read_simumax_recomputation(reading: Reading) -> dict[str, Any]:
    """Reads which activations the backward pass computes again: all or some whole layers, or attention and norms.

    A feed-forward network that is computed again by itself is reported as not supported.
    """
    quantity = "activation_recomputation"
    is_enabled, kind = reading.flag("enable_recompute", quantity), reading.word("recompute_granularity", quantity, "")
    layers = reading.number("recompute_layer_num", "number_of_recomputed_layers", 0)
    switches = ("attn_recompute", "mla_rms_recompute", "mlp_recompute", "mlp_rms_recompute")
    parts = {name: reading.flag(name, quantity) for name in switches}
    if not is_enabled:
        return {quantity: "none"} if "enable_recompute" in reading.taken else {}
    if "full" in kind:
        return {quantity: "block", "number_of_recomputed_layers": layers} if layers else {quantity: "full"}
    if parts["mlp_recompute"]:
        reading.unsupported("mlp_recompute", "amped computes no feed-forward network again by itself")
    if "selective" not in kind:
        reading.unsupported("recompute_granularity", f"{kind}, read as selective")
    return {quantity: "selective" if parts["attn_recompute"] or "selective" not in kind else "none",
            "norm_recomputation": parts["mla_rms_recompute"] or parts["mlp_rms_recompute"]}  # fmt: skip


SIMUMAX = {
    "heads": Rule(read_simumax_heads), "experts": Rule(read_simumax_experts), "batch": Rule(read_simumax_batch), "precision": Rule(read_simumax_precision),
    "recomputation": Rule(read_simumax_recomputation),
}  # fmt: skip


def read_simumax(raw: Mapping[str, Any], file: str) -> Imported:
    """The network or the training that a file of SimuMax describes."""
    software = "Megatron-Core" if "world_size" in raw else None
    return read_sections("simumax", Reading(flat(raw)), file, SIMUMAX, software)


def read_calculon(raw: Mapping[str, Any], file: str) -> Imported:
    """The network (application) or the training (execution) that a file of Calculon describes."""
    return read_sections("calculon", Reading(flat(raw)), file, {})


def read_llm_analysis(raw: Mapping[str, Any], file: str) -> Imported:
    """The network that a file of llm-analysis describes."""
    return read_sections("llm_analysis", Reading(flat(raw)), file, {})
