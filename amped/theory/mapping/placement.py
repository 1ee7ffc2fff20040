"""Placement: which part of each degree lies inside the node (the fast domain), and which part across nodes.

The degrees are placed in the order tensor, context, data, pipeline. Of the data-parallel replicas, those that share one
set of experts come first. A degree takes its largest divisor that is at most the number of free places p. The next
degree then has ⌊p / part⌋ free places. Places that remain at the end are idle. A part that the user gives overrides its
placement.

If degrees are not powers of two, a larger part of one degree can take places which another degree needs more. For
example, a domain of three places can hold three tensor-parallel shares, but then not two replicas. An estimate
therefore also tries smaller numbers of places (`filled_domain_size`) and takes the fastest, so that no step is slower
on a larger domain.
"""

import numpy as np

from amped.theory.language.quantity import MAPPING, each_of, family, quantity
from amped.theory.nouns.divisors import common_divisor, largest_divisor
from amped.theory.nouns.parallelisms import INNERMOST, OF_A_STAGE, PARALLELISMS
from amped.theory.nouns.records import product


@quantity("count")
def usable_domain_size(scale_up_domain_size, launched_domain_size, number_of_accelerators):
    """The number of accelerators of a fast domain that a run may use.

    A run that fits into one domain may use all accelerators of the domain. A larger run uses only as many in each
    domain as the launcher gives to it.

    Source: the system's row (segments); definition.
    """
    launched = np.minimum(launched_domain_size, scale_up_domain_size)
    return np.where(number_of_accelerators <= scale_up_domain_size, scale_up_domain_size, launched)


@quantity("count")
def fast_domain_slots_for_tensor(usable_domain_size, filled_domain_size):
    """The number of accelerators of the fast domain that tensor parallelism, which is placed first, can use.

    Source: arXiv 2104.04473, section 3.2.
    """
    return np.minimum(usable_domain_size, filled_domain_size)


@family(named=("fast_domain_slots_for_context",), KIND=INNERMOST[1:], BEFORE=INNERMOST[:-1])
@quantity("count")
def fast_domain_slots_for_KIND(fast_domain_slots_for_BEFORE, intra_node_BEFORE_parallel_degree):
    """The number of ranks of KIND parallelism that fit into the fast domain, after BEFORE parallelism has its places.

    One such rank has all accelerators of the parallelisms that are placed before KIND parallelism.

    Source: definition.
    """
    return np.floor(fast_domain_slots_for_BEFORE / intra_node_BEFORE_parallel_degree)


@family(LAST=INNERMOST[-1:])
@quantity("count")
def fast_domain_slots_after_context(fast_domain_slots_for_LAST, intra_node_LAST_parallel_degree):
    """The number of groups of tensor and context parallelism that fit into the fast domain.

    One group has all accelerators that tensor and context parallelism use inside the domain.

    Source: definition.
    """
    return np.floor(fast_domain_slots_for_LAST / intra_node_LAST_parallel_degree)


@quantity("count", choice="placement_order", value="tensor_context_pipeline_data")
def fast_domain_slots_for_data__after_pipeline(fast_domain_slots_after_context, intra_node_pipeline_parallel_degree):
    """The number of data-parallel replicas that fit into the fast domain, if pipeline stages are placed before them.

    Source: definition.
    """
    return np.floor(fast_domain_slots_after_context / intra_node_pipeline_parallel_degree)


@quantity("count")
def fast_domain_slots_for_pipeline(fast_domain_slots_after_context, intra_node_data_parallel_degree):
    """The number of pipeline stages that fit into the fast domain after tensor, context and data parallelism.

    Source: definition.
    """
    return np.floor(fast_domain_slots_after_context / intra_node_data_parallel_degree)


@each_of(KIND=OF_A_STAGE)
@quantity("count")
def intra_node_stage_accelerators(intra_node_KIND_parallel_degree):
    """The number of accelerators of one pipeline stage inside one fast domain. Source: definition."""
    return product(intra_node_KIND_parallel_degree)


@quantity("count")
def number_of_used_fast_domain_places(intra_node_stage_accelerators, intra_node_pipeline_parallel_degree):
    """The number of places of a fast domain that one group of degrees fills. Source: definition."""
    return intra_node_stage_accelerators * intra_node_pipeline_parallel_degree


@quantity("count")
def intra_node_expert_tensor_parallel_degree(expert_tensor_parallel_degree, intra_node_stage_accelerators):
    """The part of the expert tensor-parallel degree inside the node. It is placed before the expert-parallel degree.

    Source: Megatron-Core, MoE groups.
    """
    return common_divisor(expert_tensor_parallel_degree, intra_node_stage_accelerators)


@quantity("count")
def inter_node_expert_tensor_parallel_degree(expert_tensor_parallel_degree, intra_node_expert_tensor_parallel_degree):
    """The part of the expert tensor-parallel degree across nodes. Source: Megatron-Core, MoE groups."""
    return expert_tensor_parallel_degree / intra_node_expert_tensor_parallel_degree


