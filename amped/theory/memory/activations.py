"""Activations that each pipeline stage keeps for its micro-batches in flight."""

import numpy as np

from amped.theory.conditions import ZERO_BUBBLE_V
from amped.theory.quantity import quantity


@quantity("byte")
def first_stage_activation_bytes(
    device_activation_bytes_per_layer,
    first_stage_layers,
    embedding_activation_bytes,
    first_stage_microbatches_in_flight,
    output_head_activation_bytes,
    output_head_microbatches_in_flight,
    pipeline_parallel_degree,
):
    """Activations that the first stage keeps: those of all micro-batches in flight, alone with the head's too.

    Source: arXiv 2205.05198, sections 4.2.3 and 4.3.
    """
    each = device_activation_bytes_per_layer * first_stage_layers + embedding_activation_bytes
    head = output_head_activation_bytes * output_head_microbatches_in_flight
    return each * first_stage_microbatches_in_flight + np.where(pipeline_parallel_degree > 1, 0 * each, head)


@quantity("byte")
def middle_stage_activation_bytes(
    device_activation_bytes_per_layer, fullest_middle_stage_layers, middle_stage_microbatches_in_flight
):
    """Activations that the fullest stage between first and last keeps. Source: arXiv 2205.05198, section 4.2.3."""
    return device_activation_bytes_per_layer * fullest_middle_stage_layers * middle_stage_microbatches_in_flight


@quantity("byte")
def last_stage_activation_bytes(
    device_activation_bytes_per_layer,
    last_stage_layers,
    last_stage_microbatches_in_flight,
    output_head_activation_bytes,
    output_head_microbatches_in_flight,
    first_stage_activation_bytes,
    pipeline_parallel_degree,
):
    """Activations that the last stage keeps, with the logits. Source: arXiv 2205.05198, sections 4.2.3 and 4.3."""
    each = device_activation_bytes_per_layer * last_stage_layers * last_stage_microbatches_in_flight
    each = each + output_head_activation_bytes * output_head_microbatches_in_flight
    return np.where(pipeline_parallel_degree > 1, each, first_stage_activation_bytes)


@quantity("byte", **ZERO_BUBBLE_V)
def first_stage_activation_bytes__zero_bubble_v(
    device_activation_bytes_per_layer,
    first_stage_layers,
    embedding_activation_bytes,
    output_head_activation_bytes,
    first_stage_microbatches_in_flight,
    output_head_microbatches_in_flight,
    number_of_microbatches_per_minibatch,
):
    """Activations that the first stage keeps: halves of its layers, the first of them for twice as many micro-batches.

    Source: arXiv 2405.15362, section 3. Either all halves held are first ones, or one has come back to the head.
    """
    halves = 2 * first_stage_microbatches_in_flight
    down = embedding_activation_bytes * np.minimum(halves, number_of_microbatches_per_minibatch)
    back = embedding_activation_bytes * (halves - 1) + output_head_activation_bytes * output_head_microbatches_in_flight
    return device_activation_bytes_per_layer * first_stage_layers * first_stage_microbatches_in_flight + np.maximum(
        down, back
    )


@quantity("byte", **ZERO_BUBBLE_V)
def last_stage_activation_bytes__zero_bubble_v(
    device_activation_bytes_per_layer, last_stage_layers, last_stage_microbatches_in_flight
):
    """Activations that the last stage keeps, where the V turns. Source: arXiv 2405.15362, section 3."""
    return device_activation_bytes_per_layer * last_stage_layers * last_stage_microbatches_in_flight
