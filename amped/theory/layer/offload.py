"""Copies from and to the host beside a layer, and the optimizer that runs on the host.

Only copies use the copy engines and the link to the host. A second of computation that hides a collective can therefore
hide a copy too. The bandwidth that both take from the accelerator's own memory slows computation down. If network cards
use the link to the host, copies wait for messages that leave the fast domain. Each direction has the full bandwidth of
the link. Both directions, and all accelerators of the host, share the bandwidth of the host's memory.
"""

import numpy as np

from amped.theory.language.quantity import family, quantity
from amped.theory.nouns.conditions import OFFLOADED, ZERO_BUBBLES
from amped.theory.nouns.parallelisms import IN_LAYERS
from amped.theory.nouns.records import of_phase, product
from amped.theory.nouns.resources import beside

# --- the host's share for one accelerator ----------------------------------------------------------------------------


@quantity("count")
def number_of_accelerators_of_a_host(number_of_accelerators, number_of_accelerators_per_node):
    """The number of accelerators that share the memory of one host.

    It is the number of accelerators of a server, or of the whole run if the run has fewer.

    Source: definition.
    """
    return np.minimum(number_of_accelerators, number_of_accelerators_per_node)


@quantity("byte/s")
def host_link_bandwidth_per_accelerator(
    host_link_bandwidth, host_link_efficiency, number_of_accelerators_per_host_link, number_of_accelerators_of_a_host
):
    """The bandwidth of the link to the host for one accelerator, in each direction, while all accelerators copy.

    Source: definition.
    """
    sharing = np.minimum(number_of_accelerators_per_host_link, number_of_accelerators_of_a_host)
    return host_link_bandwidth * host_link_efficiency / sharing


@quantity("byte/s")
def host_memory_bandwidth_per_accelerator(host_memory_bandwidth, number_of_accelerators_of_a_host):
    """The bandwidth of the host's memory for one accelerator, both directions together, while all accelerators copy.

    Source: definition. Differs: a processor reaches the memory of another socket more slowly; this is left out.
    """
    return host_memory_bandwidth / number_of_accelerators_of_a_host


# --- bytes of one layer ----------------------------------------------------------------------------------------------


@quantity("byte")
def device_activation_bytes_per_layer(kept_activation_bytes_per_layer, activation_offload):
    """The bytes of the kept activations of a micro-batch in one layer that stay on the accelerator.

    Source: arXiv 2104.07857, section 5.1.2.
    """
    return kept_activation_bytes_per_layer * (1 - activation_offload)


@quantity("byte")
def offloaded_activation_bytes_per_layer(kept_activation_bytes_per_layer, activation_offload):
    """The bytes of the kept activations of a micro-batch in one layer that lie on the host until the backward pass.

    Source: arXiv 2104.07857, section 5.1.2.
    """
    return kept_activation_bytes_per_layer * activation_offload


@family(STATE=("weight", "gradient"))
@quantity("byte")
def offloaded_STATE_bytes_per_layer(
    model_states, non_expert_parameters_per_accelerator, expert_parameters_per_accelerator, largest_stage_layers
):
    """The bytes of the STATEs of a layer that the host holds for one accelerator.

    They are the accelerator's own shard of the offloaded STATEs. An accelerator copies only its own shard of weights
    from the host, and gathers the other shards from the other replicas. Gradients go to the host in the backward pass
    of each micro-batch.

    Source: arXiv 2104.07857, section 6.1 (bandwidth-centric partitioning of weights); arXiv 2101.06840, section 4
    (gradients).
    """
    (state,) = (each for each in model_states if each.name == "STATE")
    held = state.of(non_expert_parameters_per_accelerator, expert_parameters_per_accelerator)
    return held * state.offload / largest_stage_layers


# --- copies beside a layer -------------------------------------------------------------------------------------------


# The host's memory moves a gradient three times to add it up: it reads the gradient and the sum, and writes the sum.
ADDING = 3
# The parallelisms with messages in a layer whose use of the link to the host is counted together.
BUT_TENSOR = tuple(kind for kind in IN_LAYERS if kind != "tensor")


