"""Time of one micro-batch in one layer, and at the two ends of the network: passes, and communication around them."""

import numpy as np

from amped.quantity import MAPPING, parameter, quantity
from amped.records import STREAMING, WEIGHTED, of_phase, total

CORE = ("attention_scores", "softmax", "attention_dropout", "attention_values", "fused_attention")


def pass_time(phase, durations, rates):
    """Time of one pass: that of its kernels, but no less than the host needs to launch them.

    Source: definition; the host launches kernels while the accelerator runs those before.
    """
    launches = total([0.0, *(d.kernels * d.count for d in durations if d.phase == phase)])
    return np.maximum(of_phase(phase, durations), launches * rates[0].dispatch)


@quantity("s")
def forward_time_per_layer(layer_durations, kernel_rates, host_time_per_layer):
    """Forward time of a micro-batch in one layer, no less than the host needs. Source: arXiv 2410.00273, section 3."""
    return np.maximum(pass_time("forward", layer_durations, kernel_rates), host_time_per_layer)


@quantity("s")
def input_gradient_time_per_layer(layer_durations, kernel_rates, host_time_per_layer):
    """Time of the gradients of a layer's activations for a micro-batch; half of the host's time backward is theirs.

    Source: arXiv 2410.00273, section 3.
    """
    return np.maximum(pass_time("input_gradient", layer_durations, kernel_rates), host_time_per_layer / 2)


@quantity("s")
def weight_gradient_time_per_layer(layer_durations, kernel_rates, host_time_per_layer):
    """Time of the gradients of a layer's weights for a micro-batch; half of the host's time backward is theirs.

    Source: arXiv 2410.00273, section 3.
    """
    return np.maximum(pass_time("weight_gradient", layer_durations, kernel_rates), host_time_per_layer / 2)


@quantity("s")
def core_forward_time_per_layer(layer_durations, kernel_rates):
    """Forward time of scores, softmax, dropout and values, which selective recomputation repeats.

    Source: arXiv 2205.05198, section 5.
    """
    return pass_time("forward", [d for d in layer_durations if d.name in CORE], kernel_rates)


@quantity("s")
def core_gradient_time_per_layer(layer_durations, kernel_rates):
    """Time of the gradients of scores, softmax, dropout and values for a micro-batch. Source: arXiv 2205.05198, section 5."""
    return pass_time("input_gradient", [d for d in layer_durations if d.name in CORE], kernel_rates)


@quantity("s")
def product_forward_time_per_layer(layer_durations, kernel_rates):
    """Forward time of a layer's products with weights. Source: arXiv 2410.00273, section 3."""
    return pass_time("forward", [d for d in layer_durations if d.kind in WEIGHTED], kernel_rates)


@quantity("s")
def streaming_forward_time_per_layer(layer_durations, kernel_rates):
    """Forward time of a layer's norms and element-wise operators outside attention. Source: arXiv 2007.00072, table 3."""
    streaming = [d for d in layer_durations if d.kind in STREAMING and d.name not in CORE]
    return pass_time("forward", streaming, kernel_rates)


@quantity("s")
def last_product_forward_time_per_layer(layer_durations, kernel_rates):
    """Forward time of the product that ends a dense layer, whose output nothing in the layer needs. Source: definition."""
    return pass_time("forward", [d for d in layer_durations if d.name == "feedforward_down"], kernel_rates)


@quantity("s")
def recomputation_time_per_layer(
    forward_time_per_layer, core_forward_time_per_layer, product_forward_time_per_layer,
    streaming_forward_time_per_layer, last_product_forward_time_per_layer, recomputed_layer_fraction,
    recomputed_core_fraction, recomputed_product_fraction, recomputed_streaming_fraction, recomputation_stops_early,
):  # fmt: skip
    """Time to compute a layer's activations again, averaged over the layers; or only as far as the last that is needed.

    Source: arXiv 2205.05198, section 5; PyTorch, torch.utils.checkpoint (set_checkpoint_early_stop).
    """
    again = forward_time_per_layer - recomputation_stops_early * last_product_forward_time_per_layer
    whole = recomputed_layer_fraction * again + recomputed_core_fraction * core_forward_time_per_layer
    products = recomputed_product_fraction * product_forward_time_per_layer
    return whole + products + recomputed_streaming_fraction * streaming_forward_time_per_layer


@quantity("s")
def embedding_forward_time(embedding_durations, kernel_rates):
    """Forward time of a micro-batch in the embedding. Source: arXiv 1909.08053, section 3."""
    return pass_time("forward", embedding_durations, kernel_rates)


@quantity("s")
def embedding_backward_time(embedding_durations, kernel_rates):
    """Time of the gradients of the embedding for a micro-batch. Source: arXiv 1909.08053, section 3."""
    return pass_time("input_gradient", embedding_durations, kernel_rates)


@quantity("s")
def head_forward_time(head_durations, kernel_rates):
    """Forward time of a micro-batch in the output head and its loss. Source: arXiv 1909.08053, section 3."""
    return pass_time("forward", head_durations, kernel_rates)


@quantity("s")
def head_input_gradient_time(head_durations, kernel_rates):
    """Time of the gradients of the output head's activations for a micro-batch. Source: arXiv 1909.08053, section 3."""
    return pass_time("input_gradient", head_durations, kernel_rates)


@quantity("s")
def head_weight_gradient_time(head_durations, kernel_rates):
    """Time of the gradients of the output head's weights for a micro-batch. Source: arXiv 1909.08053, section 3."""
    return pass_time("weight_gradient", head_durations, kernel_rates)


# --- tensor parallelism ----------------------------------------------------------------------------------------------


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
def hidden_tensor_communication_time_per_layer(
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
def exposed_tensor_communication_time_per_layer(
    tensor_forward_communication_time_per_layer, tensor_gather_time_per_layer, recomputed_layer_fraction,
    hidden_tensor_communication_time_per_layer, overlap_slowdown_fraction, column_gather_time_per_layer,
):  # fmt: skip
    """Tensor-parallel communication that accelerators wait for: forward, again when recomputing, and backward.

    Source: arXiv 2205.05198, sections 4.2.2 and 5. What is hidden still slows its neighbour down.
    """
    forward = tensor_forward_communication_time_per_layer * (1 + recomputed_layer_fraction)
    backward = tensor_forward_communication_time_per_layer + tensor_gather_time_per_layer
    hidden = hidden_tensor_communication_time_per_layer * (1 - overlap_slowdown_fraction)
    return forward + backward - hidden + column_gather_time_per_layer


@quantity("s")
def end_communication_time(tensor_durations, has_vocabulary, sequence_parallel):
    """Tensor-parallel communication of a micro-batch at each end: the embedding's output, the gradient of the head's input.

    Source: arXiv 1909.08053, section 3. Differs: the sums of the loss, a few bytes a token, are left out.
    """
    once = [d for d in tensor_durations if d.name.startswith("feedforward")]
    halves = total(d.time for d in once if d.kind != "all_reduce") * sequence_parallel
    return has_vocabulary * (halves + total(d.time for d in once if d.kind == "all_reduce") * (1 - sequence_parallel))


# --- experts ---------------------------------------------------------------------------------------------------------


@quantity("s")
def expert_communication_time_per_layer():
    """Tokens exchanged between experts: none in a dense network. Source: definition."""
    return 0


@quantity("s", choice="feedforward_kind", value="mixture")
def expert_communication_time_per_layer__mixture(expert_durations, expert_share_durations):
    """Tokens exchanged between experts for a micro-batch in one layer, all passes. Source: arXiv 2006.16668."""
    return total(d.time * d.count for d in expert_durations + expert_share_durations)
