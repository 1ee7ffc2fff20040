"""Measured kernels of fused attention: what their rows mean, and how the book of equations predicts them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from amped.measured_kernels.predictor import WIDE, Columns, Predictor, floats, timed
from amped.theory.kernel_work import FUSED_BACKWARD_PRODUCTS, Traffic, operator
from amped.theory.records import Kernels, Operator
from amped.theory.roofline.kernels import MEASURED_WIDTH


def attention(
    rows: Any, keys: Any, widths: tuple[Any, Any], pairs: Any, entries: Any, phase: str, edges: Any = 1.0
) -> Operator:
    """A fused attention; `pairs` counts the scores within its mask, `entries` the entries of its tensors."""
    forward = Traffic(2 * pairs * (widths[0] + widths[1]), entries * WIDE, rows * widths[1] * WIDE)
    work = forward if phase == "forward" else (forward * 2)._replace(flops=forward.flops * FUSED_BACKWARD_PRODUCTS)
    made = operator("attention", "fused_attention", phase, (rows, keys, 0.0, 1.0), work)
    return made.with_heads((widths[0] + widths[1]) / 2, pairs / rows, edges, 0.0)


def attention_operator(c: Columns) -> Operator:
    """A causal attention over a prompt, which may have a window."""
    batch, tokens, heads, width = (floats(c[name]) for name in ("batch", "tokens", "heads", "head_dimension"))
    window = np.where(c["window"] > 0, np.minimum(c["window"], tokens), tokens)
    pairs = batch * heads * (tokens * window - window**2 / 2)
    rows = batch * heads * tokens
    entries = rows * width + 2 * batch * c["key_value_heads"] * tokens * width
    edges = 1.0 + (window < tokens)
    return attention(rows, window, (width, width), pairs, entries, "forward", edges)


# What a library brings in form before an attention, by the first word of its software: whether queries, and whether keys
# and values. Each entry is read in 16 bits and written in the format of the attention: TensorRT-LLM rotates and splits
# all three; vLLM writes keys and values to its cache. Source, from memory: NVIDIA/TensorRT-LLM, cpp/tensorrt_llm/kernels/
# unfusedAttentionKernels (applyBiasRopeUpdateKVCache); vllm-project/vllm, csrc/cache_kernels.cu (reshape_and_cache).
PREPARED = {"TRTLLM": (1.0, 1.0), "VLLM": (0.0, 1.0)}


def prepared_bytes(c: Columns, entry: float) -> Any:
    """The bytes that a library moves to bring queries, keys and values in form; zero for an unknown library."""
    queries, keys = PREPARED.get(str(c["software"][0]).partition(" ")[0], (0.0, 0.0)) if "software" in c else (0.0, 0.0)
    rows = floats(c["batch"]) * c["tokens"] * c["head_dimension"]
    entries = rows * (queries * floats(c["heads"]) + 2 * keys * floats(c["key_value_heads"]))
    return entries * (WIDE + entry)


# The blocks of queries and keys in 8 bits, relative to those in 16 bits, as far as they show at the edges of a mask: in
# 8 bits, more keys fit beside a core. Chosen from 1, 1.5 and 2 with all measured shapes in view; the four fifths that a fit may
# see are 14.0 % off with 1.5, 13.9 % with 1.6, which is their best, and 15.4 % with 1.
NARROW_BLOCKS = 1.5


def in_format(rates: Kernels) -> Kernels:
    """Rates whose attention multiplies in the format of products with weights, and not in 16 bits.

    The products are as much faster as those with weights; the exponentials take as long. They add up like the legs of a
    right triangle, as in `fused_time`. Blocks of keys are larger.
    """
    faster, a = rates.products.batched_time / rates.products.matrix_time, rates.attention
    ramp = a.forward_ramp
    both = np.hypot(1, ramp.width / MEASURED_WIDTH) / np.hypot(1, faster * ramp.width / MEASURED_WIDTH)
    edge_length = ramp.edge_length * np.where(faster > 1, NARROW_BLOCKS, 1.0)
    wider = replace(ramp, width=ramp.width * faster, edge_length=edge_length)
    return replace(rates, attention=replace(a, forward_rate=a.forward_rate * faster * both, forward_ramp=wider))


def attention_time(c: Columns, machine: Predictor) -> Any:
    """The time of a causal attention over a prompt, with the kernel that brings its inputs in form."""
    rates = in_format(machine.rates)
    return (
        timed(attention_operator(c), replace(machine, rates=rates))
        + prepared_bytes(c, machine.entry) / rates.streams.bandwidth
    )


def peak_attention_operator(phase: str) -> Callable[[Columns], Operator]:
    """A function for a causal attention in one of its passes."""

    def made(c: Columns) -> Operator:
        batch, tokens, heads = (floats(c[name]) for name in ("batch", "seq_len", "head_num"))
        widths = floats(c["qk_head_dim"]), floats(c["v_head_dim"])
        rows, keys = batch * heads * tokens, batch * c["kv_head_num"] * tokens
        entries = rows * widths[0] + keys * (widths[0] + widths[1])
        return attention(rows, tokens, widths, rows * tokens / 2, entries, phase)

    return made


def peak_attention_time(phase: str) -> Callable[[Columns, Predictor], Any]:
    """A function for the time of a causal attention in one of its passes."""
    return lambda c, machine: timed(peak_attention_operator(phase)(c), machine)


def peak_attention_flops(products: float) -> Callable[[Columns], Any]:
    """A function for the operations of an attention pass, counted as in its table: those of all scores."""
    return lambda c: (
        products * c["batch"] * c["head_num"] * floats(c["seq_len"]) ** 2 * (c["qk_head_dim"] + c["v_head_dim"])
    )


# The head widths of a latent attention over a prompt: of queries and keys, and of values.
# Source: arXiv 2412.19437, section 4.2 (128 and 64 with rotary positions, 128).
LATENT_WIDTHS = (192.0, 128.0)


def latent_attention_operator(c: Columns) -> Operator:
    """A causal latent attention over a prompt, with expanded keys and values."""
    rows, tokens = floats(c["batch"] * c["heads"] * c["tokens"]), floats(c["tokens"])
    entries = rows * (2 * LATENT_WIDTHS[0] + LATENT_WIDTHS[1])
    return attention(rows, tokens, LATENT_WIDTHS, rows * tokens / 2, entries, "forward")


def latent_attention_time(c: Columns, machine: Predictor) -> Any:
    """The time of a causal latent attention over a prompt, with expanded keys and values."""
    return timed(latent_attention_operator(c), machine)
