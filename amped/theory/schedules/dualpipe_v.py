"""DualPipeV: stages in the form of a V that run a forward pass together with the backward pass of another micro-batch.

It is DualPipe cut in half: each stage of DualPipe has a twin with the same two chunks of layers, and the two halves of
the pipeline do the same with different micro-batches. So DualPipe on 2·p ranks is DualPipeV on p stages, with twice as
many replicas. The pairs of passes hide the exchanges of tokens between experts.
"""

import numpy as np

from amped.theory.language.quantity import quantity, records
from amped.theory.nouns.conditions import DUALPIPE_V, LISTED
from amped.theory.nouns.pass_records import BACKWARD, FORWARD, INPUT, WEIGHT, Order, Pass, Pipe
from amped.theory.nouns.records import latest, total
from amped.theory.nouns.resources import beside
from amped.theory.nouns.stage_records import InFlight


@quantity("s", **DUALPIPE_V)
def pipeline_idle_time__dualpipe_v(
    pipeline_stages,
    pass_times,
    bottleneck_stage,
    pair_wait_time,
    overlapped_stage_send_time,
    blocking_stage_send_time,
    pipeline_parallel_degree,
):
    """The idle time in a step of DualPipeV, in which each stage has two chunks of layers, placed like a V.

        idle = max(I − (p − 1)·max(b − f, 0) − (2·p − 1)·e + e_b + waits + (6·p − 8)·s + (6·p − 11)·h,
                   I − f − (2·p − 2)·(e − e_f) − e_f − h_w + waits + (8·p − 10)·s + (7·p − 12)·h,
                   (p − 1)·(b − w − e_f) + (7·p − 10)·s + (7·p − 12)·h,  2·(p − 1)·(s + h)),
        I = (p − 1)·(F&B + B − 3·w),  F&B = f + b + w,  B = b + w.

    There are p stages. f, b and w are the times of a chunk for the forward pass, the input gradients and the weight
    gradients. e is the time by which the first stage works longer, because it has the embedding (e_f forward, e_b
    backward) and the output head (h_w of weight gradients). s is the time of a send beside computation, h its time
    that holds the stage, and `waits` what grows with the number of micro-batches (`pair_wait_time`). The last stage
    does not join its first pair, which saves f at most. The equation is fitted to the simulation in `timeline.py`;
    without sends it is exact for equal stages with w and f no longer than b.

    Source: deepseek-ai/DualPipe, README (bubble); arXiv 2412.19437, table 2. Differs: what the last stage saves.
    """
    p, (forward, backward, weight) = pipeline_parallel_degree, pass_times
    f, b, w = (t.of_layers(pipeline_stages[0].kinds) / 2 for t in pass_times)
    ends, published = bottleneck_stage[0].time - 2 * (f + b + w), (p - 1) * (f + 2 * b - w)
    joined = published - (p - 1) * np.maximum(b - f, 0) - (2 * p - 1) * ends + backward.embedding + pair_wait_time
    joined_sends = (6 * p - 8) * overlapped_stage_send_time + (6 * p - 11) * blocking_stage_send_time
    late = (2 * p - 2) * (ends - forward.embedding) + forward.embedding + weight.output_head
    single = published - f - late + pair_wait_time
    single_sends = (8 * p - 10) * overlapped_stage_send_time + (7 * p - 12) * blocking_stage_send_time
    least = (p - 1) * (b - w - forward.embedding)
    least_sends = (7 * p - 10) * overlapped_stage_send_time + (7 * p - 12) * blocking_stage_send_time
    idle_times = joined + joined_sends, single + single_sends, least + least_sends
    return np.maximum(latest(idle_times), 2 * (p - 1) * (overlapped_stage_send_time + blocking_stage_send_time))


