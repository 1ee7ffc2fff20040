"""Measured kernels of fused attention: what their rows mean, and how the book of equations predicts them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from amped.measured_kernels.predictor import (
    BYTES_16_BIT,
    Columns,
    Predictor,
    floats,
    operator_time,
    share_of_traffic,
    texts,
    tool_name,
)
from amped.theory.nouns.kernel_work import Traffic, fused_backward_flops, operator
from amped.theory.nouns.records import Kernels, Operator
from amped.theory.roofline.kernels import MEASURED_WIDTH


def attention(
    rows: Any, keys: Any, widths: tuple[Any, Any], pairs: Any, entries: Any, phase: str, edges: Any = 1.0
) -> Operator:
    """A fused attention over some rows of queries.

    Args:
        rows: the rows of queries, of all heads and sequences.
        keys: the keys that a row may see if there is no causal mask.
        widths: the width of a head of keys (and of queries), and that of values.
        pairs: the scores within the mask.
        entries: the entries of queries, keys and values.
        phase: the pass.
        edges: how many edges the mask has: none, a causal one, and one of a window.
    """
    scores, values = (2 * pairs * width for width in widths)
    forward = Traffic(scores + values, entries * BYTES_16_BIT, rows * widths[1] * BYTES_16_BIT)
    work = forward if phase == "forward" else (forward * 2)._replace(flops=fused_backward_flops(scores, values))
    fused = operator("attention", "fused_attention", phase, (rows, keys, 0.0, 1.0), work)
    return fused.with_heads(widths, pairs / rows, edges, 0.0)


def masked_operator(columns: Columns, phase: str) -> Operator:
    """One pass of an attention of training, with or without a causal mask, which may have a window (0: none)."""
    batch, tokens, heads, groups = (floats(columns[name]) for name in ("batch", "tokens", "heads", "key_value_heads"))
    widths, window = (floats(columns["key_width"]), floats(columns["value_width"])), floats(columns["window"])
    is_masked = texts(columns["mask"]) == "causal"
    visible = np.where(window > 0, np.minimum(window, tokens), tokens)
    rows, keys = batch * heads * tokens, batch * groups * tokens
    pairs = rows * (visible - is_masked * visible**2 / (2 * tokens))
    entries = rows * widths[0] + keys * (widths[0] + widths[1])
    return attention(rows, visible, widths, pairs, entries, phase, is_masked * (1.0 + (visible < tokens)))


def attention_operator(columns: Columns) -> Operator:
    """A causal attention over a prompt, which may have a window (0: none)."""
    widths = dict.fromkeys(("key_width", "value_width"), columns["head_dimension"])
    return masked_operator({**columns, **widths, "mask": "causal"}, "forward")


# What a library brings into form before an attention, by the first word of its software: whether queries, and whether keys
# and values. Each entry is read in 16 bits and written in the format of the attention: TensorRT-LLM rotates and splits
# all three; vLLM writes keys and values to its cache. Source, from memory: NVIDIA/TensorRT-LLM, cpp/tensorrt_llm/kernels/
# unfusedAttentionKernels (applyBiasRopeUpdateKVCache); vllm-project/vllm, csrc/cache_kernels.cu (reshape_and_cache).
PREPARED = {"TRTLLM": (1.0, 1.0), "VLLM": (0.0, 1.0)}


def prepared_bytes(columns: Columns, entry: float) -> Any:
    """The bytes that a library moves to bring queries, keys and values into the form that its attention reads.

    Zero for an unknown library; `entry` is the bytes of an entry in the format of the attention.
    """
    share_of_queries, share_of_keys = PREPARED.get(tool_name(columns), (0.0, 0.0))
    rows = floats(columns["batch"]) * columns["tokens"] * columns["head_dimension"]
    entries = rows * (
        share_of_queries * floats(columns["heads"]) + 2 * share_of_keys * floats(columns["key_value_heads"])
    )
    return entries * (BYTES_16_BIT + entry)


# The blocks of queries and keys in 8 bits, relative to those in 16 bits, as far as they show at the edges of a mask: in
# 8 bits, more keys fit beside a core. Chosen from 1, 1.5 and 2 with all measured shapes in view; the four fifths that a fit may
# see are 14.0 % off with 1.5, 13.9 % with 1.6, which is their best, and 15.4 % with 1.
NARROW_BLOCKS = 1.5


def in_format(rates: Kernels) -> Kernels:
    """Rates of an attention that multiplies in the format of products with weights, and not in 16 bits.

    Its products are faster by the same factor as those with weights; the exponentials take as long as in 16 bits. The
    times of both add up like the legs of a right triangle, as in `fused_time`. Blocks of keys are larger.
    """
    faster, base = rates.products.batched_time / rates.products.matrix_time, rates.attention
    ramp = base.forward_ramp
    correction = np.hypot(1, ramp.width / MEASURED_WIDTH) / np.hypot(1, faster * ramp.width / MEASURED_WIDTH)
    edge_length = ramp.edge_length * np.where(faster > 1, NARROW_BLOCKS, 1.0)
    ramp = replace(ramp, width=ramp.width * faster, edge_length=edge_length)
    return replace(
        rates, attention=replace(base, forward_rate=base.forward_rate * faster * correction, forward_ramp=ramp)
    )


# Registers of a thread, and those of them that hold neither a tile nor its operands: addresses, maxima, sums.
# Source: NVIDIA, CUDA C++ Programming Guide, table of compute capabilities (255 for a thread). WORKING_REGISTERS and the bytes
# that a core moves in a cycle to and from registers kept elsewhere are fitted to four fifths of the fp8 attentions of L40S.
REGISTERS, WORKING_REGISTERS, SPILLED_BYTES_PER_CYCLE = 255.0, 32.0, 14.0
REGISTER_BYTES, LANES = 4.0, 32.0
# Software and architectures whose attention in 8 bits keeps whole heads of a block in registers.
# Source: NVIDIA/TensorRT-LLM, cpp/kernels/fmha_v2/setup.py at 010669f (enumerate_qmma_flash_kernels, not tiled).
UNTILED = {("TRTLLM", "Ada")}


def is_untiled(columns: Columns, machine: Predictor) -> bool:
    """Whether an attention in 8 bits keeps whole heads of its blocks in registers."""
    return machine.entry < BYTES_16_BIT and (tool_name(columns), machine.generation) in UNTILED


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


def with_spilling(rates: Kernels, added_time: Any, width: Any) -> Kernels:
    """Rates of an attention whose operations each take longer by a time; its blocks are as in 16 bits.

    Args:
        rates: the rates of the attention without that time.
        added_time: the additional seconds of an operation.
        width: the width of a head.
    """
    base = rates.attention
    ramp = replace(base.forward_ramp, edge_length=base.forward_ramp.edge_length / NARROW_BLOCKS)
    reached = base.forward_rate * np.hypot(1, ramp.width / MEASURED_WIDTH) / np.hypot(1, ramp.width / width)
    return replace(
        rates, attention=replace(base, forward_rate=base.forward_rate / (1 + added_time * reached), forward_ramp=ramp)
    )


def attention_time(columns: Columns, machine: Predictor) -> Any:
    """The time of a causal attention over a prompt, with the kernel that brings its inputs into form."""
    rates, fused, width = in_format(machine.rates), attention_operator(columns), floats(columns["head_dimension"])
    if is_untiled(columns, machine):
        rates = with_spilling(rates, spilling_time(width, machine), width)
    bandwidth, prepared = rates.streams.bandwidth, prepared_bytes(columns, machine.entry)
    share = share_of_traffic(fused.bytes + prepared, machine.cache, bandwidth, machine.core_bandwidth)
    return operator_time(fused, replace(machine, rates=rates)) + prepared * share / bandwidth


# The columns of an attention of training, by those of SimuMax's table, which has causal masks without a window.
SIMUMAX_COLUMNS = {"batch": "batch", "tokens": "seq_len", "heads": "head_num", "key_value_heads": "kv_head_num",
                   "key_width": "qk_head_dim", "value_width": "v_head_dim"}  # fmt: skip


def peak_operator(columns: Columns, phase: str) -> Operator:
    """One pass of a causal attention of SimuMax's table."""
    training_columns = {name: columns[head] for name, head in SIMUMAX_COLUMNS.items()}
    return masked_operator({**training_columns, "window": 0.0, "mask": "causal"}, phase)


