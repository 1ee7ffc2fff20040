"""Measured kernels of linear attention, sparse attention and hyper-connections, and how the book predicts them.

Rows of sparse attention are whole layers: all projections are in them, in the format of the row. What multiplies
activations, and what compresses keys, stays in 16 bits.
"""

from __future__ import annotations

from dataclasses import astuple
from typing import Any

import numpy as np

from amped.base.errors import ConfigError, quoted
from amped.base.files import shipped_json
from amped.measured_kernels.predictor import (
    BYTES_16_BIT,
    Array,
    Columns,
    Predictor,
    floats,
    operator_time,
    texts,
    tool_name,
)
from amped.theory.nouns import mixer_work as work
from amped.theory.nouns.kernel_work import Traffic, operator
from amped.theory.nouns.mixer_records import ScanKernel, SparseKernel
from amped.theory.roofline import mixers

# Kernels that do a scan in one kernel or two, by their names in tables; all others are kernels of Triton.
FUSED_SCANS = {
    "chunk_gated_delta_rule_flashinfer": mixers.FUSED_GATED_DELTA, "flashkda_fwd": mixers.FUSED_KIMI_DELTA,
}  # fmt: skip
# The tokens of a channel that a block of threads takes, whether or not there are as many, by the software or its release:
# up to there, sequences take equally long. Source: measured; Dao-AILab/causal-conv1d, causal_conv1d_fwd.cu (blocks).
BLOCKS_OF_TOKENS = {"TRTLLM": 512.0, "SGLang 0.5.10": 1024.0}
# The rows of `SPARSE_KERNELS` by the names of kernels in tables, with keys in 16 bits and with keys in 8 bits.
SPARSE: dict[str, tuple[str, str]] = shipped_json("measured_kernels", "mixers.json")["sparse"]
# Rows of `SPARSE_KERNELS` that stand for others on a generation.
ON_GENERATION = {
    ("tensorrt_llm", "Hopper"): "tensorrt_llm_hopper", ("tensorrt_llm_fp8", "Hopper"): "tensorrt_llm_hopper",
    ("flash_mla", "Hopper"): "flash_mla_hopper",
}  # fmt: skip
# With as many heads, vLLM turns keys of 8 bits into 16 bits and takes the kernel for those.
# Source: vllm-project/vllm, vllm/v1/attention/backends/mla/flashmla_sparse.py (MIN_HEADS_FOR_BF16_PREFILL).
HEADS_OF_WIDE_KERNEL = 32
# More queries than a grid of CUDA has blocks in its second dimension are computed in parts, by another kernel.
# Source: CUDA C++ Programming Guide, technical specifications; measured (times drop there).
MOST_QUERIES_AT_ONCE = 65535
# Whose indexer a layer uses: its own, that of another layer, or none.
OWN = "own"


def _numbers(columns: Columns, *names: str) -> tuple[Array, ...]:
    """Some columns as numbers."""
    return tuple(floats(columns[name]) for name in names)


def convolution_time(columns: Columns, machine: Predictor) -> Any:
    """The time of a causal convolution of each channel by itself; some libraries pad short sequences."""
    batch, tokens, channels = _numbers(columns, "batch", "tokens", "channels")
    block = BLOCKS_OF_TOKENS.get(str(columns["software"][0])) or BLOCKS_OF_TOKENS.get(tool_name(columns), 1.0)
    moved, padding = work.convolution_bytes(batch * tokens, channels), np.ceil(tokens / block) * block / tokens
    return mixers.convolution_time(moved, padding, machine.cores)  # type: ignore[no-untyped-call]


SCAN = ("batch", "tokens", "heads", "key_heads", "key_width", "value_width")


def gated_delta_time(columns: Columns, machine: Predictor) -> Any:
    """The time of the scan of a gated delta net."""
    kernel = FUSED_SCANS.get(str(columns["kernel"][0]), mixers.GATED_DELTA)
    batch, tokens, heads, key_heads, keys, values = _numbers(columns, *SCAN)
    moved, held = work.gated_delta_bytes(batch * tokens, heads, key_heads, keys, values, kernel.chunk)
    return _scan_time(kernel, columns, moved, held, machine)


def kimi_delta_time(columns: Columns, machine: Predictor) -> Any:
    """The time of the scan of a Kimi delta attention."""
    kernel = FUSED_SCANS.get(str(columns["kernel"][0]), mixers.KIMI_DELTA)
    batch, tokens, heads, _, keys, values = _numbers(columns, *SCAN)
    moved, held = work.kimi_delta_bytes(batch * tokens, heads, keys, values, kernel.chunk)
    return _scan_time(kernel, columns, moved, held, machine)


