"""Which communication may overlap computation: a switch for each kind, and whether gradients have own links."""

import numpy as np

from amped.theory.language.quantity import MAPPING, quantity
from amped.theory.nouns.conditions import DUALPIPE_V
from amped.theory.nouns.shardings import is_sharded


@quantity("boolean", category=MAPPING)
def overlap_data_communication(zero_stage):
    """Whether data-parallel communication overlaps computation.

    Gradients are then reduced during the backward pass, and sharded weights are gathered during the passes. Unless
    given, it is true if weights are sharded, as FSDP does it, and false otherwise, as Megatron-LM does it by default.
    Source: arXiv 2304.11277 (FSDP), section 3.3; Megatron-LM, --overlap-grad-reduce.
    """
    return is_sharded("weight", zero_stage)


@quantity("boolean", category=MAPPING)
def gradients_have_own_links(inter_node_tensor_parallel_degree, inter_node_data_parallel_degree):
    """Whether gradients and tensor-parallel messages can travel at the same time, because they use different links.

    Unless given, it is true if gradients cross nodes and tensor parallelism stays inside the node. Source: assumption.
    Differs: a part of the gradient reduction runs inside nodes, on the links of tensor parallelism; this is left out.
    """
    return (inter_node_tensor_parallel_degree <= 1) & (inter_node_data_parallel_degree > 1)


@quantity("1")
def steady_microbatch_fraction(microbatches_per_flush, virtual_pipeline_stages, pipeline_parallel_degree):
    """The share of the passes of a step that can run beside a pass of another micro-batch.

        max(m·v − (v − 1)·p − 1, 0) / (m·v + p − 1)

    There are m micro-batches, v chunks of layers on a stage, and p stages. While the pipeline fills and drains, there
    is no other micro-batch. The denominator is the number of turns in which a stage runs one forward and one backward
    pass of a chunk. In (v − 1)·p turns before the first gradient, and in one turn at the end, a pass runs alone.
    Source: arXiv 2104.04473, section 2.2 (1F1B); arXiv 2412.19437, section 3.2.1 (pairs of passes).
    """
    turns = microbatches_per_flush * virtual_pipeline_stages
    filling = (virtual_pipeline_stages - 1) * pipeline_parallel_degree + 1
    return np.maximum(turns - filling, 0) / (turns + pipeline_parallel_degree - 1)


@quantity("1", **DUALPIPE_V)
def steady_microbatch_fraction__dualpipe_v(microbatches_per_flush, pipeline_parallel_degree):
    """The share of the passes of a step that run in a pair with a pass of another micro-batch in DualPipeV.

        (2·m − 3·p + 1) / (2·m)

    The first of p stages has the fewest pairs: of its 2·m forward passes, 3·p − 1 run alone.

    Source: deepseek-ai/DualPipe, dualpipe.py (steps 4 and 5).
    """
    passes = 2 * microbatches_per_flush
    return np.clip((passes - 3 * pipeline_parallel_degree + 1) / passes, 0, 1)
