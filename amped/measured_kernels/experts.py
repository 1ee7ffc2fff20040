"""Measured mixture layers on one accelerator: how the book of equations predicts them, on their fullest rank."""

from __future__ import annotations

from functools import lru_cache
from itertools import combinations_with_replacement
from math import factorial, prod
from statistics import NormalDist
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
)
from amped.theory.nouns.kernel_work import Traffic, operator

# The largest load of an expert that the power law allows, as a share of all tokens.
# Source: ai-dynamo/aiconfigurator, collector (power-law distribution of tokens over experts).
LARGEST_LOAD = 0.8


def power_moment(power: float, exponent: float, largest: Any) -> Any:
    """The integral of x to a power over a power law's density from 1 to the largest load, not normalized.

    Source: definition.
    """
    return (largest ** (power + 1 - exponent) - 1) / (power + 1 - exponent)


def largest_normal(number: Any) -> Any:
    """The mean of the largest of `number` normal variables, in standard deviations.

    Source: Blom (1958), section 6.9.
    """
    return np.vectorize(lambda count: NormalDist().inv_cdf((count - 0.375) / (count + 0.25)))(number)


def fullest_share(tokens: Any, experts: Any, ranks: Any, exponent: float) -> Any:
    """The load of the fullest of some ranks over the mean load, if the loads of experts follow a power law.

        share = (1 − 1/(9·shape) + largest normal/(3·√shape))³,  shape = experts of a rank / squared spread of a load.

    The sum of the loads of a rank is taken as a gamma variable with the same mean and spread, whose cube root is nearly
    normal. With one or two experts per rank it is up to a quarter too low.

    Source: Wilson & Hilferty, PNAS 17 (1931). Differs: the cube of the mean stands for the mean of the cube.
    """
    largest = np.maximum(LARGEST_LOAD * tokens, 2.0)
    zeroth, first, second = (power_moment(power, exponent, largest) for power in (0, 1, 2))
    shape = experts / ranks / (zeroth * second / first**2 - 1)
    share = (1 - 1 / (9 * shape) + largest_normal(ranks) / (3 * np.sqrt(shape))) ** 3
    return np.where(ranks > 1, np.clip(share, 1.0, ranks), 1.0)


class Load(NamedTuple):
    """The work of the fullest rank.

    Attributes:
        tokens: the tokens of all ranks.
        rows, groups: the visits of tokens that spread over experts, and how many experts they reach.
        crowded: the number of further experts, each of which all tokens visit.
    """

    tokens: Any
    rows: Any
    groups: Any
    crowded: Any = 0.0


def fullest_shares(columns: Columns) -> Any:
    """The load of the fullest rank over the mean load, for each row; 1 where the distribution is balanced."""
    tokens, experts, ranks = (floats(columns[name]) for name in ("tokens", "number_of_experts", "expert_degree"))
    share = np.ones(len(tokens))
    names = texts(columns["distribution"])
    for name in {name for name in names.tolist() if POWER_LAW in name}:
        share = np.where(names == name, fullest_share(tokens, experts, ranks, float(name.rpartition("_")[2])), share)
    return share


def spread_load(columns: Columns, visits: Any, shares: Any, reached: Any) -> Load:
    """The load if the visits of each token spread over the experts that can be reached.

    Args:
        columns: the rows of a table of mixture layers.
        visits: the experts that a token visits.
        shares: the load of the fullest rank over the mean load.
        reached: the experts of the fullest rank that can be reached.
    """
    tokens, ranks = floats(columns["tokens"]), floats(columns["expert_degree"])
    rows = np.minimum(tokens * visits / ranks * shares, tokens * np.minimum(visits, reached))
    return Load(tokens, rows, np.maximum(reached * -np.expm1(-rows / reached), 1.0))


# A router may choose experts in few groups only: the groups, and how many of them a token may visit. Of a kernel for low
# latency, by a part of its name, the benchmark has such a router, and the outputs are not added.
# Source: arXiv 2412.19437, section 4.2 (8 groups, 4 of them); ai-dynamo/aiconfigurator, collector/trtllm/collect_moe.py
# (DeepseekV3Gate, and do_finalize=False).
GROUPS, ALLOWED, LOW_LATENCY, POWER_LAW = 8, 4, "min_latency", "power_law"


@lru_cache
def moved_visits(visits: int) -> tuple[float, ...]:
    """How many visits of a token, on average, a router with few allowed groups moves to the experts of each group.

    The experts that a benchmark wants lie in any groups, and have equal scores; all other scores are equal, too. The
    groups with the largest sums of their two largest scores are allowed. Of equal groups, and of equal experts, the
    router takes the first: visits to other groups move to the first experts of the first allowed group.

    Source: arXiv 2412.19437, section 2.1.2 (limited routing), and definition (all ways in which visits can lie).
    """
    moved = [0.0] * GROUPS
    for groups in combinations_with_replacement(range(GROUPS), visits):
        visits_of_groups = [groups.count(group) for group in range(GROUPS)]
        allowed = sorted(range(GROUPS), key=lambda group: (-min(visits_of_groups[group], 2), group))[:ALLOWED]
        ways = factorial(visits) / prod(map(factorial, visits_of_groups)) / GROUPS**visits
        moved[min(allowed)] += ways * (visits - sum(visits_of_groups[group] for group in allowed))
    return tuple(moved)