BOTH_PASSES = ("forward", "input_gradient")
training_forward, training_backward = (partial(masked_operator, phase=phase) for phase in BOTH_PASSES)
peak_forward, peak_backward = (partial(peak_operator, phase=phase) for phase in BOTH_PASSES)


def peak_attention_flops(products: float) -> Callable[[Columns], Any]:
    """A function for the operations of an attention pass, counted as in SimuMax's table: those of all scores.

    Args:
        products: operations for each score and each entry of the widths of keys and values.
    """
    return lambda columns: (
        products
        * columns["batch"]
        * columns["head_num"]
        * floats(columns["seq_len"]) ** 2
        * (columns["qk_head_dim"] + columns["v_head_dim"])
    )


# --- attention without a mask ----------------------------------------------------------------------------------------


class Blocks(NamedTuple):
    """The blocks of an attention: rows of queries, and the entries to whose multiples the width of a head is padded."""

    rows: float
    width: float


# By the name of the kernel in tables; PyTorch's takes another one on each generation. Keys come in blocks of 128.
# Source: Dao-AILab/flash-attention, hopper/tile_size.h (192 rows up to 96 wide), flash_attn/cute (two times 128 rows) and
# csrc/flash_attn/src/flash_fwd_launch_template.h (128 rows); those of PyTorch's are the best of 64, 128, 192 and 256
# rows on four fifths of the shapes.
BLOCKS = {
    "flash_attention_v4": Blocks(256, 64), "vllm_vit_flash_attn_fa4": Blocks(256, 64), "flash_attention_v3": Blocks(192, 32),
    "vllm_vit_flash_attn_fa3": Blocks(192, 32), "vllm_vit_flash_attn_fa2": Blocks(128, 32),
}  # fmt: skip
BLOCKS_OF_PYTORCH = {"Blackwell": Blocks(256, 32), "Hopper": Blocks(128, 64), "Ada": Blocks(64, 32)}
OTHER_BLOCKS, KEYS_OF_BLOCK = Blocks(128, 32), 128.0
PYTORCH = "torch_flow"
ENCODER = ("batch", "tokens", "heads", "head_dimension")


