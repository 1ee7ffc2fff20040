"""Computation of a micro-batch in one layer, in the embedding and in the output head, pass by pass."""

import numpy as np

from amped.theory.quantity import family, quantity, records
from amped.theory.records import STREAMING, WEIGHTED, of_phase, total


def pass_time(phase, durations, rates):
    """Time of one pass: that of its kernels, but no less than the host needs to launch them.

    Source: definition; the host launches kernels while the accelerator runs those before.
    """
    launches = total([0.0, *(d.kernels * d.count for d in durations if d.phase == phase)])
    return np.maximum(of_phase(phase, durations), launches * rates[0].launch_time)


# What the host launches of a mixture's layer where all up to the router is a graph: these, and what follows them.
ROUTED = ("expert_sorting", "experts_", "expert_activation", "expert_weighting", "expert_up_bias", "expert_down_bias")


@records(choice="cuda_graph_scope", value="router")
def launched_layer_durations__router(layer_durations):
    """The operators of a layer, of which the host launches those of experts alone; the others are one graph.

    Source: Megatron-LM, --cuda-graph-scope attn moe_router moe_preprocess.
    """
    recorded = tuple(d.recorded() for d in layer_durations if not d.name.startswith(ROUTED))
    return recorded + tuple(d for d in layer_durations if d.name.startswith(ROUTED))


@family(SCOPE=("layer", "step"))
@records(choice="cuda_graph_scope", value="SCOPE")
def launched_layer_durations__SCOPE(layer_durations):
    """The operators of a layer, none of which the host launches: the SCOPE is one graph.

    Source: NVIDIA Transformer Engine, make_graphed_callables; Megatron-LM, --cuda-graph-scope full_iteration.
    """
    return tuple(d.recorded() for d in layer_durations)


@quantity("s")
def expert_host_time(host_time_per_expert, number_of_experts, expert_parallel_degree, MoE_fraction):
    """Time of the host for the experts of a layer that an accelerator holds, averaged over the layers.

    Source: definition.
    """
    return host_time_per_expert * number_of_experts / expert_parallel_degree * MoE_fraction


@quantity("s")
def layer_host_time(host_time_per_layer, expert_host_time):
    """Time of the host for a layer's forward pass, and again for its backward pass. Source: definition."""
    return host_time_per_layer + expert_host_time


@quantity("s")
def forward_time_per_layer(launched_layer_durations, kernel_rates, layer_host_time):
    """Forward time of a micro-batch in one layer, no less than the host needs. Source: arXiv 2410.00273, section 3."""
    return np.maximum(pass_time("forward", launched_layer_durations, kernel_rates), layer_host_time)


@family(OF=("input", "weight"))
@quantity("s")
def OF_gradient_time_per_layer(launched_layer_durations, kernel_rates, layer_host_time):
    """Time of the OF gradients of a layer for a micro-batch; half of the host's time backward is theirs.

    Source: arXiv 2410.00273, section 3.
    """
    return np.maximum(pass_time("OF_gradient", launched_layer_durations, kernel_rates), layer_host_time / 2)


@quantity("s")
def attention_core_forward_time_per_layer(layer_durations, attention_core_operators, kernel_rates):
    """Forward time of scores, softmax, dropout and values, which selective recomputation repeats.

    Source: arXiv 2205.05198, section 5.
    """
    core = {o.name for o in attention_core_operators}
    return pass_time("forward", [d for d in layer_durations if d.name in core], kernel_rates)


@quantity("s")
def attention_core_gradient_time_per_layer(layer_durations, attention_core_operators, kernel_rates):
    """Time of the gradients of scores, softmax, dropout and values for a micro-batch.

    Source: arXiv 2205.05198, section 5.
    """
    core = {o.name for o in attention_core_operators}
    return pass_time("input_gradient", [d for d in layer_durations if d.name in core], kernel_rates)


@quantity("s")
def product_forward_time_per_layer(layer_durations, kernel_rates):
    """Forward time of a layer's products with weights. Source: arXiv 2410.00273, section 3."""
    return pass_time("forward", [d for d in layer_durations if d.kind in WEIGHTED], kernel_rates)


@quantity("s")
def streaming_forward_time_per_layer(layer_durations, attention_core_operators, kernel_rates):
    """Forward time of a layer's norms and element-wise operators outside attention.

    Source: arXiv 2007.00072, table 3.
    """
    core = {o.name for o in attention_core_operators}
    streaming = [d for d in layer_durations if d.kind in STREAMING and d.name not in core]
    return pass_time("forward", streaming, kernel_rates)


@quantity("s")
def last_product_forward_time_per_layer(layer_durations, kernel_rates):
    """Forward time of the product that ends a dense layer, whose output nothing in the layer needs.

    Source: definition.
    """
    return pass_time("forward", [d for d in layer_durations if d.name == "feedforward_down"], kernel_rates)


@quantity("s")
def recomputation_time_per_layer(
    forward_time_per_layer,
    attention_core_forward_time_per_layer,
    product_forward_time_per_layer,
    streaming_forward_time_per_layer,
    last_product_forward_time_per_layer,
    recomputed_layer_fraction,
    recomputed_attention_core_fraction,
    recomputed_product_fraction,
    recomputed_streaming_fraction,
    recomputation_stops_early,
):
    """Time to compute a layer's activations again, averaged over the layers; or only as far as the last that is needed.

    Source: arXiv 2205.05198, section 5; PyTorch, torch.utils.checkpoint (set_checkpoint_early_stop).
    """
    again = forward_time_per_layer - recomputation_stops_early * last_product_forward_time_per_layer
    whole = (
        recomputed_layer_fraction * again + recomputed_attention_core_fraction * attention_core_forward_time_per_layer
    )
    products = recomputed_product_fraction * product_forward_time_per_layer
    return whole + products + recomputed_streaming_fraction * streaming_forward_time_per_layer


@family(
    PART=("embedding", "output_head", "output_head", "output_head"),
    PHASE=("forward", "forward", "input_gradient", "weight_gradient"),
)
@quantity("s")
def PART_PHASE_time(PART_durations, kernel_rates):
    """Time of the PHASE pass of a micro-batch in the PART, with its loss where that is the output head.

    Source: arXiv 1909.08053, section 3.
    """
    return pass_time("PHASE", PART_durations, kernel_rates)


@quantity("s")
def embedding_backward_time(embedding_durations, kernel_rates):
    """Time of the gradients of the embedding for a micro-batch. Source: arXiv 1909.08053, section 3."""
    return pass_time("input_gradient", embedding_durations, kernel_rates)


@quantity("s")
def backward_time_per_layer(
    input_gradient_time_per_layer, weight_gradient_time_per_layer, recomputation_time_per_layer
):
    """Computation of a layer in the backward pass of a micro-batch, with what is computed again. Source: definition."""
    return input_gradient_time_per_layer + weight_gradient_time_per_layer + recomputation_time_per_layer
