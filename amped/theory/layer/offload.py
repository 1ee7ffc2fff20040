"""Copies from and to the host beside a layer, and the optimizer that runs on the host.

Only copies use the copy engines and the link to the host. A second of computation that hides a collective can therefore
hide a copy too. The bandwidth that both take from the accelerator's own memory slows computation down. If network cards
use the link to the host, copies wait for messages that leave the fast domain. Each direction has the full bandwidth of
the link. Both directions, and all accelerators of the host, share the bandwidth of the host's memory.
"""

import numpy as np

from amped.theory.language.quantity import each_of, family, quantity, records
from amped.theory.nouns.conditions import OFFLOADED
from amped.theory.nouns.layer_kinds import average_layer, of_each_kind
from amped.theory.nouns.layer_records import HostPath, LayerCopies, OffloadedLayer
from amped.theory.nouns.parallelisms import IN_LAYERS
from amped.theory.nouns.parameter_classes import EMBEDDINGS
from amped.theory.nouns.records import latest, of_phase, product, total
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
def offloaded_activation_bytes_per_layer(kept_activation_bytes_per_layer, activation_offload):
    """The bytes of the kept activations of a micro-batch in one layer that lie on the host until the backward pass.

    Source: arXiv 2104.07857, section 5.1.2.
    """
    return kept_activation_bytes_per_layer * activation_offload


@family(
    named=(
        "offloaded_weight_bytes_per_layer",
        "offloaded_gradient_bytes_per_layer",
    ),
    STATE=("weight", "gradient"),
)
@quantity("byte")
def offloaded_STATE_bytes_per_layer(
    model_states,
    parameter_classes,
    stage_parameters,
    expert_class_parameters,
    largest_stage_layers,
    *,
    state,
):
    """The bytes of the STATEs of a layer that the host holds for one accelerator.

    They are the accelerator's own shard of the offloaded STATEs. An accelerator copies only its own shard of weights
    from the host, and gathers the other shards from the other replicas. Gradients go to the host in the backward pass
    of each micro-batch.

    Source: arXiv 2104.07857, section 6.1 (bandwidth-centric partitioning of weights); arXiv 2101.06840, section 4
    (gradients).
    """
    states = {record.name: record for record in model_states}[state]
    places = [place for place, c in enumerate(parameter_classes) if not c.routed]
    shared = latest(total(held.counts[place] * states.bytes[place] for place in places) for held in stage_parameters)
    routed = zip(parameter_classes, expert_class_parameters[0].counts, states.bytes, strict=True)
    experts = total(n * size for c, n, size in routed if c.routed)
    return (shared + experts) * states.offload / largest_stage_layers


# --- copies beside a layer -------------------------------------------------------------------------------------------


# The host's memory moves a gradient three times to add it up: it reads the gradient and the sum, and writes the sum.
ADDING = 3
# The parallelisms with messages in a layer whose use of the link to the host is counted together.
BUT_TENSOR = tuple(kind for kind in IN_LAYERS if kind != "tensor")


def copy_time(up, down, link, memory, other_bytes=0.0):
    """The time to copy bytes from the host to an accelerator and other bytes back, at the same time.

        max(max(up, down) / link, (up + down + beside) / memory)

    Args:
        up: the bytes that are copied from the host.
        down: the bytes that are copied to the host.
        link: the bandwidth of the link in each direction.
        memory: the bandwidth of the host's memory, which both directions share.
        other_bytes: the bytes that the host's memory moves for other work at the same time.

    Source: definition.
    """
    return np.maximum(np.maximum(up, down) / link, (up + down + other_bytes) / memory)


@records(**OFFLOADED)
def offloaded_layers__offloaded(
    layer_parameters,
    parameter_groups,
    parameter_classes,
    model_states,
    stage_parameters,
    largest_stage_layers,
    kept_activations,
    activation_offload,
    offloaded_weight_bytes_per_layer,
    offloaded_gradient_bytes_per_layer,
):
    """The bytes of a layer of each kind that the host holds for an accelerator.

    A layer has the bytes of its own parameters. Those of the embedding and of the output head are shared out to the
    layers of the stage that has most of them, because they are copied with these layers.

    Source: arXiv 2104.07857, sections 5.1.2 and 6.1.
    """
    (weight, gradient, _), place = model_states, [c.name for c in parameter_classes].index(EMBEDDINGS)
    parameters = [layer.split(parameter_classes, parameter_groups) for layer in layer_parameters]
    ends = latest(held.counts[place] for held in stage_parameters) / largest_stage_layers
    weights, gradients = (
        of_each_kind([(state.of(layer) + ends * state.bytes[place]) * state.offload for layer in parameters], average)
        for state, average in (
            (weight, offloaded_weight_bytes_per_layer),
            (gradient, offloaded_gradient_bytes_per_layer),
        )
    )
    columns = zip(parameters, weights, gradients, kept_activations, strict=True)
    return tuple(
        OffloadedLayer(layer.name, weights=w, gradients=g, activations=kept.bytes * activation_offload)
        for layer, w, g, kept in columns
    )


