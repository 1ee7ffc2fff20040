"""Waiting in a pass of a layer: for messages in the queue of its kernels, for the host, and for exchanges of experts.

Messages that no kernel hides are kernels in the queue of the computing kernels. A pass therefore takes

    max(kernels + messages, host)

Each kind of message is charged with the time that it adds, in the order tensor, context, expert. A backward pass is the
pass of gradients; with recomputation it has a repeated forward pass too.
"""

import numpy as np

from amped.theory.language.quantity import each_of, family, quantity
from amped.theory.nouns.parallelisms import BESIDE_KERNELS, IN_LAYERS, OF_TOKENS, ROWS, before
from amped.theory.nouns.records import total
from amped.theory.nouns.resources import beside, waited

PASSES = ("forward", "repeated", "gradient")
# A member for each pass and each parallelism whose messages run beside kernels; and the parallelisms before it.
EACH_PASS = PASSES * len(BESIDE_KERNELS)
EACH_KIND = tuple(kind for kind in BESIDE_KERNELS for _ in PASSES)
BOTH = ("forward", "backward")
SOURCES = {row.name: row.source for row in ROWS}


# --- the queue -------------------------------------------------------------------------------------------------------


@family(PASS=PASSES, KERNELS=("forward", "repeated", "input_gradient"))
@quantity("s")
def idle_PASS_time_per_layer(KERNELS_time_per_layer, KERNELS_kernel_time_per_layer):
    """The time of a PASS pass in which the accelerator runs no kernel, because the host launches kernels too slowly.

    It does not contain the idle time of weight gradients.

    Source: definition.
    """
    return KERNELS_time_per_layer - KERNELS_kernel_time_per_layer


@family(KIND=EACH_KIND, PASS=EACH_PASS)
@quantity("s")
def queued_KIND_PASS_time_per_layer(
    KIND_PASS_communication_time_per_layer, kernel_overlapped_KIND_PASS_time_per_layer, overlap_slowdown_fraction
):
    """The time that KIND-parallel messages add to the kernels of a PASS pass.

        messages − hidden · (1 − overlap_slowdown_fraction)

    `hidden` is the time of messages that run beside kernels. These messages slow the kernels down.

    Source: definition.
    """
    hidden = kernel_overlapped_KIND_PASS_time_per_layer * (1 - overlap_slowdown_fraction)
    return KIND_PASS_communication_time_per_layer - hidden


@family(
    KIND=EACH_KIND,
    PASS=EACH_PASS,
    EARLIER=tuple(before(kind, BESIDE_KERNELS) for kind in EACH_KIND),
    SOURCE=tuple(SOURCES[kind] for kind in EACH_KIND),
)
@quantity("s")
def exposed_KIND_PASS_communication_time_per_layer(
    queued_KIND_PASS_time_per_layer, idle_PASS_time_per_layer, queued_EARLIER_PASS_time_per_layer
):
    """The KIND-parallel communication time for which a PASS pass waits.

    Messages wait in the same queue as kernels. While the accelerator waits for the host to launch kernels, messages
    cost nothing. Tensor-parallel messages use this time first, then context-parallel messages; the pass waits for the
    rest of their time.

    Source: SOURCE; definition.
    """
    idle = waited(idle_PASS_time_per_layer, total([0.0, *queued_EARLIER_PASS_time_per_layer]))
    return waited(queued_KIND_PASS_time_per_layer, idle)


@family(PASS=PASSES, EARLIER=(BESIDE_KERNELS,) * len(PASSES))
@quantity("s")
def queued_expert_PASS_time_per_layer(
    expert_forward_communication_time_per_layer, idle_PASS_time_per_layer, queued_EARLIER_PASS_time_per_layer
):
    """The time that exchanges of tokens with experts add to a PASS pass, if no other micro-batch runs at the same time.

    While the accelerator waits for the host to launch kernels, messages cost nothing. Messages of the other
    parallelisms use this time first, then the exchanges; the rest of the exchanges lengthens the pass.

    Source: definition; exchanges are kernels in the same queue as computing kernels.
    """
    idle = waited(idle_PASS_time_per_layer, total(queued_EARLIER_PASS_time_per_layer))
    return waited(expert_forward_communication_time_per_layer, idle)


