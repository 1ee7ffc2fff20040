"""What a pass of a layer waits for: messages in the queue of its kernels, the host, and exchanges of experts.

Messages that nothing hides are kernels in the same queue as those that compute, so that a pass takes

    max(kernels + messages, host)

and each kind of message is charged with what it adds, in the order tensor, context, expert. A backward pass is that of
gradients, and for some layers a forward pass that is repeated.
"""

import numpy as np

from amped.theory.quantity import family, quantity
from amped.theory.resources import beside, waited

PASSES = ("forward", "repeated", "gradient")


# --- the queue -------------------------------------------------------------------------------------------------------


@family(PASS=PASSES, KERNELS=("forward", "repeated", "input_gradient"))
@quantity("s")
def idle_PASS_time_per_layer(KERNELS_time_per_layer, KERNELS_kernel_time_per_layer):
    """Time of a PASS pass in which the accelerator has no kernel, as the host is slower than those it launches.

    Gradients of weights have their own. Source: definition.
    """
    return KERNELS_time_per_layer - KERNELS_kernel_time_per_layer


@family(KIND=("tensor",) * 3 + ("context",) * 3, PASS=PASSES * 2)
@quantity("s")
def queued_KIND_PASS_time_per_layer(
    KIND_PASS_communication_time_per_layer, kernel_overlapped_KIND_PASS_time_per_layer, overlap_slowdown_fraction
):
    """KIND-parallel messages of a PASS pass that are not beside kernels, and what the others slow kernels down.

    Source: definition.
    """
    hidden = kernel_overlapped_KIND_PASS_time_per_layer * (1 - overlap_slowdown_fraction)
    return KIND_PASS_communication_time_per_layer - hidden


@family(PASS=PASSES)
@quantity("s")
def exposed_tensor_PASS_communication_time_per_layer(queued_tensor_PASS_time_per_layer, idle_PASS_time_per_layer):
    """Tensor-parallel messages that a PASS pass waits for: those that do not fit into waiting for the host.

    Source: arXiv 2205.05198, sections 4.2.2 and 5.
    """
    return waited(queued_tensor_PASS_time_per_layer, idle_PASS_time_per_layer)


@family(PASS=PASSES)
@quantity("s")
def exposed_context_PASS_communication_time_per_layer(
    queued_context_PASS_time_per_layer, idle_PASS_time_per_layer, queued_tensor_PASS_time_per_layer
):
    """Context-parallel messages that a PASS pass waits for. Source: arXiv 2310.01889, section 3."""
    idle = waited(idle_PASS_time_per_layer, queued_tensor_PASS_time_per_layer)
    return waited(queued_context_PASS_time_per_layer, idle)


@family(PASS=PASSES)
@quantity("s")
def queued_expert_PASS_time_per_layer(
    expert_forward_communication_time_per_layer,
    idle_PASS_time_per_layer,
    queued_tensor_PASS_time_per_layer,
    queued_context_PASS_time_per_layer,
):
    """What exchanges of tokens add to a PASS pass that has no other micro-batch beside it.

    Source: definition; exchanges are kernels in the same queue.
    """
    before = queued_tensor_PASS_time_per_layer + queued_context_PASS_time_per_layer
    return waited(expert_forward_communication_time_per_layer, waited(idle_PASS_time_per_layer, before))


@family(KIND=("tensor", "context"))
@quantity("s")
def exposed_KIND_backward_communication_time_per_layer(
    exposed_KIND_gradient_communication_time_per_layer,
    exposed_KIND_repeated_communication_time_per_layer,
    recomputed_layer_fraction,
):
    """KIND-parallel messages that a backward pass waits for, with those of what is computed again.

    Source: arXiv 2205.05198, section 5.
    """
    again = exposed_KIND_repeated_communication_time_per_layer * recomputed_layer_fraction
    return exposed_KIND_gradient_communication_time_per_layer + again


@quantity("s")
def queued_expert_backward_time_per_layer(
    queued_expert_gradient_time_per_layer, queued_expert_repeated_time_per_layer, recomputed_layer_fraction
):
    """What exchanges add to a backward pass with no other micro-batch beside it. Source: arXiv 2006.16668."""
    return queued_expert_gradient_time_per_layer + queued_expert_repeated_time_per_layer * recomputed_layer_fraction


# --- exchanges beside another micro-batch ----------------------------------------------------------------------------


