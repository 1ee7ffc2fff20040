"""Computation of a micro-batch in one layer, in the embedding and in the output head, pass by pass."""

import numpy as np

from amped.theory.language.quantity import family, quantity, records
from amped.theory.nouns.kernel_work import shares_of_products
from amped.theory.nouns.records import STREAMING, WEIGHTED, of_phase, total
from amped.theory.nouns.resources import beside


def launches_of(phase, durations):
    """The number of kernels that the host launches in one pass. Source: definition."""
    return total([0.0, *(d.kernels * d.count for d in durations if d.phase == phase)])


def launching_time(phase, durations, rates):
    """The time that the host needs to launch the kernels of one pass. Source: definition."""
    return launches_of(phase, durations) * rates[0].launch_time


def pass_time(phase, durations, rates):
    """The time of one pass: the longer of its kernels and of the time in which the host launches them.

    Source: definition; the host launches the next kernels while the accelerator runs earlier ones.
    """
    return np.maximum(of_phase(phase, durations), launching_time(phase, durations, rates))


# If a mixture layer up to its router is one CUDA graph, the host launches the operators whose names begin with these.
ROUTED = ("expert_sorting", "experts_", "expert_activation", "expert_weighting", "expert_up_bias", "expert_down_bias")


@records(choice="cuda_graph_scope", value="router")
def launched_layer_durations__router(layer_durations):
    """The durations of the operators of a layer. The host launches only the kernels of the experts.

    The other kernels are recorded in one CUDA graph.

    Source: Megatron-LM, --cuda-graph-scope attn moe_router moe_preprocess.
    """
    recorded = tuple(d.recorded() for d in layer_durations if not d.name.startswith(ROUTED))
    return recorded + tuple(d for d in layer_durations if d.name.startswith(ROUTED))


# If the router of a mixture layer alone is a CUDA graph, the operators whose names begin with these are in it.
OF_ROUTER = ("feedforward_norm", "router", "expert_choice", "shared_")


@records(choice="cuda_graph_scope", value="router_alone")
def launched_layer_durations__router_alone(layer_durations):
    """The durations of the operators of a layer. The host launches all their kernels but those around the router.

    The norm before the experts, the router and the shared experts are recorded in one CUDA graph.

    Source: Megatron-LM, --cuda-graph-scope moe_router moe_preprocess (TransformerLayer._te_cuda_graph_capture).
    """
    recorded = tuple(d.recorded() for d in layer_durations if d.name.startswith(OF_ROUTER))
    return recorded + tuple(d for d in layer_durations if not d.name.startswith(OF_ROUTER))


@family(SCOPE=("layer", "step"))
@records(choice="cuda_graph_scope", value="SCOPE")
def launched_layer_durations__SCOPE(layer_durations):
    """The durations of the operators of a layer. The host launches none of their kernels.

    The kernels of a SCOPE are recorded in one CUDA graph.

    Source: NVIDIA Transformer Engine, make_graphed_callables; Megatron-LM, --cuda-graph-scope full_iteration.
    """
    return tuple(d.recorded() for d in layer_durations)


@quantity("s")
def expert_host_time(host_time_per_expert, number_of_experts, expert_parallel_degree, MoE_fraction):
    """The time in which the host handles the experts of a layer on one accelerator, averaged over the layers.

    Source: definition.
    """
    return host_time_per_expert * number_of_experts / expert_parallel_degree * MoE_fraction


@quantity("s")
def layer_host_time(host_time_per_layer, host_time_factor, expert_host_time):
    """The least time that the host needs for the forward pass of a layer; the backward pass needs as much.

    It assumes that a slow host is slow in Python, and launches kernels of experts (compiled code) as fast as others.

    Source: definition; NVIDIA/TransformerEngine, issue 2053.
    """
    return host_time_per_layer * host_time_factor + expert_host_time


@quantity("s", choice="cuda_graph_scope", value="router_alone")
def layer_host_time__router_alone(host_time_per_layer, host_time_factor, expert_host_time, layer_durations):
    """The least time that the host needs for the forward pass of a layer, whose router is a CUDA graph of its own.

    It is the time for the experts, and a share of the time for the other operators: that of the kernels outside the
    graph. Assumes that the host handles each kernel equally long.

    Source: definition.
    """
    others = [d for d in layer_durations if not d.name.startswith(ROUTED)]
    outside = [d for d in others if not d.name.startswith(OF_ROUTER)]
    share = launches_of("forward", outside) / launches_of("forward", others)
    return host_time_per_layer * host_time_factor * share + expert_host_time