def _scan_time(kernel: ScanKernel, columns: Columns, moved: Any, held: Any, machine: Predictor) -> Any:
    """The time of a scan that moves `moved` bytes of tensors of `held` bytes."""
    batch, tokens, heads, _, keys, values = _numbers(columns, *SCAN)
    flops = work.delta_rule_flops(batch * tokens, heads, keys, values, kernel.chunk)
    return mixers.scan_time(  # type: ignore[no-untyped-call]
        kernel, batch, tokens, heads, flops, moved, held, machine.cores
    )


# --- layers of sparse attention --------------------------------------------------------------------------------------


def sparse_kernel(columns: Columns, machine: Predictor) -> SparseKernel:
    """The numbers of the kernel that ran some rows; where rows ran different kernels, each number is an array.

    Raises:
        ConfigError: for a kernel that amped has no numbers of.
    """
    name, is_narrow = str(columns["kernel"][0]), str(columns["cache"][0]) != "bfloat16"
    if name not in SPARSE:
        raise ConfigError(
            f"{quoted(name)} is no kernel of sparse attention that amped knows", f"it knows {', '.join(SPARSE)}"
        )
    wide, narrow = (mixers.SPARSE_KERNELS[ON_GENERATION.get((row, machine.generation), row)] for row in SPARSE[name])
    if name == "FLASHMLA_SPARSE" and is_narrow:
        return _either(floats(columns["heads"]) >= HEADS_OF_WIDE_KERNEL, wide, narrow)
    kernel = narrow if is_narrow else wide
    if name == "FLASHINFER_MLA_SPARSE":
        parts = mixers.SPARSE_KERNELS["flashinfer_fp8_parts" if is_narrow else "flashinfer_parts"]
        return _either(floats(columns["batch"]) * floats(columns["tokens"]) > MOST_QUERIES_AT_ONCE, parts, kernel)
    return kernel


def _either(is_first: Any, first: SparseKernel, second: SparseKernel) -> SparseKernel:
    """The numbers of one of two kernels for each row."""
    return SparseKernel(
        *(np.where(is_first, one, other) for one, other in zip(astuple(first), astuple(second), strict=True))
    )


def weighted_time(machine: Predictor, m: Any, n: Any, k: Any) -> Any:
    """The time of a product of m rows of k entries with a weight, in the format of products."""
    return _product_time(machine, "contraction", m, n, k, machine.entry)


def half_time(machine: Predictor, m: Any, n: Any, k: Any, batch: Any = 1.0) -> Any:
    """The time of some products that stay in 16 bits."""
    return _product_time(machine, "batched_contraction", m, n, k, BYTES_16_BIT, batch)


def _product_time(machine: Predictor, kind: str, m: Any, n: Any, k: Any, entry: float, batch: Any = 1.0) -> Any:
    """The time of `batch` products m × k by k × n, whose entries have `entry` bytes."""
    m, n, k, batch = (floats(side) + 0.0 * floats(m) for side in (m, n, k, batch))
    moved = Traffic(2 * m * n * k * batch, (m * k + k * n) * batch * entry, m * n * batch * BYTES_16_BIT)
    return operator_time(operator("product", kind, "forward", (m, n, k, batch), moved), machine)


def _indexing_time(kernel: SparseKernel, columns: Columns, each: Any, machine: Predictor) -> Any:
    """The time in which an indexer projects queries, scores keys of `each` tokens, and selects; 0 without one.

    It computes all keys that a query may see.
    """
    tokens, heads, width, rank = _numbers(columns, "tokens", "index_heads", "index_width", "query_rank")
    rows = floats(columns["batch"]) * tokens
    scores = rows * work.causal_keys(tokens, np.inf, each)
    scored = mixers.indexing_time(kernel, scores, heads, machine.cores)  # type: ignore[no-untyped-call]
    return (texts(columns["indexing"]) == OWN) * (weighted_time(machine, rows, heads * width, rank) + scored)


def _attended_time(kernel: SparseKernel, flops: Any, entries: Any, columns: Columns, machine: Predictor) -> Any:
    """The time of the products of an attention, and of what its layer does besides products."""
    rows, cores = floats(columns["batch"]) * floats(columns["tokens"]), machine.cores
    products = mixers.attended_time(kernel, flops, cores)  # type: ignore[no-untyped-call]
    return products + mixers.besides_time(kernel, rows, rows * entries, BYTES_16_BIT, cores)  # type: ignore[no-untyped-call]


INDEX = ("index_heads", "index_width", "selected_keys", "indexing")
INDEXED = ("batch", "tokens", "heads", "dimensionality", "query_rank", "latent_rank", "key_width", "rotated_width",
           "value_width", *INDEX)  # fmt: skip


