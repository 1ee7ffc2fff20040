"""Computation of a micro-batch in one layer, in the embedding and in the output head, pass by pass."""

import numpy as np

from amped.theory.quantity import family, quantity, records
from amped.theory.records import STREAMING, WEIGHTED, of_phase, total

# The networks of a layer whose products are up (with gate) and down.
NETWORKS = ("feedforward", "experts", "shared_experts")


def launching_time(phase, durations, rates):
    """Time that the host needs to launch the kernels of one pass. Source: definition."""
    launches = total([0.0, *(d.kernels * d.count for d in durations if d.phase == phase)])
    return launches * rates[0].launch_time


def pass_time(phase, durations, rates):
    """Time of one pass: that of its kernels, but no less than the host needs to launch them.

    Source: definition; the host launches kernels while the accelerator runs those before.
    """
    return np.maximum(of_phase(phase, durations), launching_time(phase, durations, rates))


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


# --- kernels alone, beside which messages run ------------------------------------------------------------------------


@family(PHASE=("forward", "input_gradient"))
@quantity("s")
def PHASE_kernel_time_per_layer(layer_durations):
    """Time of the kernels of the PHASE pass of a micro-batch in one layer, whatever the host needs.

    Source: definition.
    """
    return of_phase("PHASE", layer_durations)


@family(PHASE=("forward", "input_gradient"))
@quantity("s")
def PHASE_product_kernel_time_per_layer(layer_durations):
    """Time of the products with weights among them. Source: definition."""
    return of_phase("PHASE", [d for d in layer_durations if d.kind in WEIGHTED])


@family(
    TIME=("attention_core_gradient_time", "attention_core_forward_kernel_time"), PHASE=("input_gradient", "forward")
)
@quantity("s")
def TIME_per_layer(layer_durations, attention_core_operators):
    """Time of the scores, softmax, dropout and values among those of the PHASE pass. Source: definition."""
    core = {o.name for o in attention_core_operators}
    return of_phase("PHASE", [d for d in layer_durations if d.name in core])


# --- what runs again -------------------------------------------------------------------------------------------------


@quantity("s")
def attention_core_forward_time_per_layer(layer_durations, attention_core_operators, kernel_rates):
    """Forward time of scores, softmax, dropout and values, which selective recomputation repeats.

    Source: arXiv 2205.05198, section 5.
    """
    core = {o.name for o in attention_core_operators}
    return pass_time("forward", [d for d in layer_durations if d.name in core], kernel_rates)


@quantity("s")
def streaming_forward_time_per_layer(layer_durations, attention_core_operators, kernel_rates):
    """Forward time of a layer's norms and element-wise operators outside attention.

    Source: arXiv 2007.00072, table 3.
    """
    core = {o.name for o in attention_core_operators}
    streaming = [d for d in layer_durations if d.kind in STREAMING and d.name not in core]
    return pass_time("forward", streaming, kernel_rates)


@quantity("s")
def last_product_forward_time_per_layer(layer_durations):
    """Forward time of the product that ends a dense layer, whose output nothing in the layer needs.

    Source: definition.
    """
    return of_phase("forward", [d for d in layer_durations if d.name == "feedforward_down"])


@family(OF=("", "product_"))
@quantity("s")
def repeated_OFkernel_time_per_layer(
    forward_OFkernel_time_per_layer, last_product_forward_time_per_layer, recomputation_stops_early
):
    """Time of these kernels of a forward pass that runs again: all, or as far as the last output that is needed.

    Source: PyTorch, torch.utils.checkpoint (set_checkpoint_early_stop).
    """
    return forward_OFkernel_time_per_layer - recomputation_stops_early * last_product_forward_time_per_layer


@quantity("s")
def repeated_time_per_layer(repeated_kernel_time_per_layer, launched_layer_durations, kernel_rates, layer_host_time):
    """Time to run a layer's forward pass again, no less than the host needs. Source: arXiv 2205.05198, section 5."""
    host = np.maximum(launching_time("forward", launched_layer_durations, kernel_rates), layer_host_time)
    return np.maximum(repeated_kernel_time_per_layer, host)


@quantity("s", choice="activation_recomputation", value="alternate_products")
def recomputed_product_time_per_layer__alternate_products(
    launched_layer_durations, kernel_rates, recomputed_projection_fraction, gated_mlp
):
    """Time of every second product: of keys (as their share of the projection), out of attention, and of gates.

    Source: torchtitan, parallelize_llama.py (_get_custom_policy). Differs: experts have a gate that is one, too.
    """
    gate = gated_mlp / (1 + gated_mlp)
    shares = {"attention_output": 1.0} | {f"{name}_up": gate for name in NETWORKS}
    kept = {f"{name}_down" for name in NETWORKS} | {"router"}
    products = [
        d for d in launched_layer_durations if d.phase == "forward" and d.kind in WEIGHTED and d.name not in kept
    ]
    calls = [(d, d.count * shares.get(d.name, recomputed_projection_fraction)) for d in products]
    launches = total([0.0, *(d.kernels * count for d, count in calls)])
    return np.maximum(total([0.0, *(d.time * count for d, count in calls)]), launches * kernel_rates[0].launch_time)


@quantity("s")
def recomputation_time_per_layer(
    repeated_time_per_layer,
    attention_core_forward_time_per_layer,
    recomputed_product_time_per_layer,
    streaming_forward_time_per_layer,
    recomputed_layer_fraction,
    recomputed_attention_core_fraction,
    recomputed_streaming_fraction,
):
    """Time to compute a layer's activations again, averaged over the layers.

    Source: arXiv 2205.05198, section 5.
    """
    whole = recomputed_layer_fraction * repeated_time_per_layer
    core = recomputed_attention_core_fraction * attention_core_forward_time_per_layer
    return (
        whole
        + core
        + recomputed_product_time_per_layer
        + recomputed_streaming_fraction * streaming_forward_time_per_layer
    )


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