@family(KIND=BESIDE_KERNELS)
@quantity("s")
def exposed_KIND_backward_communication_time_per_layer(
    exposed_KIND_gradient_communication_time_per_layer,
    exposed_KIND_repeated_communication_time_per_layer,
    recomputed_layer_fraction,
):
    """The KIND-parallel communication time for which a backward pass waits, with the messages of recomputation.

    Source: arXiv 2205.05198, section 5.
    """
    again = exposed_KIND_repeated_communication_time_per_layer * recomputed_layer_fraction
    return exposed_KIND_gradient_communication_time_per_layer + again


@quantity("s")
def queued_expert_backward_time_per_layer(
    queued_expert_gradient_time_per_layer, queued_expert_repeated_time_per_layer, recomputed_layer_fraction
):
    """The time that exchanges of tokens with experts add to a backward pass, with the exchanges of recomputation.

    No other micro-batch runs at the same time.

    Source: arXiv 2006.16668, section 3.
    """
    return queued_expert_gradient_time_per_layer + queued_expert_repeated_time_per_layer * recomputed_layer_fraction


# --- exchanges beside another micro-batch ----------------------------------------------------------------------------


@family(PASS=BOTH, KIND=(IN_LAYERS, IN_LAYERS))
@quantity("s")
def link_PASS_time_per_layer(KIND_PASS_communication_time_per_layer):
    """The time of a PASS pass in which tensor, context or expert messages of a layer use links. Source: definition."""
    return total(KIND_PASS_communication_time_per_layer)


@family(PASS=BOTH, KIND=(BESIDE_KERNELS, BESIDE_KERNELS))
@quantity("s")
def serial_PASS_time_per_layer(
    PASS_time_per_layer, exposed_KIND_PASS_communication_time_per_layer, queued_expert_PASS_time_per_layer
):
    """The time of a PASS pass through a layer, with the waiting for messages, if only one micro-batch runs.

    Source: definition.
    """
    waits = total(exposed_KIND_PASS_communication_time_per_layer)
    return PASS_time_per_layer + waits + queued_expert_PASS_time_per_layer


@family(PASS=BOTH)
@quantity("s")
def exchanged_PASS_time_per_layer(
    queued_expert_PASS_time_per_layer,
    serial_PASS_time_per_layer,
    link_PASS_time_per_layer,
    overlap_expert_communication,
    steady_microbatch_fraction,
):
    """The time of exchanges of tokens with experts in a PASS pass that runs beside kernels of another micro-batch.

    Exchanges can overlap in the steady phase of the schedule, while other messages leave the links free. Source: arXiv
    2412.19437, section 3.2.1. Assumes that the same pass of the other micro-batch runs at that time.
    """
    free = serial_PASS_time_per_layer - link_PASS_time_per_layer
    return beside(queued_expert_PASS_time_per_layer, free, overlap_expert_communication * steady_microbatch_fraction)


@each_of(KIND=BESIDE_KERNELS)
@quantity("s")
def lone_weight_gradient_time_per_layer(
    weight_gradient_time_per_layer,
    overlapped_reduction_time_per_layer,
    overlap_slowdown_fraction,
    idle_gradient_time_per_layer,
    queued_KIND_gradient_time_per_layer,
    expert_forward_communication_time_per_layer,
):
    """The time of weight gradients, without the time that they save because reductions run beside them.

        weight gradients − min(max(messages + r − idle, 0), r)

    r is the time of reductions beside weight gradients, without the time by which they slow these down. Messages that
    run while the accelerator waits for the host cost nothing in any case.

    Source: definition.
    """
    reduced = overlapped_reduction_time_per_layer * (1 - overlap_slowdown_fraction)
    messages = total(queued_KIND_gradient_time_per_layer) + expert_forward_communication_time_per_layer + reduced
    return weight_gradient_time_per_layer - np.clip(messages - idle_gradient_time_per_layer, 0, reduced)


