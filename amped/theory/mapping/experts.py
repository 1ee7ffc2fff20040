"""Mixtures of experts on a mapping: how unevenly tokens arrive, and how many accelerators have experts of a token."""

import numpy as np

from amped.theory.language.quantity import family, quantity


@quantity("1")
def expert_load_factor(expert_imbalance_factor, expert_capacity_factor, expert_parallel_degree):
    """The rows that the accelerator with the busiest experts computes, divided by the rows of an average accelerator.

    With a capacity factor it is that factor: experts compute all rows of their buffers, filled or not. Without a
    capacity factor it is the imbalance, but at most the expert-parallel degree, because one accelerator cannot receive
    more than all tokens.

    Source: arXiv 2006.16668, section 2.2.
    """
    load = np.minimum(expert_imbalance_factor, expert_parallel_degree)
    return np.where(expert_capacity_factor > 0, expert_capacity_factor, load)


@family(
    named=(
        "destination_accelerators_per_token",
        "destination_nodes_per_token",
    ),
    PLACES=("accelerators", "nodes"),
    DEGREE=("expert_parallel_degree", "inter_node_expert_parallel_degree"),
)
@quantity("count")
def destination_PLACES_per_token(DEGREE, experts_per_token):
    """The expected number of PLACES that have an expert of a token, if each expert is equally likely.

        G · (1 − (1 − 1/G)^k)

    The experts are spread evenly over G PLACES, and a token has k experts. Assumes independent draws.

    Source: elementary probability.
    """
    return DEGREE * (1 - np.exp(experts_per_token * np.log1p(-1 / np.maximum(DEGREE, 1 + 1e-9))))


@family(
    named=(
        "destination_accelerators_per_token__in_turn",
        "destination_nodes_per_token__in_turn",
    ),
    PLACES=("accelerators", "nodes"),
    DEGREE=("expert_parallel_degree", "inter_node_expert_parallel_degree"),
)
@quantity("count", choice="expert_assignment", value="in_turn")
def destination_PLACES_per_token__in_turn(DEGREE, experts_per_token, number_of_experts):
    """The average number of PLACES that have an expert of a token, if the tokens take the experts in turn.

        min(1 + (k − gcd(k, E)) / E, G)

    Each of G PLACES has E experts. A token has k consecutive experts, of which the first is a multiple of k.

    Source: elementary counting; NVIDIA NeMo AutoModel, FakeBalancedGate.
    """
    experts = np.maximum(number_of_experts / DEGREE, 1)
    shared = np.gcd(np.rint(experts_per_token).astype(np.int64), np.rint(experts).astype(np.int64))
    return np.minimum(1 + (experts_per_token - shared) / experts, DEGREE)


@quantity("boolean", constrains="deduplicated_dispatch", choice="dispatcher", value="allgather")
def gathered_tokens_are_not_deduplicated__allgather(deduplicated_dispatch):
    """An all-gather sends every token to every accelerator, and cannot send it once to those that have its experts.

    Source: Megatron-Core, transformer/moe/token_dispatcher.py (MoEAllGatherTokenDispatcher).
    """
    return deduplicated_dispatch == 0


@quantity("1")
def deduplicated_dispatch_fraction(deduplicated_dispatch, destination_accelerators_per_token, experts_per_token):
    """The number of copies of a token that an accelerator sends, divided by the number of experts of the token.

    Without deduplication it is 1: one copy for each expert. With deduplication there is one copy for each accelerator
    that has an expert of the token.

    Source: DeepEP, README.
    """
    return np.where(
        deduplicated_dispatch > 0, destination_accelerators_per_token / np.maximum(experts_per_token, 1), 1.0
    )


@quantity("1")
def inter_node_dispatch_fraction(
    deduplicated_dispatch, destination_nodes_per_token, destination_accelerators_per_token
):
    """The number of copies of a token that cross nodes, divided by the number of accelerators to which the token goes.

    Without deduplication it is 1. With deduplication one copy crosses to each node that has an expert of the token.

    Source: DeepEP, README.
    """
    return np.where(deduplicated_dispatch > 0, destination_nodes_per_token / destination_accelerators_per_token, 1.0)
