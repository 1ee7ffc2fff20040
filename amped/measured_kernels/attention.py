"""Measured kernels of fused attention: what their rows mean, and how the book of equations predicts them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from amped.measured_kernels.predictor import WIDE, Columns, Predictor, floats, share_of_traffic, texts, timed, tool
from amped.theory.nouns.kernel_work import Traffic, fused_backward_flops, operator
from amped.theory.nouns.records import Kernels, Operator
from amped.theory.roofline.kernels import MEASURED_WIDTH


def attention(
    rows: Any, keys: Any, widths: tuple[Any, Any], pairs: Any, entries: Any, phase: str, edges: Any = 1.0
) -> Operator:
    """A fused attention; `pairs` counts the scores within its mask, `entries` the entries of its tensors."""
    scores, values = (2 * pairs * width for width in widths)
    forward = Traffic(scores + values, entries * WIDE, rows * widths[1] * WIDE)
    work = forward if phase == "forward" else (forward * 2)._replace(flops=fused_backward_flops(scores, values))
    made = operator("attention", "fused_attention", phase, (rows, keys, 0.0, 1.0), work)
    return made.with_heads(widths, pairs / rows, edges, 0.0)


def masked_operator(c: Columns, phase: str) -> Operator:
    """One pass of an attention with or without a causal mask, which may have a window."""
    batch, tokens, heads, groups = (floats(c[name]) for name in ("batch", "tokens", "heads", "key_value_heads"))
    widths, window = (floats(c["key_width"]), floats(c["value_width"])), floats(c["window"])
    is_masked = texts(c["mask"]) == "causal"
    seen = np.where(window > 0, np.minimum(window, tokens), tokens)
    rows, keys = batch * heads * tokens, batch * groups * tokens
    pairs = rows * (seen - is_masked * seen**2 / (2 * tokens))
    entries = rows * widths[0] + keys * (widths[0] + widths[1])
    return attention(rows, seen, widths, pairs, entries, phase, is_masked * (1.0 + (seen < tokens)))


def attention_operator(c: Columns) -> Operator:
    """A causal attention over a prompt, which may have a window."""
    widths = dict.fromkeys(("key_width", "value_width"), c["head_dimension"])
    return masked_operator({**c, **widths, "mask": "causal"}, "forward")


# What a library brings in form before an attention, by the first word of its software: whether queries, and whether keys
# and values. Each entry is read in 16 bits and written in the format of the attention: TensorRT-LLM rotates and splits
# all three; vLLM writes keys and values to its cache. Source, from memory: NVIDIA/TensorRT-LLM, cpp/tensorrt_llm/kernels/
# unfusedAttentionKernels (applyBiasRopeUpdateKVCache); vllm-project/vllm, csrc/cache_kernels.cu (reshape_and_cache).
PREPARED = {"TRTLLM": (1.0, 1.0), "VLLM": (0.0, 1.0)}


def prepared_bytes(c: Columns, entry: float) -> Any:
    """The bytes that a library moves to bring queries, keys and values in form; zero for an unknown library."""
    queries, keys = PREPARED.get(tool(c), (0.0, 0.0))
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


# Registers of a thread, and those of them that hold neither a tile nor its operands: addresses, maxima, sums.
# Source: NVIDIA, CUDA C++ Programming Guide, table of compute capabilities (255 for a thread). WORKING_REGISTERS and the bytes
# that a core moves in a cycle to and from registers kept elsewhere are fitted to four fifths of the fp8 attentions of L40S.
REGISTERS, WORKING_REGISTERS, SPILLED_BYTES_PER_CYCLE = 255.0, 32.0, 14.0
REGISTER_BYTES, LANES = 4.0, 32.0
# Software and architectures whose attention in 8 bits keeps whole heads of a block in registers.
# Source: NVIDIA/TensorRT-LLM, cpp/kernels/fmha_v2/setup.py at 010669f (enumerate_qmma_flash_kernels, not tiled).
UNTILED = {("TRTLLM", "Ada")}


def is_untiled(c: Columns, machine: Predictor) -> bool:
    """Whether an attention keeps whole heads of its blocks in registers."""
    return machine.entry < WIDE and (tool(c), machine.generation) in UNTILED


def spilling_time(width: Any, machine: Predictor) -> Any:
    """The time of an operation that moves registers out and in, if whole heads of a block do not fit in registers.

        registers = (rows·(width + keys)·4 + (rows + 2·keys)·width·entry) / (4·32) + others.

    A warp of 32 threads holds the output and the scores of its rows in full precision, its queries, and a block of keys
    and values. For each block of keys it writes and reads what does not fit: it moves these bytes once each way for
    4·rows·keys·width operations. Heads up to 64 have blocks of 128 keys and 32 rows a warp, wider ones of 32 and 16.

    Source: NVIDIA/TensorRT-LLM, cpp/kernels/fmha_v2/setup.py at 010669f (blocks of 128 × 128 and 64 × 32, 4 warps).
    """
    rows, keys = np.where(width <= 64, 32.0, 16.0), np.where(width <= 64, 128.0, 32.0)
    held = rows * (width + keys) * REGISTER_BYTES + (rows + 2 * keys) * width * machine.entry
    spilled = np.maximum(held / (REGISTER_BYTES * LANES) + WORKING_REGISTERS - REGISTERS, 0.0)
    moved = 2 * spilled * REGISTER_BYTES * LANES / (4 * rows * keys * width)
    return moved / (machine.rates.products.tiles.cores * machine.frequency * SPILLED_BYTES_PER_CYCLE)


def spilling(rates: Kernels, added: Any, width: Any) -> Kernels:
    """Rates of an attention whose operations take longer by a time each; its blocks are as in 16 bits."""
    a = rates.attention
    ramp = replace(a.forward_ramp, edge_length=a.forward_ramp.edge_length / NARROW_BLOCKS)
    reached = a.forward_rate * np.hypot(1, ramp.width / MEASURED_WIDTH) / np.hypot(1, ramp.width / width)
    return replace(rates, attention=replace(a, forward_rate=a.forward_rate / (1 + added * reached), forward_ramp=ramp))


def attention_time(c: Columns, machine: Predictor) -> Any:
    """The time of a causal attention over a prompt, with the kernel that brings its inputs in form."""
    rates, made, width = in_format(machine.rates), attention_operator(c), floats(c["head_dimension"])
    if is_untiled(c, machine):
        rates = spilling(rates, spilling_time(width, machine), width)
    bandwidth, prepared = rates.streams.bandwidth, prepared_bytes(c, machine.entry)
    share = share_of_traffic(made.bytes + prepared, machine.cache, bandwidth, machine.core_bandwidth)
    return timed(made, replace(machine, rates=rates)) + prepared * share / bandwidth


# The columns of an attention of training, by those of SimuMax's table, which has causal masks without a window.
SIMUMAX_COLUMNS = {"batch": "batch", "tokens": "seq_len", "heads": "head_num", "key_value_heads": "kv_head_num",
                   "key_width": "qk_head_dim", "value_width": "v_head_dim"}  # fmt: skip


def peak_operator(c: Columns, phase: str) -> Operator:
    """One pass of an attention of SimuMax's table."""
    columns = {name: c[head] for name, head in SIMUMAX_COLUMNS.items()}
    return masked_operator({**columns, "window": 0.0, "mask": "causal"}, phase)


BOTH_PASSES = ("forward", "input_gradient")
training_forward, training_backward = (partial(masked_operator, phase=phase) for phase in BOTH_PASSES)
peak_forward, peak_backward = (partial(peak_operator, phase=phase) for phase in BOTH_PASSES)


def peak_attention_flops(products: float) -> Callable[[Columns], Any]:
    """A function for the operations of an attention pass, counted as in its table: those of all scores."""
    return lambda c: (
        products * c["batch"] * c["head_num"] * floats(c["seq_len"]) ** 2 * (c["qk_head_dim"] + c["v_head_dim"])
    )
