"""Which communication may run beside computation: a switch for each kind, and the links that gradients have."""

from amped.theory.parallelisms import shares
from amped.theory.quantity import MAPPING, quantity


@quantity("boolean", category=MAPPING)
def overlap_data_communication(zero_stage):
    """Whether gradients are reduced beside the backward pass, and weights gathered beside passes.

    Unless given: where weights are sharded, as FSDP does, and else not, as Megatron-LM does not by itself.
    Source: arXiv 2304.11277 (FSDP), section 3.3; Megatron-LM, --overlap-grad-reduce.
    """
    return shares("weight", zero_stage)


@quantity("boolean", category=MAPPING)
def gradients_have_own_links(inter_node_tensor_parallel_degree, inter_node_data_parallel_degree):
    """Whether gradients travel while tensor parallelism does.

    Unless given: where they cross nodes and tensor parallelism stays inside. Source: definition. Differs: what of
    gradients is added up inside nodes shares the links of tensor parallelism.
    """
    return (inter_node_tensor_parallel_degree <= 1) & (inter_node_data_parallel_degree > 1)