def copy_time(up, down, link, memory, beside=0.0):
    """The time to copy `up` bytes from the host to an accelerator and `down` bytes back, at the same time.

        max(max(up, down) / link, (up + down + beside) / memory)

    `link` is the bandwidth of the link in each direction, and `memory` the bandwidth of the host's memory, which both
    directions share. `beside` are the bytes that the host's memory moves for other work at the same time.

    Source: definition.
    """
    return np.maximum(np.maximum(up, down) / link, (up + down + beside) / memory)


@quantity("s")
def forward_offload_time_per_layer(
    offloaded_weight_bytes_per_layer,
    offloaded_activation_bytes_per_layer,
    host_link_bandwidth_per_accelerator,
    host_memory_bandwidth_per_accelerator,
):
    """The time of the copies of a layer in a forward pass of a micro-batch.

    Weights are copied from the host, and activations are copied to the host.

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
    """The time of the copies of a layer in a backward pass of a micro-batch.

    Weights and activations are copied from the host, and gradients are copied to the host, which adds up the gradients
    of several micro-batches. Source: arXiv 2101.06840, section 4.1; arXiv 2104.07857, section 4.1. Differs: DeepSpeed
    adds gradients on the accelerator; it copies the sum from the host and back.
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


@family(PASS=("forward", "backward"), OTHER=(BUT_TENSOR, BUT_TENSOR))
@quantity("s")
def PASS_host_link_message_time_per_layer(
    tensor_PASS_communication_time_per_layer,
    link_PASS_time_per_layer,
    inter_node_tensor_parallel_degree,
    inter_node_OTHER_parallel_degree,
    network_cards_share_host_link,
):
    """The time of a PASS pass in which messages of a layer to other nodes use the link to the host.

    Source: definition. Context-parallel and expert-parallel messages are counted together: all of them, if either
    parallelism crosses nodes.
    """
    others = link_PASS_time_per_layer - tensor_PASS_communication_time_per_layer
    leaving = product(inter_node_OTHER_parallel_degree) > 1
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
    """The time of the copies between accelerator and host in a PASS pass that run while neighboring layers compute.

    Copies overlap only while no message of these layers uses the link to the host. There are two buffers, so a copy may
    take as long as the pass of one layer. Source: arXiv 2104.07857, section 6.2.
    """
    free = resident_PASS_time_per_layer - PASS_host_link_message_time_per_layer
    return beside(PASS_offload_time_per_layer, free, overlap_offload_communication)


@family(SCHEDULE=ZERO_BUBBLES)
@quantity("s", choice="pipeline_schedule", value="SCHEDULE")
def overlapped_backward_offload_time_per_layer__SCHEDULE(
    backward_offload_time_per_layer,
    resident_backward_time_per_layer,
    weight_gradient_time_per_layer,
    backward_host_link_message_time_per_layer,
    overlap_offload_communication,
):
    """The time of the copies between accelerator and host in a backward pass that run while input gradients run.

    A schedule without bubbles computes the input gradients of all layers of a stage first, and delays the weight
    gradients. The layers of one pass follow one another: two buffers hold what the next layer of this pass needs, and
    are full while weight gradients run. Copies overlap only while no message of these layers uses the link to the host.

    Source: arXiv 2401.10241, section 1 (B and W); arXiv 2104.07857, section 6.2. Differs: the two layers that are
    copied while the weight gradients of the pass before run are left out.
    """
    inputs = resident_backward_time_per_layer - weight_gradient_time_per_layer
    free = inputs - backward_host_link_message_time_per_layer
    return beside(backward_offload_time_per_layer, free, overlap_offload_communication)


@quantity("s", **OFFLOADED)
def messages_beside_copies_time_per_layer__offloaded(
    backward_offload_time_per_layer,
    resident_backward_time_per_layer,
    weight_gradient_time_per_layer,
    hiding_weight_gradient_time_per_layer,
    backward_host_link_message_time_per_layer,
    overlapped_backward_offload_time_per_layer,
    overlap_offload_communication,
):
    """The time of messages that copies from and to the host hide, although weight gradients could hide them, too.

    It is the time by which copies would overlap more if these messages did not run beside weight gradients. It matters
    only where weight gradients are a pass of their own.

    Source: definition.
    """
    inputs = resident_backward_time_per_layer - weight_gradient_time_per_layer + hiding_weight_gradient_time_per_layer
    free = inputs - backward_host_link_message_time_per_layer
    more = beside(backward_offload_time_per_layer, free, overlap_offload_communication)
    return np.maximum(more - overlapped_backward_offload_time_per_layer, 0)