@quantity("1")
def host_ahead_fraction(
    host_waits_for_dispatch, overlap_expert_communication, steady_microbatch_fraction, MoE_fraction
):
    """The share of the host's time for a layer that can run beside the kernels of the layer.

    In a schedule that overlaps exchanges of tokens, one host thread launches the kernels of two micro-batches in turn.
    If the host waits in each mixture layer for the number of dispatched tokens, it waits for the kernels before the
    dispatch too. Assumes that it then never runs ahead of the kernels.

    Source: Megatron-Core, model_chunk_schedule_plan.py (TransformerLayerSchedulePlan.run) and token_dispatcher.py.
    """
    return 1 - host_waits_for_dispatch * overlap_expert_communication * steady_microbatch_fraction * MoE_fraction


@quantity("s")
def forward_time_per_layer(launched_layer_durations, kernel_rates, layer_host_time, host_ahead_fraction):
    """The time of a forward pass of a micro-batch in one layer: the longer of its kernels and of the host's time.

    Where the host cannot run ahead of the kernels, it is their sum. Source: arXiv 2410.00273, section 3.
    """
    kernels = pass_time("forward", launched_layer_durations, kernel_rates)
    return kernels + layer_host_time - beside(kernels, layer_host_time, host_ahead_fraction)


@family(OF=("input", "weight"))
@quantity("s")
def OF_gradient_time_per_layer(launched_layer_durations, kernel_rates, layer_host_time, host_ahead_fraction):
    """The time of the OF gradients of a micro-batch in one layer: the longer of the kernels and of the host's time.

    Half of the host's time for a backward pass is counted for the OF gradients. Where the host cannot run ahead of the
    kernels, it is their sum. Source: arXiv 2410.00273, section 3.
    """
    kernels, host = pass_time("OF_gradient", launched_layer_durations, kernel_rates), layer_host_time / 2
    return kernels + host - beside(kernels, host, host_ahead_fraction)


# --- kernels alone, without waiting for the host ---------------------------------------------------------------------


@family(PHASE=("forward", "input_gradient"))
@quantity("s")
def PHASE_kernel_time_per_layer(layer_durations):
    """The time of the kernels of a micro-batch in one layer in the phase PHASE.

    The time in which the accelerator waits for the host is left out.

    Source: definition.
    """
    return of_phase("PHASE", layer_durations)


@family(PHASE=("forward", "input_gradient"))
@quantity("s")
def PHASE_product_kernel_time_per_layer(layer_durations):
    """The time of the products with weights, for a micro-batch in one layer in the phase PHASE.

    The time in which the accelerator waits for the host is left out.

    Source: definition.
    """
    return of_phase("PHASE", [d for d in layer_durations if d.kind in WEIGHTED])


@family(
    TIME=("attention_core_gradient_time", "attention_core_forward_kernel_time"), PHASE=("input_gradient", "forward")
)
@quantity("s")
def TIME_per_layer(layer_durations, attention_core_operators):
    """The kernel time of the attention core of a micro-batch in one layer, in the phase PHASE.

    The attention core consists of scores, softmax, dropout and weighted values. The time in which the accelerator waits
    for the host is left out.

    Source: definition.
    """
    core = {o.name for o in attention_core_operators}
    return of_phase("PHASE", [d for d in layer_durations if d.name in core])


# --- recomputation ---------------------------------------------------------------------------------------------------


@quantity("s")
def attention_core_forward_time_per_layer(layer_durations, attention_core_operators, kernel_rates):
    """The forward time of the attention core (scores, softmax, dropout, weighted values) of a micro-batch in one layer.

    It is the longer of the kernels and of the time in which the host launches them. Selective recomputation runs the
    attention core again.

    Source: arXiv 2205.05198, section 5.
    """
    core = {o.name for o in attention_core_operators}
    return pass_time("forward", [d for d in layer_durations if d.name in core], kernel_rates)


@quantity("s")
def streaming_forward_time_per_layer(layer_durations, attention_core_operators, kernel_rates):
    """The forward time of the norms and element-wise operators of a layer outside the attention core.

    Source: arXiv 2007.00072, table 3.
    """
    core = {o.name for o in attention_core_operators}
    streaming = [d for d in layer_durations if d.kind in STREAMING and d.name not in core]
    return pass_time("forward", streaming, kernel_rates)


