"""Communication of a micro-batch in one layer, and what of it runs beside kernels of the same micro-batch.

A second of computation hides a second of communication, once: products hide gathers and scatters in chunks, gradients
of weights hide the reduction of an activation's gradient, attention hides the travel of keys and values. Each window is
a part of the kernels of its pass, without those that hide something else.
"""

import numpy as np

from amped.theory.quantity import family, quantity
from amped.theory.records import total
from amped.theory.resources import beside


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


@quantity("s")
def tensor_gradient_communication_time_per_layer(
    tensor_forward_communication_time_per_layer, tensor_gather_time_per_layer
):
    """Tensor-parallel communication of the gradients of a micro-batch in one layer, and of inputs gathered again.

    Source: arXiv 2205.05198, section 4.2.2.
    """
    return tensor_forward_communication_time_per_layer + tensor_gather_time_per_layer


@quantity("s")
def tensor_backward_communication_time_per_layer(
    tensor_gradient_communication_time_per_layer,
    tensor_forward_communication_time_per_layer,
    recomputed_layer_fraction,
):
    """Tensor-parallel communication of a micro-batch backward in one layer, and again when recomputing.

    Source: arXiv 2205.05198, sections 4.2.2 and 5.
    """
    again = tensor_forward_communication_time_per_layer * recomputed_layer_fraction
    return again + tensor_gradient_communication_time_per_layer


# --- tensor parallelism beside kernels -------------------------------------------------------------------------------


@quantity("1")
def overlapped_chunk_fraction(tensor_parallel_rows, tensor_chunk_overlap_fraction):
    """Share of a gather or scatter that can run beside products: all chunks but one of as many as there are shares.

    Source: NVIDIA Transformer Engine, user buffers; arXiv 2305.06942 (products cut into chunks).
    """
    return (1 - 1 / tensor_parallel_rows) * tensor_chunk_overlap_fraction


@family(PASS=("forward", "repeated"))
@quantity("s")
def kernel_overlapped_tensor_PASS_time_per_layer(
    tensor_gather_time_per_layer,
    tensor_scatter_time_per_layer,
    PASS_product_kernel_time_per_layer,
    overlapped_chunk_fraction,
    overlap_forward_tensor_communication,
):
    """Gathers and scatters of a PASS pass beside products, in chunks.

    Source: NVIDIA Transformer Engine, user buffers; arXiv 2305.06942.
    """
    chunks = (tensor_gather_time_per_layer + tensor_scatter_time_per_layer) * overlapped_chunk_fraction
    return beside(chunks, PASS_product_kernel_time_per_layer, overlap_forward_tensor_communication)


@quantity("s")
def overlapped_input_gather_time_per_layer(
    tensor_gather_time_per_layer, input_gradient_kernel_time_per_layer, overlap_tensor_communication
):
    """Inputs that sequence parallelism gathers again, beside gradients of inputs.

    Source: arXiv 2205.05198, section 4.2.2; Megatron-LM, LinearWithGradAccumulationAndAsyncCommunication.
    """
    return beside(tensor_gather_time_per_layer, input_gradient_kernel_time_per_layer, overlap_tensor_communication)


@quantity("s")
def overlapped_gradient_gather_time_per_layer(
    tensor_scatter_time_per_layer,
    input_gradient_product_kernel_time_per_layer,
    input_gradient_kernel_time_per_layer,
    overlapped_input_gather_time_per_layer,
    overlapped_chunk_fraction,
    overlap_forward_tensor_communication,
):
    """What a forward pass scattered, gathered as gradients beside the products that start from them, in chunks.

    Source: NVIDIA Transformer Engine, user buffers (proj_dgrad, fc2_dgrad).
    """
    left = input_gradient_kernel_time_per_layer - overlapped_input_gather_time_per_layer
    window = np.minimum(input_gradient_product_kernel_time_per_layer, left)
    chunks = tensor_scatter_time_per_layer * overlapped_chunk_fraction
    return beside(chunks, window, overlap_forward_tensor_communication)


@quantity("s")
def overlapped_reduction_time_per_layer(
    tensor_forward_communication_time_per_layer,
    tensor_scatter_time_per_layer,
    weight_gradient_time_per_layer,
    overlap_tensor_communication,
):
    """Reduction of the gradients of activations beside the gradients of weights.

    Source: Megatron-LM, LinearWithGradAccumulationAndAsyncCommunication.
    """
    reduced = tensor_forward_communication_time_per_layer - tensor_scatter_time_per_layer
    return beside(reduced, weight_gradient_time_per_layer, overlap_tensor_communication)


@quantity("s")
def kernel_overlapped_tensor_gradient_time_per_layer(
    overlapped_input_gather_time_per_layer,
    overlapped_gradient_gather_time_per_layer,
    overlapped_reduction_time_per_layer,
):
    """Tensor-parallel communication of gradients beside kernels. Source: arXiv 2205.05198, section 4.2.2."""
    gathers = overlapped_input_gather_time_per_layer + overlapped_gradient_gather_time_per_layer
    return gathers + overlapped_reduction_time_per_layer