@quantity("s")
def overlapped_offload_communication_time_per_layer(
    overlapped_forward_offload_time_per_layer, overlapped_backward_offload_time_per_layer
):
    """The time of the copies between accelerator and host, in one layer, that run beside computation in both passes.

    Source: arXiv 2104.07857, section 6.2.
    """
    return overlapped_forward_offload_time_per_layer + overlapped_backward_offload_time_per_layer


@quantity("s")
def offload_interference_time_per_layer(
    offloaded_weight_bytes_per_layer,
    offloaded_activation_bytes_per_layer,
    offloaded_gradient_bytes_per_layer,
    achieved_memory_bandwidth,
    overlapped_offload_communication_time_per_layer,
):
    """The time that computation loses because copies from and to the host use the accelerator's memory at that time.

    It is at most the time of the copies that overlap computation.

    Source: assumption of the worst case, in which memory bounds all computation.
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
    """The time of the copies between accelerator and host, in one layer, for which the accelerator waits.

    It contains the time by which overlapped copies slow computation down.

    Source: arXiv 2104.07857, section 4.1 (efficiency by bandwidth).
    """
    whole = forward_offload_time_per_layer + backward_offload_time_per_layer
    return whole - overlapped_offload_communication_time_per_layer + offload_interference_time_per_layer


@quantity("s", **OFFLOADED)
def forward_copy_wait_time_per_layer__offloaded(
    forward_offload_time_per_layer, overlapped_forward_offload_time_per_layer
):
    """The time of the copies between accelerator and host, in one layer, for which a forward pass waits.

    Source: definition.
    """
    return forward_offload_time_per_layer - overlapped_forward_offload_time_per_layer


@family(PASS=("forward", "backward"))
@quantity("s", **OFFLOADED)
def PASS_offload_link_time_per_layer__offloaded(PASS_offload_time_per_layer, copies_keep_gradients_waiting):
    """The time of a PASS pass in which copies to and from the host use the link over which gradients leave the node.

    Source: definition.
    """
    return copies_keep_gradients_waiting * PASS_offload_time_per_layer


@quantity("boolean")
def copies_keep_gradients_waiting(network_cards_share_host_link, inter_node_data_parallel_degree):
    """Whether gradients that leave the node use the same link as copies to the host. Source: definition."""
    return network_cards_share_host_link * (inter_node_data_parallel_degree > 1)


# --- around the optimizer --------------------------------------------------------------------------------------------


@quantity("byte")
def host_update_bytes_per_parameter(
    gradient_precision,
    optimizer_states_per_parameter,
    optimizer_bytes_per_parameter,
    weight_precision,
    full_precision_copies,
):
    """The bytes that the host's memory moves to update one parameter.

    The host reads the gradient and the optimizer states, and writes the states and the weight. Before that, the
    accelerator has computed the norm of the gradients. Source: arXiv 2101.06840, section 5 (CPU-Adam).
    """
    states = optimizer_bytes_per_parameter + (1 - full_precision_copies) * weight_precision
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
    """The time of the optimizer on the host; the bandwidth of the host's memory bounds it.

    Source: arXiv 2101.06840, section 5 (CPU-Adam).
    """
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
    """The time of the copies between the host and an accelerator before and after the optimizer.

    Three kinds of tensors are copied: weights that the host updates but does not keep go to the accelerator; gradients
    that the host needs but does not have yet go to the host; weights that the accelerator updates but does not keep go
    to the host. Source: arXiv 2101.06840, section 4.1.
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
    """The time of the optimizer. The accelerator and the host update their parts of the parameters at the same time.

    Source: DeepSpeed, ZeRO-Offload++ (Twin-Flow).
    """
    return np.maximum(of_phase("update", optimizer_durations), host_update_time)


@quantity("s")
def overlapped_update_offload_time(update_offload_time, updating_time, overlap_offload_communication):
    """The time of the copies between accelerator and host that run while the optimizer updates other parameters.

    Source: arXiv 2101.06840, section 5.2.
    """
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
    """The time of the copies between accelerator and host, in a step, that no computation can hide.

    They are the copies of the weights of the first layer that runs in a step, and of the gradients of the last layer
    that runs. Source: arXiv 2101.06840, section 4.1, figure 5. Copies for which the accelerator waits in each layer are
    not counted again.
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
