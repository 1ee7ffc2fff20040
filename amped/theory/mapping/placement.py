"""Placement: how much of each degree lies inside the node, that is inside the fast domain, and how much across.

Degrees are placed in the order tensor, context, data, pipeline: each takes as much of what is left of the fast
domain as divides both. An explicit part overrides its placement.
"""

import numpy as np

from amped.theory.parallelisms import PARALLELISMS
from amped.theory.quantity import MAPPING, family, quantity


@quantity("count")
def fast_domain_slots_for_context(fast_domain_slots_for_tensor, intra_node_tensor_parallel_degree):
    """Places of the fast domain left after tensor parallelism. Source: definition."""
    return fast_domain_slots_for_tensor / intra_node_tensor_parallel_degree


@quantity("count")
def fast_domain_slots_after_context(fast_domain_slots_for_context, intra_node_context_parallel_degree):
    """Places of the fast domain left after tensor and context parallelism. Source: definition."""
    return fast_domain_slots_for_context / intra_node_context_parallel_degree


@quantity("count", choice="placement_order", value="tensor_context_pipeline_data")
def fast_domain_slots_for_data__after_pipeline(fast_domain_slots_after_context, intra_node_pipeline_parallel_degree):
    """Places of the fast domain left after the pipeline, where it goes first. Source: definition."""
    return fast_domain_slots_after_context / intra_node_pipeline_parallel_degree


@quantity("count")
def fast_domain_slots_for_pipeline(fast_domain_slots_after_context, intra_node_data_parallel_degree):
    """Places of the fast domain left after data parallelism. Source: definition."""
    return fast_domain_slots_after_context / intra_node_data_parallel_degree


@quantity("count")
def intra_node_stage_accelerators(
    intra_node_data_parallel_degree, intra_node_context_parallel_degree, intra_node_tensor_parallel_degree
):
    """Accelerators of a stage inside one fast domain. Source: definition."""
    return intra_node_data_parallel_degree * intra_node_context_parallel_degree * intra_node_tensor_parallel_degree


@quantity("count")
def intra_node_expert_tensor_parallel_degree(expert_tensor_parallel_degree, intra_node_stage_accelerators):
    """Part inside the node of those that share an expert's matrices, who come first.

    Source: Megatron-Core, MoE groups.
    """
    degree, places = expert_tensor_parallel_degree, intra_node_stage_accelerators
    return np.gcd(degree.astype(np.int64), places.astype(np.int64)).astype(np.float64)


@quantity("count")
def inter_node_expert_tensor_parallel_degree(expert_tensor_parallel_degree, intra_node_expert_tensor_parallel_degree):
    """Nodes of those that share an expert's matrices. Source: Megatron-Core, MoE groups."""
    return expert_tensor_parallel_degree / intra_node_expert_tensor_parallel_degree


@quantity("count")
def fast_domain_slots_for_expert(intra_node_stage_accelerators, intra_node_expert_tensor_parallel_degree):
    """Places of the fast domain open to experts: those of the stage's replicas, less what shares one expert.

    Source: arXiv 2504.14960 (parallel folding). Differs: in arXiv 2006.16668 the group lies inside the data-parallel
    one, which is the case of an expert tensor degree as large as that of the dense layers, and no context parallelism.
    """
    return intra_node_stage_accelerators / intra_node_expert_tensor_parallel_degree


@family(KIND=PARALLELISMS)
@quantity("count", category=MAPPING, replaces=("KIND_parallel_degree",))
def intra_node_KIND_parallel_degree(KIND_parallel_degree, fast_domain_slots_for_KIND):
    """Part of the KIND-parallel degree inside the node: what divides both it and the slots left. Source: definition."""
    return np.gcd(KIND_parallel_degree.astype(np.int64), fast_domain_slots_for_KIND.astype(np.int64)).astype(np.float64)


@family(KIND=PARALLELISMS)
@quantity("count", category=MAPPING, when_given=("inter_node_KIND_parallel_degree",))
def intra_node_KIND_parallel_degree__rest(KIND_parallel_degree, inter_node_KIND_parallel_degree):
    """Part of the KIND-parallel degree inside the node: what the part across nodes leaves. Source: definition."""
    return KIND_parallel_degree / inter_node_KIND_parallel_degree


@family(KIND=PARALLELISMS)
@quantity("count", category=MAPPING, replaces=("KIND_parallel_degree",))
def inter_node_KIND_parallel_degree(KIND_parallel_degree, intra_node_KIND_parallel_degree):
    """Part of the KIND-parallel degree across nodes. Source: definition."""
    return KIND_parallel_degree / intra_node_KIND_parallel_degree
