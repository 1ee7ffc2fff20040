"""The times of a layer, of the embedding and of the output head for a micro-batch, with all passes and all waiting."""

import numpy as np

from amped.theory.language.quantity import each_of, family, quantity
from amped.theory.nouns.parallelisms import BESIDE_KERNELS
from amped.theory.nouns.records import total


@each_of(KIND=(*BESIDE_KERNELS, "offload"))
@quantity("s")
def layer_time(
    forward_time_per_layer,
    input_gradient_time_per_layer,
    weight_gradient_time_per_layer,
    recomputation_time_per_layer,
    exposed_KIND_communication_time_per_layer,
    exposed_expert_communication_time_per_layer,
):
    """The time of one layer for a micro-batch: all passes, recomputation, and the communication for which it waits.

    Source: definition.
    """
    compute = forward_time_per_layer + input_gradient_time_per_layer + weight_gradient_time_per_layer
    waits = total(exposed_KIND_communication_time_per_layer)
    return compute + recomputation_time_per_layer + waits + exposed_expert_communication_time_per_layer


@quantity("s")
def vocabulary_parallel_communication_time(tensor_durations, has_vocabulary, sequence_parallel):
    """The tensor-parallel communication time of a micro-batch in the embedding; the output head takes as long.

    The embedding sends its output, and the output head sends its input gradient. Source: arXiv 1909.08053, section 3.
    Differs: the sums of the loss, a few bytes a token, are left out.
    """
    once = [d for d in tensor_durations if d.name.startswith("feedforward")]
    halves = 2 * total(d.time for d in once if d.kind == "reduce_scatter") * sequence_parallel
    return has_vocabulary * (halves + total(d.time for d in once if d.kind == "all_reduce") * (1 - sequence_parallel))


@quantity("s")
def embedding_time(embedding_forward_time, embedding_backward_time, vocabulary_parallel_communication_time):
    """The time of a micro-batch in the embedding, with its communication. Source: definition."""
    return embedding_forward_time + embedding_backward_time + vocabulary_parallel_communication_time


@quantity("s")
def output_head_time(
    output_head_forward_time,
    output_head_input_gradient_time,
    output_head_weight_gradient_time,
    vocabulary_parallel_communication_time,
    layer_time,
    predictions_in_output_head,
):
    """The time of a micro-batch in the output head, and in the modules of multi-token prediction on the same stage.

    Source: definition.
    """
    head = (
        output_head_forward_time
        + output_head_input_gradient_time
        + output_head_weight_gradient_time
        + vocabulary_parallel_communication_time
    )
    return head + predictions_in_output_head * layer_time


@family(PASS=("forward", "backward"))
@quantity("s")
def resident_PASS_time_per_layer(
    serial_PASS_time_per_layer, queued_expert_PASS_time_per_layer, exposed_expert_PASS_communication_time_per_layer
):
    """The time of a PASS pass of a micro-batch through a layer, with the waiting for messages, but without offload.

    Source: definition.
    """
    before = serial_PASS_time_per_layer - queued_expert_PASS_time_per_layer
    return before + exposed_expert_PASS_communication_time_per_layer


@quantity("s")
def forward_pass_time_per_layer(resident_forward_time_per_layer, forward_copy_wait_time_per_layer):
    """The time of a forward pass of a micro-batch through a layer, with the waiting for messages and for copies.

    The copies are those between the accelerator and the host.

    Source: definition.
    """
    return resident_forward_time_per_layer + forward_copy_wait_time_per_layer


@quantity("s")
def weight_gradient_pass_time_per_layer(
    weight_gradient_time_per_layer, hiding_weight_gradient_time_per_layer, messages_beside_copies_time_per_layer
):
    """The time of the weight gradients of a micro-batch in a layer. The previous stage does not wait for this time.

    The previous pipeline stage waits only for the input gradients, and for the copies of offload that these need. A
    reduction or an exchange of tokens that the input gradients need may run beside weight gradients: then these
    count with the input gradients, unless the message runs beside a copy in any case.

    Source: arXiv 2401.10241, section 1 (B and W).
    """
    return (
        weight_gradient_time_per_layer - hiding_weight_gradient_time_per_layer + messages_beside_copies_time_per_layer
    )


@quantity("s")
def free_forward_time_per_layer(
    forward_pass_time_per_layer,
    forward_offload_link_time_per_layer,
    link_forward_time_per_layer,
    tensor_forward_communication_time_per_layer,
    gradients_have_own_links,
):
    """The time of a forward pass of a layer in which the links that gradients use are free; a lower bound.

    The layer's own messages and offload copies use the links in the rest of the time.

    Source: definition.
    """
    others = link_forward_time_per_layer - gradients_have_own_links * tensor_forward_communication_time_per_layer
    return np.maximum(forward_pass_time_per_layer - others - forward_offload_link_time_per_layer, 0)


@quantity("s")
def backward_window_time_per_layer(
    resident_backward_time_per_layer, exposed_offload_communication_time_per_layer, forward_copy_wait_time_per_layer
):
    """The time of a backward pass of a layer, with its waits for messages and offload copies. Source: definition."""
    copies = exposed_offload_communication_time_per_layer - forward_copy_wait_time_per_layer
    return resident_backward_time_per_layer + copies


@quantity("s")
def free_backward_time_per_layer(
    backward_window_time_per_layer,
    backward_offload_link_time_per_layer,
    link_backward_time_per_layer,
    tensor_backward_communication_time_per_layer,
    gradients_have_own_links,
):
    """The time of a backward pass of a layer in which the links that gradients use are free; a lower bound.

    The layer's own messages and offload copies use the links in the rest of the time.

    Source: definition.
    """
    others = link_backward_time_per_layer - gradients_have_own_links * tensor_backward_communication_time_per_layer
    return np.maximum(backward_window_time_per_layer - others - backward_offload_link_time_per_layer, 0)