def indexed_layer_time(columns: Columns, machine: Predictor) -> Any:
    """The time of a layer of latent attention whose indexer selects keys (DeepSeek sparse attention).

    The projections of queries into the latent and of values out of it are products of each head. A dense kernel
    expands keys and values instead, and attends to all of them.
    """
    kernel = sparse_kernel(columns, machine)
    batch, tokens, heads, wide, rank, latent, key, rotary, value = _numbers(columns, *INDEXED[:9])
    rows, most = batch * tokens, floats(columns["selected_keys"])
    products = weighted_time(machine, rows, rank + latent + rotary, wide)
    products += weighted_time(machine, rows, heads * (key + rotary), rank) + weighted_time(
        machine, rows, wide, heads * value
    )
    keys = np.where(kernel.pads > 0, most, work.causal_keys(tokens, most))
    if kernel is mixers.SPARSE_KERNELS["dense"]:
        products += weighted_time(machine, rows, heads * (key + value), latent)
        flops = work.attended_flops(rows, heads, key + rotary, value, keys)
    else:
        products += half_time(machine, rows, latent, key, heads) + half_time(machine, rows, value, latent, heads)
        products += _indexing_time(kernel, columns, 1.0, machine)
        flops = work.attended_flops(rows, np.maximum(heads, kernel.heads), latent + rotary, latent, keys)
    return products + _attended_time(kernel, flops, heads * (latent + rotary), columns, machine)


COMPRESSED = ("batch", "tokens", "heads", "dimensionality", "query_rank", "head_width", "output_groups", "output_rank",
              "window", "compression", *INDEX)  # fmt: skip


def compressed_layer_time(columns: Columns, machine: Predictor) -> Any:
    """The time of a layer of compressed attention (DeepSeek V4): a window of tokens, and compressed keys before.

    With an indexer, queries select among keys that overlap (two sets of weights); without one, they attend to all.
    """
    kernel, is_indexed = sparse_kernel(columns, machine), texts(columns["indexing"]) == OWN
    batch, tokens, heads, wide, rank, width, groups, output_rank, window, each = _numbers(columns, *COMPRESSED[:10])
    rows, most = batch * tokens, np.where(is_indexed, floats(columns["selected_keys"]), np.inf)
    products = weighted_time(machine, rows, rank + width, wide) + weighted_time(machine, rows, heads * width, rank)
    products += half_time(machine, rows, output_rank, heads * width / groups, groups)
    products += weighted_time(machine, rows, wide, groups * output_rank)
    products += half_time(machine, rows, 2 * (1 + is_indexed) * width, wide)
    products += is_indexed * half_time(machine, rows, 4 * floats(columns["index_width"]), wide)
    products += _indexing_time(kernel, columns, each, machine)
    keys = work.causal_keys(tokens, window) + work.causal_keys(tokens, most, each)
    flops = work.attended_flops(rows, np.maximum(heads, kernel.heads), width, width, keys)
    return products + _attended_time(kernel, flops, heads * width, columns, machine)


BLOCKS = ("batch", "tokens", "heads", "key_value_heads", "dimensionality", "head_width", "index_heads", "selected_keys")


def block_sparse_layer_time(columns: Columns, machine: Predictor) -> Any:
    """The time of a layer of grouped-query attention whose indexer selects blocks of keys (MiniMax M3).

    A head of the indexer scores the keys of each group, and the best of a block counts for it.
    """
    kernel = sparse_kernel(columns, machine)
    batch, tokens, heads, groups, wide, width, index_heads, most = _numbers(columns, *BLOCKS)
    rows = batch * tokens
    products = weighted_time(machine, rows, (heads + 2 * groups) * width, wide)
    products += weighted_time(machine, rows, wide, heads * width) + half_time(
        machine, rows, (index_heads + 1) * width, wide
    )
    scores = rows * index_heads * work.causal_keys(tokens, np.inf)
    products += mixers.indexing_time(kernel, scores, 0.0, machine.cores)  # type: ignore[no-untyped-call]
    flops = work.attended_flops(rows, heads, width, width, work.causal_keys(tokens, most))
    return products + _attended_time(kernel, flops, heads * width, columns, machine)


CONNECTION = ("tokens", "dimensionality", "streams", "iterations")
BEFORE = "before"


def connection_time(columns: Columns, machine: Predictor) -> Any:
    """The time of a hyper-connection before its block, or after it."""
    tokens, wide, streams, iterations = _numbers(columns, *CONNECTION)
    before, after = work.connection_bytes(tokens, wide, streams)
    is_before = texts(columns["side"]) == BEFORE
    moved = np.where(is_before, before, after)
    return mixers.connection_time(moved, tokens, is_before * iterations, machine.cores)  # type: ignore[no-untyped-call]
