"""Pipeline parallelism: a micro-batch handed from one stage to the next."""

from amped.theory.quantity import records
from amped.theory.records import Collective


@records()
def pipeline_collectives(microbatch_bytes, tensor_parallel_rows, pipeline_group):
    """A micro-batch handed over a boundary between stages, each tensor share sending its part.

    Source: arXiv 2104.04473, section 4.1.
    """
    share, after = microbatch_bytes / tensor_parallel_rows, ("feedforward_residual",)
    return (Collective("stage_send", "send_receive", volume=share, group=pipeline_group[0], count=1.0, after=after),)


@records()
def stage_send_gather_collectives(
    microbatch_bytes, row_group, pipeline_parallel_degree, sequence_split_degree, tensor_parallel_rows
):
    """The parts of a handed-over micro-batch gathered again, unless each accelerator goes on with its own.

    Source: arXiv 2104.04473, section 4.1 (scatter/gather).
    """
    calls = 1.0 * (sequence_split_degree < tensor_parallel_rows) * (pipeline_parallel_degree > 1)
    return (Collective("stage_send_gather", "all_gather", volume=microbatch_bytes, group=row_group[0], count=calls),)
