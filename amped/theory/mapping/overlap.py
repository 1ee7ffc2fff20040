"""Which communication may run beside computation: a switch for each kind, and the links that gradients have."""

import numpy as np

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


@quantity("1")
def steady_microbatch_fraction(microbatches_per_flush, virtual_pipeline_stages, pipeline_parallel_degree):
    """Share of a step's passes with a pass of another micro-batch beside them: none while pipelines fill and empty.

    Of m·v + p − 1 turns of chunks forward and back, those after (v − 1)·p + 1 that come before the first gradient and
    with one micro-batch fewer than there are. Source: arXiv 2104.04473, section 2.2 (1F1B); arXiv 2412.19437, section
    3.2.1 (pairs of passes).
    """
    turns = microbatches_per_flush * virtual_pipeline_stages
    filling = (virtual_pipeline_stages - 1) * pipeline_parallel_degree + 1
    return np.maximum(turns - filling, 0) / (turns + pipeline_parallel_degree - 1)
