"""The stage that needs most memory, what an accelerator of it holds, and whether that fits."""

import numpy as np

from amped.theory.conditions import ZERO_BUBBLE_V
from amped.theory.quantity import quantity


@quantity("boolean")
def last_stage_is_fullest(
    first_stage_state_bytes,
    middle_stage_state_bytes,
    last_stage_state_bytes,
    first_stage_activation_bytes,
    middle_stage_activation_bytes,
    last_stage_activation_bytes,
    logits_gradient_bytes,
):
    """Whether the last stage, with head and logits, needs most memory; so where it is the only one.

    Source: arXiv 2205.05198, section 4.3.
    """
    first = first_stage_state_bytes + first_stage_activation_bytes
    middle = middle_stage_state_bytes + middle_stage_activation_bytes
    last = last_stage_state_bytes + last_stage_activation_bytes + logits_gradient_bytes
    return last >= np.maximum(first, middle)


@quantity("boolean")
def middle_stage_is_fullest(
    first_stage_state_bytes,
    middle_stage_state_bytes,
    first_stage_activation_bytes,
    middle_stage_activation_bytes,
    last_stage_is_fullest,
):
    """Whether a stage between first and last needs most memory. Source: arXiv 2205.05198, section 4.2.3."""
    first = first_stage_state_bytes + first_stage_activation_bytes
    return (middle_stage_state_bytes + middle_stage_activation_bytes > first) & (last_stage_is_fullest == 0)


def of_fullest(is_middle, is_last, first, middle, last):
    """The value of the stage that needs most memory. Source: definition."""
    return np.where(is_last > 0, last, np.where(is_middle > 0, middle, first))


@quantity("count")
def fullest_stage_parameters(
    first_stage_parameters,
    middle_stage_parameters,
    last_stage_parameters,
    middle_stage_is_fullest,
    last_stage_is_fullest,
    weight_split_degree,
):
    """Parameters of the fullest accelerator without the routed experts, unsharded by ZeRO. Source: definition."""
    stages = (first_stage_parameters, middle_stage_parameters, last_stage_parameters)
    return of_fullest(middle_stage_is_fullest, last_stage_is_fullest, *stages) / weight_split_degree


@quantity("count")
def fullest_stage_expert_parameters(
    first_stage_layers,
    fullest_middle_stage_layers,
    last_stage_layers,
    middle_stage_is_fullest,
    last_stage_is_fullest,
    expert_parameters_per_layer,
    expert_split_degree,
    multi_token_prediction_expert_parameters_per_accelerator,
):
    """Parameters of the routed experts of the fullest accelerator, unsharded by ZeRO. Source: definition."""
    stages = (first_stage_layers, fullest_middle_stage_layers, last_stage_layers)
    held = of_fullest(middle_stage_is_fullest, last_stage_is_fullest, *stages)
    further = multi_token_prediction_expert_parameters_per_accelerator * last_stage_is_fullest
    return held * expert_parameters_per_layer / expert_split_degree + further


@quantity("byte")
def weight_bytes(
    fullest_stage_parameters,
    fullest_stage_expert_parameters,
    weight_precision,
    weight_shards,
    expert_weight_shards,
    weight_offload,
):
    """Memory of the weights; ZeRO shares them out from stage 3.

    Source: arXiv 1910.02054, section 5. Differs: AMPeD shares out always.
    """
    shared = fullest_stage_parameters / weight_shards
    return (shared + fullest_stage_expert_parameters / expert_weight_shards) * weight_precision * (1 - weight_offload)


@quantity("byte")
def gradient_bytes(
    fullest_stage_parameters,
    fullest_stage_expert_parameters,
    gradient_precision,
    gradient_shards,
    expert_gradient_shards,
    gradient_offload,
):
    """Memory of the gradients; ZeRO shares them out from stage 2.

    Source: arXiv 1910.02054, section 5. Differs: AMPeD shares out always.
    """
    shared = fullest_stage_parameters / gradient_shards
    return (
        (shared + fullest_stage_expert_parameters / expert_gradient_shards)
        * gradient_precision
        * (1 - gradient_offload)
    )


