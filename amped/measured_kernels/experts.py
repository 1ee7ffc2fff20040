"""Measured mixture layers on one accelerator: how the book of equations predicts them, on their fullest rank."""

from __future__ import annotations

from typing import Any

import numpy as np

from amped.measured_kernels.predictor import WIDE, Columns, Predictor, floats, share_of_traffic, timed
from amped.theory.kernel_work import Traffic, operator

# The largest load of an expert that the power law allows, as a share of all tokens.
# Source: ai-dynamo/aiconfigurator, collector (power-law distribution of tokens over experts).
LARGEST_LOAD = 0.8


def power_moment(power: float, exponent: float, largest: Any) -> Any:
    """Integral of x to a power over a power law's density from 1 to the largest, not normalized. Source: definition."""
    return (largest ** (power + 1 - exponent) - 1) / (power + 1 - exponent)


def fullest_share(tokens: Any, experts: Any, ranks: Any, exponent: float) -> Any:
    """The load of the fullest of some ranks over the mean load, if the loads of experts follow a power law.

    The largest of n sums lies about √(2·ln n) deviations above the mean. Source: Gumbel, Statistics of Extremes (1958).
    """
    largest = np.maximum(LARGEST_LOAD * tokens, 2.0)
    none, one, two = (power_moment(power, exponent, largest) for power in (0, 1, 2))
    spread = np.sqrt(none * two / one**2 - 1)
    return np.minimum(1 + spread * np.sqrt(2 * np.log(ranks) * ranks / experts), ranks)


def experts_time(c: Columns, machine: Predictor) -> Any:
    """The time of a mixture layer on its fullest rank: tokens sorted, two grouped products, activation, outputs added.

    The column `tokens` counts the tokens of all ranks, before routing.
    """
    tokens, width, experts, ranks = (
        floats(c[name]) for name in ("tokens", "dimensionality", "number_of_experts", "expert_degree")
    )
    inner, local = floats(c["expert_feedforward_dimension"]) / c["tensor_degree"], experts / ranks
    visits = tokens * c["experts_per_token"]
    skewed = np.array([text.rpartition("_")[2] if "power_law" in text else "0" for text in map(str, c["distribution"])])
    exponents = skewed.astype(np.float64)
    share = np.ones(len(tokens))
    for exponent in np.unique(exponents[exponents > 0]):
        own = exponents == exponent
        share[own] = fullest_share(tokens, experts, ranks, exponent)[own]
    rows = np.minimum(visits / ranks * share, tokens * np.minimum(c["experts_per_token"], local))
    groups = np.maximum(local * -np.expm1(-rows / local), 1.0)
    branches = np.where([name.endswith("nongated") for name in map(str, c["kernel"])], 1.0, 2.0)
    passed = ((tokens + 2 * rows) * width + rows * inner * (branches + 1) + (rows + tokens) * width) * WIDE
    weights = groups * width * inner * (branches + 1) * machine.entry
    bandwidth, gathered = machine.rates.streams.bandwidth, machine.core_bandwidth
    share = share_of_traffic(weights + passed, machine.cache, bandwidth, gathered)
    up = _grouped(rows / groups, branches * inner, width, groups, share, machine)
    down = _grouped(rows / groups, width, inner, groups, share, machine)
    return up + down + passed * share / np.minimum(bandwidth, gathered)


def _grouped(rows: Any, n: Any, k: Any, groups: Any, share: Any, machine: Predictor) -> Any:
    """The time of a grouped product, of whose traffic memory moves a share."""
    entries = (rows * k + k * n) * groups * machine.entry
    work = Traffic(2 * groups * rows * n * k, entries, rows * n * groups * WIDE)
    made = operator("grouped_contraction", "grouped_contraction", "forward", (rows, n, k, groups), work)
    return timed(made.with_held((1 - share) * made.bytes), machine)
