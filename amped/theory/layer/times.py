"""The times of a layer, of the embedding and of the output head for a micro-batch, with all passes and all waiting."""

import numpy as np

from amped.theory.language.quantity import quantity, records
from amped.theory.nouns.layer_kinds import SPLIT_NETWORK, average_layer
from amped.theory.nouns.layer_records import LayerTimes, LayerWindows
from amped.theory.nouns.records import total


@records()
def layer_times(layer_computation, layer_pass_times, layer_exposures, layer_copies):
    """The time of a micro-batch in a layer of each kind: its passes with their waits.

        whole = forward + input gradients + weight gradients + recomputation + exposed communication

    The layer before waits only for the input gradients, and for the copies that these need. A reduction or an exchange
    of tokens that the input gradients need may run beside weight gradients: then these count with the input gradients,
    unless the message runs beside a copy in any case.

    Source: definition; arXiv 2401.10241, section 1 (B and W).
    """
    layers = []
    for computation, passes, exposures, copies in zip(
        layer_computation, layer_pass_times, layer_exposures, layer_copies, strict=True
    ):
        waiting_time = total(exposure.exposed for exposure in exposures.exposures) + copies.exposed
        computing = computation.forward + computation.input_gradient + computation.weight_gradient
        whole = computing + computation.recomputation + waiting_time
        forward = passes.forward.resident + copies.forward_wait
        weight_gradient = computation.weight_gradient - passes.hiding + copies.beside_messages
        layers.append(
            LayerTimes(
                passes.name,
                forward=forward,
                input_gradient=whole - forward - weight_gradient,
                weight_gradient=weight_gradient,
                whole=whole,
            )
        )
    return tuple(layers)


@records()
def layer_windows(layer_pass_times, layer_copies, gradients_have_own_links):
    """The passes of a micro-batch in a layer of each kind, during which gradients and weights are sent.

    The links that gradients use are free in a pass while it neither sends messages nor copies; a lower bound.

    Source: definition.
    """
    layers = []
    for passes, copies in zip(layer_pass_times, layer_copies, strict=True):
        forward = passes.forward.resident + copies.forward_wait
        backward = passes.backward.resident + copies.exposed - copies.forward_wait
        windows = LayerWindows(
            passes.name,
            forward=forward,
            backward=backward,
            free_forward=free_time(forward, passes.forward, copies.forward_link, gradients_have_own_links),
            free_backward=free_time(backward, passes.backward, copies.backward_link, gradients_have_own_links),
            exposed_copies=copies.exposed,
            overlapped_copies=copies.overlapped,
        )
        layers.append(windows)
    return tuple(layers)


def free_time(time, pass_with_messages, copies, own_links):
    """The time of a pass of a layer in which the links that gradients use are free; a lower bound.

    Args:
        time: the seconds of the pass with its waits.
        pass_with_messages: the pass, with its messages.
        copies: the seconds of copies on these links.
        own_links: whether gradients have links of their own, which tensor-parallel messages do not use.

    Source: definition.
    """
    return np.maximum(time - (pass_with_messages.link - own_links * pass_with_messages.tensor_link) - copies, 0)


@quantity("s")
def layer_time(layer_times, layer_kinds):
    """The time of one layer for a micro-batch, averaged over the layers.

    It contains all passes, recomputation, and the communication for which the layer waits. Source: definition.
    """
    return average_layer(layer_kinds, layer_times).whole


@quantity("s")
def vocabulary_parallel_communication_time(tensor_durations, has_vocabulary, sequence_parallel):
    """The tensor-parallel communication time of a micro-batch in the embedding; the output head takes as long.

    The embedding sends its output, and the output head sends its input gradient. Source: arXiv 1909.08053, section 3.
    Differs: the sums of the loss, a few bytes per token, are left out.
    """
    durations = [d for d in tensor_durations if d.part.block == SPLIT_NETWORK]
    halves = 2 * total(d.time for d in durations if d.kind == "reduce_scatter") * sequence_parallel
    return has_vocabulary * (
        halves + total(d.time for d in durations if d.kind == "all_reduce") * (1 - sequence_parallel)
    )


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
    layer_times,
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
    return head + predictions_in_output_head * layer_times[-1].whole
