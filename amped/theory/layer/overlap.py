"""Communication of a micro-batch in one layer: what of it runs beside computation, and what is waited for.

A second of computation hides a second of communication on the same links, once: tensor parallelism first, then context
and experts. What is left of it hides the pipeline's and data parallelism's, on `step/overlap.py`.
"""

import numpy as np

from amped.theory.quantity import family, quantity
from amped.theory.records import of_phase, total

PASSES = ("forward", "backward")


@quantity("s")
def tensor_forward_communication_time_per_layer(tensor_durations):
    """Tensor-parallel communication of a micro-batch forward in one layer. Source: arXiv 1909.08053, section 3."""
    return total(d.time * d.count for d in tensor_durations)


@family(PART=("gather", "scatter"), KIND=("all_gather", "reduce_scatter"), TURNED=("scatters", "gathers"))
@quantity("s")
def tensor_PART_time_per_layer(tensor_durations):
    """The part of this communication that is KIND; the backward pass has TURNED in its place, and repeats gathers.

    Source: arXiv 2205.05198, section 4.2.2.
    """
    none = 0.0 * tensor_durations[0].time
    return total([none, *(d.time * d.count for d in tensor_durations if d.kind == "KIND")])


# --- what runs beside kernels ----------------------------------------------------------------------------------------


@quantity("s")
def kernel_overlapped_tensor_forward_time_per_layer(
    tensor_gather_time_per_layer,
    tensor_scatter_time_per_layer,
    product_forward_time_per_layer,
    tensor_parallel_rows,
    overlap_forward_tensor_communication,
):
    """Gathers and scatters of a forward pass beside products: all chunks but one of as many as there are shares.

    Source: NVIDIA Transformer Engine, user buffers; arXiv 2305.06942 (products cut into chunks).
    """
    chunks = (tensor_gather_time_per_layer + tensor_scatter_time_per_layer) * (1 - 1 / tensor_parallel_rows)
    return overlap_forward_tensor_communication * np.minimum(chunks, product_forward_time_per_layer)


@quantity("s")
def overlapped_gradient_gather_time_per_layer(
    tensor_scatter_time_per_layer,
    product_forward_time_per_layer,
    tensor_parallel_rows,
    overlap_forward_tensor_communication,
):
    """What a forward pass scattered, gathered as gradients beside the products that start from them, in chunks.

    Source: NVIDIA Transformer Engine, user buffers (proj_dgrad, fc2_dgrad).
    """
    chunks = tensor_scatter_time_per_layer * (1 - 1 / tensor_parallel_rows)
    return overlap_forward_tensor_communication * np.minimum(chunks, product_forward_time_per_layer)


@quantity("s")
def kernel_overlapped_tensor_backward_time_per_layer(
    tensor_forward_communication_time_per_layer,
    tensor_gather_time_per_layer,
    tensor_scatter_time_per_layer,
    input_gradient_time_per_layer,
    weight_gradient_time_per_layer,
    overlap_tensor_communication,
    kernel_overlapped_tensor_forward_time_per_layer,
    overlapped_gradient_gather_time_per_layer,
    recomputed_layer_fraction,
):
    """Time of reductions beside weight gradients, of inputs gathered beside others, and of recomputation as forward.

    Source: arXiv 2205.05198, section 4.2.2; Megatron-LM, LinearWithGradAccumulationAndAsyncCommunication.
    """
    reduced = tensor_forward_communication_time_per_layer - tensor_scatter_time_per_layer
    beside_weights = overlap_tensor_communication * np.minimum(reduced, weight_gradient_time_per_layer)
    beside_inputs = np.minimum(tensor_gather_time_per_layer, input_gradient_time_per_layer)
    again = kernel_overlapped_tensor_forward_time_per_layer * recomputed_layer_fraction
    return beside_weights + beside_inputs + overlapped_gradient_gather_time_per_layer + again


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
    """Time of a backward pass, but for gradients of weights, in which the accelerator waits for the host.

    Source: definition.
    """
    own = input_gradient_time_per_layer - of_phase("input_gradient", layer_durations)
    return own + idle_forward_time_per_layer * recomputed_layer_fraction


