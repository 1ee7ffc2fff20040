"""Zero bubbles in the form of a V: the first stage has the first chunk and the last, with embedding and output head.

Every chunk has equally many layers, unless a layout lists them. The chapters `stages` and `memory` have what the V
changes in parameters and in memory.
"""

import numpy as np

from amped.theory.language.quantity import quantity, records
from amped.theory.nouns.conditions import LISTED, ZERO_BUBBLE_V
from amped.theory.nouns.pass_records import FORWARD, INPUT, WEIGHT, Order, Pass, Pipe
from amped.theory.nouns.resources import beside
from amped.theory.nouns.stage_records import InFlight


@quantity("s", **ZERO_BUBBLE_V)
def pipeline_idle_time__zero_bubble_v(
    pipeline_stages,
    pass_times,
    bottleneck_stage,
    microbatches_per_flush,
    stage_send_time,
    blocking_stage_send_time,
    pipeline_parallel_degree,
):
    """The idle time in a step of the schedule V-ZB, in which each stage has two chunks of layers, placed like a V.

        idle = max(A + S − (m − p + 1)·e, max((p − 2)·w, (p − 1)·(b − w) − w, 0)) + 2·(p − 1)·send,
        A = max((p − 1)·max(b, 2·b − 2·w), f + (p − 2)·max(2·f − b, w)),
        S = 2·m·blocking send, if p > 2.

    There are p stages and m micro-batches. f, b and w are the times of a chunk for the forward pass, the input
    gradients and the weight gradients. e is the time by which the first stage works longer, because it has the
    embedding and the output head; it can hide idle time of the other stages. S is the cost of the stages between, which
    send twice as often as the first and the last. The equation, with A, is fitted to the simulation in `timeline.py`;
    it is exact for equal stages with w and f no longer than b.

    Source: arXiv 2405.15362, section 3 (V-ZB).
    """
    p, s = pipeline_parallel_degree, pipeline_stages[0]
    f, b, w = (t.of_layers(s.kinds) / 2 for t in pass_times)
    ends_time = bottleneck_stage[0].time - 2 * (f + b + w)
    equal_stages_time = np.maximum((p - 1) * np.maximum(b, 2 * b - 2 * w), f + (p - 2) * np.maximum(2 * f - b, w))
    least_time = np.maximum(np.maximum((p - 2) * w, (p - 1) * (b - w) - w), 0)
    send_time = 2 * microbatches_per_flush * blocking_stage_send_time * (p > 2)
    other_stages_time = equal_stages_time + send_time - (microbatches_per_flush - (p - 1)) * ends_time
    return np.maximum(other_stages_time, least_time) + 2 * (p - 1) * stage_send_time


@quantity("count", **ZERO_BUBBLE_V)
def handovers_per_microbatch__zero_bubble_v(pipeline_parallel_degree):
    """The number of sends of the first stage for a micro-batch: one forward from its first chunk, one backward.

    The first stage sends backward from its second chunk.

    Source: arXiv 2405.15362, section 3.
    """
    return 2 * (pipeline_parallel_degree > 1)


@quantity("s", **ZERO_BUBBLE_V)
def overlapped_stage_send_time__zero_bubble_v(
    stage_send_time, pipeline_parallel_degree, free_stage_forward_time, overlap_pipeline_communication
):
    """The part of the time of a send that runs beside computation.

    The stages between the first and the last send twice as often as these two.

    Source: Megatron-Core, --overlap-p2p-communication.
    """
    window = free_stage_forward_time / (2 + 2 * (pipeline_parallel_degree > 2))
    return beside(stage_send_time, window, overlap_pipeline_communication)


@records(**ZERO_BUBBLE_V)
def stage_microbatches_in_flight__zero_bubble_v(pipeline_stages, pipeline_parallel_degree, microbatches_per_flush):
    """The number of micro-batches whose activations each stage holds: 2·p chunks, each of which is half of a stage.

    The embedding is in the first chunk. Either all held chunks are first chunks, or one micro-batch has come back to
    the output head, where its gradients follow at once.

    Source: arXiv 2405.15362, section 3 and table 1 (V-ZB).
    """
    p = pipeline_parallel_degree
    first = np.minimum(2 * p, microbatches_per_flush)
    return tuple(
        InFlight(s.name, layers=p, embedding=first, embedding_beside_head=2 * p - 1, output_head=1.0)
        for s in pipeline_stages
    )


# --- rules -----------------------------------------------------------------------------------------------------------


@quantity("boolean", constrains="virtual_pipeline_stages", **ZERO_BUBBLE_V)
def only_1f1b_interleaves__zero_bubble_v(virtual_pipeline_stages):
    """Only the schedule 1f1b has virtual stages; zero_bubble_v always has two chunks on each stage.

    Source: arXiv 2405.15362, section 3.
    """
    return virtual_pipeline_stages == 1


