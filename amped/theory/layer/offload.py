"""Copies from and to the host beside a layer, and the optimizer that runs on the host.

Copy engines and the link to the host are used by nothing else, so a second of computation that hides a collective
hides a copy too; what both take of the accelerator's own memory slows computation down. Where network cards sit on that
link, copies wait for messages that leave the fast domain. The link has its two directions to itself; the host's
memory serves both directions and all accelerators of the host.
"""

import numpy as np

from amped.theory.conditions import OFFLOADED
from amped.theory.quantity import family, quantity
from amped.theory.records import of_phase
from amped.theory.resources import beside

# --- what an accelerator has of its host -----------------------------------------------------------------------------


@quantity("count")
def number_of_accelerators_of_a_host(number_of_accelerators, number_of_accelerators_per_node):
    """Accelerators that share a host's memory: those of a server, as far as there are so many. Source: definition."""
    return np.minimum(number_of_accelerators, number_of_accelerators_per_node)


@quantity("byte/s")
def host_link_bandwidth_per_accelerator(
    host_link_bandwidth, host_link_efficiency, number_of_accelerators_per_host_link, number_of_accelerators_of_a_host
):
    """What an accelerator has of its link to the host in either direction, when all copy. Source: definition."""
    sharing = np.minimum(number_of_accelerators_per_host_link, number_of_accelerators_of_a_host)
    return host_link_bandwidth * host_link_efficiency / sharing


@quantity("byte/s")
def host_memory_bandwidth_per_accelerator(host_memory_bandwidth, number_of_accelerators_of_a_host):
    """What an accelerator has of its host's memory bandwidth, both directions together, when all copy.

    Source: definition. Differs: that sockets reach one another's memory more slowly is left out.
    """
    return host_memory_bandwidth / number_of_accelerators_of_a_host


# --- bytes of one layer ----------------------------------------------------------------------------------------------


@quantity("byte")
def device_activation_bytes_per_layer(kept_activation_bytes_per_layer, activation_offload):
    """Stash of a micro-batch in one layer that stays on the accelerator. Source: arXiv 2104.07857, section 5.1.2."""
    return kept_activation_bytes_per_layer * (1 - activation_offload)


@quantity("byte")
def offloaded_activation_bytes_per_layer(kept_activation_bytes_per_layer, activation_offload):
    """Stash of a micro-batch in one layer that waits on the host. Source: arXiv 2104.07857, section 5.1.2."""
    return kept_activation_bytes_per_layer * activation_offload


@family(STATE=("weight", "gradient"))
@quantity("byte")
def offloaded_STATE_bytes_per_layer(
    model_states, non_expert_parameters_per_accelerator, expert_parameters_per_accelerator, largest_stage_layers
):
    """Bytes of a layer's STATE on the host: an accelerator's shard. Weights come from there, others' are gathered.

    Gradients go there in the backward pass of each micro-batch. Source: arXiv 2104.07857, section 6.1
    (bandwidth-centric partitioning of weights); arXiv 2101.06840, section 4 (gradients).
    """
    (state,) = (each for each in model_states if each.name == "STATE")
    held = state.of(non_expert_parameters_per_accelerator, expert_parameters_per_accelerator)
    return held * state.offload / largest_stage_layers


# --- copies beside a layer -------------------------------------------------------------------------------------------


# Times that a gradient passes through the host's memory to be added up: read, its sum read, the sum written.
ADDING = 3


def copy_time(up, down, link, memory, beside=0.0):
    """Time to bring `up` bytes from the host and `down` bytes to it, `beside` other bytes that its memory moves.

    Each direction has the link to itself, all share the host's memory. Source: definition.
    """
    return np.maximum(np.maximum(up, down) / link, (up + down + beside) / memory)


@quantity("s")
def forward_offload_time_per_layer(
    offloaded_weight_bytes_per_layer,
    offloaded_activation_bytes_per_layer,
    host_link_bandwidth_per_accelerator,
    host_memory_bandwidth_per_accelerator,
):
    """Copies of a layer in the forward pass of a micro-batch: weights come, activations go.

    Source: arXiv 2104.07857, section 4.1.
    """
    return copy_time(
        offloaded_weight_bytes_per_layer,
        offloaded_activation_bytes_per_layer,
        host_link_bandwidth_per_accelerator,
        host_memory_bandwidth_per_accelerator,
    )