@quantity("s")
def last_product_forward_time_per_layer(layer_durations):
    """The forward time of the last product of a dense layer, the down projection.

    No backward pass needs its output, so recomputation can leave it out.

    Source: definition.
    """
    return of_phase("forward", [d for d in layer_durations if d.name == "feedforward_down"])


@family(OF=("", "product_"))
@quantity("s")
def repeated_OFkernel_time_per_layer(
    forward_OFkernel_time_per_layer, last_product_forward_time_per_layer, recomputation_stops_early
):
    """The time of the OFkernels of a recomputed forward pass in one layer.

    The pass runs all kernels, or stops before the last product of the layer, whose output the backward pass does not
    need.

    Source: PyTorch, torch.utils.checkpoint (set_checkpoint_early_stop).
    """
    return forward_OFkernel_time_per_layer - recomputation_stops_early * last_product_forward_time_per_layer


@quantity("s")
def repeated_time_per_layer(repeated_kernel_time_per_layer, launched_layer_durations, kernel_rates, layer_host_time):
    """The time to recompute the forward pass of a micro-batch in one layer: the longer of its kernels and of the host.

    Source: arXiv 2205.05198, section 5.
    """
    host = np.maximum(launching_time("forward", launched_layer_durations, kernel_rates), layer_host_time)
    return np.maximum(repeated_kernel_time_per_layer, host)


@quantity("s", choice="activation_recomputation", value="alternate_products")
def recomputed_product_time_per_layer__alternate_products(
    launched_layer_durations, kernel_rates, recomputed_projection_fraction, gated_mlp
):
    """The time of the recomputed products, if every second product of a layer is recomputed.

    The recomputed products are those of the keys, of the attention output and of the gates. The product of the keys is
    counted as a share of the projection into queries, keys and values.

    Source: torchtitan, parallelize_llama.py (_get_custom_policy). Differs: the gates of experts are recomputed too.
    """
    gate = gated_mlp / (1 + gated_mlp)
    shares = shares_of_products(1.0, gate)
    return repeated_products_time(launched_layer_durations, shares, recomputed_projection_fraction, kernel_rates)


@quantity("s", choice="activation_recomputation", value="kept_products")
def recomputed_product_time_per_layer__kept_products(
    launched_layer_durations, kernel_rates, kept_query_key_value, kept_attention_output, kept_feedforward_up
):
    """The time of the recomputed products, if the config says which products are kept.

    The projections before attention are kept or recomputed together. No backward pass needs the output of a down
    projection.

    Source: JAX, checkpoint_policies.save_only_these_names; OpenXLA, dead code elimination (what nobody reads).
    """
    shares = shares_of_products(1 - kept_attention_output, 1 - kept_feedforward_up)
    return repeated_products_time(launched_layer_durations, shares, 1 - kept_query_key_value, kernel_rates)


def repeated_products_time(durations, shares, projection_share, rates):
    """The time to run shares of the products with weights again: by name, and of the projections before attention.

    Source: definition.
    """
    products = [d for d in durations if d.phase == "forward" and d.kind in WEIGHTED]
    calls = [(d, d.count * shares.get(d.name, projection_share)) for d in products]
    launches = total([0.0, *(d.kernels * count for d, count in calls)])
    return np.maximum(total([0.0, *(d.time * count for d, count in calls)]), launches * rates[0].launch_time)


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
    """The time to recompute activations of a micro-batch in one layer, averaged over the layers.

    It is the sum of what is recomputed: whole layers, attention cores, products, norms and element-wise operators.

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
    """The time of a micro-batch in the PART in the phase PHASE. The output head contains the loss.

    Source: arXiv 1909.08053, section 3.
    """
    return pass_time("PHASE", PART_durations, kernel_rates)


@quantity("s")
def embedding_backward_time(embedding_durations, kernel_rates):
    """The time of the gradients of the embedding for a micro-batch. Source: arXiv 1909.08053, section 3."""
    return pass_time("input_gradient", embedding_durations, kernel_rates)


@quantity("s")
def backward_time_per_layer(
    input_gradient_time_per_layer, weight_gradient_time_per_layer, recomputation_time_per_layer
):
    """The computation time of a backward pass of a micro-batch in one layer, with recomputation. Source: definition."""
    return input_gradient_time_per_layer + weight_gradient_time_per_layer + recomputation_time_per_layer