def limited_load(columns: Columns, shares: Any) -> Load:
    """The load if each token may visit few groups of experts, whose first experts get the visits to other groups.

    A balanced benchmark wants one expert in each group: the first half of all groups is allowed, and its ranks get
    twice as many of the remaining visits. The ways in which visits can lie are counted for up to 8 visits.

    Args:
        columns: the rows of a table of mixture layers.
        shares: the load of the fullest rank over the mean load.
    """
    visits, ranks, experts = (
        floats(columns[name]) for name in ("experts_per_token", "expert_degree", "number_of_experts")
    )
    local = experts / ranks
    groups = np.clip(GROUPS // ranks, 1, GROUPS).astype(int)  # of the fullest rank
    is_skewed = np.char.find(texts(columns["distribution"]), POWER_LAW) >= 0
    moved_if_skewed = [
        sum(moved_visits(int(min(visit_count, GROUPS)))[:group_count])
        for visit_count, group_count in zip(visits, groups, strict=True)
    ]
    moved = np.where(is_skewed, moved_if_skewed, np.maximum(visits - ALLOWED, 0))
    concentration = np.where(is_skewed | (moved == 0), 1.0, GROUPS / ALLOWED)
    reached = np.minimum(local, experts / concentration)
    load = spread_load(columns, visits - moved, shares * np.minimum(concentration, ranks), reached)
    return load._replace(crowded=np.minimum(moved, local))


def experts_time(columns: Columns, machine: Predictor) -> Any:
    """The time of a mixture layer on its fullest rank: tokens sorted, two grouped products, activation, outputs added.

    The column `tokens` counts the tokens of all ranks, before routing. A kernel for low latency reads the rows that it
    sorts, and applies the activation, in its products: it converts tokens, and moves rows in its narrow format.
    """
    local, shares = floats(columns["number_of_experts"]) / columns["expert_degree"], fullest_shares(columns)
    width = floats(columns["dimensionality"])
    inner = floats(columns["expert_feedforward_dimension"]) / columns["tensor_degree"]
    branches = np.where(np.char.endswith(texts(columns["kernel"]), "nongated"), 1.0, 2.0)
    if LOW_LATENCY in str(columns["kernel"][0]):
        load = limited_load(columns, shares)
        moved = converted_bytes(load, width, inner, machine.entry)
    else:
        load = spread_load(columns, floats(columns["experts_per_token"]), shares, local)
        moved = passed_bytes(load, width, inner, branches)
    weights = load.groups * width * inner * (branches + 1) * machine.entry
    bandwidth, gathered = machine.rates.streams.bandwidth, machine.core_bandwidth
    share = share_of_traffic(weights + moved, machine.cache, bandwidth, gathered)
    up = _products(load, branches * inner, width, share, machine)
    down = _products(load, width, inner, share, machine)
    return up + down + moved * share / np.minimum(bandwidth, gathered)


def passed_bytes(load: Load, width: Any, inner: Any, branches: Any) -> Any:
    """The bytes that are moved, in 16 bits: of sorted tokens, of activations, and of outputs that are added.

    Source: definition.
    """
    tokens, rows = load.tokens, load.rows
    return ((tokens + 2 * rows) * width + rows * inner * (branches + 1) + (rows + tokens) * width) * BYTES_16_BIT


def converted_bytes(load: Load, width: Any, inner: Any, entry: float) -> Any:
    """The bytes that a kernel for low latency moves: converted tokens, their rows, and narrow activations.

    Source: definition.
    """
    rows = load.rows + load.crowded * load.tokens
    return load.tokens * width * (BYTES_16_BIT + entry) + rows * (width + 2 * inner) * entry


def _products(load: Load, n: Any, k: Any, share: Any, machine: Predictor) -> Any:
    """The time of the product of all experts; crowded experts are part of the same kernel.

    Args:
        load: the rows and the experts of the fullest rank.
        n: the columns of the output.
        k: the depth.
        share: the share of the traffic that memory moves.
        machine: the rates of the accelerator.
    """
    spread = _grouped(load.rows / load.groups, n, k, load.groups, share, machine)
    if not np.any(load.crowded):
        return spread
    crowded = _grouped(load.tokens, n, k, np.maximum(load.crowded, 1e-9), share, machine) - machine.rates.overhead
    return spread + np.where(load.crowded > 0, crowded, 0.0)


def _grouped(rows: Any, n: Any, k: Any, groups: Any, share: Any, machine: Predictor) -> Any:
    """The time of a product of `groups` weights with `rows` rows each; memory moves this share of its traffic."""
    entries = (rows * k + k * n) * groups * machine.entry
    work = Traffic(2 * groups * rows * n * k, entries, rows * n * groups * BYTES_16_BIT)
    grouped = operator("grouped_contraction", "grouped_contraction", "forward", (rows, n, k, groups), work)
    return operator_time(grouped.having(held=(1 - share) * grouped.bytes), machine)
