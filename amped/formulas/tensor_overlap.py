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


# --- what runs beside kernels ----------------------------------------------------------------------------------------


@quantity("s")
def forward_exchange_beside_kernels_per_layer(
    tensor_gather_time_per_layer, tensor_scatter_time_per_layer, product_forward_time_per_layer, tensor_parallel_rows,
    overlap_forward_tensor_communication,
):  # fmt: skip
    """Gathers and scatters of a forward pass beside products: all chunks but one of as many as there are shares.

    Source: NVIDIA Transformer Engine, user buffers; arXiv 2305.06942 (products cut into chunks).
    """
    chunks = (tensor_gather_time_per_layer + tensor_scatter_time_per_layer) * (1 - 1 / tensor_parallel_rows)
    return overlap_forward_tensor_communication * np.minimum(chunks, product_forward_time_per_layer)


@quantity("s")
def gradient_gather_beside_products_per_layer(
    tensor_scatter_time_per_layer, product_forward_time_per_layer, tensor_parallel_rows,
    overlap_forward_tensor_communication,
):  # fmt: skip
    """What a forward pass scattered, gathered as gradients beside the products that start from them, in chunks.

    Source: NVIDIA Transformer Engine, user buffers (proj_dgrad, fc2_dgrad).
    """
    chunks = tensor_scatter_time_per_layer * (1 - 1 / tensor_parallel_rows)
    return overlap_forward_tensor_communication * np.minimum(chunks, product_forward_time_per_layer)


@quantity("s")
def backward_exchange_beside_kernels_per_layer(
    tensor_forward_communication_time_per_layer, tensor_gather_time_per_layer, tensor_scatter_time_per_layer,
    input_gradient_time_per_layer, weight_gradient_time_per_layer, overlap_tensor_communication,
    forward_exchange_beside_kernels_per_layer, gradient_gather_beside_products_per_layer, recomputed_layer_fraction,
):  # fmt: skip
    """Reductions beside gradients of weights, inputs gathered again beside the others; what recomputing does as forward.

    Source: arXiv 2205.05198, section 4.2.2; Megatron-LM, LinearWithGradAccumulationAndAsyncCommunication.
    """
    reduced = tensor_forward_communication_time_per_layer - tensor_scatter_time_per_layer
    beside_weights = overlap_tensor_communication * np.minimum(reduced, weight_gradient_time_per_layer)
    beside_inputs = np.minimum(tensor_gather_time_per_layer, input_gradient_time_per_layer)
    again = forward_exchange_beside_kernels_per_layer * recomputed_layer_fraction
    return beside_weights + beside_inputs + gradient_gather_beside_products_per_layer + again


# --- what runs while the accelerator waits for its host --------------------------------------------------------------


@quantity("s")
def idle_forward_time_per_layer(forward_time_per_layer, layer_durations):
    """Time of a forward pass in which the accelerator has no kernel, as the host is slower than those it launches.

    Source: definition.
    """
    return forward_time_per_layer - of_phase("forward", layer_durations)


@quantity("s")
def idle_backward_time_per_layer(
    input_gradient_time_per_layer, layer_durations, idle_forward_time_per_layer, recomputed_layer_fraction
):
    """Time of a backward pass, but for gradients of weights, in which the accelerator waits for the host. Source: definition."""
    own = input_gradient_time_per_layer - of_phase("input_gradient", layer_durations)
    return own + idle_forward_time_per_layer * recomputed_layer_fraction


@quantity("s")
def forward_exchange_beside_the_host_per_layer(
    tensor_forward_communication_time_per_layer, forward_exchange_beside_kernels_per_layer, idle_forward_time_per_layer
):
    """Exchanges of a forward pass that fit into waiting for the host: they are kernels in the same queue. Source: definition."""
    left = tensor_forward_communication_time_per_layer - forward_exchange_beside_kernels_per_layer
    return np.maximum(np.minimum(left, idle_forward_time_per_layer), 0)