@records(**OFFLOADED)
def layer_copies__offloaded(
    layer_pass_times,
    layer_computation,
    offloaded_layers,
    number_of_microbatches_per_minibatch,
    host_paths,
    overlap_offload_communication,
    achieved_memory_bandwidth,
    copies_run_beside_weight_gradients,
    copies_keep_gradients_waiting,
):
    """The time of the copies from and to the host in a layer of each kind, and of those beside computation.

    A forward pass copies weights from the host, and activations to it. A backward pass copies weights and activations
    from the host, and gradients to the host, which adds up those of several micro-batches.

    Source: arXiv 2101.06840, section 4.1; arXiv 2104.07857, sections 4.1 and 6.2. Differs: DeepSpeed adds gradients on
    the accelerator; it copies the sum from the host and back.
    """
    layers, (path,), overlap = [], host_paths, overlap_offload_communication
    for passes, computation, held in zip(layer_pass_times, layer_computation, offloaded_layers, strict=True):
        forward, backward = copies_of(held, path, number_of_microbatches_per_minibatch)
        free = path.free(passes.backward)
        inputs = free - computation.weight_gradient
        forward_overlap = beside(forward, path.free(passes.forward), overlap)
        backward_overlap = beside(backward, np.where(copies_run_beside_weight_gradients, free, inputs), overlap)
        overlap_with_messages = beside(backward, inputs + passes.hiding, overlap)
        copies = LayerCopies(
            passes.name,
            forward=forward,
            backward=backward,
            overlapped_forward=forward_overlap,
            overlapped_backward=backward_overlap,
            interference=np.minimum(held.moved / achieved_memory_bandwidth, forward_overlap + backward_overlap),
            beside_messages=np.maximum(overlap_with_messages - backward_overlap, 0),
            forward_link=copies_keep_gradients_waiting * forward,
            backward_link=copies_keep_gradients_waiting * backward,
        )
        layers.append(copies)
    return tuple(layers)


def copies_of(held, path, microbatches):
    """The time of the copies of a layer in its forward pass, and in its backward pass.

    Args:
        held: the bytes of the layer that the host holds.
        path: the link and the memory that copies use.
        microbatches: the number of micro-batches in a step.

    Source: as `copy_time`.
    """
    added_bytes = ADDING * held.gradients * (microbatches > 1)
    forward = copy_time(held.weights, held.activations, path.link, path.memory)
    return forward, copy_time(held.weights + held.activations, held.gradients, path.link, path.memory, added_bytes)


@records()
def layer_copies(layer_kinds):
    """The time of the copies from and to the host in a layer of each kind: zero, because nothing is offloaded.

    Source: definition.
    """
    return tuple(LayerCopies(kind.name, *(0.0,) * 8) for kind in layer_kinds)


@each_of(OTHER=BUT_TENSOR)
@records()
def host_paths(
    host_link_bandwidth_per_accelerator,
    host_memory_bandwidth_per_accelerator,
    inter_node_tensor_parallel_degree,
    inter_node_OTHER_parallel_degree,
    network_cards_share_host_link,
):
    """What a copy from and to the host uses, and which messages of a layer use the same link.

    Source: definition. Context-parallel and expert-parallel messages are counted together: all of them, if either
    parallelism crosses nodes.
    """
    tensor = network_cards_share_host_link * (inter_node_tensor_parallel_degree > 1)
    leaving = product(inter_node_OTHER_parallel_degree) > 1
    path = HostPath(
        "host",
        link=host_link_bandwidth_per_accelerator,
        memory=host_memory_bandwidth_per_accelerator,
        tensor=tensor,
        others=network_cards_share_host_link * leaving,
    )
    return (path,)


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
    layer_copies,
    layer_kinds,
):
    """The time of the copies between accelerator and host, in a step, that no computation can hide.

    They are the copies of the weights of the first layer that runs in a step, and of the gradients of the last layer
    that runs. Source: arXiv 2101.06840, section 4.1, figure 5. Copies for which the accelerator waits in each layer are
    not counted again.
    """
    weights, gradients = offloaded_weight_bytes_per_layer, offloaded_gradient_bytes_per_layer
    bandwidths = host_link_bandwidth_per_accelerator, host_memory_bandwidth_per_accelerator
    first = copy_time(weights, 0.0 * weights, *bandwidths)
    last = copy_time(0.0 * gradients, gradients, *bandwidths)
    copies = average_layer(layer_kinds, layer_copies)
    gained = copies.overlapped - copies.interference
    hidden = np.minimum(first, copies.overlapped_forward) + np.minimum(last, copies.overlapped_backward)
    return np.minimum(hidden, gained)
