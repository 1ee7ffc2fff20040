"""What tensor parallelism exchanges in a layer for a micro-batch, what of it runs beside kernels, and what is waited for."""

import numpy as np

from amped.quantity import MAPPING, parameter, quantity
from amped.records import of_phase, total


@parameter("boolean", category=MAPPING)
def overlap_tensor_communication():
    """Whether the reduction of an activation's gradient runs beside the gradient of the weight.

    Inputs that sequence parallelism gathers again run beside the other gradient in any case.
    Source: Megatron-LM, asynchronous tensor-parallel all-reduce.
    """
    return 1


@quantity("s")
def tensor_forward_communication_time_per_layer(tensor_durations):
    """Tensor-parallel communication of a micro-batch forward in one layer. Source: arXiv 1909.08053, section 3."""
    return total(d.time * d.count for d in tensor_durations)


@quantity("s")
def tensor_gather_time_per_layer(tensor_durations):
    """The gathers among it, which the backward pass repeats and turns into scatters. Source: arXiv 2205.05198, 4.2.2."""
    return total(
        [0.0 * tensor_durations[0].time, *(d.time * d.count for d in tensor_durations if d.kind == "all_gather")]
    )


@quantity("s")
def tensor_scatter_time_per_layer(tensor_durations):
    """The scatters among it, which the backward pass turns into gathers. Source: arXiv 2205.05198, section 4.2.2."""
    return total(
        [0.0 * tensor_durations[0].time, *(d.time * d.count for d in tensor_durations if d.kind == "reduce_scatter")]
    )


@parameter("boolean", category=MAPPING)
def overlap_forward_tensor_communication():
    """Whether the forward gathers and scatters of sequence parallelism run beside the products they feed, in chunks.

    With them the gathers of gradients that products of the backward pass start from.
    Source: NVIDIA Transformer Engine, user buffers (tp-comm-overlap).
    """
    return 0


@quantity("s")
def hidden_forward_tensor_time_per_layer(
    tensor_gather_time_per_layer, tensor_scatter_time_per_layer, product_forward_time_per_layer, tensor_parallel_rows,
    recomputed_layer_fraction, overlap_forward_tensor_communication,
):  # fmt: skip
    """Gathers and scatters beside products: all chunks but one of as many as there are shares.

    Backward what was scattered is gathered, as gradients. Source: NVIDIA Transformer Engine, user buffers (proj_dgrad,
    fc2_dgrad); arXiv 2305.06942 (products cut into chunks).
    """
    part = 1 - 1 / tensor_parallel_rows
    chunks = (tensor_gather_time_per_layer + tensor_scatter_time_per_layer) * part
    once = np.minimum(chunks, product_forward_time_per_layer) * (1 + recomputed_layer_fraction)
    gradients = np.minimum(tensor_scatter_time_per_layer * part, product_forward_time_per_layer)
    return overlap_forward_tensor_communication * (once + gradients)


@quantity("s")
def tensor_communication_beside_kernels_per_layer(
    tensor_forward_communication_time_per_layer, tensor_gather_time_per_layer, tensor_scatter_time_per_layer,
    input_gradient_time_per_layer, weight_gradient_time_per_layer, overlap_tensor_communication,
    hidden_forward_tensor_time_per_layer,
):  # fmt: skip
    """Forward in chunks; backward reductions beside gradients of weights, inputs gathered again beside the others.

    Source: arXiv 2205.05198, section 4.2.2; Megatron-LM, LinearWithGradAccumulationAndAsyncCommunication.
    """
    reduced = tensor_forward_communication_time_per_layer - tensor_scatter_time_per_layer
    beside_weights = overlap_tensor_communication * np.minimum(reduced, weight_gradient_time_per_layer)
    beside_inputs = np.minimum(tensor_gather_time_per_layer, input_gradient_time_per_layer)
    return beside_weights + beside_inputs + hidden_forward_tensor_time_per_layer


@quantity("s")
def tensor_communication_passes_per_layer(
    tensor_forward_communication_time_per_layer, tensor_gather_time_per_layer, recomputed_layer_fraction
):
    """Tensor-parallel communication of a micro-batch in one layer: forward, again when recomputing, and backward.

    Source: arXiv 2205.05198, sections 4.2.2 and 5.
    """
    forward = tensor_forward_communication_time_per_layer * (1 + recomputed_layer_fraction)
    return forward + tensor_forward_communication_time_per_layer + tensor_gather_time_per_layer


@quantity("s")
def idle_time_per_layer(
    forward_time_per_layer, input_gradient_time_per_layer, layer_durations, recomputed_layer_fraction
):
    """Time of a layer's passes, but for gradients of weights, in which the accelerator has no kernel and waits for the host.

    Source: definition; the host is slower than the kernels it launches.
    """
    forward = forward_time_per_layer - of_phase("forward", layer_durations)
    backward = input_gradient_time_per_layer - of_phase("input_gradient", layer_durations)
    return forward * (1 + recomputed_layer_fraction) + backward


@quantity("s")
def tensor_communication_beside_the_host_per_layer(
    tensor_communication_passes_per_layer, tensor_communication_beside_kernels_per_layer, idle_time_per_layer
):
    """Tensor-parallel communication that runs while the accelerator would wait for the host in any case.

    Source: definition; an exchange is a kernel in the same queue.
    """
    left = tensor_communication_passes_per_layer - tensor_communication_beside_kernels_per_layer
    return np.maximum(np.minimum(left, idle_time_per_layer), 0)


@quantity("s")
def hidden_tensor_communication_time_per_layer(
    tensor_communication_beside_kernels_per_layer, tensor_communication_beside_the_host_per_layer
):
    """Tensor-parallel communication that nobody waits for. Source: definition."""
    return tensor_communication_beside_kernels_per_layer + tensor_communication_beside_the_host_per_layer


@quantity("s")
def exposed_tensor_communication_time_per_layer(
    tensor_communication_passes_per_layer, tensor_communication_beside_kernels_per_layer,
    tensor_communication_beside_the_host_per_layer, overlap_slowdown_fraction, column_gather_time_per_layer,
):  # fmt: skip
    """Tensor-parallel communication that accelerators wait for. What runs beside kernels still slows them down.

    Source: arXiv 2205.05198, sections 4.2.2 and 5.
    """
    hidden = tensor_communication_beside_kernels_per_layer * (1 - overlap_slowdown_fraction)
    waits = tensor_communication_passes_per_layer - hidden - tensor_communication_beside_the_host_per_layer
    return waits + column_gather_time_per_layer


@quantity("s")
def end_communication_time(tensor_durations, has_vocabulary, sequence_parallel):
    """Tensor-parallel communication of a micro-batch at each end: the embedding's output, the gradient of the head's input.

    Source: arXiv 1909.08053, section 3. Differs: the sums of the loss, a few bytes a token, are left out.
    """
    once = [d for d in tensor_durations if d.name.startswith("feedforward")]
    halves = total(d.time for d in once if d.kind != "all_reduce") * sequence_parallel
    return has_vocabulary * (halves + total(d.time for d in once if d.kind == "all_reduce") * (1 - sequence_parallel))