@quantity("s")
def backward_exchange_time_per_layer(
    tensor_forward_communication_time_per_layer, tensor_gather_time_per_layer, recomputed_layer_fraction
):
    """Tensor-parallel communication of a micro-batch backward in one layer, and again when recomputing.

    Source: arXiv 2205.05198, sections 4.2.2 and 5.
    """
    again = tensor_forward_communication_time_per_layer * recomputed_layer_fraction
    return again + tensor_forward_communication_time_per_layer + tensor_gather_time_per_layer


@quantity("s")
def backward_exchange_beside_the_host_per_layer(
    backward_exchange_time_per_layer, backward_exchange_beside_kernels_per_layer, idle_backward_time_per_layer
):
    """Exchanges of a backward pass that fit into waiting for the host. Source: definition."""
    left = backward_exchange_time_per_layer - backward_exchange_beside_kernels_per_layer
    return np.maximum(np.minimum(left, idle_backward_time_per_layer), 0)


# --- what is left ----------------------------------------------------------------------------------------------------


@quantity("s")
def exposed_forward_exchange_per_layer(
    tensor_forward_communication_time_per_layer, forward_exchange_beside_kernels_per_layer,
    forward_exchange_beside_the_host_per_layer, overlap_slowdown_fraction,
):  # fmt: skip
    """Exchanges of a forward pass that accelerators wait for. What runs beside kernels still slows them down.

    Source: arXiv 2205.05198, section 4.2.2.
    """
    beside = forward_exchange_beside_kernels_per_layer * (1 - overlap_slowdown_fraction)
    return tensor_forward_communication_time_per_layer - beside - forward_exchange_beside_the_host_per_layer


@quantity("s")
def exposed_backward_exchange_per_layer(
    backward_exchange_time_per_layer, backward_exchange_beside_kernels_per_layer,
    backward_exchange_beside_the_host_per_layer, overlap_slowdown_fraction,
):  # fmt: skip
    """Exchanges of a backward pass that accelerators wait for. What runs beside kernels still slows them down.

    Source: arXiv 2205.05198, sections 4.2.2 and 5.
    """
    beside = backward_exchange_beside_kernels_per_layer * (1 - overlap_slowdown_fraction)
    return backward_exchange_time_per_layer - beside - backward_exchange_beside_the_host_per_layer


@quantity("s")
def exposed_tensor_communication_time_per_layer(
    exposed_forward_exchange_per_layer, exposed_backward_exchange_per_layer, column_gather_time_per_layer
):
    """Tensor-parallel communication of a micro-batch in one layer that accelerators wait for. Source: arXiv 2205.05198, 4.2.2."""
    return exposed_forward_exchange_per_layer + exposed_backward_exchange_per_layer + column_gather_time_per_layer


@quantity("s")
def hidden_forward_exchange_per_layer(
    forward_exchange_beside_kernels_per_layer, forward_exchange_beside_the_host_per_layer
):
    """Tensor-parallel communication of a forward pass that nobody waits for. Source: definition."""
    return forward_exchange_beside_kernels_per_layer + forward_exchange_beside_the_host_per_layer


@quantity("s")
def hidden_backward_exchange_per_layer(
    backward_exchange_beside_kernels_per_layer, backward_exchange_beside_the_host_per_layer
):
    """Tensor-parallel communication of a backward pass that nobody waits for. Source: definition."""
    return backward_exchange_beside_kernels_per_layer + backward_exchange_beside_the_host_per_layer


@quantity("s")
def hidden_tensor_communication_time_per_layer(hidden_forward_exchange_per_layer, hidden_backward_exchange_per_layer):
    """Tensor-parallel communication that nobody waits for. Source: definition."""
    return hidden_forward_exchange_per_layer + hidden_backward_exchange_per_layer


@quantity("s")
def end_communication_time(tensor_durations, has_vocabulary, sequence_parallel):
    """Tensor-parallel communication of a micro-batch at each end: the embedding's output, the gradient of the head's input.

    Source: arXiv 1909.08053, section 3. Differs: the sums of the loss, a few bytes a token, are left out.
    """
    once = [d for d in tensor_durations if d.name.startswith("feedforward")]
    halves = total(d.time for d in once if d.kind != "all_reduce") * sequence_parallel
    return has_vocabulary * (halves + total(d.time for d in once if d.kind == "all_reduce") * (1 - sequence_parallel))