@quantity("s", **DUALPIPE_V)
def pair_wait_time(
    pipeline_stages,
    pass_times,
    bottleneck_stage,
    microbatches_per_flush,
    overlapped_stage_send_time,
    blocking_stage_send_time,
    pipeline_parallel_degree,
):
    """The time in a step for which pairs of passes wait for sends, with more than 2·p micro-batches.

        (m − 2·p) · max((2 − 2 / p)·overlapped send + 2·blocking send, if p > 2, − (1 − 1 / p)·e, 0)

    There are p stages and m micro-batches; e is the time by which the first stage works longer than the others. A pair
    waits for the inputs of both passes. The chain of pairs that wait for one another goes from the first stage to the
    last and back; in p micro-batches it waits for 2·p − 2 sends. The stages between the first and the last send twice
    as often as these two. If the first stage works longer by more than that, the pairs wait for it alone.

    Source: definition; the simulation in `timeline.py`.
    """
    p = pipeline_parallel_degree
    ends = bottleneck_stage[0].time - total(t.of_layers(pipeline_stages[0].kinds) for t in pass_times)
    sends = (2 - 2 / p) * overlapped_stage_send_time + 2 * (p > 2) * blocking_stage_send_time
    return (microbatches_per_flush - 2 * p) * np.maximum(sends - (1 - 1 / p) * ends, 0)


@quantity("count", **DUALPIPE_V)
def handovers_per_microbatch__dualpipe_v(pipeline_parallel_degree):
    """The number of sends of the first stage for a micro-batch: one forward from its first chunk, one backward.

    Source: deepseek-ai/DualPipe, dualpipev.py.
    """
    return 2 * (pipeline_parallel_degree > 1)


@quantity("s", **DUALPIPE_V)
def overlapped_stage_send_time__dualpipe_v(
    stage_send_time, pipeline_parallel_degree, free_stage_forward_time, overlap_pipeline_communication
):
    """The part of the time of a send that runs beside computation.

    The stages between the first and the last send twice as often as these two.

    Source: arXiv 2412.19437, section 3.2.1.
    """
    window = free_stage_forward_time / (2 + 2 * (pipeline_parallel_degree > 2))
    return beside(stage_send_time, window, overlap_pipeline_communication)


@records(**DUALPIPE_V)
def stage_microbatches_in_flight__dualpipe_v(pipeline_stages, pipeline_parallel_degree):
    """The number of micro-batches whose activations each stage holds: 2·p + 1 chunks, each of which is half of a stage.

    The first stage holds up to 2·p of them in its first chunk, beside one in its last chunk.

    Source: arXiv 2412.19437, table 2 (PP + 1, for 2·p ranks).
    """
    p = pipeline_parallel_degree
    return tuple(
        InFlight(s.name, layers=p + 0.5, embedding=2.0 * p, embedding_beside_head=2.0 * p, output_head=1.0)
        for s in pipeline_stages
    )


# --- rules -----------------------------------------------------------------------------------------------------------


@quantity("boolean", constrains="virtual_pipeline_stages", **DUALPIPE_V)
def only_1f1b_interleaves__dualpipe_v(virtual_pipeline_stages):
    """Only the schedule 1f1b has virtual stages; dualpipe_v always has two chunks on each stage.

    Source: deepseek-ai/DualPipe, dualpipev.py.
    """
    return virtual_pipeline_stages == 1


@quantity("boolean", constrains="pipeline_parallel_degree", **DUALPIPE_V)
def dualpipe_needs_stages__dualpipe_v(pipeline_parallel_degree):
    """The schedule has several pipeline stages, because a single stage has no bubble.

    Source: arXiv 2412.19437, section 3.2.1.
    """
    return pipeline_parallel_degree > 1


@quantity("boolean", constrains="microbatch_size", **DUALPIPE_V)
def dualpipe_needs_microbatches__dualpipe_v(microbatch_size, microbatches_per_flush, pipeline_parallel_degree):
    """There are at least 2·p micro-batches for p stages: one for each chunk.

    Source: torch.distributed.pipelining, ScheduleDualPipeV.
    """
    return microbatch_size * (microbatches_per_flush - 2 * pipeline_parallel_degree) >= 0


