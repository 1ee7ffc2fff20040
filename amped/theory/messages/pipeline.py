"""Pipeline parallelism: a micro-batch handed from one stage to the next."""

from amped.theory.quantity import records
from amped.theory.records import Collective


@records()
def pipeline_collectives(
    microbatch_bytes,
    tensor_parallel_rows,
    intra_node_pipeline_parallel_degree,
    inter_node_pipeline_parallel_degree,
):
    """A micro-batch handed over a boundary between stages, each tensor share sending its part.

    Source: arXiv 2104.04473, section 4.1.
    """
    volume = microbatch_bytes / tensor_parallel_rows
    group = (intra_node_pipeline_parallel_degree, inter_node_pipeline_parallel_degree)
    return (Collective("stage_send", "send_receive", volume, *group, 1.0, after=("feedforward_residual",)),)


@records()
def stage_send_gather_collectives(
    microbatch_bytes,
    intra_node_tensor_parallel_rows,
    inter_node_tensor_parallel_rows,
    pipeline_parallel_degree,
    sequence_split_degree,
    tensor_parallel_rows,
):
    """The parts of a handed-over micro-batch gathered again, unless each accelerator goes on with its own.

    Source: arXiv 2104.04473, section 4.1 (scatter/gather).
    """
    group = (intra_node_tensor_parallel_rows, inter_node_tensor_parallel_rows)
    calls = 1.0 * (sequence_split_degree < tensor_parallel_rows) * (pipeline_parallel_degree > 1)
    return (Collective("stage_send_gather", "all_gather", microbatch_bytes, *group, calls),)