@family(PASS=PASSES)
@quantity("s")
def idle_overlapped_tensor_PASS_time_per_layer(
    tensor_PASS_communication_time_per_layer,
    kernel_overlapped_tensor_PASS_time_per_layer,
    idle_PASS_time_per_layer,
):
    """Exchanges of a PASS pass that fit into waiting for the host: they are kernels in the same queue.

    Source: definition.
    """
    left = tensor_PASS_communication_time_per_layer - kernel_overlapped_tensor_PASS_time_per_layer
    return np.maximum(np.minimum(left, idle_PASS_time_per_layer), 0)


@quantity("s")
def tensor_backward_communication_time_per_layer(
    tensor_forward_communication_time_per_layer, tensor_gather_time_per_layer, recomputed_layer_fraction
):
    """Tensor-parallel communication of a micro-batch backward in one layer, and again when recomputing.

    Source: arXiv 2205.05198, sections 4.2.2 and 5.
    """
    again = tensor_forward_communication_time_per_layer * recomputed_layer_fraction
    return again + tensor_forward_communication_time_per_layer + tensor_gather_time_per_layer


# --- what is left ----------------------------------------------------------------------------------------------------


@family(PASS=PASSES)
@quantity("s")
def exposed_tensor_PASS_communication_time_per_layer(
    tensor_PASS_communication_time_per_layer,
    kernel_overlapped_tensor_PASS_time_per_layer,
    idle_overlapped_tensor_PASS_time_per_layer,
    overlap_slowdown_fraction,
):
    """Exchanges of a PASS pass that accelerators wait for. What runs beside kernels still slows them down.

    Source: arXiv 2205.05198, sections 4.2.2 and 5.
    """
    beside = kernel_overlapped_tensor_PASS_time_per_layer * (1 - overlap_slowdown_fraction)
    return tensor_PASS_communication_time_per_layer - beside - idle_overlapped_tensor_PASS_time_per_layer


@family(PASS=PASSES)
@quantity("s")
def overlapped_tensor_PASS_communication_time_per_layer(
    kernel_overlapped_tensor_PASS_time_per_layer, idle_overlapped_tensor_PASS_time_per_layer
):
    """Tensor-parallel communication of a PASS pass that nobody waits for. Source: definition."""
    return kernel_overlapped_tensor_PASS_time_per_layer + idle_overlapped_tensor_PASS_time_per_layer


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


@quantity("s")
def overlapped_tensor_communication_time_per_layer(
    overlapped_tensor_forward_communication_time_per_layer, overlapped_tensor_backward_communication_time_per_layer
):
    """Tensor-parallel communication that nobody waits for. Source: definition."""
    return (
        overlapped_tensor_forward_communication_time_per_layer + overlapped_tensor_backward_communication_time_per_layer
    )


# --- what no tensor parallelism runs beside --------------------------------------------------------------------------


@quantity("s")
def unoverlapped_compute_time_per_layer(
    forward_time_per_layer,
    input_gradient_time_per_layer,
    weight_gradient_time_per_layer,
    overlapped_tensor_communication_time_per_layer,
):
    """Computation of a layer beside which no tensor-parallel communication runs. Source: definition."""
    compute = forward_time_per_layer + input_gradient_time_per_layer + weight_gradient_time_per_layer
    return np.maximum(compute - overlapped_tensor_communication_time_per_layer, 0)


# --- context parallelism ---------------------------------------------------------------------------------------------


@quantity("s")
def context_pass_communication_time_per_layer(context_durations, communication_rounds):
    """Exchange for a micro-batch in one layer in one pass, without gradients. Source: arXiv 2310.01889, section 3."""
    every = total(d.time * d.count for d in context_durations if not d.name.endswith("gradients"))
    return every / communication_rounds


@quantity("s")
def context_gradient_communication_time_per_layer(context_durations):
    """Exchange of the gradients of keys and values for a micro-batch in one layer.

    Source: arXiv 2310.01889, section 3.
    """
    gradients = [d.time * d.count for d in context_durations if d.name.endswith("gradients")]
    return total([0.0 * context_durations[0].time, *gradients])