def encoder_time(columns: Columns, machine: Predictor) -> Any:
    """The time of an attention without a mask, whose blocks take equally long: whole waves of them run on the cores.

        rows = waves·cores·rows of a block,  waves = ⌈batch·heads·⌈tokens / rows of a block⌉ / cores⌉

    The waves stand in place of what else an attention with few blocks of queries waits for at its end.
    """
    name, cores = str(columns["kernel"][0]), machine.rates.products.tiles.cores
    blocks = (
        BLOCKS.get(name) or (BLOCKS_OF_PYTORCH.get(machine.generation) if name == PYTORCH else None) or OTHER_BLOCKS
    )
    batch, tokens, heads, width = (floats(columns[column]) for column in ENCODER)
    padded, keys = np.ceil(width / blocks.width) * blocks.width, np.ceil(tokens / KEYS_OF_BLOCK) * KEYS_OF_BLOCK
    waves = np.ceil(batch * heads * np.ceil(tokens / blocks.rows) / cores)
    rows, entries = waves * cores * blocks.rows, 3 * batch * heads * tokens * width
    fused = attention(rows, keys, (padded, padded), rows * keys, entries, "forward", 0.0)
    in_waves = replace(machine.rates.attention, waiting_rows=0.0)
    return operator_time(fused, replace(machine, rates=replace(machine.rates, attention=in_waves)))