@quantity("boolean", constrains="pipeline_parallel_degree", **DUALPIPE_V)
def a_v_has_even_chunks__dualpipe_v(layers, pipeline_parallel_degree, largest_stage_layers):
    """Each of the two chunks of each stage has as many layers as every other chunk, unless a layout lists them.

    Source: deepseek-ai/DualPipe, dualpipev.py.
    """
    even = largest_stage_layers == layers / pipeline_parallel_degree
    return (np.mod(layers, 2 * pipeline_parallel_degree) == 0) & even


@quantity("boolean", constrains="pipeline_parallel_degree", **DUALPIPE_V, **LISTED)
def a_v_has_even_chunks__dualpipe_v_of_layout(pipeline_parallel_degree):
    """The chunks of a V may have different numbers of layers if a layout lists them.

    Source: deepseek-ai/DualPipe, dualpipev.py.
    """
    return pipeline_parallel_degree > 0


# --- the order of passes ----------------------------------------------------------------------------------------------


class _Counted:
    """A list of passes under construction. It counts the micro-batches, and remembers delayed weight gradients."""

    def __init__(self) -> None:
        self.order: Order = []
        self.count = dict.fromkeys(((direction, chunk) for direction in (FORWARD, BACKWARD) for chunk in (0, 1)), 0)
        self.delayed: list[Pass] = []

    def take(self, kind: str, chunk: int, joined: bool = False) -> None:
        """Appends the next pass of a kind and a chunk."""
        direction = FORWARD if kind == FORWARD else BACKWARD
        one_pass = Pass(kind, self.count[direction, chunk], chunk, joined)
        self.count[direction, chunk] += 1
        self.order.append(one_pass)
        if kind == INPUT:
            self.delayed.append(one_pass._replace(kind=WEIGHT))

    def take_pair(self, chunk: int, joined: bool = True) -> None:
        """Appends a forward pass of a chunk, joined with a backward pass of the other chunk."""
        self.take(FORWARD, chunk, joined)
        self.take(BACKWARD, 1 - chunk)

    def take_weight_gradient(self) -> None:
        """Appends the weight gradients that have been delayed longest."""
        self.order.append(self.delayed.pop(0))


def order(pipe: Pipe, stage: int) -> Order:
    """The passes of a stage: forward passes, then pairs of a forward and a backward pass, then backward passes.

    Weight gradients fill times in which a stage would be idle. The schedule needs at least 2·p micro-batches for p
    stages.

    Source: deepseek-ai/DualPipe, dualpipe.py (steps 1 to 8); torch.distributed.pipelining, ScheduleDualPipeV.
    """
    counted, later, last = _Counted(), pipe.stages - stage - 1, pipe.stages - 1
    for chunk in [0] * 2 * later + [0, 1] * (stage + 1):
        counted.take(FORWARD, chunk)
    for _ in range(later):
        counted.take(INPUT, 1)
        counted.take_weight_gradient()
        counted.take(FORWARD, 1)
    for turn in range(pipe.microbatches - 2 * pipe.stages + stage + 1):
        counted.take_pair(0, joined=turn > 0 or stage < last)
        counted.take_pair(1)
    for _ in range(later):
        counted.take(BACKWARD, 1)
        counted.take_pair(1)
    _drain(counted, stage, later)
    return counted.order


def _drain(counted: _Counted, stage: int, later: int) -> None:
    """Appends the last backward passes of a stage; the second half of them delays its weight gradients.

    Args:
        counted: the passes before.
        stage: the index of the stage.
        later: the number of stages after it.
    """
    for number in range(2 * (stage + 1)):
        counted.take(INPUT if number > stage else BACKWARD, 1 - number % 2)
    for _ in range(later):
        counted.take_weight_gradient()
        counted.take(INPUT, 0)
    for _ in range(stage + 1):
        counted.take_weight_gradient()
