"""Communication of a micro-batch in one layer, and the part of it that kernels of the same micro-batch hide.

A second of computation hides at most one second of communication. Matrix products hide gathers and scatters in chunks.
Weight gradients hide the reduction of input gradients. Attention hides the exchange of keys and values. The window for
each kind of message is a part of the kernels of its pass, without the kernels that already hide another kind.
"""

import numpy as np

from amped.theory.language.quantity import family, quantity
from amped.theory.nouns.parallelisms import OF_TOKENS, before
from amped.theory.nouns.records import total
from amped.theory.nouns.resources import beside


@quantity("s")
def tensor_forward_communication_time_per_layer(tensor_durations):
    """The tensor-parallel communication time of a forward pass of a micro-batch in one layer.

    Source: arXiv 1909.08053, section 3.
    """
    return total(d.time * d.count for d in tensor_durations)


@family(PART=("gather", "scatter"), KIND=("all_gather", "reduce_scatter"), TURNED=("scatters", "gathers"))
@quantity("s")
def tensor_PART_time_per_layer(tensor_durations):
    """The time of the tensor-parallel KINDs of a forward pass of a micro-batch in one layer.

    Where the forward pass has PARTs, the backward pass TURNED the gradients. The backward pass also repeats the gathers
    of the forward pass. Source: arXiv 2205.05198, section 4.2.2.
    """
    none = 0.0 * tensor_durations[0].time
    return total([none, *(d.time * d.count for d in tensor_durations if d.kind == "KIND")])


@quantity("s")
def tensor_gradient_gather_time_per_layer(tensor_gather_time_per_layer, gathered_gradient_layouts):
    """The time in which the backward pass gathers the gradients of what the forward pass has scattered, in one layer.

    Source: arXiv 2205.05198, section 4.2.2. Differs: it is the time of the forward pass's gathers, which are as large.
    """
    return tensor_gather_time_per_layer * gathered_gradient_layouts


@quantity("s")
def tensor_gradient_communication_time_per_layer(
    tensor_forward_communication_time_per_layer, tensor_gradient_gather_time_per_layer
):
    """The tensor-parallel communication time of a backward pass in one layer, without recomputation.

    A backward pass reduces as much as a forward pass. With sequence parallelism, it also gathers gradients, and gathers
    the inputs of the products once more.

    Source: arXiv 2205.05198, section 4.2.2.
    """
    return tensor_forward_communication_time_per_layer + tensor_gradient_gather_time_per_layer


@quantity("s")
def tensor_backward_communication_time_per_layer(
    tensor_gradient_communication_time_per_layer,
    tensor_forward_communication_time_per_layer,
    recomputed_layer_fraction,
):
    """The tensor-parallel communication time of a backward pass in one layer, with the communication of recomputation.

    Source: arXiv 2205.05198, sections 4.2.2 and 5.
    """
    again = tensor_forward_communication_time_per_layer * recomputed_layer_fraction
    return again + tensor_gradient_communication_time_per_layer


# --- tensor parallelism beside kernels -------------------------------------------------------------------------------