@quantity("count")
def fast_domain_slots_for_expert(intra_node_stage_accelerators, intra_node_expert_tensor_parallel_degree):
    """The number of expert-parallel ranks that fit into the fast domain.

    It is the number of accelerators of a stage in the domain, divided by the number of accelerators that share one
    expert. Source: arXiv 2603.07685, section 3.3.3 (parallel folding). Differs: in arXiv 2006.16668, section 3, the
    expert group lies inside the data-parallel group. Here this holds only if the expert tensor-parallel degree is the
    degree of the dense layers, and there is no context parallelism.
    """
    return intra_node_stage_accelerators / intra_node_expert_tensor_parallel_degree


@family(
    named=(
        "intra_node_tensor_parallel_degree",
        "intra_node_context_parallel_degree",
        "intra_node_pipeline_parallel_degree",
    ),
    KIND=(*INNERMOST, "pipeline"),
)
@quantity("count", category=MAPPING, replaces=("KIND_parallel_degree",))
def intra_node_KIND_parallel_degree(KIND_parallel_degree, fast_domain_slots_for_KIND):
    """The part of the KIND-parallel degree inside the node: the largest divisor of the degree that fits there.

    Source: assumption; launchers do so: of the 72 accelerators of an NVL72 they give 64 to a run
    (`launched_domain_size`).
    """
    return largest_divisor(KIND_parallel_degree, fast_domain_slots_for_KIND)


@each_of(KIND=INNERMOST)
@quantity("count")
def data_parallel_degree_within_expert_groups(data_parallel_degree, KIND_parallel_degree, expert_split_degree):
    """The number of data-parallel replicas over which one expert group spreads.

    An expert group first uses the accelerators of a tensor and context group. Without experts the number is 1.

    Source: arXiv 2603.07685, section 3.3.3 (parallel folding: expert groups lie in tensor × context × data).
    """
    replicas = np.floor(expert_split_degree / common_divisor(expert_split_degree, product(KIND_parallel_degree)))
    return common_divisor(replicas, data_parallel_degree)


@quantity("count", category=MAPPING, replaces=("data_parallel_degree",))
def intra_node_data_parallel_degree(
    data_parallel_degree, data_parallel_degree_within_expert_groups, fast_domain_slots_for_data
):
    """The part of the data-parallel degree inside the node.

    First the replicas that share one set of experts are placed, because an accelerator waits for expert exchanges. Then
    the other replicas are placed; they exchange only gradients, which can overlap computation. In both cases the node
    gets the largest number of replicas that divides their total number and fits.

    Source: assumption.
    """
    sharing = largest_divisor(data_parallel_degree_within_expert_groups, fast_domain_slots_for_data)
    others = data_parallel_degree / data_parallel_degree_within_expert_groups
    return sharing * largest_divisor(others, np.floor(fast_domain_slots_for_data / sharing))


@quantity("count", category=MAPPING, replaces=("expert_parallel_degree",))
def intra_node_expert_parallel_degree(expert_parallel_degree, fast_domain_slots_for_expert):
    """The part of the expert-parallel degree inside the node.

    It is the greatest common divisor of the degree and of the number of expert-parallel ranks that fit into the node.
    Every node then holds equally many ranks.

    Source: Megatron-Core, MoE groups.
    """
    return common_divisor(expert_parallel_degree, fast_domain_slots_for_expert)


@family(
    named=(
        "intra_node_tensor_parallel_degree__rest",
        "intra_node_pipeline_parallel_degree__rest",
        "intra_node_data_parallel_degree__rest",
        "intra_node_context_parallel_degree__rest",
        "intra_node_expert_parallel_degree__rest",
    ),
    KIND=PARALLELISMS,
)
@quantity("count", category=MAPPING, when_given=("inter_node_KIND_parallel_degree",))
def intra_node_KIND_parallel_degree__rest(KIND_parallel_degree, inter_node_KIND_parallel_degree):
    """The part of the KIND-parallel degree inside the node, if its part across nodes is given. Source: definition."""
    return KIND_parallel_degree / inter_node_KIND_parallel_degree


@family(
    named=(
        "inter_node_tensor_parallel_degree",
        "inter_node_pipeline_parallel_degree",
        "inter_node_data_parallel_degree",
        "inter_node_context_parallel_degree",
        "inter_node_expert_parallel_degree",
    ),
    KIND=PARALLELISMS,
)
@quantity("count", category=MAPPING, replaces=("KIND_parallel_degree",))
def inter_node_KIND_parallel_degree(KIND_parallel_degree, intra_node_KIND_parallel_degree):
    """The part of the KIND-parallel degree across nodes. Source: definition."""
    return KIND_parallel_degree / intra_node_KIND_parallel_degree