@quantity("s")
def link_forward_time_per_layer(
    tensor_forward_communication_time_per_layer,
    context_forward_communication_time_per_layer,
    expert_forward_communication_time_per_layer,
):
    """Time in which messages of a layer are on links in a forward pass. Source: definition."""
    others = tensor_forward_communication_time_per_layer + context_forward_communication_time_per_layer
    return others + expert_forward_communication_time_per_layer


@quantity("s")
def link_backward_time_per_layer(
    tensor_backward_communication_time_per_layer,
    context_communication_time_per_layer,
    context_forward_communication_time_per_layer,
    expert_communication_time_per_layer,
    expert_forward_communication_time_per_layer,
):
    """Time in which messages of a layer are on links in a backward pass. Source: definition."""
    context = context_communication_time_per_layer - context_forward_communication_time_per_layer
    expert = expert_communication_time_per_layer - expert_forward_communication_time_per_layer
    return tensor_backward_communication_time_per_layer + context + expert


@quantity("s")
def serial_forward_time_per_layer(
    forward_time_per_layer,
    exposed_tensor_forward_communication_time_per_layer,
    exposed_context_forward_communication_time_per_layer,
    queued_expert_forward_time_per_layer,
):
    """Time of a forward pass with all that it waits for where no other micro-batch runs beside it.

    Source: definition.
    """
    waits = exposed_tensor_forward_communication_time_per_layer + exposed_context_forward_communication_time_per_layer
    return forward_time_per_layer + waits + queued_expert_forward_time_per_layer


@quantity("s")
def serial_backward_time_per_layer(
    backward_time_per_layer,
    exposed_tensor_backward_communication_time_per_layer,
    exposed_context_backward_communication_time_per_layer,
    queued_expert_backward_time_per_layer,
):
    """Time of a backward pass with all that it waits for where no other micro-batch runs beside it.

    Source: definition.
    """
    waits = exposed_tensor_backward_communication_time_per_layer + exposed_context_backward_communication_time_per_layer
    return backward_time_per_layer + waits + queued_expert_backward_time_per_layer


@family(PASS=("forward", "backward"))
@quantity("s")
def exchanged_PASS_time_per_layer(
    queued_expert_PASS_time_per_layer,
    serial_PASS_time_per_layer,
    link_PASS_time_per_layer,
    overlap_expert_communication,
    steady_microbatch_fraction,
):
    """Exchanges of a PASS pass beside kernels of another micro-batch, in its steady phase and while links are free.

    Source: arXiv 2412.19437, section 3.2.1. Assumes an equal pass beside it.
    """
    free = serial_PASS_time_per_layer - link_PASS_time_per_layer
    return beside(queued_expert_PASS_time_per_layer, free, overlap_expert_communication * steady_microbatch_fraction)


@quantity("s")
def lone_weight_gradient_time_per_layer(
    weight_gradient_time_per_layer, overlapped_reduction_time_per_layer, overlap_slowdown_fraction
):
    """Time of the gradients of weights beside which no reduction runs, with what it slows down. Source: definition."""
    return weight_gradient_time_per_layer - overlapped_reduction_time_per_layer * (1 - overlap_slowdown_fraction)


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
    """Exchanges of a backward pass that only gradients of weights hide. Source: arXiv 2412.19437, section 3.2.1."""
    free = serial_backward_time_per_layer - link_backward_time_per_layer - lone_weight_gradient_time_per_layer
    share = overlap_expert_communication * steady_microbatch_fraction
    return exchanged_backward_time_per_layer - beside(queued_expert_backward_time_per_layer, free, share)


@quantity("1")
def exchange_slowdown_fraction(overlap_slowdown_fraction, expert_exchange_processor_fraction):
    """Time that computation loses for each second of an exchange beside it: what its processors would have done too.

    Source: arXiv 2412.19437, section 3.2.2.
    """
    return 1 - (1 - overlap_slowdown_fraction) * (1 - expert_exchange_processor_fraction)


@family(PASS=("forward", "backward"))
@quantity("s")
def exposed_expert_PASS_communication_time_per_layer(
    queued_expert_PASS_time_per_layer, exchanged_PASS_time_per_layer, exchange_slowdown_fraction
):
    """Exchanges that a PASS pass waits for, and what the others slow it down. Source: arXiv 2006.16668."""
    return queued_expert_PASS_time_per_layer - exchanged_PASS_time_per_layer * (1 - exchange_slowdown_fraction)


# --- both passes -----------------------------------------------------------------------------------------------------