@quantity("1")
def overlapped_chunk_fraction(tensor_parallel_rows, tensor_chunk_overlap_fraction):
    """The share of an all-gather or a reduce-scatter that can run beside matrix products.

    The message is cut into as many chunks as the tensor-parallel grid has rows. All chunks but one can overlap.

    Source: NVIDIA Transformer Engine 2, comm_gemm_overlap.cpp (split_overlap_ag, split_overlap_rs).
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
    """The time of all-gathers and reduce-scatters, cut into chunks, that runs beside the products of a PASS pass.

    A repeated pass is a forward pass that runs again for recomputation.

    Source: NVIDIA Transformer Engine 2, comm_gemm_overlap.cpp (split_overlap_ag, split_overlap_rs).
    """
    chunks = (tensor_gather_time_per_layer + tensor_scatter_time_per_layer) * overlapped_chunk_fraction
    return beside(chunks, PASS_product_kernel_time_per_layer, overlap_forward_tensor_communication)


@quantity("s")
def overlapped_input_gather_time_per_layer(
    tensor_gather_time_per_layer, input_gradient_kernel_time_per_layer, overlap_tensor_communication
):
    """The time in which a backward pass gathers inputs again while input gradients are computed.

    Source: arXiv 2205.05198, section 4.2.2; Megatron-LM, LinearWithGradAccumulationAndAsyncCommunication.
    """
    return beside(tensor_gather_time_per_layer, input_gradient_kernel_time_per_layer, overlap_tensor_communication)


@quantity("s")
def overlapped_gradient_gather_time_per_layer(
    tensor_gradient_gather_time_per_layer,
    input_gradient_product_kernel_time_per_layer,
    input_gradient_kernel_time_per_layer,
    overlapped_input_gather_time_per_layer,
    overlapped_chunk_fraction,
    overlap_forward_tensor_communication,
):
    """The time in which gradients are gathered, in chunks, while products that use these gradients run.

    With sequence parallelism, the backward pass gathers the gradients of what the forward pass has scattered.

    Source: NVIDIA Transformer Engine, user buffers (proj_dgrad, fc2_dgrad).
    """
    left = input_gradient_kernel_time_per_layer - overlapped_input_gather_time_per_layer
    window = np.minimum(input_gradient_product_kernel_time_per_layer, left)
    chunks = tensor_gradient_gather_time_per_layer * overlapped_chunk_fraction
    return beside(chunks, window, overlap_forward_tensor_communication)


@quantity("s")
def ungathered_gradient_kernel_time_per_layer(
    input_gradient_kernel_time_per_layer,
    overlapped_input_gather_time_per_layer,
    overlapped_gradient_gather_time_per_layer,
):
    """The kernel time of input gradients in one layer beside which no tensor-parallel gather runs.

    Source: definition.
    """
    gathers = overlapped_input_gather_time_per_layer + overlapped_gradient_gather_time_per_layer
    return input_gradient_kernel_time_per_layer - gathers


@quantity("s")
def overlapped_reduction_time_per_layer(
    tensor_forward_communication_time_per_layer,
    tensor_gather_time_per_layer,
    weight_gradient_time_per_layer,
    overlap_tensor_communication,
    weight_gradients_hide_reductions,
):
    """The time in which input gradients are reduced while weight gradients are computed.

    Source: Megatron-LM, LinearWithGradAccumulationAndAsyncCommunication.
    """
    reduced = tensor_forward_communication_time_per_layer - tensor_gather_time_per_layer
    share = overlap_tensor_communication * weight_gradients_hide_reductions
    return beside(reduced, weight_gradient_time_per_layer, share)


@quantity("s")
def kernel_overlapped_tensor_gradient_time_per_layer(
    overlapped_input_gather_time_per_layer,
    overlapped_gradient_gather_time_per_layer,
    overlapped_reduction_time_per_layer,
):
    """The tensor-parallel communication time of a backward pass that runs beside kernels, without recomputation.

    Source: arXiv 2205.05198, section 4.2.2.
    """
    gathers = overlapped_input_gather_time_per_layer + overlapped_gradient_gather_time_per_layer
    return gathers + overlapped_reduction_time_per_layer


@quantity("s")
def kernel_overlapped_tensor_backward_time_per_layer(
    kernel_overlapped_tensor_gradient_time_per_layer,
    kernel_overlapped_tensor_repeated_time_per_layer,
    recomputed_layer_fraction,
):
    """The tensor-parallel communication time of a backward pass that runs beside kernels, with recomputation.

    Source: arXiv 2205.05198, sections 4.2.2 and 5.
    """
    again = kernel_overlapped_tensor_repeated_time_per_layer * recomputed_layer_fraction
    return kernel_overlapped_tensor_gradient_time_per_layer + again


# --- parallelisms that split the tokens of a sequence ----------------------------------------------------------------


@family(KIND=OF_TOKENS)
@quantity("s")
def KIND_forward_communication_time_per_layer(KIND_durations, communication_rounds):
    """The KIND-parallel communication time of a micro-batch in one layer, in one pass, without gradients.

    Source: arXiv 2310.01889, section 3.
    """
    every = total(d.time * d.count for d in KIND_durations if not d.name.endswith("gradients"))
    return every / communication_rounds


@family(KIND=OF_TOKENS)
@quantity("s")
def KIND_gradient_communication_time_per_layer(KIND_durations, KIND_forward_communication_time_per_layer):
    """The KIND-parallel communication time of a backward pass in one layer, without recomputation.

    The pass communicates keys and values, and their gradients.

    Source: arXiv 2310.01889, section 3.
    """
    gradients = [d.time * d.count for d in KIND_durations if d.name.endswith("gradients")]
    return total([KIND_forward_communication_time_per_layer, *gradients])


@family(KIND=OF_TOKENS)
@quantity("s")
def KIND_communication_time_per_layer(
    KIND_forward_communication_time_per_layer, KIND_gradient_communication_time_per_layer, communication_rounds
):
    """The KIND-parallel communication time of a micro-batch in one layer, in all passes.

    Source: arXiv 2310.01889, section 3.
    """
    forward = KIND_forward_communication_time_per_layer * (communication_rounds - 1)
    return forward + KIND_gradient_communication_time_per_layer


@quantity("1", choice="context_parallel_kind", value="ring")
def context_overlappable_attention_fraction__ring(context_parallel_degree):
    """The share of attention that can run while keys and values travel: all blocks of a ring except the last one.

    Source: arXiv 2310.01889, section 3.
    """
    return (context_parallel_degree - 1) / context_parallel_degree


@family(KIND=OF_TOKENS, EARLIER=tuple(before(kind, OF_TOKENS) for kind in OF_TOKENS))
@quantity("s")
def kernel_overlapped_KIND_forward_time_per_layer(
    KIND_forward_communication_time_per_layer,
    attention_core_forward_kernel_time_per_layer,
    kernel_overlapped_EARLIER_forward_time_per_layer,
    KIND_overlappable_attention_fraction,
    overlap_KIND_communication,
):
    """The time in which keys and values are exchanged while attention runs in a forward pass (KIND parallelism).

    Source: arXiv 2310.01889, section 3.
    """
    left = attention_core_forward_kernel_time_per_layer - total(
        [0.0, *kernel_overlapped_EARLIER_forward_time_per_layer]
    )
    window = KIND_overlappable_attention_fraction * left
    return beside(KIND_forward_communication_time_per_layer, window, overlap_KIND_communication)


@family(KIND=OF_TOKENS, EARLIER=tuple(before(kind, OF_TOKENS) for kind in OF_TOKENS))
@quantity("s")
def kernel_overlapped_KIND_gradient_time_per_layer(
    KIND_forward_communication_time_per_layer,
    KIND_gradient_communication_time_per_layer,
    attention_core_gradient_time_per_layer,
    ungathered_gradient_kernel_time_per_layer,
    kernel_overlapped_EARLIER_gradient_time_per_layer,
    KIND_overlappable_attention_fraction,
    overlap_KIND_communication,
):
    """The time in which keys, values and their gradients are exchanged while attention runs in a backward pass.

    A kernel beside which tensor-parallel messages already run cannot hide these exchanges too. Gradients make one more
    step around the ring than keys and values; no attention runs beside that step. Source: arXiv 2310.01889, section 3.
    """
    left = np.minimum(attention_core_gradient_time_per_layer, ungathered_gradient_kernel_time_per_layer)
    left = left - total([0.0, *kernel_overlapped_EARLIER_gradient_time_per_layer])
    keys = KIND_forward_communication_time_per_layer
    gradients = KIND_gradient_communication_time_per_layer - keys
    exchanged = keys + KIND_overlappable_attention_fraction * gradients
    return beside(exchanged, KIND_overlappable_attention_fraction * left, overlap_KIND_communication)


# --- grids and experts -----------------------------------------------------------------------------------------------


@family(STRATEGY=("2d_context", "2d_summa"))
@quantity("s", choice="tensor_parallel_strategy", value="STRATEGY")
def grid_column_gather_time_per_layer__STRATEGY(grid_column_durations):
    """The time to gather keys and values over the columns of the grid, for a micro-batch in one layer, in all passes.

    Attention waits for this gather. Source: arXiv 2410.00273, section 3.
    """
    return total(d.time * d.count for d in grid_column_durations)


@quantity("s", choice="feedforward_kind", value="mixture")
def expert_communication_time_per_layer__mixture(expert_durations, expert_tensor_durations):
    """The time to exchange tokens between experts, for a micro-batch in one layer, in all passes.

    Source: arXiv 2006.16668, section 3.
    """
    return total(d.time * d.count for d in expert_durations + expert_tensor_durations)


@family(KIND=(*OF_TOKENS, "expert"))
@quantity("s")
def KIND_backward_communication_time_per_layer(
    KIND_communication_time_per_layer, KIND_forward_communication_time_per_layer
):
    """The KIND-parallel communication time of a backward pass in one layer, with recomputation. Source: definition."""
    return KIND_communication_time_per_layer - KIND_forward_communication_time_per_layer


@quantity("s")
def expert_forward_communication_time_per_layer(expert_communication_time_per_layer, communication_rounds):
    """The time to exchange tokens between experts, for a micro-batch in one layer, in each pass.

    Source: arXiv 2006.16668, section 3.
    """
    return expert_communication_time_per_layer / communication_rounds
