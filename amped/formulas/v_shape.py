"""Stages in the form of a V: chunks of layers lie down to the last stage and back, so the first has embedding and head.

What the V changes of the placement of parameters, pace and memory; every chunk has as many layers.
"""

import numpy as np

from amped.quantity import quantity

V = {"choice": "pipeline_schedule", "value": "zero_bubble_v"}


@quantity("count", **V)
def chunks_per_stage__zero_bubble_v():
    """Chunks of layers of a stage: one down, and one back. Source: arXiv 2405.15362, section 3."""
    return 2


@quantity("s", **V)
def pipeline_communication_time__zero_bubble_v(
    boundary_time, number_of_microbatches_per_minibatch, pipeline_parallel_degree
):
    """Time that the first stage sends: each micro-batch forward from one chunk and backward from the other.

    Source: arXiv 2405.15362, section 3.
    """
    return 2 * number_of_microbatches_per_minibatch * boundary_time * (pipeline_parallel_degree > 1)


@quantity("count", **V)
def first_stage_parameters__zero_bubble_v(
    first_stage_layers, shared_parameters_per_layer, embedding_parameters, head_parameters
):
    """Parameters of the first stage without the routed experts: with embedding and head, tied ones once.

    Source: arXiv 2405.15362, section 3.
    """
    return first_stage_layers * shared_parameters_per_layer + embedding_parameters + head_parameters


@quantity("count", **V)
def last_stage_parameters__zero_bubble_v(last_stage_layers, shared_parameters_per_layer):
    """Parameters of the last stage, where the V turns, without the routed experts. Source: arXiv 2405.15362, section 3."""
    return last_stage_layers * shared_parameters_per_layer


@quantity("boolean", **V)
def first_stage_paces__zero_bubble_v(pipeline_parallel_degree):
    """Whether the first stage takes longest: with as many layers as others and both ends, always. Source: definition."""
    return 0 * pipeline_parallel_degree + 1


@quantity("boolean", **V)
def last_stage_paces__zero_bubble_v(first_stage_paces):
    """Whether the stage with the output head takes longest: it is the first. Source: arXiv 2405.15362, section 3."""
    return first_stage_paces


@quantity("byte", **V)
def first_stage_activation_bytes__zero_bubble_v(
    device_activation_bytes_per_layer, first_stage_layers, embedding_activation_bytes, head_activation_bytes,
    microbatches_in_flight, microbatches_in_flight_at_the_head, number_of_microbatches_per_minibatch,
):  # fmt: skip
    """Activations that the first stage keeps: halves of its layers, the first of them for twice as many micro-batches.

    Source: arXiv 2405.15362, section 3. Either all halves held are first ones, or one has come back to the head.
    """
    halves = 2 * microbatches_in_flight
    down = embedding_activation_bytes * np.minimum(halves, number_of_microbatches_per_minibatch)
    back = embedding_activation_bytes * (halves - 1) + head_activation_bytes * microbatches_in_flight_at_the_head
    return device_activation_bytes_per_layer * first_stage_layers * microbatches_in_flight + np.maximum(down, back)


@quantity("byte", **V)
def last_stage_activation_bytes__zero_bubble_v(
    device_activation_bytes_per_layer, last_stage_layers, microbatches_in_flight_at_the_end
):
    """Activations that the last stage keeps, where the V turns. Source: arXiv 2405.15362, section 3."""
    return device_activation_bytes_per_layer * last_stage_layers * microbatches_in_flight_at_the_end


@quantity("boolean", **V)
def last_stage_is_fullest__zero_bubble_v(pipeline_parallel_degree):
    """Whether the last stage needs most memory: no, the first has both ends. Source: definition."""
    return 0 * pipeline_parallel_degree


@quantity("boolean", **V)
def middle_stage_is_fullest__zero_bubble_v(pipeline_parallel_degree):
    """Whether a stage between needs most memory: no, the first has both ends. Source: definition."""
    return 0 * pipeline_parallel_degree


@quantity("byte", **V)
def temporary_bytes__zero_bubble_v(layer_working_bytes, weight_buffer_bytes, logits_gradient_bytes):
    """Working memory of the fullest stage, the first, with the logits' gradient. Source: arXiv 2205.05198, sections 4.3 and 5."""
    return layer_working_bytes + weight_buffer_bytes + logits_gradient_bytes


@quantity("1", **V)
def first_stage_largest_microbatch__zero_bubble_v(
    available_memory_bytes, first_stage_state_bytes, first_stage_activation_bytes, layer_working_bytes,
    weight_buffer_bytes, logits_gradient_bytes, microbatch_size,
):  # fmt: skip
    """Sequences of a micro-batch for which the first stage, with the head, has room, not rounded. Source: definition."""
    sequence = (first_stage_activation_bytes + layer_working_bytes + logits_gradient_bytes) / microbatch_size
    return (available_memory_bytes - first_stage_state_bytes - weight_buffer_bytes) / sequence


@quantity("1", **V)
def last_stage_largest_microbatch__zero_bubble_v(
    available_memory_bytes, last_stage_state_bytes, last_stage_activation_bytes, layer_working_bytes,
    weight_buffer_bytes, microbatch_size,
):  # fmt: skip
    """Sequences of a micro-batch for which the last stage, where the V turns, has room, not rounded. Source: definition."""
    sequence = (last_stage_activation_bytes + layer_working_bytes) / microbatch_size
    return (available_memory_bytes - last_stage_state_bytes - weight_buffer_bytes) / sequence