@quantity("boolean", constrains="pipeline_parallel_degree", **ZERO_BUBBLE_V)
def zero_bubble_needs_stages__zero_bubble_v(pipeline_parallel_degree):
    """The schedule has several pipeline stages, because a single stage has no bubble.

    Source: arXiv 2405.15362, section 3.
    """
    return pipeline_parallel_degree > 1


@quantity("boolean", constrains="microbatch_size", **ZERO_BUBBLE_V)
def zero_bubble_needs_microbatches__zero_bubble_v(microbatch_size, microbatches_per_flush, pipeline_parallel_degree):
    """There are at least 2·p − 1 micro-batches for p stages: enough to fill the V before the first gradient comes back.

    Source: torch.distributed.pipelining, ScheduleZBVZeroBubble.
    """
    return microbatch_size * (microbatches_per_flush - 2 * pipeline_parallel_degree + 1) >= 0


@quantity("boolean", constrains="pipeline_parallel_degree", **ZERO_BUBBLE_V)
def a_v_has_even_chunks__zero_bubble_v(layers, pipeline_parallel_degree, largest_stage_layers):
    """Each of the two chunks of each stage has as many layers as every other chunk, unless a layout lists them.

    Source: arXiv 2405.15362, section 3.
    """
    even = largest_stage_layers == layers / pipeline_parallel_degree
    return (np.mod(layers, 2 * pipeline_parallel_degree) == 0) & even


@quantity("boolean", constrains="pipeline_parallel_degree", **ZERO_BUBBLE_V, **LISTED)
def a_v_has_even_chunks__zero_bubble_v_of_layout(pipeline_parallel_degree):
    """The chunks of a V may have different numbers of layers if a layout lists them.

    Source: arXiv 2405.15362, section 3.
    """
    return pipeline_parallel_degree > 0


@quantity("boolean", constrains="multi_token_prediction_layers", **ZERO_BUBBLE_V)
def multi_token_prediction_follows_the_last_stage__zero_bubble_v(multi_token_prediction_layers):
    """There are no modules of multi-token prediction in the V-shaped schedule, whose first stage has the output head.

    Source: arXiv 2405.15362, section 3.
    """
    return multi_token_prediction_layers == 0


# --- the order of passes ----------------------------------------------------------------------------------------------


class _Counted:
    """A list of passes under construction. It counts the micro-batches of each kind of pass and of each chunk."""

    def __init__(self) -> None:
        self.order: Order = []
        self.count = dict.fromkeys(((kind, chunk) for kind in (FORWARD, INPUT, WEIGHT) for chunk in (0, 1)), 0)

    def take(self, *passes: tuple[str, int]) -> None:
        """Appends passes, given as pairs of a kind and a chunk: each is the next pass of its kind and chunk."""
        for kind, chunk in passes:
            self.order.append(Pass(kind, self.count[kind, chunk], chunk))
            self.count[kind, chunk] += 1


# What a stage of a V runs in turn: the forward pass of a chunk, and both gradients of a chunk.
DOWN, UP = (FORWARD, 0), (FORWARD, 1)
BACK_DOWN, BACK_UP = ((INPUT, 0), (WEIGHT, 0)), ((INPUT, 1), (WEIGHT, 1))


def order(pipe: Pipe, stage: int) -> Order:
    """The passes of a stage with two chunks. The second chunk is on the way back from the last to the first stage.

    Weight gradients fill the end of the step. The schedule needs at least 2·p − 1 micro-batches for p stages.

    Source: arXiv 2405.15362, section 3 (V-ZB); the order of torch.distributed.pipelining, ScheduleZBVZeroBubble.
    """
    counted = _Counted()
    take, count = counted.take, counted.count
    stages_from_here = pipe.stages - stage
    take(*[DOWN] * (2 * stages_from_here - 1), *[UP, DOWN] * stage, *[UP, *BACK_UP] * stages_from_here)
    while count[UP] < count[DOWN] or count[DOWN] < pipe.microbatches:
        take(*[DOWN] * (count[DOWN] < pipe.microbatches), *BACK_DOWN, UP, *BACK_UP)
    take(*[(INPUT, 0), (INPUT, 1)] * stage, *BACK_DOWN * stages_from_here)
    for chunk in (1, 0):
        take(*[(WEIGHT, chunk)] * (count[INPUT, chunk] - count[WEIGHT, chunk]))
    return counted.order


def turns(pipe: Pipe, chunk: int, stage: int) -> int:
    """The position of a chunk in the network, if the chunks form a V: from the first stage to the last, and back."""
    return stage if chunk == 0 else 2 * pipe.stages - 1 - stage