@quantity("byte")
def optimizer_state_bytes(
    fullest_stage_parameters,
    fullest_stage_expert_parameters,
    optimizer_states_per_parameter,
    optimizer_state_precision,
    optimizer_state_shards,
    expert_optimizer_state_shards,
    optimizer_offload,
):
    """Memory of the optimizer's states; ZeRO shares them out from stage 1.

    Source: arXiv 1910.02054, section 5. Differs: AMPeD shares out always.
    """
    shared = fullest_stage_parameters / optimizer_state_shards
    kept = shared + fullest_stage_expert_parameters / expert_optimizer_state_shards
    return kept * optimizer_states_per_parameter * optimizer_state_precision * (1 - optimizer_offload)


@quantity("byte")
def activation_bytes(
    first_stage_activation_bytes,
    middle_stage_activation_bytes,
    last_stage_activation_bytes,
    middle_stage_is_fullest,
    last_stage_is_fullest,
):
    """Activations that the fullest stage keeps for the backward pass. Source: arXiv 2205.05198, section 4.2.3."""
    stages = (first_stage_activation_bytes, middle_stage_activation_bytes, last_stage_activation_bytes)
    return of_fullest(middle_stage_is_fullest, last_stage_is_fullest, *stages)


@quantity("byte")
def temporary_bytes(layer_working_bytes, weight_buffer_bytes, logits_gradient_bytes, last_stage_is_fullest):
    """Working memory of the fullest stage: a layer recomputed, gradients, buffers, weights gathered, logits at the end.

    Source: arXiv 2205.05198, sections 4.3 and 5.
    """
    return layer_working_bytes + weight_buffer_bytes + logits_gradient_bytes * last_stage_is_fullest


@quantity("byte")
def memory_per_accelerator_bytes(
    weight_bytes, gradient_bytes, optimizer_state_bytes, activation_bytes, temporary_bytes
):
    """Memory that the fullest accelerator needs. Source: definition."""
    return weight_bytes + gradient_bytes + optimizer_state_bytes + activation_bytes + temporary_bytes


@quantity("byte")
def available_memory_bytes(memory_capacity, reserved_memory_bytes):
    """Memory that is left for training. Source: definition."""
    return memory_capacity - reserved_memory_bytes


@quantity("boolean")
def fits_in_memory(memory_per_accelerator_bytes, available_memory_bytes, fits_in_host_memory):
    """Whether the fullest accelerator holds what it needs, and its host what it took over. Source: definition."""
    return (memory_per_accelerator_bytes <= available_memory_bytes) & (fits_in_host_memory > 0)


@quantity("boolean", **ZERO_BUBBLE_V)
def last_stage_is_fullest__zero_bubble_v(pipeline_parallel_degree):
    """Whether the last stage needs most memory: no, the first has both ends. Source: definition."""
    return 0 * pipeline_parallel_degree


@quantity("boolean", **ZERO_BUBBLE_V)
def middle_stage_is_fullest__zero_bubble_v(pipeline_parallel_degree):
    """Whether a stage between needs most memory: no, the first has both ends. Source: definition."""
    return 0 * pipeline_parallel_degree


@quantity("byte", **ZERO_BUBBLE_V)
def temporary_bytes__zero_bubble_v(layer_working_bytes, weight_buffer_bytes, logits_gradient_bytes):
    """Working memory of the fullest stage, the first, with the logits' gradient. Source: arXiv 2205.05198, sections 4.3 and 5."""
    return layer_working_bytes + weight_buffer_bytes + logits_gradient_bytes


@quantity("byte")
def allocator_reserved_bytes(memory_per_accelerator_bytes, allocator_reserve_fraction):
    """Memory that the allocator holds at the peak. Source: PyTorch, torch.cuda.max_memory_reserved."""
    return memory_per_accelerator_bytes * (1 + allocator_reserve_fraction)
