"""The host of an accelerator: the link to it, its memory, and what the optimizer takes there.

The link has its two directions to itself; the host's memory serves both directions and all accelerators of the host.
"""

import numpy as np

from amped.quantity import ACCELERATOR, SYSTEM, parameter, quantity

OFFLOADS = ("optimizer_offload", "activation_offload", "weight_offload")


@parameter("byte/s", category=ACCELERATOR, above=0)
def host_link_bandwidth():
    """Bandwidth of the link between an accelerator and its host, per direction. Source: the accelerator's datasheet."""


@parameter("count", category=ACCELERATOR)
def number_of_accelerators_per_host_link():
    """Accelerators that share a link to the host: each has its own unless given. Source: definition."""
    return 1


@parameter("1", category=SYSTEM, above=0, at_most=1)
def host_link_efficiency():
    """Share of the link's bandwidth that large copies from and to pinned memory reach.

    Source: nvbandwidth on A100 SXM, 24.8 of 31.5 GB/s (NVIDIA developer forum, topic 352186), assumed for others.
    """
    return 0.79


@parameter("byte/s", category=SYSTEM, above=0)
def host_memory_bandwidth():
    """Bandwidth of the memory of one server, over all its sockets.

    Source: two sockets of eight channels DDR4-3200 (EPYC 7742 datasheet), where the system does not say.
    """
    return 409.6e9


@parameter("byte", category=SYSTEM, above=0)
def host_memory_capacity():
    """Memory of one server beside that of its accelerators. Source: the server's datasheet."""


@parameter("1", category=SYSTEM, above=0, at_most=1)
def host_optimizer_efficiency():
    """Share of the host's memory bandwidth that an optimizer reaches there.

    Source: arXiv 2101.06840, CPU-Adam on DGX-2: 10 billion parameters of 28 bytes in 2.57 s, 109 of 256 GB/s (from
    memory, unverified).
    """
    return 0.43


@quantity("count")
def number_of_accelerators_of_a_host(number_of_accelerators, number_of_accelerators_per_node):
    """Accelerators that share a host's memory: those of a server, as far as there are so many. Source: definition."""
    return np.minimum(number_of_accelerators, number_of_accelerators_per_node)


@quantity("byte/s")
def host_link_rate(
    host_link_bandwidth, host_link_efficiency, number_of_accelerators_per_host_link, number_of_accelerators_of_a_host
):
    """What an accelerator has of its link to the host in either direction, when all copy. Source: definition."""
    sharing = np.minimum(number_of_accelerators_per_host_link, number_of_accelerators_of_a_host)
    return host_link_bandwidth * host_link_efficiency / sharing


@quantity("byte/s")
def host_memory_rate(host_memory_bandwidth, number_of_accelerators_of_a_host):
    """What an accelerator has of its host's memory bandwidth, both directions together, when all copy.

    Source: definition. Differs: that sockets reach one another's memory more slowly is left out.
    """
    return host_memory_bandwidth / number_of_accelerators_of_a_host


# --- memory ----------------------------------------------------------------------------------------------------------


@quantity("byte")
def host_state_bytes(
    held_parameters, held_expert_parameters, weight_precision, gradient_precision, optimizer_states_per_parameter,
    optimizer_state_precision, weight_shards, gradient_shards, optimizer_state_shards, expert_weight_shards,
    expert_gradient_shards, expert_optimizer_state_shards, weight_offload, gradient_offload, optimizer_offload,
):  # fmt: skip
    """Weights, gradients and optimizer states that the host keeps for one accelerator. Source: arXiv 2101.06840."""
    w, g = weight_precision * weight_offload, gradient_precision * gradient_offload
    s = optimizer_states_per_parameter * optimizer_state_precision * optimizer_offload
    each = w / weight_shards + g / gradient_shards + s / optimizer_state_shards
    routed = w / expert_weight_shards + g / expert_gradient_shards + s / expert_optimizer_state_shards
    return held_parameters * each + held_expert_parameters * routed


@quantity("byte")
def host_activation_bytes(
    offloaded_activation_bytes_per_layer, first_stage_layers, middle_stage_layers, last_stage_layers,
    microbatches_in_flight, microbatches_in_flight_behind_the_first, microbatches_in_flight_at_the_end,
    pipeline_parallel_degree,
):  # fmt: skip
    """Activations that the host keeps for one accelerator of the stage that has most there. Source: arXiv 2104.07857."""
    last = last_stage_layers * microbatches_in_flight_at_the_end * (pipeline_parallel_degree > 1)
    behind = np.maximum(middle_stage_layers * microbatches_in_flight_behind_the_first, last)
    return offloaded_activation_bytes_per_layer * np.maximum(first_stage_layers * microbatches_in_flight, behind)


@quantity("byte")
def host_memory_bytes():
    """Memory that the host keeps for one accelerator: none where nothing is offloaded. Source: definition."""
    return 0


@quantity("byte", when_any_given=OFFLOADS)
def host_memory_bytes__offloaded(host_state_bytes, host_activation_bytes):
    """Memory that the host keeps for one accelerator. Source: definition."""
    return host_state_bytes + host_activation_bytes


@quantity("boolean")
def fits_in_host_memory():
    """Whether the host holds what is offloaded: nobody says how much it has, or has to. Source: definition."""
    return 1


@quantity("boolean", when_given=("host_memory_capacity",), when_any_given=OFFLOADS)
def fits_in_host_memory__known(host_memory_bytes, number_of_accelerators_of_a_host, host_memory_capacity):
    """Whether the host holds what is offloaded from all its accelerators. Source: definition."""
    return host_memory_bytes * number_of_accelerators_of_a_host <= host_memory_capacity


# --- the optimizer on the host ---------------------------------------------------------------------------------------


@quantity("byte")
def host_update_bytes_per_parameter(
    gradient_precision, optimizer_states_per_parameter, optimizer_state_precision, weight_precision,
    full_precision_copies,
):  # fmt: skip
    """Bytes that the host's memory moves to update a parameter: gradient and states read, states and weight written.

    Source: arXiv 2101.06840, section 5 (CPU-Adam). The norm was taken on the accelerator.
    """
    states = optimizer_states_per_parameter * optimizer_state_precision + (1 - full_precision_copies) * weight_precision
    moved = gradient_precision + 2 * states + full_precision_copies * weight_precision
    return (optimizer_states_per_parameter > 0) * moved


@quantity("s")
def host_update_time():
    """Time of the optimizer on the host: none where no optimizer is offloaded. Source: definition."""
    return 0


@quantity("s", when_given=("optimizer_offload",))
def host_update_time__offloaded(
    optimizer_offload, updated_parameters, host_update_bytes_per_parameter, host_memory_rate, host_optimizer_efficiency
):
    """Time of the optimizer on the host, bound by its memory. Source: arXiv 2101.06840, section 5 (CPU-Adam)."""
    moved = optimizer_offload * updated_parameters * host_update_bytes_per_parameter
    return moved / (host_memory_rate * host_optimizer_efficiency)
