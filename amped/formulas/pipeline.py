"""The pipeline: how long stages wait for one another, and how many micro-batches they hold meanwhile."""

import numpy as np

from amped.quantity import MAPPING, parameter, quantity, selector


@selector("1f1b", "gpipe", category=MAPPING)
def pipeline_schedule():
    """Order of forward and backward passes; with virtual stages, 1f1b is interleaved.

    Source: arXiv 2104.04473, section 2.2.
    """
    return "1f1b"


@parameter("1", category=MAPPING, at_most=1)
def exposed_bubble_fraction():
    """Share of the pipeline bubble that nothing fills, AMPeD's R. Source: AMPeD, pipeline bubbles."""
    return 1


@quantity("s", choice="performance_model", value="amped")
def pipeline_bubble_time__amped(
    exposed_bubble_fraction, pipeline_parallel_degree, number_of_microbatches_per_minibatch, virtual_pipeline_stages,
    compute_forward_time, compute_backward_time, recomputation_time, weight_update_time,
    exposed_tensor_communication_time,
):  # fmt: skip
    """Time that stages wait for the first and the last micro-batch.

    Source: AMPeD, pipeline bubbles; arXiv 2104.04473, section 2.2. Differs: AMPeD's code divides the compute part by layers again.
    """
    work = compute_forward_time + compute_backward_time + recomputation_time + weight_update_time
    work = work + exposed_tensor_communication_time
    idle = (pipeline_parallel_degree - 1) / (number_of_microbatches_per_minibatch * virtual_pipeline_stages)
    return exposed_bubble_fraction * idle * work


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
