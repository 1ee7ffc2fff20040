"""How large a micro-batch may be: what each stage has left beside its states, by what a sequence takes there."""

import numpy as np

from amped.theory.conditions import ZERO_BUBBLE_V
from amped.theory.quantity import quantity


@quantity("1")
def first_stage_largest_microbatch(
    available_memory_bytes,
    first_stage_state_bytes,
    first_stage_activation_bytes,
    layer_working_bytes,
    weight_buffer_bytes,
    logits_gradient_bytes,
    pipeline_parallel_degree,
    microbatch_size,
):
    """Sequences of a micro-batch for which the first stage has room, not rounded. Source: definition."""
    alone = logits_gradient_bytes * (pipeline_parallel_degree == 1)
    sequence = (first_stage_activation_bytes + layer_working_bytes + alone) / microbatch_size
    return (available_memory_bytes - first_stage_state_bytes - weight_buffer_bytes) / sequence


@quantity("1")
def middle_stage_largest_microbatch(
    available_memory_bytes,
    middle_stage_state_bytes,
    middle_stage_activation_bytes,
    layer_working_bytes,
    weight_buffer_bytes,
    microbatch_size,
):
    """Sequences of a micro-batch for which a stage between first and last has room, not rounded. Source: definition."""
    sequence = (middle_stage_activation_bytes + layer_working_bytes) / microbatch_size
    return (available_memory_bytes - middle_stage_state_bytes - weight_buffer_bytes) / sequence


@quantity("1")
def last_stage_largest_microbatch(
    available_memory_bytes,
    last_stage_state_bytes,
    last_stage_activation_bytes,
    layer_working_bytes,
    weight_buffer_bytes,
    logits_gradient_bytes,
    microbatch_size,
):
    """Sequences of a micro-batch for which the last stage has room, not rounded. Source: definition."""
    sequence = (last_stage_activation_bytes + layer_working_bytes + logits_gradient_bytes) / microbatch_size
    return (available_memory_bytes - last_stage_state_bytes - weight_buffer_bytes) / sequence


@quantity("count")
def largest_microbatch_size(
    first_stage_largest_microbatch, middle_stage_largest_microbatch, last_stage_largest_microbatch, minibatch_size
):
    """Largest micro-batch that fits, with as many in flight as now; 0: not even one sequence. Source: definition."""
    least = np.minimum(first_stage_largest_microbatch, middle_stage_largest_microbatch)
    least = np.floor(np.minimum(least, last_stage_largest_microbatch))
    return np.maximum(np.minimum(least, minibatch_size), 0)


@quantity("1", **ZERO_BUBBLE_V)
def first_stage_largest_microbatch__zero_bubble_v(
    available_memory_bytes,
    first_stage_state_bytes,
    first_stage_activation_bytes,
    layer_working_bytes,
    weight_buffer_bytes,
    logits_gradient_bytes,
    microbatch_size,
):
    """Sequences of a micro-batch for which the first stage, with the head, has room, not rounded. Source: definition."""
    sequence = (first_stage_activation_bytes + layer_working_bytes + logits_gradient_bytes) / microbatch_size
    return (available_memory_bytes - first_stage_state_bytes - weight_buffer_bytes) / sequence


@quantity("1", **ZERO_BUBBLE_V)
def last_stage_largest_microbatch__zero_bubble_v(
    available_memory_bytes,
    last_stage_state_bytes,
    last_stage_activation_bytes,
    layer_working_bytes,
    weight_buffer_bytes,
    microbatch_size,
):
    """Sequences of a micro-batch for which the last stage, where the V turns, has room, not rounded. Source: definition."""
    sequence = (last_stage_activation_bytes + layer_working_bytes) / microbatch_size
    return (available_memory_bytes - last_stage_state_bytes - weight_buffer_bytes) / sequence
