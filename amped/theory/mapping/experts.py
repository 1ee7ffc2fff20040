"""Mixtures of experts on a mapping: how unevenly tokens come, and on how many accelerators a token's experts are."""

import numpy as np

from amped.theory.quantity import family, quantity


@quantity("1")
def expert_load_factor(expert_imbalance_factor, expert_capacity_factor, expert_parallel_degree):
    """Rows that the busiest experts compute for each visit on average: their capacity, else what comes.

    One accelerator gets no more than all visits, and where it has all experts no more than others. Source: arXiv
    2006.16668, section 2.2.
    """
    comes = np.minimum(expert_imbalance_factor, expert_parallel_degree)
    return np.where(expert_capacity_factor > 0, expert_capacity_factor, comes)


def destinations_at_random(places, experts_per_token):
    """Places that have one of a token's experts, of equal places: G·(1 − (1 − 1/G)^k). Source: definition."""
    return places * (1 - np.exp(experts_per_token * np.log1p(-1 / np.maximum(places, 1 + 1e-9))))


def destinations_in_turn(places, experts_per_token, number_of_experts):
    """Places that have one of k consecutive experts, where each has E and every k-th expert starts: 1 + (k − gcd)/E.

    Source: definition.
    """
    experts = np.maximum(number_of_experts / places, 1)
    shared = np.gcd(np.rint(experts_per_token).astype(np.int64), np.rint(experts).astype(np.int64))
    return np.minimum(1 + (experts_per_token - shared) / experts, places)


@family(PLACES=("accelerators", "nodes"), DEGREE=("expert_parallel_degree", "inter_node_expert_parallel_degree"))
@quantity("count")
def destination_PLACES_per_token(DEGREE, experts_per_token):
    """The number of PLACES in a group with one of a token's experts. Source: definition."""
    return destinations_at_random(DEGREE, experts_per_token)


@family(PLACES=("accelerators", "nodes"), DEGREE=("expert_parallel_degree", "inter_node_expert_parallel_degree"))
@quantity("count", choice="expert_assignment", value="in_turn")
def destination_PLACES_per_token__in_turn(DEGREE, experts_per_token, number_of_experts):
    """The number of PLACES in a group with one of a token's experts.

    Source: NVIDIA NeMo AutoModel, FakeBalancedGate.
    """
    return destinations_in_turn(DEGREE, experts_per_token, number_of_experts)


@quantity("1")
def deduplicated_dispatch_fraction(deduplicated_dispatch, destination_accelerators_per_token, experts_per_token):
    """What an accelerator sends of a token for each of its experts: all, or once to each accelerator.

    Source: DeepEP.
    """
    return np.where(
        deduplicated_dispatch > 0, destination_accelerators_per_token / np.maximum(experts_per_token, 1), 1.0
    )


@quantity("1")
def inter_node_dispatch_fraction(
    deduplicated_dispatch, destination_nodes_per_token, destination_accelerators_per_token
):
    """What crosses nodes of a token for each accelerator that it goes to: all, or once to each node. Source: DeepEP."""
    return np.where(deduplicated_dispatch > 0, destination_nodes_per_token / destination_accelerators_per_token, 1.0)
