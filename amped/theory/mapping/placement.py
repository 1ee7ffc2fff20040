"""Placement: how much of each degree lies inside the node, that is inside the fast domain, and how much across.

Degrees are placed in the order tensor, context, expert with data, data, pipeline: each takes its largest divisor that
is at most the places left, and what it leaves of the domain is shared out to the next ones: ⌊places left / part⌋. What
stays over is idle. An explicit part overrides its placement.

Where degrees are no powers of two, a part that grows may take the places of one that needs them more: three shares of
each matrix in a domain of three, say, and no longer two replicas. An estimate therefore also tries to fill fewer places
(`filled_domain_size`) and takes the fastest, so that no step is slower for a larger domain.
"""

import numpy as np

from amped.theory.parallelisms import PARALLELISMS, largest_divisor
from amped.theory.quantity import MAPPING, family, quantity


@quantity("count")
def usable_domain_size(scale_up_domain_size, launched_domain_size, number_of_accelerators):
    """Places of a fast domain that a run may use: all that launchers give it.

    A run that a domain holds whole is not cut into segments. Source: the system's row (segments); definition.
    """
    launched = np.minimum(launched_domain_size, scale_up_domain_size)
    return np.where(number_of_accelerators <= scale_up_domain_size, scale_up_domain_size, launched)


@quantity("count")
def fast_domain_slots_for_tensor(usable_domain_size, filled_domain_size):
    """Places of the fast domain open to tensor parallelism, the first. Source: arXiv 2104.04473, section 3.2."""
    return np.minimum(usable_domain_size, filled_domain_size)


@quantity("count")
def fast_domain_slots_for_context(fast_domain_slots_for_tensor, intra_node_tensor_parallel_degree):
    """Places of the fast domain left after tensor parallelism. Source: definition."""
    return np.floor(fast_domain_slots_for_tensor / intra_node_tensor_parallel_degree)


@quantity("count")
def fast_domain_slots_after_context(fast_domain_slots_for_context, intra_node_context_parallel_degree):
    """Places of the fast domain left after tensor and context parallelism. Source: definition."""
    return np.floor(fast_domain_slots_for_context / intra_node_context_parallel_degree)


@quantity("count", choice="placement_order", value="tensor_context_pipeline_data")
def fast_domain_slots_for_data__after_pipeline(fast_domain_slots_after_context, intra_node_pipeline_parallel_degree):
    """Places of the fast domain left after the pipeline, where it goes first. Source: definition."""
    return np.floor(fast_domain_slots_after_context / intra_node_pipeline_parallel_degree)


@quantity("count")
def fast_domain_slots_for_pipeline(fast_domain_slots_after_context, intra_node_data_parallel_degree):
    """Places of the fast domain left after data parallelism. Source: definition."""
    return np.floor(fast_domain_slots_after_context / intra_node_data_parallel_degree)


@quantity("count")
def intra_node_stage_accelerators(
    intra_node_data_parallel_degree, intra_node_context_parallel_degree, intra_node_tensor_parallel_degree
):
    """Accelerators of a stage inside one fast domain. Source: definition."""
    return intra_node_data_parallel_degree * intra_node_context_parallel_degree * intra_node_tensor_parallel_degree


@quantity("count")
def number_of_used_fast_domain_places(intra_node_stage_accelerators, intra_node_pipeline_parallel_degree):
    """Accelerators of a fast domain that the mapping uses; the others of the domain are idle. Source: definition."""
    return intra_node_stage_accelerators * intra_node_pipeline_parallel_degree


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


@family(KIND=("tensor", "context", "pipeline"))
@quantity("count", category=MAPPING, replaces=("KIND_parallel_degree",))
def intra_node_KIND_parallel_degree(KIND_parallel_degree, fast_domain_slots_for_KIND):
    """Part of the KIND-parallel degree inside the node: its largest divisor that is at most the places left.

    Source: definition, as launchers do: on NVL72 they give 64 of 72 to a run (`launched_domain_size`).
    """
    return largest_divisor(KIND_parallel_degree, fast_domain_slots_for_KIND)


@quantity("count")
def data_parallel_degree_within_expert_groups(
    data_parallel_degree,
    context_parallel_degree,
    tensor_parallel_degree,
    expert_parallel_degree,
    expert_tensor_parallel_degree,
):
    """Replicas over which an expert group spreads beyond the tensor and context groups: one without experts.

    Source: arXiv 2504.14960 (parallel folding: experts lie in data × context × tensor).
    """
    experts = (expert_parallel_degree * expert_tensor_parallel_degree).astype(np.int64)
    others = (tensor_parallel_degree * context_parallel_degree).astype(np.int64)
    replicas = experts // np.gcd(experts, others)
    return np.gcd(replicas, data_parallel_degree.astype(np.int64)).astype(np.float64)


@quantity("count", category=MAPPING, replaces=("data_parallel_degree",))
def intra_node_data_parallel_degree(
    data_parallel_degree, data_parallel_degree_within_expert_groups, fast_domain_slots_for_data
):
    """Part of the data-parallel degree inside the node: first of the replicas that share out experts, then of the rest.

    Source: as of `intra_node_tensor_parallel_degree`; expert exchanges are waited for, gradients run beside the work.
    """
    sharing = largest_divisor(data_parallel_degree_within_expert_groups, fast_domain_slots_for_data)
    others = data_parallel_degree / data_parallel_degree_within_expert_groups
    return sharing * largest_divisor(others, np.floor(fast_domain_slots_for_data / sharing))


@quantity("count", category=MAPPING, replaces=("expert_parallel_degree",))
def intra_node_expert_parallel_degree(expert_parallel_degree, fast_domain_slots_for_expert):
    """Part of the expert-parallel degree inside the node: what divides both it and the places of the stage there.

    Source: Megatron-Core, MoE groups (every node holds as many shares).
    """
    degree, places = expert_parallel_degree, fast_domain_slots_for_expert
    return np.gcd(degree.astype(np.int64), places.astype(np.int64)).astype(np.float64)


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