@quantity("s")
def backward_offload_time_per_layer(
    offloaded_weight_bytes_per_layer,
    offloaded_activation_bytes_per_layer,
    offloaded_gradient_bytes_per_layer,
    number_of_microbatches_per_minibatch,
    host_link_bandwidth_per_accelerator,
    host_memory_bandwidth_per_accelerator,
):
    """Copies of a layer in the backward pass of a micro-batch: weights and activations come, gradients go.

    The host adds up the gradients of several micro-batches. Source: arXiv 2101.06840, section 4.1; arXiv 2104.07857,
    section 4.1. Differs: DeepSpeed adds on the accelerator, to a sum that it fetches and sends back.
    """
    up = offloaded_weight_bytes_per_layer + offloaded_activation_bytes_per_layer
    added = ADDING * offloaded_gradient_bytes_per_layer * (number_of_microbatches_per_minibatch > 1)
    return copy_time(
        up,
        offloaded_gradient_bytes_per_layer,
        host_link_bandwidth_per_accelerator,
        host_memory_bandwidth_per_accelerator,
        added,
    )


@family(PASS=("forward", "backward"))
@quantity("s")
def PASS_host_link_message_time_per_layer(
    tensor_PASS_communication_time_per_layer,
    link_PASS_time_per_layer,
    inter_node_tensor_parallel_degree,
    inter_node_context_parallel_degree,
    inter_node_expert_parallel_degree,
    network_cards_share_host_link,
):
    """Time in which messages of a layer that leave the fast domain pass the link to the host, in a PASS pass.

    Source: definition. Context and expert parallelism count together, where either leaves.
    """
    others = link_PASS_time_per_layer - tensor_PASS_communication_time_per_layer
    leaving = (inter_node_context_parallel_degree > 1) | (inter_node_expert_parallel_degree > 1)
    tensor = (inter_node_tensor_parallel_degree > 1) * tensor_PASS_communication_time_per_layer
    return network_cards_share_host_link * (tensor + leaving * others)


@family(PASS=("forward", "backward"))
@quantity("s")
def overlapped_PASS_offload_time_per_layer(
    PASS_offload_time_per_layer,
    resident_PASS_time_per_layer,
    PASS_host_link_message_time_per_layer,
    overlap_offload_communication,
):
    """Copies of a layer in a PASS pass beside its neighbors, while no message of theirs passes the same link.

    Source: arXiv 2104.07857, section 6.2. With two buffers and layers alike, the longer of copy and pass paces.
    """
    free = resident_PASS_time_per_layer - PASS_host_link_message_time_per_layer
    return beside(PASS_offload_time_per_layer, free, overlap_offload_communication)


@quantity("s")
def overlapped_offload_communication_time_per_layer(
    overlapped_forward_offload_time_per_layer, overlapped_backward_offload_time_per_layer
):
    """Copies of a layer beside computation, forward and backward. Source: arXiv 2104.07857, section 6.2."""
    return overlapped_forward_offload_time_per_layer + overlapped_backward_offload_time_per_layer


@quantity("s")
def offload_interference_time_per_layer(
    offloaded_weight_bytes_per_layer,
    offloaded_activation_bytes_per_layer,
    offloaded_gradient_bytes_per_layer,
    achieved_memory_bandwidth,
    overlapped_offload_communication_time_per_layer,
):
    """Time that computation loses to copies beside it: what they take of the accelerator's memory, at most their own.

    Source: definition; as if all computation were bound by memory, which is the most it can be.
    """
    both_passes = 2 * (offloaded_weight_bytes_per_layer + offloaded_activation_bytes_per_layer)
    moved = both_passes + offloaded_gradient_bytes_per_layer
    return np.minimum(moved / achieved_memory_bandwidth, overlapped_offload_communication_time_per_layer)


@quantity("s", **OFFLOADED)
def exposed_offload_communication_time_per_layer__offloaded(
    forward_offload_time_per_layer,
    backward_offload_time_per_layer,
    overlapped_offload_communication_time_per_layer,
    offload_interference_time_per_layer,
):
    """Copies of a layer that the accelerator waits for, and what the hidden part slows down.

    Source: arXiv 2104.07857, section 4.1 (efficiency by bandwidth).
    """
    whole = forward_offload_time_per_layer + backward_offload_time_per_layer
    return whole - overlapped_offload_communication_time_per_layer + offload_interference_time_per_layer


@quantity("s", **OFFLOADED)
def forward_copy_wait_time_per_layer__offloaded(
    forward_offload_time_per_layer, overlapped_forward_offload_time_per_layer
):
    """Copies of a layer that a forward pass waits for. Source: definition."""
    return forward_offload_time_per_layer - overlapped_forward_offload_time_per_layer