@quantity("s")
def exchanged_weight_gradient_time_per_layer(
    exchanged_backward_time_per_layer,
    queued_expert_backward_time_per_layer,
    serial_backward_time_per_layer,
    link_backward_time_per_layer,
    lone_weight_gradient_time_per_layer,
    overlap_expert_communication,
    steady_microbatch_fraction,
):
    """The time of exchanges of tokens with experts in a backward pass that only weight gradients can hide.

    Source: arXiv 2412.19437, section 3.2.1.
    """
    free = serial_backward_time_per_layer - link_backward_time_per_layer - lone_weight_gradient_time_per_layer
    share = overlap_expert_communication * steady_microbatch_fraction
    return exchanged_backward_time_per_layer - beside(queued_expert_backward_time_per_layer, free, share)


@quantity("1")
def exchange_slowdown_fraction(overlap_slowdown_fraction, expert_exchange_processor_fraction):
    """The time that computation loses for each second of an exchange of tokens that runs at the same time.

        1 − (1 − overlap_slowdown_fraction) · (1 − expert_exchange_processor_fraction)

    All communication slows kernels down; an exchange also takes processors of the accelerator away from the kernels.

    Source: arXiv 2412.19437, section 3.2.2.
    """
    return 1 - (1 - overlap_slowdown_fraction) * (1 - expert_exchange_processor_fraction)


@quantity("s")
def hiding_weight_gradient_time_per_layer(
    weight_gradient_time_per_layer,
    lone_weight_gradient_time_per_layer,
    exchanged_weight_gradient_time_per_layer,
    exchange_slowdown_fraction,
):
    """The time that a backward pass saves because weight gradients hide messages that the input gradients need.

    Source: definition.
    """
    exchanged = exchanged_weight_gradient_time_per_layer * (1 - exchange_slowdown_fraction)
    return weight_gradient_time_per_layer - lone_weight_gradient_time_per_layer + exchanged


@family(PASS=BOTH)
@quantity("s")
def exposed_expert_PASS_communication_time_per_layer(
    queued_expert_PASS_time_per_layer, exchanged_PASS_time_per_layer, exchange_slowdown_fraction
):
    """The time of exchanges of tokens with experts for which a PASS pass waits.

    It contains the time by which hidden exchanges slow the pass down.

    Source: arXiv 2006.16668, section 3.
    """
    return queued_expert_PASS_time_per_layer - exchanged_PASS_time_per_layer * (1 - exchange_slowdown_fraction)


# --- both passes -----------------------------------------------------------------------------------------------------


@quantity("s")
def exposed_tensor_communication_time_per_layer(
    exposed_tensor_forward_communication_time_per_layer,
    exposed_tensor_backward_communication_time_per_layer,
    grid_column_gather_time_per_layer,
):
    """The tensor-parallel communication time of a micro-batch in one layer for which accelerators wait.

    Source: arXiv 2205.05198, section 4.2.2.
    """
    return (
        exposed_tensor_forward_communication_time_per_layer
        + exposed_tensor_backward_communication_time_per_layer
        + grid_column_gather_time_per_layer
    )


@family(KIND=(*OF_TOKENS, "expert"))
@quantity("s")
def exposed_KIND_communication_time_per_layer(
    exposed_KIND_forward_communication_time_per_layer, exposed_KIND_backward_communication_time_per_layer
):
    """The KIND-parallel communication time of a micro-batch in one layer for which accelerators wait.

    Source: definition.
    """
    return exposed_KIND_forward_communication_time_per_layer + exposed_KIND_backward_communication_time_per_layer