@quantity("s")
def kernel_overlapped_tensor_backward_time_per_layer(
    kernel_overlapped_tensor_gradient_time_per_layer,
    kernel_overlapped_tensor_repeated_time_per_layer,
    recomputed_layer_fraction,
):
    """Tensor-parallel communication beside kernels in a backward pass, with that of recomputation.

    Source: arXiv 2205.05198, sections 4.2.2 and 5.
    """
    again = kernel_overlapped_tensor_repeated_time_per_layer * recomputed_layer_fraction
    return kernel_overlapped_tensor_gradient_time_per_layer + again


# --- context parallelism ---------------------------------------------------------------------------------------------


@quantity("s")
def context_forward_communication_time_per_layer(context_durations, communication_rounds):
    """Exchange for a micro-batch in one layer in one pass, without gradients. Source: arXiv 2310.01889, section 3."""
    every = total(d.time * d.count for d in context_durations if not d.name.endswith("gradients"))
    return every / communication_rounds


@quantity("s")
def context_gradient_communication_time_per_layer(context_durations, context_forward_communication_time_per_layer):
    """Exchange for a micro-batch in one layer backward: of keys and values, and of their gradients.

    Source: arXiv 2310.01889, section 3.
    """
    gradients = [d.time * d.count for d in context_durations if d.name.endswith("gradients")]
    return total([context_forward_communication_time_per_layer, *gradients])


@quantity("s")
def context_communication_time_per_layer(
    context_forward_communication_time_per_layer, context_gradient_communication_time_per_layer, communication_rounds
):
    """Keys and values exchanged for a micro-batch in one layer, all passes. Source: arXiv 2310.01889."""
    forward = context_forward_communication_time_per_layer * (communication_rounds - 1)
    return forward + context_gradient_communication_time_per_layer


@quantity("1", choice="context_parallel_kind", value="ring")
def overlappable_attention_fraction__ring(context_parallel_degree):
    """Share of attention beside which keys and values can travel: every block's but the last.

    Source: arXiv 2310.01889, section 3.
    """
    return (context_parallel_degree - 1) / context_parallel_degree


@quantity("s")
def kernel_overlapped_context_forward_time_per_layer(
    context_forward_communication_time_per_layer,
    attention_core_forward_kernel_time_per_layer,
    overlappable_attention_fraction,
    overlap_context_communication,
):
    """Keys and values exchanged beside attention in a forward pass. Source: arXiv 2310.01889, section 3."""
    window = overlappable_attention_fraction * attention_core_forward_kernel_time_per_layer
    return beside(context_forward_communication_time_per_layer, window, overlap_context_communication)


@quantity("s")
def kernel_overlapped_context_gradient_time_per_layer(
    context_forward_communication_time_per_layer,
    context_gradient_communication_time_per_layer,
    attention_core_gradient_time_per_layer,
    input_gradient_kernel_time_per_layer,
    overlapped_input_gather_time_per_layer,
    overlapped_gradient_gather_time_per_layer,
    overlappable_attention_fraction,
    overlap_context_communication,
):
    """Keys, values and gradients exchanged beside attention backward, where no input is gathered.

    Source: arXiv 2310.01889, section 3. The last step of gradients in a ring has no attention left beside it.
    """
    gathers = overlapped_input_gather_time_per_layer + overlapped_gradient_gather_time_per_layer
    left = np.minimum(attention_core_gradient_time_per_layer, input_gradient_kernel_time_per_layer - gathers)
    keys = context_forward_communication_time_per_layer
    gradients = context_gradient_communication_time_per_layer - keys
    exchanged = keys + overlappable_attention_fraction * gradients
    return beside(exchanged, overlappable_attention_fraction * left, overlap_context_communication)


# --- grids and experts -----------------------------------------------------------------------------------------------


@family(STRATEGY=("2d_context", "2d_summa"))
@quantity("s", choice="tensor_parallel_strategy", value="STRATEGY")
def grid_column_gather_time_per_layer__STRATEGY(grid_column_durations):
    """Keys and values gathered over the columns for a micro-batch in one layer, all passes; attention waits for it.

    Source: arXiv 2410.00273, section 3.
    """
    return total(d.time * d.count for d in grid_column_durations)


@quantity("s", choice="feedforward_kind", value="mixture")
def expert_communication_time_per_layer__mixture(expert_durations, expert_tensor_durations):
    """Tokens exchanged between experts for a micro-batch in one layer, all passes. Source: arXiv 2006.16668."""
    return total(d.time * d.count for d in expert_durations + expert_tensor_durations)


@quantity("s")
def expert_forward_communication_time_per_layer(expert_communication_time_per_layer, communication_rounds):
    """Tokens exchanged between experts for a micro-batch in one layer in each pass. Source: arXiv 2006.16668."""
    return expert_communication_time_per_layer / communication_rounds
