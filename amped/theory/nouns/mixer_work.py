"""The work of the layers' newer parts: linear attention and state spaces, sparse attention, hyper-connections.

Operations and bytes are pure functions of the shape, counted for the forward pass. A multiply-add counts as two
operations, and products whose results a mask hides in part are counted in full, because kernels compute them so.
These facts stand only here. The operators of an estimate and the measured kernels use them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

# An entry in 16 bits, and one in full precision.
HALF, FULL = 2.0, 4.0


# --- linear attention and state spaces -------------------------------------------------------------------------------


def convolution_flops(tokens: Any, channels: Any, taps: Any) -> Any:
    """The operations of a causal convolution of each channel by itself. Source: arXiv 2312.00752, section 3.4."""
    return 2 * taps * tokens * channels


def convolution_bytes(tokens: Any, channels: Any, entry: Any = HALF) -> Any:
    """The bytes of a causal convolution, which reads and writes each entry once.

    Source: arXiv 2312.00752, section 3.4.
    """
    return 2 * tokens * channels * entry


def delta_rule_flops(tokens: Any, heads: Any, key_width: Any, value_width: Any, chunk: Any) -> Any:
    """The operations of a gated delta rule in chunks: gated delta net, and Kimi delta attention.

        flops = tokens·heads·(chunk·(6·key + 4·value) + 6·key·value + 1/3·chunk²)

    In a chunk, keys meet keys and queries meet keys (2·chunk·key each), a triangular matrix is inverted
    (1/3·chunk²), the inverse multiplies keys and values, and the masked scores multiply values (2·chunk·width each).
    The state of key × value entries is read for queries and for the corrections of values, and keys add to it
    (2·key·value each). The gates take few operations and are left out.

    Source: arXiv 2406.06484, section 3; arXiv 2412.06464, section 3.3; arXiv 2510.26692, section 3.1.
    """
    in_chunk, state = chunk * (6 * key_width + 4 * value_width), 6 * key_width * value_width
    return tokens * heads * (in_chunk + state + chunk**2 / 3)


def delta_rule_backward_flops(tokens: Any, heads: Any, key_width: Any, value_width: Any, chunk: Any) -> Any:
    """The operations of its backward pass: twice those of the forward pass, and what it computes again.

    It keeps the inverse, and computes the corrected keys and values and the states again. No table measures it.

    Source: fla-org/flash-linear-attention, fla/ops/gated_delta_rule/chunk.py (backward).
    """
    again = chunk * 2 * (key_width + value_width) + 4 * key_width * value_width
    forward = delta_rule_flops(tokens, heads, key_width, value_width, chunk)
    return 2 * forward + tokens * heads * again


# Backward, each tensor of the forward pass is read again, and its gradient is written and read once. By law: no table
# measures a backward pass.
BACKWARD_TRAFFIC = 3.0


def gated_delta_bytes(
    tokens: Any, heads: Any, key_heads: Any, key_width: Any, value_width: Any, chunk: Any
) -> tuple[Any, Any]:
    """The bytes that the kernels of a gated delta net move, one kernel after another, and the bytes of their tensors.

    In 16 bits: normalized queries and keys of `key_heads`, values, corrected keys and values twice, and outputs; the
    scores of keys in full precision, their inverse in 16 bits; a state for each chunk. Each tensor is written once and
    read by the kernels that follow.

    Source: fla-org/flash-linear-attention, fla/ops/gated_delta_rule/chunk.py (its kernels in order).
    """
    shared, state = key_heads / heads * key_width * HALF, key_width * value_width * HALF / chunk
    values, corrected, scores = value_width * HALF, key_width * HALF, chunk * (FULL + HALF)
    moved = 4 * shared + 2 * scores + 2 * corrected + 7 * values + 2 * state
    held = 2 * shared + scores + corrected + 4 * values + state
    return tokens * heads * moved, tokens * heads * held


def kimi_delta_bytes(tokens: Any, heads: Any, key_width: Any, value_width: Any, chunk: Any) -> tuple[Any, Any]:
    """The bytes that the kernels of a Kimi delta attention move, one kernel after another, and those of their tensors.

    Its gates have an entry for each entry of a key, in full precision; all else is as in a gated delta net.

    Source: fla-org/flash-linear-attention, fla/ops/kda/chunk.py (its kernels in order).
    """
    keys, gates, state = key_width * HALF, key_width * FULL, key_width * value_width * HALF / chunk
    values, scores = value_width * HALF, chunk * (FULL + 2 * HALF)
    moved = 12 * keys + 4 * gates + 7 * values + 2 * scores + 2 * state
    held = 7 * keys + gates + 4 * values + scores + state
    return tokens * heads * moved, tokens * heads * held


def state_space_flops(tokens: Any, heads: Any, head_width: Any, state_width: Any, groups: Any, chunk: Any) -> Any:
    """The operations of Mamba-2's state-space dual in chunks.

        flops = tokens·(2·groups·chunk·state + heads·(2·chunk·width + 4·state·width))

    For each group, outputs of the state meet inputs (2·chunk·state); for each head, the masked scores multiply the
    inputs (2·chunk·width), inputs add to the state, and the state is read (2·state·width each).

    Source: arXiv 2405.21060, section 6.
    """
    of_group, of_head = 2 * chunk * state_width, 2 * chunk * head_width + 4 * state_width * head_width
    return tokens * (groups * of_group + heads * of_head)


def state_space_bytes(tokens: Any, heads: Any, head_width: Any, state_width: Any, groups: Any, chunk: Any) -> Any:
    """The bytes that the kernels of a state-space dual move: its inputs are read twice, outputs written once.

    The states of chunks, in full precision, are written and read twice: where they are summed, and where they are used.

    Source: state-spaces/mamba, mamba_ssm/ops/triton/ssd_combined.py (its kernels in order).
    """
    inputs = (2 * heads * head_width + 4 * groups * state_width + 2 * heads) * HALF
    scores, states = 2 * groups * chunk * FULL, 4 * heads * head_width * state_width * FULL / chunk
    return tokens * (inputs + heads * head_width * HALF + scores + states)


# --- sparse attention ------------------------------------------------------------------------------------------------


def causal_keys(tokens: Any, most: Any, each: Any = 1.0) -> Any:
    """The keys that a query attends to on average, in a causal sequence, if it may have no more than `most` of them.

        keys = (seen/2·seen + (tokens − seen)·seen) / (tokens·each),  seen = min(most·each, tokens)

    Args:
        tokens: the tokens of a sequence.
        most: the most keys that a query attends to.
        each: the tokens that one key stands for.

    Source: definition; arXiv 2512.02556, section 2.1 (top k).
    """
    seen = np.minimum(most * each, tokens)
    return seen * (tokens - seen / 2) / (tokens * each)


def shared_entries(tokens: Any, ratio: Any, most: Any) -> Any:
    """The entries that all tokens of a causal sequence read together, if an entry stands for `ratio` tokens.

        entries = n·(tokens + 1) − ratio·n·(n + 1)/2,  n = min(⌊tokens / ratio⌋, most)

    A token reads the entries whose tokens are all there, itself counted, but at most `most` of them.

    Source: transformers, DeepseekV4HCACompressor and DeepseekV4Indexer (causal_threshold).
    """
    entries = np.minimum(np.floor(tokens / ratio), most)
    return entries * (tokens + 1) - ratio * entries * (entries + 1) / 2


def attended_flops(queries: Any, heads: Any, key_width: Any, value_width: Any, keys: Any) -> Any:
    """The operations of an attention whose queries have `keys` keys each. Source: arXiv 2307.08691, section 3.1."""
    return 2 * queries * heads * (key_width + value_width) * keys


def indexer_flops(queries: Any, heads: Any, width: Any, keys: Any) -> Any:
    """The operations in which an indexer scores `keys` keys for each query. Source: arXiv 2512.02556, equation 1."""
    return 2 * queries * heads * width * keys


# --- hyper-connections -----------------------------------------------------------------------------------------------


def connection_flops(tokens: Any, dimensionality: Any, streams: Any, iterations: Any) -> tuple[Any, Any]:
    """The operations of a manifold-constrained hyper-connection before a block, and after it.

    Before: a product of all streams with streams·(2 + streams) columns gives the weights, Sinkhorn's iterations divide
    rows and columns of streams × streams entries, and the input of the block is the weighted sum of the streams.
    After: the streams are mixed, and the output of the block is added to each.

    Source: arXiv 2512.24880, section 4.2.
    """
    mapped = 2 * streams * dimensionality * streams * (2 + streams)
    before = mapped + 4 * iterations * streams**2 + 2 * streams * dimensionality
    return tokens * before, tokens * 2 * streams * dimensionality * (streams + 1)


def stream_sum_flops(tokens: Any, dimensionality: Any, streams: Any) -> Any:
    """The operations of the weighted sum of streams behind the last layer: a product for the weights, and the sum.

    Source: transformers, DeepseekV4HyperHead.
    """
    return tokens * 2 * streams * dimensionality * (streams + 1)


def connection_bytes(tokens: Any, dimensionality: Any, streams: Any, entry: Any = HALF) -> tuple[Any, Any]:
    """The bytes of a hyper-connection before a block, and after it.

    Before: the streams are read for the product and once more for the sum, which is written. After: the streams and the
    output are read, and the streams written. Both are (2·streams + 1)·dimensionality entries.

    Source: arXiv 2512.24880, section 4.3.1 (fused kernels).
    """
    moved = tokens * (2 * streams + 1) * dimensionality * entry
    return moved, moved


def connection_backward_bytes(tokens: Any, dimensionality: Any, streams: Any, entry: Any = HALF) -> tuple[Any, Any]:
    """The bytes of the backward pass of a hyper-connection before a block, and after it. By law: no table measures it.

    Before: the streams are read for the gradient of the product and for that of the sum, the gradient of the block's
    input is read, and that of the streams is read and written. After: the streams, the output of the block and the
    gradient of the streams are read, and the gradients of the streams and of the output are written.

    Source: arXiv 2512.24880, section 4.3.1; definition.
    """
    width = tokens * dimensionality * entry
    return (4 * streams + 1) * width, (3 * streams + 2) * width