@quantity("s")
def exposed_tensor_communication_time_per_layer(
    exposed_tensor_forward_communication_time_per_layer,
    exposed_tensor_backward_communication_time_per_layer,
    grid_column_gather_time_per_layer,
):
    """Tensor-parallel communication of a micro-batch in one layer that accelerators wait for.

    Source: arXiv 2205.05198, 4.2.2.
    """
    return (
        exposed_tensor_forward_communication_time_per_layer
        + exposed_tensor_backward_communication_time_per_layer
        + grid_column_gather_time_per_layer
    )


@family(KIND=("context", "expert"))
@quantity("s")
def exposed_KIND_communication_time_per_layer(
    exposed_KIND_forward_communication_time_per_layer, exposed_KIND_backward_communication_time_per_layer
):
    """KIND-parallel communication of a micro-batch in one layer that accelerators wait for. Source: definition."""
    return exposed_KIND_forward_communication_time_per_layer + exposed_KIND_backward_communication_time_per_layer


def unwaited(whole, exposed, slowed):
    """What of messages nobody waits for; `slowed` is in what is exposed unless the host hides it.

    Source: definition.
    """
    return np.clip(whole - exposed + slowed, 0, whole)


@quantity("s")
def idle_overlapped_tensor_forward_time_per_layer(
    queued_tensor_forward_time_per_layer, exposed_tensor_forward_communication_time_per_layer
):
    """Messages of a forward pass that fit into waiting for the host: they are kernels in the same queue.

    Source: definition.
    """
    return queued_tensor_forward_time_per_layer - exposed_tensor_forward_communication_time_per_layer


@quantity("s")
def idle_overlapped_tensor_backward_time_per_layer(
    queued_tensor_gradient_time_per_layer,
    queued_tensor_repeated_time_per_layer,
    exposed_tensor_backward_communication_time_per_layer,
    recomputed_layer_fraction,
):
    """Messages of a backward pass that fit into waiting for the host: they are kernels in the same queue.

    Source: definition.
    """
    queued = queued_tensor_gradient_time_per_layer + recomputed_layer_fraction * queued_tensor_repeated_time_per_layer
    return queued - exposed_tensor_backward_communication_time_per_layer


@family(PASS=("forward", "backward"))
@quantity("s")
def overlapped_tensor_PASS_communication_time_per_layer(
    tensor_PASS_communication_time_per_layer,
    kernel_overlapped_tensor_PASS_time_per_layer,
    idle_overlapped_tensor_PASS_time_per_layer,
):
    """Tensor-parallel communication of a PASS pass that nobody waits for. Source: definition."""
    hidden = kernel_overlapped_tensor_PASS_time_per_layer + idle_overlapped_tensor_PASS_time_per_layer
    return np.clip(hidden, 0, tensor_PASS_communication_time_per_layer)


@quantity("s")
def overlapped_tensor_communication_time_per_layer(
    overlapped_tensor_forward_communication_time_per_layer, overlapped_tensor_backward_communication_time_per_layer
):
    """Tensor-parallel communication that nobody waits for. Source: definition."""
    return (
        overlapped_tensor_forward_communication_time_per_layer + overlapped_tensor_backward_communication_time_per_layer
    )


@quantity("s")
def overlapped_context_communication_time_per_layer(
    context_communication_time_per_layer,
    exposed_context_communication_time_per_layer,
    kernel_overlapped_context_forward_time_per_layer,
    kernel_overlapped_context_gradient_time_per_layer,
    communication_rounds,
    overlap_slowdown_fraction,
):
    """Context-parallel communication that nobody waits for. Source: arXiv 2310.01889, section 3."""
    forward = kernel_overlapped_context_forward_time_per_layer * (communication_rounds - 1)
    slowed = overlap_slowdown_fraction * (forward + kernel_overlapped_context_gradient_time_per_layer)
    return unwaited(context_communication_time_per_layer, exposed_context_communication_time_per_layer, slowed)


@quantity("s")
def overlapped_expert_communication_time_per_layer(
    expert_communication_time_per_layer,
    exposed_expert_communication_time_per_layer,
    exchanged_forward_time_per_layer,
    exchanged_backward_time_per_layer,
    exchange_slowdown_fraction,
):
    """Expert-parallel communication that nobody waits for. Source: arXiv 2412.19437, section 3.2.1."""
    slowed = exchange_slowdown_fraction * (exchanged_forward_time_per_layer + exchanged_backward_time_per_layer)
    return unwaited(expert_communication_time_per_layer, exposed_expert_communication_time_per_layer, slowed)
