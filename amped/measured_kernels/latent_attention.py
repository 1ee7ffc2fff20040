"""Measured kernels of latent attention: what their rows mean, and what a library does besides the attention."""

from __future__ import annotations

from typing import Any

import numpy as np

from amped.measured_kernels.attention import attention
from amped.measured_kernels.predictor import (
    BYTES_16_BIT,
    Columns,
    Predictor,
    floats,
    operator_time,
    share_of_traffic,
    tool_name,
)
from amped.theory.nouns.kernel_work import Traffic, operator
from amped.theory.nouns.records import Operator

# The head widths of a latent attention over a prompt: of queries and keys, of their part with rotary positions, and of values;
# and the width of the latent. Source: arXiv 2412.19437, section 4.2.
KEYS, ROTARY, VALUES, LATENT = 192.0, 64.0, 128.0, 512.0
# Software that expands the latent to keys and values inside of what a benchmark measures.
# Source: ai-dynamo/aiconfigurator, collector/vllm/collect_mla.py (its backend is given the latent and a projection).
EXPANDING = {"VLLM"}
# Generations of which the software's attention needs values as wide as keys: FlashAttention-2, not 3.
# Source: vllm-project/vllm, mla/common.py (values are padded unless FlashAttention-3 runs on Hopper).
PADDING = {"Ampere", "Ada"}


def has_expansion(columns: Columns) -> bool:
    """Whether the library projects the latent to keys and values, and copies them, besides the attention."""
    return tool_name(columns) in EXPANDING


def latent_attention_operator(columns: Columns, values: float = VALUES) -> Operator:
    """A causal latent attention over a prompt, with expanded keys; `values` is the width of a head of values."""
    rows, tokens = floats(columns["batch"] * columns["heads"] * columns["tokens"]), floats(columns["tokens"])
    return attention(rows, tokens, (KEYS, values), rows * tokens / 2, rows * (2 * KEYS + values), "forward")


def expansion_operator(columns: Columns) -> Operator:
    """The product that projects the latent of each token to its keys and values, without rotary positions."""
    tokens, n = floats(columns["batch"]) * columns["tokens"], floats(columns["heads"]) * (KEYS - ROTARY + VALUES)
    work = Traffic(2 * tokens * n * LATENT, (tokens + n) * LATENT * BYTES_16_BIT, tokens * n * BYTES_16_BIT)
    return operator("contraction", "contraction", "forward", (tokens, n, np.full(len(n), LATENT), 1.0), work)


def copied_bytes(columns: Columns, is_padded: bool) -> Any:
    """The bytes that copies of keys, values and outputs move.

    Keys are joined with their rotary part. If values are padded to the width of keys, they are copied once, and the
    output is copied without the padding and once more to its place.

    Args:
        columns: the rows of a table of latent attentions.
        is_padded: whether values are padded.

    Source: vllm-project/vllm, mla/common.py (torch.cat, torch.nn.functional.pad, and a slice of the output).
    """
    rows = floats(columns["batch"]) * columns["heads"] * columns["tokens"]
    joined, filled, cut = (KEYS - ROTARY) + KEYS, VALUES + KEYS, 4 * VALUES
    return rows * BYTES_16_BIT * (joined + is_padded * (filled + cut))


def latent_attention_time(columns: Columns, machine: Predictor) -> Any:
    """The time of a causal latent attention over a prompt, with the expansion of keys and values if the library expands."""
    if not has_expansion(columns):
        return operator_time(latent_attention_operator(columns), machine)
    is_padded, bandwidth = machine.generation in PADDING, machine.rates.streams.bandwidth
    fused, copied = latent_attention_operator(columns, KEYS if is_padded else VALUES), copied_bytes(columns, is_padded)
    share = share_of_traffic(fused.bytes + copied, machine.cache, bandwidth, machine.core_bandwidth)
    return (
        operator_time(fused, machine) + operator_time(expansion_operator(columns), machine) + copied * share / bandwidth
    )