@family(PASS=("forward", "backward"))
@quantity("s", **OFFLOADED)
def PASS_offload_link_time_per_layer__offloaded(PASS_offload_time_per_layer, copies_keep_gradients_waiting):
    """Time in which copies of a PASS pass are on the link by which gradients leave. Source: definition."""
    return copies_keep_gradients_waiting * PASS_offload_time_per_layer


@quantity("boolean")
def copies_keep_gradients_waiting(network_cards_share_host_link, inter_node_data_parallel_degree):
    """Whether gradients leave by the link on which copies come and go. Source: definition."""
    return network_cards_share_host_link * (inter_node_data_parallel_degree > 1)


# --- around the optimizer --------------------------------------------------------------------------------------------


@quantity("byte")
def host_update_bytes_per_parameter(
    gradient_precision,
    optimizer_states_per_parameter,
    optimizer_state_precision,
    weight_precision,
    full_precision_copies,
):
    """Bytes that the host's memory moves to update a parameter: gradient and states read, states and weight written.

    Source: arXiv 2101.06840, section 5 (CPU-Adam). The norm was taken on the accelerator.
    """
    states = optimizer_states_per_parameter * optimizer_state_precision + (1 - full_precision_copies) * weight_precision
    moved = gradient_precision + 2 * states + full_precision_copies * weight_precision
    return (optimizer_states_per_parameter > 0) * moved


@quantity("s", when_given=("optimizer_offload",))
def host_update_time__offloaded(
    optimizer_offload,
    updated_parameters,
    host_update_bytes_per_parameter,
    host_memory_bandwidth_per_accelerator,
    host_optimizer_efficiency,
):
    """Time of the optimizer on the host, bound by its memory. Source: arXiv 2101.06840, section 5 (CPU-Adam)."""
    moved = optimizer_offload * updated_parameters * host_update_bytes_per_parameter
    return moved / (host_memory_bandwidth_per_accelerator * host_optimizer_efficiency)


@quantity("s")
def update_offload_time(
    updated_parameters,
    weight_precision,
    gradient_precision,
    optimizer_offload,
    weight_offload,
    gradient_offload,
    host_link_bandwidth_per_accelerator,
    host_memory_bandwidth_per_accelerator,
):
    """Copies around the optimizer: weights that the host updates and does not keep, gradients that it did not have yet.

    Weights that the accelerator updates and the host keeps go down. Source: arXiv 2101.06840, section 4.1.
    """
    up = np.maximum(optimizer_offload - weight_offload, 0) * weight_precision
    down = np.maximum(optimizer_offload - gradient_offload, 0) * gradient_precision
    down = down + np.maximum(weight_offload - optimizer_offload, 0) * weight_precision
    return copy_time(
        updated_parameters * up,
        updated_parameters * down,
        host_link_bandwidth_per_accelerator,
        host_memory_bandwidth_per_accelerator,
    )


@quantity("s")
def updating_time(optimizer_durations, host_update_time):
    """Time of the optimizer, of whose parameters the host has its share meanwhile.

    Source: DeepSpeed, ZeRO-Offload++ (Twin-Flow).
    """
    return np.maximum(of_phase("update", optimizer_durations), host_update_time)


@quantity("s")
def overlapped_update_offload_time(update_offload_time, updating_time, overlap_offload_communication):
    """Copies around the optimizer beside its update of other parameters. Source: arXiv 2101.06840, section 5.2."""
    return beside(update_offload_time, updating_time, overlap_offload_communication)


# --- once a step -----------------------------------------------------------------------------------------------------


@quantity("s", **OFFLOADED)
def offload_fill_time__offloaded(
    offloaded_weight_bytes_per_layer,
    offloaded_gradient_bytes_per_layer,
    host_link_bandwidth_per_accelerator,
    host_memory_bandwidth_per_accelerator,
    overlapped_forward_offload_time_per_layer,
    overlapped_backward_offload_time_per_layer,
    offload_interference_time_per_layer,
):
    """What has nothing to hide behind: the first layer's weights of a step, and the last gradients.

    Source: arXiv 2101.06840, section 4.1, figure 5. What is exposed anyway is not counted again.
    """
    weights, gradients = offloaded_weight_bytes_per_layer, offloaded_gradient_bytes_per_layer
    first = copy_time(
        weights, 0.0 * weights, host_link_bandwidth_per_accelerator, host_memory_bandwidth_per_accelerator
    )
    last = copy_time(
        0.0 * gradients, gradients, host_link_bandwidth_per_accelerator, host_memory_bandwidth_per_accelerator
    )
    forward, backward = overlapped_forward_offload_time_per_layer, overlapped_backward_offload_time_per_layer
    gained = forward + backward - offload_interference_time_per_layer
    return np.minimum(np.minimum(first, forward) + np.minimum(last, backward), gained)