def unwaited(whole, exposed, slowed):
    """The time of messages for which no accelerator waits.

    Args:
        whole: the time of all messages.
        exposed: the time that accelerators lose because of the messages. It contains `slowed`, unless that is hidden
            while the accelerator waits for the host.
        slowed: the time by which hidden messages slow kernels down.

    Source: definition.
    """
    return np.clip(whole - exposed + slowed, 0, whole)


@quantity("s")
def idle_overlapped_tensor_forward_time_per_layer(
    queued_tensor_forward_time_per_layer, exposed_tensor_forward_communication_time_per_layer
):
    """The time in which tensor-parallel messages of a forward pass run while the accelerator waits for the host.

    Source: definition; messages are kernels in the same queue as computing kernels.
    """
    return queued_tensor_forward_time_per_layer - exposed_tensor_forward_communication_time_per_layer


@quantity("s")
def idle_overlapped_tensor_backward_time_per_layer(
    queued_tensor_gradient_time_per_layer,
    queued_tensor_repeated_time_per_layer,
    exposed_tensor_backward_communication_time_per_layer,
    recomputed_layer_fraction,
):
    """The time in which tensor-parallel messages of a backward pass run while the accelerator waits for the host.

    Source: definition; messages are kernels in the same queue as computing kernels.
    """
    queued = queued_tensor_gradient_time_per_layer + recomputed_layer_fraction * queued_tensor_repeated_time_per_layer
    return queued - exposed_tensor_backward_communication_time_per_layer


@family(PASS=BOTH)
@quantity("s")
def overlapped_tensor_PASS_communication_time_per_layer(
    tensor_PASS_communication_time_per_layer,
    kernel_overlapped_tensor_PASS_time_per_layer,
    idle_overlapped_tensor_PASS_time_per_layer,
):
    """The tensor-parallel communication time of a PASS pass for which no accelerator waits. Source: definition."""
    hidden = kernel_overlapped_tensor_PASS_time_per_layer + idle_overlapped_tensor_PASS_time_per_layer
    return np.clip(hidden, 0, tensor_PASS_communication_time_per_layer)


@quantity("s")
def overlapped_tensor_communication_time_per_layer(
    overlapped_tensor_forward_communication_time_per_layer, overlapped_tensor_backward_communication_time_per_layer
):
    """The tensor-parallel communication time of a layer for which no accelerator waits. Source: definition."""
    return (
        overlapped_tensor_forward_communication_time_per_layer + overlapped_tensor_backward_communication_time_per_layer
    )


@family(KIND=OF_TOKENS)
@quantity("s")
def overlapped_KIND_communication_time_per_layer(
    KIND_communication_time_per_layer,
    exposed_KIND_communication_time_per_layer,
    kernel_overlapped_KIND_forward_time_per_layer,
    kernel_overlapped_KIND_gradient_time_per_layer,
    communication_rounds,
    overlap_slowdown_fraction,
):
    """The KIND-parallel communication time of a layer for which no accelerator waits.

    Source: arXiv 2310.01889, section 3.
    """
    forward = kernel_overlapped_KIND_forward_time_per_layer * (communication_rounds - 1)
    slowed = overlap_slowdown_fraction * (forward + kernel_overlapped_KIND_gradient_time_per_layer)
    return unwaited(KIND_communication_time_per_layer, exposed_KIND_communication_time_per_layer, slowed)


@quantity("s")
def overlapped_expert_communication_time_per_layer(
    expert_communication_time_per_layer,
    exposed_expert_communication_time_per_layer,
    exchanged_forward_time_per_layer,
    exchanged_backward_time_per_layer,
    exchange_slowdown_fraction,
):
    """The expert-parallel communication time of a layer for which no accelerator waits.

    Source: arXiv 2412.19437, section 3.2.1.
    """
    slowed = exchange_slowdown_fraction * (exchanged_forward_time_per_layer + exchanged_backward_time_per_layer)
    return unwaited(expert_communication_time_per_layer, exposed_expert_communication_time_per_layer, slowed)
