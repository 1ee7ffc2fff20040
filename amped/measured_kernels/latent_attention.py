"""Measured kernels of latent attention: what their rows mean, and what a library does besides the attention."""

from __future__ import annotations

from typing import Any

import numpy as np

from amped.measured_kernels.attention import attention
from amped.measured_kernels.predictor import WIDE, Columns, Predictor, floats, share_of_traffic, timed, tool
from amped.theory.nouns.kernel_work import Traffic, operator
from amped.theory.nouns.records import Operator

# The head widths of a latent attention over a prompt: of queries and keys, of their part with rotary positions, and of values;
# and the width of the latent. Source: arXiv 2412.19437, section 4.2.
KEYS, ROTARY, VALUES, LATENT = 192.0, 64.0, 128.0, 512.0
# Software that expands the latent to keys and values inside of what a benchmark measures.
# Source: ai-dynamo/aiconfigurator, collector/vllm/collect_mla.py (its backend is given the latent and a projection).
EXPANDS = {"VLLM"}
# Generations of which the software's attention needs values as wide as keys: FlashAttention-2, not 3.
# Source: vllm-project/vllm, mla/common.py (values are padded unless FlashAttention-3 runs on Hopper).
PADS = {"Ampere", "Ada"}


def expands(c: Columns) -> bool:
    """Whether the library projects the latent to keys and values, and copies them, besides the attention."""
    return tool(c) in EXPANDS


def latent_attention_operator(c: Columns, values: float = VALUES) -> Operator:
    """A causal latent attention over a prompt, with expanded keys and with values of a width."""
    rows, tokens = floats(c["batch"] * c["heads"] * c["tokens"]), floats(c["tokens"])
    return attention(rows, tokens, (KEYS, values), rows * tokens / 2, rows * (2 * KEYS + values), "forward")


def expansion_operator(c: Columns) -> Operator:
    """The product that projects the latent of each token to its keys and values, without rotary positions."""
    tokens, n = floats(c["batch"]) * c["tokens"], floats(c["heads"]) * (KEYS - ROTARY + VALUES)
    work = Traffic(2 * tokens * n * LATENT, (tokens + n) * LATENT * WIDE, tokens * n * WIDE)
    return operator("contraction", "contraction", "forward", (tokens, n, np.full(len(n), LATENT), 1.0), work)


def copied_bytes(c: Columns, padded: bool) -> Any:
    """The bytes that copies of keys, values and outputs move.

    Keys are joined with their rotary part. If values are padded to the width of keys, they are copied once, and the output is
    copied without the padding and once more to its place.

    Source: vllm-project/vllm, mla/common.py (torch.cat, torch.nn.functional.pad, and a slice of the output).
    """
    rows = floats(c["batch"]) * c["heads"] * c["tokens"]
    joined, filled, cut = (KEYS - ROTARY) + KEYS, VALUES + KEYS, 4 * VALUES
    return rows * WIDE * (joined + padded * (filled + cut))


def latent_attention_time(c: Columns, machine: Predictor) -> Any:
    """The time of a causal latent attention over a prompt, with the expansion of keys and values if the library expands."""
    if not expands(c):
        return timed(latent_attention_operator(c), machine)
    padded, bandwidth = machine.generation in PADS, machine.rates.streams.bandwidth
    made, copied = latent_attention_operator(c, KEYS if padded else VALUES), copied_bytes(c, padded)
    share = share_of_traffic(made.bytes + copied, machine.cache, bandwidth, machine.core_bandwidth)
    return timed(made, machine) + timed(expansion_operator(c), machine) + copied * share / bandwidth
