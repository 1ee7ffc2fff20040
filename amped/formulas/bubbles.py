"""The pipeline bubble: how much longer a step takes than the pacing stage works.

Each stage is asked when it would be done if it set the pace: the first micro-batch reaches it, it does all its work, waits for
what comes back from the stages behind it, and its last gradients reach the first stage. The latest of these times counts.
An event-driven twin (`amped/timeline.py`) executes the same schedules; a test holds these formulas against it.
"""

import numpy as np

from amped.quantity import quantity, records
from amped.records import latest, total
from amped.stage_records import PassTimes


@quantity("s")
def forward_pass_time_per_layer(
    forward_time_per_layer, tensor_forward_communication_time_per_layer, exposed_context_communication_time_per_layer,
    exposed_expert_communication_time_per_layer, communicating_passes,
):  # fmt: skip
    """Time of a micro-batch's forward pass through a layer, with its share of what it waits for. Source: definition."""
    exchanged = exposed_context_communication_time_per_layer + exposed_expert_communication_time_per_layer
    return forward_time_per_layer + tensor_forward_communication_time_per_layer + exchanged / communicating_passes


@records()
def pass_times(
    forward_pass_time_per_layer, layer_time, weight_gradient_time_per_layer, embedding_forward_time,
    embedding_backward_time, end_communication_time, head_forward_time, head_input_gradient_time,
    head_weight_gradient_time, multi_token_prediction_layers,
):  # fmt: skip
    """Times of a micro-batch's passes: forward, input gradients with what is computed again, weight gradients.

    Source: arXiv 2401.10241, section 1 (B and W).
    """
    none, more = 0 * embedding_forward_time, multi_token_prediction_layers
    input_gradient = layer_time - forward_pass_time_per_layer - weight_gradient_time_per_layer
    back = head_input_gradient_time + end_communication_time
    there = embedding_forward_time + end_communication_time
    return (
        PassTimes("forward", forward_pass_time_per_layer, there, head_forward_time + more * forward_pass_time_per_layer),
        PassTimes("input_gradient", input_gradient, embedding_backward_time, back + more * input_gradient),
        PassTimes("weight_gradient", weight_gradient_time_per_layer, none,
                  head_weight_gradient_time + more * weight_gradient_time_per_layer),
    )  # fmt: skip


@records()
def whole_pass_times(pass_times, layer_time, embedding_time, head_time):
    """Times of a micro-batch forward, and in all passes. Source: definition."""
    return (pass_times[0], PassTimes("all", layer_time, embedding_time, head_time))


@quantity("s")
def pacing_stage_time(layer_time, pacing_stage_layers, embedding_time, head_time, first_stage_paces, last_stage_paces):
    """Time of a micro-batch on the stage that paces the pipeline, all passes. Source: definition."""
    return pacing_stage_layers * layer_time + first_stage_paces * embedding_time + last_stage_paces * head_time


@quantity("s")
def held_boundary_time(boundary_time, overlap_pipeline_communication):
    """Time that a hand-over keeps a stage from computing. Source: Megatron-Core, --overlap-p2p-communication."""
    return boundary_time * (1 - overlap_pipeline_communication)


def waits(behind, passes, forward, backward):
    """Idle time until the first gradient comes back, and behind the last forward pass, of a stage with work meanwhile.

    `behind` is what a micro-batch takes on the way to the last stage and back, and `passes` are done meanwhile.
    """
    return np.maximum(behind - passes * forward, 0) + np.maximum(behind - passes * backward, 0)


@quantity("s", choice="pipeline_schedule", value="gpipe")
def pipeline_waiting_time__gpipe(
    pipeline_stages, pass_times, pacing_stage_time, number_of_microbatches_per_minibatch, boundary_time,
    pipeline_parallel_degree,
):  # fmt: skip
    """Waiting in a step of GPipe: all go forward at the pace of the slowest stage, and back at that of the slowest there.

    Source: arXiv 1811.06965, section 2.3.
    """
    forward, back, weight = pass_times
    others, last = number_of_microbatches_per_minibatch - 1, pipeline_stages[-1]
    slowest = latest([forward.of(s) for s in pipeline_stages])
    slowest = slowest + latest([back.of(s) + weight.of(s) for s in pipeline_stages])
    once = total(p.before(last) + p.of(last) for p in pass_times)
    ramps = 2 * (pipeline_parallel_degree - 1) * boundary_time
    return once + ramps + others * slowest - number_of_microbatches_per_minibatch * pacing_stage_time


@quantity("s", choice="pipeline_schedule", value="1f1b")
def pipeline_waiting_time__1f1b(plain_waiting_time):
    """Waiting in a step of one forward, one backward. Source: arXiv 2104.04473, section 2.2.1."""
    return plain_waiting_time


@quantity("s", choice="pipeline_schedule", value="1f1b", when_given=("virtual_pipeline_stages",))
def pipeline_waiting_time__1f1b_in_chunks(plain_waiting_time, interleaved_waiting_time, virtual_pipeline_stages):
    """Waiting in a step of one forward, one backward: with chunks of layers, interleaved. Source: arXiv 2104.04473, section 2.2."""
    return np.where(virtual_pipeline_stages > 1, interleaved_waiting_time, plain_waiting_time)


