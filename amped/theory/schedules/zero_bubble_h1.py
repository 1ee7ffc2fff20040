"""ZB-H1: 1F1B that delays weight gradients, for which no other stage waits, until a stage would be idle."""

import numpy as np

from amped.theory.language.quantity import quantity, records
from amped.theory.nouns.conditions import ZERO_BUBBLE_H1
from amped.theory.nouns.pass_records import FORWARD, INPUT, WEIGHT, Order, Pass, Pipe
from amped.theory.nouns.records import latest
from amped.theory.nouns.resources import beside
from amped.theory.nouns.stage_records import SendHold, equally_in_flight
from amped.theory.schedules.bottleneck import free_forward_time


@quantity("s", **ZERO_BUBBLE_H1)
def pipeline_idle_time__zero_bubble_h1(
    pipeline_stages,
    pass_times,
    bottleneck_stage,
    microbatches_per_flush,
    stage_send_time,
    blocking_stage_send_time,
    stage_send_holds,
    handovers_per_microbatch,
):
    """The idle time in a step of the schedule ZB-H1.

        idle = max over stages s of [before + wait + max(end, 0) + m·(work of s − work of the bottleneck stage)],
        wait = max(T − k·F, 0) + max(T − k·(B + W), 0), F and B with blocking sends,
        end = B of the i stages before s + i·send + W of the first stage − (i + 1)·W of s.

    F, B and W are the times of stage s for the forward pass, the input gradients and the weight gradients of a
    micro-batch; `work` is their sum, with its blocking sends. There are i stages before s, k stages after s, and m
    micro-batches. `before` is the forward time of a micro-batch through the stages before s with its sends. T is its
    time through the stages after s and back, without W. `end` is the time in which s waits for the first stage after
    its delayed weight gradients. If all p stages are equal and W is no longer than F, the idle time is
    (p − 1)·(F + B − W).

    Source: arXiv 2401.10241, section 2.1 and table 2.
    """
    forward, input_gradient, weight = pass_times
    m, idle_times, first = microbatches_per_flush, [], pipeline_stages[0]
    for s, held in zip(pipeline_stages, stage_send_holds, strict=True):
        forward_time, backward_time = forward.of(s) + held.time, input_gradient.of(s) + weight.of(s) + held.time
        round_trip = forward.after(s) + input_gradient.after(s) + 2 * s.stages_after * stage_send_time
        start = forward.before(s) + s.index * stage_send_time
        end = input_gradient.before(s) + s.index * stage_send_time + weight.of(first) - (s.index + 1) * weight.of(s)
        idle = (
            start + round_trip_idle_time(round_trip, s.stages_after, forward_time, backward_time) + np.maximum(end, 0)
        )
        sends = handovers_per_microbatch * (held.time - blocking_stage_send_time)
        idle_times.append(idle + m * (forward_time + backward_time - 2 * held.time + sends - bottleneck_stage[0].time))
    return latest(idle_times)


@records(**ZERO_BUBBLE_H1)
def stage_send_holds__zero_bubble_h1(
    pipeline_stages,
    stage_send_time,
    handovers_per_microbatch,
    layer_windows,
    embedding_forward_time,
    output_head_forward_time,
    overlap_pipeline_communication,
):
    """The time of a send for which each stage cannot compute; its own forward pass hides the rest.

    Source: Megatron-Core, --overlap-p2p-communication.
    """
    sends, holds = np.maximum(handovers_per_microbatch, 1), []
    for s in pipeline_stages:
        free = free_forward_time(s, layer_windows, embedding_forward_time, output_head_forward_time)
        hidden = beside(stage_send_time, free / sends, overlap_pipeline_communication)
        holds.append(SendHold(s.name, stage_send_time - hidden))
    return tuple(holds)


def round_trip_idle_time(round_trip_time, passes, forward, backward):
    """The idle time of a stage until the first gradient comes back, and after its last forward pass.

    Args:
        round_trip_time: the time of a micro-batch from this stage to the last stage and back.
        passes: the number of other passes that the stage runs in this time.
        forward: the seconds of a forward pass.
        backward: the seconds of a backward pass.
    """
    return np.maximum(round_trip_time - passes * forward, 0) + np.maximum(round_trip_time - passes * backward, 0)


@records(**ZERO_BUBBLE_H1)
def stage_microbatches_in_flight__zero_bubble_h1(pipeline_stages, pipeline_parallel_degree, microbatches_per_flush):
    """The number of micro-batches that each stage holds until their weight gradients are done.

    It is the number that the first stage of 1F1B holds. Assumes that a weight gradient needs everything that is kept,
    also in the output head. A framework that computes the weight gradient of the output head at once keeps less.

    Source: arXiv 2401.10241, table 2 (p·M_B).
    """
    held = np.minimum(pipeline_parallel_degree, microbatches_per_flush)
    return equally_in_flight(pipeline_stages, held, held)


@quantity("boolean", constrains="virtual_pipeline_stages", **ZERO_BUBBLE_H1)
def only_1f1b_interleaves__zero_bubble_h1(virtual_pipeline_stages):
    """Only the schedule 1f1b has virtual stages; zero_bubble_h1 has one chunk of layers on each stage.

    Source: arXiv 2401.10241, section 2.1.
    """
    return virtual_pipeline_stages == 1


@quantity("boolean", constrains="pipeline_parallel_degree", **ZERO_BUBBLE_H1)
def zero_bubble_needs_stages__zero_bubble_h1(pipeline_parallel_degree):
    """The schedule has several pipeline stages, because a single stage has no bubble.

    Source: arXiv 2401.10241, section 2.1.
    """
    return pipeline_parallel_degree > 1


@quantity("boolean", constrains="microbatch_size", **ZERO_BUBBLE_H1)
def zero_bubble_needs_microbatches__zero_bubble_h1(microbatch_size, microbatches_per_flush, pipeline_parallel_degree):
    """The number of micro-batches is at least the number of pipeline stages. Source: arXiv 2401.10241, section 2.1."""
    return microbatch_size * (microbatches_per_flush - pipeline_parallel_degree) >= 0


# --- the order of passes ----------------------------------------------------------------------------------------------


def order(pipe: Pipe, stage: int) -> Order:
    """The passes of a stage: forward and backward passes in turn, with some weight gradients delayed.

    A stage delays the weight gradients of as many micro-batches as there are stages before it. They run at the end of
    the step.

    Source: arXiv 2401.10241, section 2.1 (ZB-H1).
    """
    warmup_passes = min(pipe.stages - stage - 1, pipe.microbatches)
    stage_passes = [Pass(FORWARD, m, 0) for m in range(warmup_passes)]
    for m in range(pipe.microbatches):
        stage_passes += [Pass(FORWARD, warmup_passes + m, 0)] if warmup_passes + m < pipe.microbatches else []
        stage_passes += [Pass(INPUT, m, 0)]
        stage_passes += [Pass(WEIGHT, m - stage, 0)] if m >= stage else []
    return stage_passes + [Pass(WEIGHT, m, 0) for m in range(max(pipe.microbatches - stage, 0), pipe.microbatches)]
