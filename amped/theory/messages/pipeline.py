"""Pipeline parallelism: a micro-batch sent from one stage to the next."""

from amped.theory.quantity import records
from amped.theory.records import Collective


@records()
def pipeline_collectives(microbatch_bytes, tensor_parallel_rows, pipeline_group):
    """The message that sends a micro-batch to the next stage; each tensor-parallel rank sends its part.

    Source: arXiv 2104.04473, section 4.1.
    """
    share, after = microbatch_bytes / tensor_parallel_rows, ("feedforward_residual",)
    return (Collective("stage_send", "send_receive", volume=share, group=pipeline_group[0], count=1.0, after=after),)


@records()
def stage_send_gather_collectives(
    microbatch_bytes, row_group, pipeline_parallel_degree, sequence_split_degree, tensor_parallel_rows
):
    """The all-gather of the parts of a micro-batch that a stage has received from the previous stage.

    With sequence parallelism it is not needed, because each rank keeps only its part of the sequence.

    Source: arXiv 2104.04473, section 4.1 (scatter/gather).
    """
    calls = 1.0 * (sequence_split_degree < tensor_parallel_rows) * (pipeline_parallel_degree > 1)
    return (Collective("stage_send_gather", "all_gather", volume=microbatch_bytes, group=row_group[0], count=calls),)
