"""Pipelines whose stages a layout lists: their idle time and what they hold, from their passes one after another."""

import numpy as np

from amped.theory.language.quantity import family, quantity, records
from amped.theory.nouns.conditions import LISTED
from amped.theory.nouns.records import total
from amped.theory.nouns.stage_records import ChunksInFlight, had
from amped.theory.schedules.orders import SCHEDULES
from amped.theory.schedules.pass_by_pass import after_rounds, fullest_moments, pipe_of, work_of

NAMES = tuple(SCHEDULES)


@family(
    named=(
        "pipeline_idle_time__gpipe_of_layout",
        "pipeline_idle_time__1f1b_of_layout",
        "pipeline_idle_time__zero_bubble_h1_of_layout",
        "pipeline_idle_time__zero_bubble_v_of_layout",
        "pipeline_idle_time__dualpipe_v_of_layout",
    ),
    SCHEDULE=NAMES,
)
@quantity(
    "s",
    choice="pipeline_schedule",
    value="SCHEDULE",
    even_with=("virtual_pipeline_stages",),
    **LISTED,
)
def pipeline_idle_time__SCHEDULE_of_layout(
    pipeline_layout,
    pass_times,
    bottleneck_stage,
    microbatches_per_flush,
    stage_send_time,
    blocking_stage_send_time,
    handovers_per_microbatch,
    *,
    schedule,
):
    """The idle time in a step of SCHEDULE: the time of the step without the work and the sends of the bottleneck stage.

    The step is simulated pass by pass for a limited number of micro-batches, and continued for more. The idle time is
    at least zero.

    Source: arXiv 2104.04473, section 2.2; the orders of passes on the pages of the schedules.
    """
    m, blocking_send = microbatches_per_flush, blocking_stage_send_time
    work = work_of(schedule, pipeline_layout, pass_times)
    whole = after_rounds(schedule, pipe_of(pipeline_layout), m, work, stage_send_time, blocking_send)
    return np.maximum(whole - m * (bottleneck_stage[0].time + handovers_per_microbatch * blocking_send), 0)


@family(
    named=(
        "stage_chunks_in_flight__gpipe_of_layout",
        "stage_chunks_in_flight__1f1b_of_layout",
        "stage_chunks_in_flight__zero_bubble_h1_of_layout",
        "stage_chunks_in_flight__zero_bubble_v_of_layout",
        "stage_chunks_in_flight__dualpipe_v_of_layout",
    ),
    SCHEDULE=NAMES,
)
@records(
    choice="pipeline_schedule",
    value="SCHEDULE",
    even_with=("virtual_pipeline_stages",),
    **LISTED,
)
def stage_chunks_in_flight__SCHEDULE_of_layout(pipeline_layout, microbatches_per_flush, *, schedule):
    """The number of micro-batches whose activations each stage holds, for each of its chunks, under SCHEDULE.

    Source: arXiv 2205.05198, section 4.2.3; the orders of passes on the pages of the schedules.
    """
    pipe, number = pipe_of(pipeline_layout), microbatches_per_flush
    return tuple(
        ChunksInFlight(share.name, fullest_moments(schedule, pipe, place, number))
        for place, share in enumerate(pipeline_layout)
    )


@family(
    named=(
        "handovers_per_microbatch__gpipe_of_layout",
        "handovers_per_microbatch__1f1b_of_layout",
        "handovers_per_microbatch__zero_bubble_h1_of_layout",
    ),
    SCHEDULE=tuple(name for name in NAMES if not SCHEDULES[name].first_has_the_output_head),
)
@quantity("count", choice="pipeline_schedule", value="SCHEDULE", **LISTED)
def handovers_per_microbatch__SCHEDULE_of_layout(chunks_per_stage, pipeline_parallel_degree, bottleneck_stage):
    """The number of messages that the bottleneck stage sends for a micro-batch.

    A stage sends one message forward and one backward for each chunk of layers. The first chunk has no chunk to send
    backward to, and the last chunk none to send forward to.

    Source: arXiv 2104.04473, section 2.2.2.
    """
    (stage,) = bottleneck_stage
    ends = stage.has_embedding + stage.has_output_head
    return (2 * chunks_per_stage - ends) * (pipeline_parallel_degree > 1)


# --- rules -----------------------------------------------------------------------------------------------------------


@quantity("boolean", constrains="pipeline_parallel_degree", **LISTED)
def layers_divide_by_stages_and_chunks__of_layout(pipeline_stages, pipeline_parallel_degree):
    """Each stage has at least one layer, or the embedding or the output head.

    Source: Megatron-Core, pipeline layout.
    """
    ends = [had(s.has_embedding, 1.0) + had(s.has_output_head, 1.0) for s in pipeline_stages]
    full = [1.0 * (total(s.kinds) + end > 0) for s, end in zip(pipeline_stages, ends, strict=True)]
    return total(full) >= np.minimum(pipeline_parallel_degree, len(full))


@quantity("boolean", constrains="virtual_pipeline_stages", **LISTED)
def the_layout_lists_every_chunk(pipeline_layout, virtual_pipeline_stages, chunks_per_stage):
    """The layout lists as many chunks of layers for each stage as the user gives, or as many as the schedule has.

    Source: Megatron-Core, pipeline layout.
    """
    listed = len(pipeline_layout[0].chunks)
    return (virtual_pipeline_stages == listed) | (chunks_per_stage == listed)
