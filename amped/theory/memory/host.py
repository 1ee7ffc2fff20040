"""Memory of the host: what is offloaded there, and whether it fits."""

import numpy as np

from amped.theory.conditions import OFFLOADED
from amped.theory.quantity import quantity


@quantity("byte")
def host_state_bytes(
    fullest_stage_parameters,
    fullest_stage_expert_parameters,
    weight_precision,
    gradient_precision,
    optimizer_states_per_parameter,
    optimizer_state_precision,
    weight_shards,
    gradient_shards,
    optimizer_state_shards,
    expert_weight_shards,
    expert_gradient_shards,
    expert_optimizer_state_shards,
    weight_offload,
    gradient_offload,
    optimizer_offload,
):
    """Weights, gradients and optimizer states that the host keeps for one accelerator. Source: arXiv 2101.06840."""
    w, g = weight_precision * weight_offload, gradient_precision * gradient_offload
    s = optimizer_states_per_parameter * optimizer_state_precision * optimizer_offload
    each = w / weight_shards + g / gradient_shards + s / optimizer_state_shards
    routed = w / expert_weight_shards + g / expert_gradient_shards + s / expert_optimizer_state_shards
    return fullest_stage_parameters * each + fullest_stage_expert_parameters * routed


@quantity("byte")
def host_activation_bytes(
    offloaded_activation_bytes_per_layer,
    first_stage_layers,
    middle_stage_layers,
    last_stage_layers,
    first_stage_microbatches_in_flight,
    middle_stage_microbatches_in_flight,
    last_stage_microbatches_in_flight,
    pipeline_parallel_degree,
):
    """Activations that the host keeps for one accelerator of the stage that has most there. Source: arXiv 2104.07857."""
    last = last_stage_layers * last_stage_microbatches_in_flight * (pipeline_parallel_degree > 1)
    behind = np.maximum(middle_stage_layers * middle_stage_microbatches_in_flight, last)
    return offloaded_activation_bytes_per_layer * np.maximum(
        first_stage_layers * first_stage_microbatches_in_flight, behind
    )


@quantity("byte")
def host_memory_bytes():
    """Memory that the host keeps for one accelerator: none where nothing is offloaded. Source: definition."""
    return 0


@quantity("byte", **OFFLOADED)
def host_memory_bytes__offloaded(host_state_bytes, host_activation_bytes):
    """Memory that the host keeps for one accelerator. Source: definition."""
    return host_state_bytes + host_activation_bytes


@quantity("boolean")
def fits_in_host_memory():
    """Whether the host holds what is offloaded: nobody says how much it has, or has to. Source: definition."""
    return 1


@quantity("boolean", when_given=("host_memory_capacity",), **OFFLOADED)
def fits_in_host_memory__known(host_memory_bytes, number_of_accelerators_of_a_host, host_memory_capacity):
    """Whether the host holds what is offloaded from all its accelerators. Source: definition."""
    return host_memory_bytes * number_of_accelerators_of_a_host <= host_memory_capacity