@quantity("s")
def context_communication_time_per_layer(
    context_pass_communication_time_per_layer, communication_rounds, context_gradient_communication_time_per_layer
):
    """Keys and values exchanged for a micro-batch in one layer, all passes. Source: arXiv 2310.01889."""
    return (
        context_pass_communication_time_per_layer * communication_rounds + context_gradient_communication_time_per_layer
    )


@family(STRATEGY=("2d_context", "2d_summa"))
@quantity("s", choice="tensor_parallel_strategy", value="STRATEGY")
def grid_column_gather_time_per_layer__STRATEGY(grid_column_durations):
    """Keys and values gathered over the columns for a micro-batch in one layer, all passes; attention waits for it.

    Source: arXiv 2410.00273, section 3.
    """
    return total(d.time * d.count for d in grid_column_durations)


@quantity("1", choice="context_parallel_kind", value="ring")
def overlappable_attention_fraction__ring(context_parallel_degree):
    """Share of attention beside which keys and values can travel: every block's but the last.

    Source: arXiv 2310.01889, section 3.
    """
    return (context_parallel_degree - 1) / context_parallel_degree


@quantity("s")
def overlapped_context_communication_time_per_layer(
    context_pass_communication_time_per_layer,
    context_gradient_communication_time_per_layer,
    communication_rounds,
    attention_core_forward_time_per_layer,
    attention_core_gradient_time_per_layer,
    input_gradient_time_per_layer,
    tensor_gather_time_per_layer,
    overlappable_attention_fraction,
    overlap_context_communication,
):
    """Time of keys and values exchanged beside attention, forward and, where no input is gathered there, backward.

    Source: arXiv 2310.01889, section 3. The last step of gradients in a ring has no attention left beside it.
    """
    gathers = np.minimum(tensor_gather_time_per_layer, input_gradient_time_per_layer)
    left = np.minimum(attention_core_gradient_time_per_layer, input_gradient_time_per_layer - gathers)
    forward = np.minimum(
        context_pass_communication_time_per_layer,
        overlappable_attention_fraction * attention_core_forward_time_per_layer,
    )
    back = (
        context_pass_communication_time_per_layer
        + overlappable_attention_fraction * context_gradient_communication_time_per_layer
    )
    backward = np.minimum(back, overlappable_attention_fraction * left)
    return overlap_context_communication * (forward * (communication_rounds - 1) + backward)


@family(KIND=("context", "expert"))
@quantity("s")
def exposed_KIND_communication_time_per_layer(
    KIND_communication_time_per_layer, overlapped_KIND_communication_time_per_layer, overlap_slowdown_fraction
):
    """KIND-parallel communication that accelerators wait for, and what the overlapped part slows down.

    Source: arXiv 2310.01889, section 3 (keys and values); arXiv 2006.16668 (tokens).
    """
    overlapped = overlapped_KIND_communication_time_per_layer * (1 - overlap_slowdown_fraction)
    return KIND_communication_time_per_layer - overlapped


# --- expert parallelism ----------------------------------------------------------------------------------------------


@quantity("s", choice="feedforward_kind", value="mixture")
def expert_communication_time_per_layer__mixture(expert_durations, expert_tensor_durations):
    """Tokens exchanged between experts for a micro-batch in one layer, all passes. Source: arXiv 2006.16668."""
    return total(d.time * d.count for d in expert_durations + expert_tensor_durations)


@quantity("s")
def overlapped_expert_communication_time_per_layer(
    expert_communication_time_per_layer,
    unoverlapped_compute_time_per_layer,
    overlapped_context_communication_time_per_layer,
    overlap_expert_communication,
):
    """Travel of tokens beside the computation of another micro-batch. Source: arXiv 2412.19437, section 3.2.1."""
    window = unoverlapped_compute_time_per_layer - overlapped_context_communication_time_per_layer
    return overlap_expert_communication * np.minimum(expert_communication_time_per_layer, window)