@quantity("s")
def plain_waiting_time(
    pipeline_stages, whole_pass_times, pacing_stage_time, number_of_microbatches_per_minibatch, boundary_time,
    held_boundary_time,
):  # fmt: skip
    """Waiting in a step of one forward, one backward: (p−1) stages' work where they are equal.

    Sends that overlap still lengthen the round trip of the micro-batches, one for each stage, that are under way.
    Source: arXiv 2104.04473, section 2.2.
    """
    forward, whole = whole_pass_times
    (first, *between, last), m, trips = pipeline_stages, number_of_microbatches_per_minibatch, 2 * boundary_time
    ramps, one_end = last.place * trips, last.layers * whole.layer + whole.head
    work, there = first.layers * whole.layer + whole.embedding, first.layers * forward.layer + forward.embedding
    behind = first.behind * whole.layer + whole.head + ramps
    start = turned(work, there + held_boundary_time, behind, first.after, m, held_boundary_time)
    found = [
        last.before * whole.layer + whole.embedding + ramps + m * (one_end - pacing_stage_time),
        start + m * (work - pacing_stage_time),
    ]
    rounds = (work + behind) / (last.place + 1) - work - 2 * held_boundary_time
    found.append(found[1] + np.maximum(m - 1 - last.place, 0) * np.maximum(rounds, 0))
    for s in between:
        work, there = whole.of(s), forward.of(s) + held_boundary_time
        idle = turned(work, there, whole.behind(s) + s.after * trips, s.after, m, held_boundary_time)
        found.append(whole.before(s) + s.place * trips + idle + m * (work - pacing_stage_time))
    return latest(found)


def turned(work, there, behind, others, m, held):
    """Idle time of a stage until the first gradient comes back, and behind its last forward pass: one of both if few go.

    `there` is a forward pass with a hand-over, `behind` the way to the last stage and back, and `others` lie on it.
    """
    meanwhile, again = np.minimum(others, m - 1), work - there + 2 * held
    one, other = np.maximum(behind - meanwhile * there, 0), np.maximum(behind - meanwhile * again, 0)
    return np.maximum(one, other) + (m > others) * np.minimum(one, other)


@quantity("s", choice="pipeline_schedule", value="zero_bubble_h1")
def pipeline_waiting_time__zero_bubble_h1(
    pipeline_stages, pass_times, pacing_stage_time, number_of_microbatches_per_minibatch, boundary_time,
    held_boundary_time,
):  # fmt: skip
    """Waiting in a step of ZB-H1: (p−1)·(F + B − W) for equal stages whose W is no longer than F.

    Weight gradients wait for no other stage: they fill the end. Source: arXiv 2401.10241, section 2.2 and table 2.
    """
    forward, back, weight = pass_times
    m, found, first = number_of_microbatches_per_minibatch, [], pipeline_stages[0]
    for s in pipeline_stages:
        there, again = forward.of(s) + held_boundary_time, back.of(s) + weight.of(s) + held_boundary_time
        behind = forward.behind(s) + back.behind(s) + 2 * s.after * boundary_time
        start = forward.before(s) + s.place * boundary_time
        end = back.before(s) + s.place * boundary_time + weight.of(first) - (s.place + 1) * weight.of(s)
        idle = start + waits(behind, s.after, there, again) + np.maximum(end, 0)
        found.append(idle + m * (there + again - 2 * held_boundary_time - pacing_stage_time))
    return latest(found)


@quantity("s", choice="pipeline_schedule", value="zero_bubble_v")
def pipeline_waiting_time__zero_bubble_v(
    pipeline_stages, pass_times, pacing_stage_time, number_of_microbatches_per_minibatch, boundary_time,
    held_boundary_time, pipeline_parallel_degree,
):  # fmt: skip
    """Waiting in a step of a V of chunks: little where F = B = W; the first stage, with both ends, may hide that of the others.

    Stages between hand over twice as often as the ends. Fitted to the event-driven twin, and exact there for equal stages with W and F no longer than B.
    Source: arXiv 2405.15362, section 3 (V-ZB).
    """
    p, s = pipeline_parallel_degree, pipeline_stages[0]
    f, b, w = (t.layer * s.layers / 2 for t in pass_times)
    more = pacing_stage_time - 2 * (f + b + w)
    alike = np.maximum((p - 1) * np.maximum(b, 2 * b - 2 * w), f + (p - 2) * np.maximum(2 * f - b, w))
    ahead = np.maximum(np.maximum((p - 2) * w, (p - 1) * (b - w) - w), 0)
    sent = 2 * number_of_microbatches_per_minibatch * held_boundary_time * (p > 2)
    others = alike + sent - (number_of_microbatches_per_minibatch - (p - 1)) * more
    return np.maximum(others, ahead) + 2 * (p - 1) * boundary_time


@quantity("s", choice="performance_model", value="operators")
def pipeline_bubble_time__operators(pipeline_waiting_time, exposed_bubble_fraction, pipeline_parallel_degree):
    """Time that the pacing stage waits in a step for others, if there are. Source: AMPeD, pipeline bubbles (R)."""
    return exposed_bubble_fraction * pipeline_waiting_time * (pipeline_parallel_degree > 1)
