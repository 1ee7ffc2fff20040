"""The pipeline: how long stages wait for one another, and how many micro-batches they hold meanwhile."""

import numpy as np

from amped.quantity import MAPPING, parameter, quantity, selector


@selector("1f1b", "gpipe", "zero_bubble_h1", "zero_bubble_v", category=MAPPING)
def pipeline_schedule():
    """Order of forward and backward passes; with virtual stages, 1f1b is interleaved.

    The zero-bubble schedules put off weight gradients, which no other stage waits for, to when they would be idle; that
    of the V gives each stage two chunks of layers, the second on the way back, so that the first stage has the head too.
    Source: arXiv 2104.04473, section 2.2; arXiv 2401.10241 (ZB-H1); arXiv 2405.15362 (V-ZB).
    """
    return "1f1b"


@parameter("1", category=MAPPING, at_most=1)
def exposed_bubble_fraction():
    """Share of the pipeline bubble that nothing fills, AMPeD's R. Source: AMPeD, pipeline bubbles."""
    return 1


@quantity("s")
def pipelined_work_time(
    compute_forward_time, compute_backward_time, recomputation_time, weight_update_time,
    exposed_tensor_communication_time,
):  # fmt: skip
    """Time of a stage's passes in a step, with what they wait for. Source: AMPeD, pipeline bubbles."""
    work = compute_forward_time + compute_backward_time + recomputation_time + weight_update_time
    return work + exposed_tensor_communication_time


@quantity("s", choice="performance_model", value="amped")
def pipeline_bubble_time__amped(
    exposed_bubble_fraction, pipeline_parallel_degree, number_of_microbatches_per_minibatch, virtual_pipeline_stages,
    waited_work_time,
):  # fmt: skip
    """Time that stages wait for the first and the last micro-batch.

    Source: AMPeD, pipeline bubbles; arXiv 2104.04473, section 2.2. Differs: AMPeD's code divides the compute part by layers again.
    """
    idle = (pipeline_parallel_degree - 1) / (number_of_microbatches_per_minibatch * virtual_pipeline_stages)
    return exposed_bubble_fraction * idle * waited_work_time


@quantity("s")
def waited_work_time(pipelined_work_time):
    """What a stage waits for, once for each other stage, as if for all micro-batches: all passes. Source: AMPeD, pipeline bubbles."""
    return pipelined_work_time


@quantity("s", choice="pipeline_schedule", value="zero_bubble_h1")
def waited_work_time__zero_bubble_h1(pipelined_work_time, compute_forward_time, weight_update_time):
    """What a stage waits for in ZB-H1: weight gradients fill what they can, F + B − W.

    Source: arXiv 2401.10241, table 2. Differs: where W is longer than F, it fills no more than F.
    """
    return pipelined_work_time - weight_update_time - np.minimum(weight_update_time, compute_forward_time)


@quantity("s", choice="pipeline_schedule", value="zero_bubble_v")
def waited_work_time__zero_bubble_v(pipelined_work_time, compute_forward_time, weight_update_time):
    """What a stage waits for in a V: half an input gradient, or what of one no weight gradient covers.

    Source: arXiv 2405.15362, section 3; for input gradients no shorter than the other passes.
    """
    input_gradient = pipelined_work_time - weight_update_time - compute_forward_time
    return np.maximum(input_gradient / 2, input_gradient - weight_update_time)


@quantity("count", choice="pipeline_schedule", value="1f1b")
def microbatches_in_flight__1f1b(
    pipeline_parallel_degree, number_of_microbatches_per_minibatch, virtual_pipeline_stages
):
    """Micro-batches whose activations the first stage holds at once. Source: arXiv 2205.05198, section 4.2.3."""
    held = np.minimum(pipeline_parallel_degree, number_of_microbatches_per_minibatch)
    interleaved = 1 + (pipeline_parallel_degree - 1) / (pipeline_parallel_degree * virtual_pipeline_stages)
    held = held * np.where(virtual_pipeline_stages > 1, interleaved, 1)
    return np.minimum(held, number_of_microbatches_per_minibatch)


@quantity("count", choice="pipeline_schedule", value="gpipe")
def microbatches_in_flight__gpipe(number_of_microbatches_per_minibatch):
    """Micro-batches whose activations a stage holds at once: all. Source: arXiv 1811.06965."""
    return number_of_microbatches_per_minibatch


@quantity("count", choice="pipeline_schedule", value="1f1b")
def microbatches_in_flight_behind_the_first__1f1b(
    pipeline_parallel_degree, number_of_microbatches_per_minibatch, virtual_pipeline_stages
):
    """Micro-batches whose activations the second stage holds: one fewer; with chunks, two chunks fewer.

    Source: arXiv 2104.04473, section 2.2 (interleaved warm-up).
    """
    chunked = pipeline_parallel_degree + (pipeline_parallel_degree - 3) / virtual_pipeline_stages
    held = np.where(virtual_pipeline_stages > 1, chunked, pipeline_parallel_degree - 1)
    return np.maximum(np.minimum(held, number_of_microbatches_per_minibatch), 1)


