"""Whom a token's experts are with: how many accelerators and nodes it visits, and what of it travels."""

import numpy as np

from amped.quantity import MAPPING, parameter, quantity, selector


@parameter("boolean", category=MAPPING)
def deduplicated_dispatch():
    """Whether a token goes once to an accelerator with several of its experts, and once to a node, which hands it on.

    Source: deepseek-ai/DeepEP, README (normal kernels with NVLink and RDMA forwarding).
    """
    return 0


@selector("random", "in_turn", category=MAPPING)
def expert_assignment():
    """Which experts a token has: each as likely as any other, or those that follow the token's before it.

    Source: Megatron-LM, --moe-router-force-load-balancing (random); NVIDIA NeMo AutoModel, FakeBalancedGate (in turn).
    """
    return "random"


def places_at_random(places, experts_per_token):
    """Places that have one of a token's experts, of equal places: G·(1 − (1 − 1/G)^k). Source: definition."""
    return places * (1 - np.exp(experts_per_token * np.log1p(-1 / np.maximum(places, 1 + 1e-9))))


def places_in_turn(places, experts_per_token, number_of_experts):
    """Places that have one of k consecutive experts, where each has E and every k-th expert starts: 1 + (k − gcd)/E.

    Source: definition.
    """
    experts = np.maximum(number_of_experts / places, 1)
    shared = np.gcd(np.rint(experts_per_token).astype(np.int64), np.rint(experts).astype(np.int64))
    return np.minimum(1 + (experts_per_token - shared) / experts, places)


@quantity("count")
def visited_accelerators(expert_parallel_degree, experts_per_token):
    """Accelerators of a group with one of a token's experts. Source: definition."""
    return places_at_random(expert_parallel_degree, experts_per_token)


@quantity("count", choice="expert_assignment", value="in_turn")
def visited_accelerators__in_turn(expert_parallel_degree, experts_per_token, number_of_experts):
    """Accelerators of a group with one of a token's experts. Source: NVIDIA NeMo AutoModel, FakeBalancedGate."""
    return places_in_turn(expert_parallel_degree, experts_per_token, number_of_experts)


@quantity("count")
def visited_nodes(inter_node_expert_parallel_degree, experts_per_token):
    """Nodes of a group with one of a token's experts. Source: definition."""
    return places_at_random(inter_node_expert_parallel_degree, experts_per_token)


@quantity("count", choice="expert_assignment", value="in_turn")
def visited_nodes__in_turn(inter_node_expert_parallel_degree, experts_per_token, number_of_experts):
    """Nodes of a group with one of a token's experts. Source: NVIDIA NeMo AutoModel, FakeBalancedGate."""
    return places_in_turn(inter_node_expert_parallel_degree, experts_per_token, number_of_experts)


@quantity("1")
def distinct_visit_fraction(deduplicated_dispatch, visited_accelerators, experts_per_token):
    """What an accelerator sends of a token for each of its experts: all, or once to each accelerator. Source: DeepEP."""
    return np.where(deduplicated_dispatch > 0, visited_accelerators / np.maximum(experts_per_token, 1), 1.0)


@quantity("1")
def crossing_fraction(deduplicated_dispatch, visited_nodes, visited_accelerators):
    """What crosses nodes of a token for each accelerator that it goes to: all, or once to each node. Source: DeepEP."""
    return np.where(deduplicated_dispatch > 0, visited_nodes / visited_accelerators, 1.0)