@quantity("count", choice="pipeline_schedule", value="gpipe")
def microbatches_in_flight_behind_the_first__gpipe(number_of_microbatches_per_minibatch):
    """Micro-batches whose activations a stage holds at once: all. Source: arXiv 1811.06965."""
    return number_of_microbatches_per_minibatch


@quantity("count", choice="pipeline_schedule", value="1f1b")
def microbatches_in_flight_at_the_end__1f1b(pipeline_parallel_degree, virtual_pipeline_stages):
    """Micro-batches whose activations the last stage holds: one, and a round of them in each earlier chunk.

    Source: arXiv 2104.04473, section 2.2 (interleaved warm-up).
    """
    return ((virtual_pipeline_stages - 1) * pipeline_parallel_degree + 1) / virtual_pipeline_stages


@quantity("count", choice="pipeline_schedule", value="gpipe")
def microbatches_in_flight_at_the_end__gpipe(number_of_microbatches_per_minibatch):
    """Micro-batches whose activations the last stage holds: all. Source: arXiv 1811.06965."""
    return number_of_microbatches_per_minibatch


@quantity("count", choice="pipeline_schedule", value="1f1b")
def microbatches_in_flight_at_the_head__1f1b():
    """Micro-batches whose logits are kept at once: one, whose backward pass starts there. Source: arXiv 2104.04473, section 2.2."""
    return 1


@quantity("count", choice="pipeline_schedule", value="gpipe")
def microbatches_in_flight_at_the_head__gpipe(number_of_microbatches_per_minibatch):
    """Micro-batches whose logits are kept at once: all. Source: arXiv 1811.06965."""
    return number_of_microbatches_per_minibatch


@quantity("count", choice="pipeline_schedule", value="zero_bubble_h1")
def microbatches_in_flight__zero_bubble_h1(pipeline_parallel_degree, number_of_microbatches_per_minibatch):
    """Micro-batches whose activations a stage holds until the weight gradient: as many everywhere as 1F1B on the first.

    Assumes that a weight gradient needs all that is kept. Source: arXiv 2401.10241, table 2 (p·M_B).
    """
    return np.minimum(pipeline_parallel_degree, number_of_microbatches_per_minibatch)


@quantity("count", choice="pipeline_schedule", value="zero_bubble_v")
def microbatches_in_flight__zero_bubble_v(pipeline_parallel_degree):
    """Micro-batches whose activations each stage of a V holds, 2·p halves. Source: arXiv 2405.15362, table 1 (V-ZB)."""
    return pipeline_parallel_degree


@quantity("count", choice="pipeline_schedule", value="zero_bubble_h1")
def microbatches_in_flight_behind_the_first__zero_bubble_h1(microbatches_in_flight):
    """Micro-batches whose activations the second stage holds: as many as the first. Source: arXiv 2401.10241, table 2."""
    return microbatches_in_flight


@quantity("count", choice="pipeline_schedule", value="zero_bubble_v")
def microbatches_in_flight_behind_the_first__zero_bubble_v(microbatches_in_flight):
    """Micro-batches whose activations the second stage holds: as many as the first. Source: arXiv 2405.15362, table 1."""
    return microbatches_in_flight


@quantity("count", choice="pipeline_schedule", value="zero_bubble_h1")
def microbatches_in_flight_at_the_end__zero_bubble_h1(microbatches_in_flight):
    """Micro-batches whose activations the last stage holds: as many as the first. Source: arXiv 2401.10241, table 2."""
    return microbatches_in_flight


@quantity("count", choice="pipeline_schedule", value="zero_bubble_v")
def microbatches_in_flight_at_the_end__zero_bubble_v(microbatches_in_flight):
    """Micro-batches whose activations the last stage holds: as many as the first. Source: arXiv 2405.15362, table 1."""
    return microbatches_in_flight


@quantity("count", choice="pipeline_schedule", value="zero_bubble_h1")
def microbatches_in_flight_at_the_head__zero_bubble_h1(microbatches_in_flight):
    """Micro-batches whose logits are kept at once: until the head's weight gradient, which is put off too.

    Source: arXiv 2401.10241, table 2. A framework may do the head's at once, and keeps less.
    """
    return microbatches_in_flight


@quantity("count", choice="pipeline_schedule", value="zero_bubble_v")
def microbatches_in_flight_at_the_head__zero_bubble_v():
    """Micro-batches whose logits are kept at once: one, whose gradients follow at once. Source: arXiv 2405.15362, section 3."""
    return 1
