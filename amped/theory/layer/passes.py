"""Computation of a micro-batch in one layer, in the embedding and in the output head, pass by pass."""

import numpy as np

from amped.theory.language.quantity import family, quantity, records
from amped.theory.nouns.conditions import WITH_TOWER
from amped.theory.nouns.kernel_work import shares_of_products
from amped.theory.nouns.layer_kinds import average_layer
from amped.theory.nouns.layer_records import (
    KindTime,
    LayerComputation,
    LayerDurations,
    LayerHost,
    LayerKernels,
    LayerRepeats,
    PassHost,
    PassKernels,
    ProductShares,
)
from amped.theory.nouns.records import STREAMING, WIDE, WITH_WEIGHTS, of_phase, total


def number_of_launches(phase, durations):
    """The number of kernels that the host launches in one pass of a layer.

    Args:
        phase: the pass, as in `Operator`.
        durations: the operators of the layer.

    Source: definition.
    """
    return total(d.kernels * d.count for d in durations if d.phase == phase)


def launching_time(phase, durations, rates):
    """The time that the host needs to launch the kernels of one pass of a layer.

    Args:
        phase: the pass, as in `Operator`.
        durations: the operators of the layer.
        rates: the record of `kernel_rates`.

    Source: definition.
    """
    return number_of_launches(phase, durations) * rates[0].launch_time


def pass_time(phase, durations, rates):
    """The time of one pass: the longer of its kernels and of the time in which the host launches them.

    Args:
        phase: the pass, as in `Operator`.
        durations: the operators of the layer.
        rates: the record of `kernel_rates`.

    Source: definition; the host launches the next kernels while the accelerator runs earlier ones.
    """
    return np.maximum(of_phase(phase, durations), launching_time(phase, durations, rates))


# --- the host --------------------------------------------------------------------------------------------------------


@records()
def kind_durations(layer_kinds, layer_durations):
    """The operators of a layer of each kind, and how long each takes. Source: definition."""
    return tuple(LayerDurations(kind.name, kind.durations(layer_durations)) for kind in layer_kinds)


@records(choice="expert_launches", value="each")
def kind_durations__each(layer_kinds, layer_durations, local_experts, kernels_per_cast, kernel_rates):
    """The operators of a layer of each kind; the host launches grouped products, and their casts, expert by expert.

    Casts are on one stream, so that the accelerator idles between two of them as between any two kernels. Products are
    on several streams; assumes that they hide the gaps of one another.

    Source: NVIDIA Transformer Engine, pytorch/module/grouped_linear.py (_GroupedLinear), common/gemm/cublaslt_gemm.cu
    (nvte_multi_tensor_gemm: a product for each expert, on four streams).
    """
    grouped = ("grouped_contraction", WIDE["grouped_contraction"])
    products = {d.name for d in layer_durations if d.kind in grouped}
    casts, gap = {f"{name}_casts" for name in products}, kernel_rates[0].overhead
    launches = dict.fromkeys(products, local_experts) | dict.fromkeys(casts, local_experts * kernels_per_cast)
    gaps = dict.fromkeys(casts, (local_experts * kernels_per_cast - 1) * gap)
    durations = [
        d.having(kernels=launches.get(d.name, d.kernels), time=d.time + gaps.get(d.name, 0.0)) for d in layer_durations
    ]
    return tuple(LayerDurations(kind.name, kind.durations(durations)) for kind in layer_kinds)


@quantity("count")
def local_experts(number_of_experts, expert_parallel_degree):
    """The number of routed experts whose weights an accelerator holds, in a layer. Source: definition."""
    return number_of_experts / expert_parallel_degree


def with_recorded_kernels(layers, is_recorded):
    """The operators of each kind of layer, in which the host launches no kernels that a CUDA graph records.

    Args:
        layers: the operators of a layer of each kind.
        is_recorded: the function that tells whether a part of a layer is recorded.

    Source: definition.
    """
    return tuple(
        LayerDurations(
            layer.name,
            (
                *(d.having(kernels=0 * d.kernels) for d in layer.durations if is_recorded(d.part)),
                *(d for d in layer.durations if not is_recorded(d.part)),
            ),
        )
        for layer in layers
    )


@records(choice="cuda_graph_scope", value="router")
def launched_durations__router(kind_durations):
    """The operators of a layer of each kind. The host launches only the kernels of the experts.

    The other kernels are recorded in one CUDA graph.

    Source: Megatron-LM, --cuda-graph-scope attn moe_router moe_preprocess.
    """
    return with_recorded_kernels(kind_durations, lambda part: part.graph != "experts")


@records(choice="cuda_graph_scope", value="router_alone")
def launched_durations__router_alone(kind_durations):
    """The operators of a layer of each kind. The host launches all their kernels but those around the router.

    The norm before the experts, the router and the shared experts are recorded in one CUDA graph.

    Source: Megatron-LM, --cuda-graph-scope moe_router moe_preprocess (TransformerLayer._te_cuda_graph_capture).
    """
    return with_recorded_kernels(kind_durations, lambda part: part.graph == "router")


@family(named=("launched_durations__layer", "launched_durations__step"), SCOPE=("layer", "step"))
@records(choice="cuda_graph_scope", value="SCOPE")
def launched_durations__SCOPE(kind_durations):
    """The operators of a layer of each kind. The host launches none of their kernels: a SCOPE is one CUDA graph.

    Source: NVIDIA Transformer Engine, make_graphed_callables; Megatron-LM, --cuda-graph-scope full_iteration.
    """
    return with_recorded_kernels(kind_durations, lambda _: True)


@records()
def layer_host_times(
    kind_durations,
    launched_durations,
    host_time_per_layer,
    host_time_per_launch,
    host_time_factor,
    gradient_layer_fraction,
):
    """The time in which the host handles each pass of a layer of each kind.

        time = time of a layer · factor of the processor · share of the operators outside CUDA graphs
             + further launches · time of a launch

    Further launches are those of operators that the host launches more than once: expert by expert. Half of the time of
    a layer in the backward pass is counted for the input gradients, half for the weight gradients. Assumes that the
    host handles each operator equally long, and that a slow host is slow in Python, but launches the kernels of experts
    (compiled code) as fast as others.

    Source: definition; NVIDIA/TransformerEngine, issue 2053 (Xeon and Grace).
    """
    layer_time = host_time_per_layer * host_time_factor
    passed = {"forward": 1.0}
    return tuple(
        LayerHost(
            layer.name,
            **{
                phase: pass_host(
                    phase,
                    layer.durations,
                    launches.durations,
                    layer_time * share * passed.get(phase, gradient_layer_fraction),
                    host_time_per_launch,
                )
                for phase, share in HOST_SHARES.items()
            },
        )
        for layer, launches in zip(kind_durations, launched_durations, strict=True)
    )


# The share of the host's time for a layer, forward or backward, that is counted for each pass.
HOST_SHARES = {"forward": 1.0, "input_gradient": 0.5, "weight_gradient": 0.5}


def pass_host(phase, operators, launched, layer_time, launch_time):
    """The time in which the host handles all operators of one pass of a layer, and that for the experts alone.

    Args:
        phase: the pass, as in `Operator`.
        operators: the operators of the layer.
        launched: the operators of the layer, without kernels where a CUDA graph records them.
        layer_time: the seconds for the operators of the pass, once each.
        launch_time: the seconds for each further launch.

    Source: definition.
    """

    def handled(durations):
        """The seconds for these operators."""
        calls = total(d.count * np.minimum(d.kernels, 1) for d in durations if d.phase == "forward")
        further = total(d.count * np.maximum(d.kernels - 1, 0) for d in durations if d.phase == phase)
        return layer_time * calls / all_calls + launch_time * further

    all_calls = total(d.count for d in operators if d.phase == "forward")
    experts = [d for d in launched if d.part.graph == "experts"]
    return PassHost(phase, every=handled(launched), experts=handled(experts))


@quantity("1", choice="feedforward_kind", value="mixture")
def dispatch_waits_fraction__mixture(host_waits_for_dispatch, expert_capacity_factor):
    """The share of the forward passes in which the host waits until it knows how many tokens each expert gets.

    The host needs these numbers for the shapes of what it launches next. It needs none if each expert has a buffer of a
    fixed size (a capacity factor). A backward pass takes the numbers of its forward pass.

    Source: Megatron-Core, transformer/moe/token_dispatcher.py (_maybe_dtoh_and_synchronize, drop_and_pad).
    """
    return host_waits_for_dispatch * (expert_capacity_factor <= 0)


@quantity("1", choice="feedforward_kind", value="mixture")
def host_waits_fraction__mixture(dispatch_waits_fraction, overlap_expert_communication, steady_microbatch_fraction):
    """The share of the passes of a mixture layer in which nothing that the host does can run beside kernels.

    In a schedule that overlaps exchanges of tokens, one host thread launches the kernels of two micro-batches in turn.
    If it waits in each mixture layer for the number of dispatched tokens of the one, it waits for the kernels of the
    other, too. Assumes that it then never runs ahead of the kernels.

    Source: Megatron-Core, model_chunk_schedule_plan.py (TransformerLayerSchedulePlan.run) and token_dispatcher.py.
    """
    return dispatch_waits_fraction * overlap_expert_communication * steady_microbatch_fraction


# --- computation -----------------------------------------------------------------------------------------------------


@records()
def layer_kernels(kind_durations, recomputation_stops_early):
    """The kernels of each pass of a layer of each kind, beside which messages may run.

    The time in which the accelerator waits for the host is not counted. A recomputed forward pass may stop before the
    last product of the layer, because the backward pass does not need the output of that product.

    Source: PyTorch, torch.utils.checkpoint (set_checkpoint_early_stop).
    """
    layers = []
    for layer in kind_durations:
        forward, gradient = (pass_kernels(phase, layer.durations) for phase in ("forward", "input_gradient"))
        last = [d for d in layer.durations if d.part.last and d.kind in WITH_WEIGHTS]
        skipped = recomputation_stops_early * of_phase("forward", last)
        repeated = forward.having(name="repeated", every=forward.every - skipped, products=forward.products - skipped)
        layers.append(LayerKernels(layer.name, forward=forward, repeated=repeated, gradient=gradient))
    return tuple(layers)


def pass_kernels(phase, durations):
    """The seconds of the kernels of one pass: of all, of the products with weights, and of the attention core.

    Args:
        phase: the pass, as in `Operator`.
        durations: the operators of the layer.

    Source: definition.
    """
    return PassKernels(
        phase,
        every=of_phase(phase, durations),
        products=of_phase(phase, [d for d in durations if d.kind in WITH_WEIGHTS]),
        attention_core=of_phase(phase, [d for d in durations if d.part.core]),
    )


def pass_time_with_host(kernels, before, host, waiting_share, serial_share):
    """The time of a pass: of its kernels or of the host, whichever is longer, if the host runs ahead of the kernels.

        ahead  = max(kernels, host)
        behind = max(ahead, kernels before the experts + host's time for the experts)
        serial = kernels + host

    If the host waits until it knows how many tokens each expert gets, all kernels before the experts have run by then.
    The accelerator waits for what the host launches for the experts, except beside their kernels; after them the host
    runs ahead again.

    Args:
        kernels: the seconds of the kernels of the pass.
        before: the seconds of those before the experts.
        host: the seconds of the host's work for the pass.
        waiting_share: the share of the passes in which the host waits for the number of tokens (behind).
        serial_share: the share of the passes in which the host never runs ahead (serial).

    Source: definition; Megatron-Core, transformer/moe/token_dispatcher.py.
    """
    ahead = np.maximum(kernels, host.every)
    time = ahead + waiting_share * (np.maximum(ahead, before + host.experts) - ahead)
    return time + serial_share * (kernels + host.every - time)


def kernels_before_experts(phase, durations):
    """The seconds of the kernels of a pass that are not kernels of routed experts.

    Args:
        phase: the pass, as in `Operator`.
        durations: the operators of the layer.

    Source: definition.
    """
    return of_phase(phase, [d for d in durations if d.part.graph != "experts"])


@records()
def layer_repeats(
    launched_durations,
    kind_durations,
    layer_kernels,
    recomputed_product_shares,
    kernel_rates,
    layer_host_times,
    layer_kinds,
    dispatch_waits_fraction,
    gradient_layer_fraction,
):
    """The time of what may run again in a layer of each kind: the longer of its kernels and of the host's time.

    Layers that run again have the adapters that the average layer has less of.

    Source: arXiv 2205.05198, section 5; arXiv 2007.00072, table 3 (norms and element-wise operators).
    """
    layers = []
    for launches, layer, kernels, host, kind in zip(
        launched_durations, kind_durations, layer_kernels, layer_host_times, layer_kinds, strict=True
    ):
        attention = [d for d in layer.durations if d.part.core]
        streaming = [d for d in layer.durations if d.kind in STREAMING and not d.part.core]
        more = 1 / gradient_layer_fraction - 1
        more_adapters = [d.having(count=d.count * more) for d in layer.durations if d.part.adapter]
        more_launches = [d.having(count=d.count * more) for d in launches.durations if d.part.adapter]
        launched = np.maximum(
            kernels.repeated.every + of_phase("forward", more_adapters),
            launching_time("forward", (*launches.durations, *more_launches), kernel_rates),
        )
        before, share = kernels_before_experts("forward", layer.durations), dispatch_waits_fraction * kind.mixtures
        repeats = LayerRepeats(
            layer.name,
            whole=pass_time_with_host(launched, before, host.forward, share, 0.0),
            attention_core=pass_time("forward", attention, kernel_rates),
            streaming=pass_time("forward", streaming, kernel_rates),
            products=total(
                repeated_products_time(launches.durations, shares, kernel_rates) for shares in recomputed_product_shares
            ),
        )
        layers.append(repeats)
    return tuple(layers)


@records()
def layer_computation(
    launched_durations,
    layer_repeats,
    kernel_rates,
    layer_host_times,
    layer_kinds,
    dispatch_waits_fraction,
    host_waits_fraction,
    recomputed_layer_fraction,
    recomputed_attention_core_fraction,
    recomputed_streaming_fraction,
):
    """For each kind of layer, the time of each pass: that of its kernels or that of the host, whichever is longer.

        recomputation = whole layers + attention cores + products + norms and element-wise operators

    Half of the host's time for a backward pass is counted for the input gradients, half for the weight gradients.

    Source: arXiv 2410.00273, section 3; arXiv 2205.05198, section 5 (recomputation).
    """
    layers, kinds = [], zip(launched_durations, layer_host_times, layer_kinds, layer_repeats, strict=True)
    for layer, host, kind, repeats in kinds:
        waiting_share, serial_share = dispatch_waits_fraction * kind.mixtures, host_waits_fraction * kind.mixtures
        times = {
            phase: pass_time_with_host(
                pass_time(phase, layer.durations, kernel_rates),
                kernels_before_experts(phase, layer.durations),
                getattr(host, phase),
                waiting_share * (phase == "forward"),
                serial_share,
            )
            for phase in HOST_SHARES
        }
        repeated = (
            recomputed_layer_fraction * repeats.whole + recomputed_attention_core_fraction * repeats.attention_core
        )
        computation = LayerComputation(
            layer.name,
            **times,
            recomputation=repeated + repeats.products + recomputed_streaming_fraction * repeats.streaming,
        )
        layers.append(computation)
    return tuple(layers)


@records()
def layer_host_waits(layer_computation, kind_durations):
    """The time in which no kernel runs in a layer of each kind, because the host launches kernels too late.

    Messages may run at that time. Forward passes that run again are not counted.

    Source: definition.
    """
    return tuple(
        KindTime(layer.name, total(getattr(times, phase) - of_phase(phase, layer.durations) for phase in HOST_SHARES))
        for times, layer in zip(layer_computation, kind_durations, strict=True)
    )


@records(choice="activation_recomputation", value="alternate_products")
def recomputed_product_shares__alternate_products(recomputed_projection_fraction, gated_mlp):
    """The shares of products that run again, if every second product of a layer is recomputed.

    The recomputed products are those of the keys, of the attention output and of the gates. The product of the keys is
    counted as a share of the projection into queries, keys and values. The gate is one of two equal up projections, so
    its share is 1/2 if the network is gated, else 0.

    Source: torchtitan, parallelize_llama.py (_get_custom_policy). Differs: the gates of experts are recomputed too.
    """
    return (
        ProductShares(
            "alternate",
            attention_output=1.0,
            up=gated_mlp / (1 + gated_mlp),
            projections=recomputed_projection_fraction,
        ),
    )


@records(choice="activation_recomputation", value="kept_products")
def recomputed_product_shares__kept_products(kept_query_key_value, kept_attention_output, kept_feedforward_up):
    """The shares of products that run again, if the config says which products are kept.

    The projections before attention are kept or recomputed together. No backward pass needs the output of a down
    projection.

    Source: JAX, checkpoint_policies.save_only_these_names; OpenXLA, dead code elimination (what nobody reads).
    """
    return (
        ProductShares(
            "kept",
            attention_output=1 - kept_attention_output,
            up=1 - kept_feedforward_up,
            projections=1 - kept_query_key_value,
        ),
    )


def repeated_products_time(durations, shares, rates):
    """The time in which a backward pass computes shares of the products with weights again.

    Args:
        durations: the operators of the layer.
        shares: the share of each product.
        rates: the record of `kernel_rates`.

    Source: definition.
    """
    shares_by_name = shares_of_products(shares.attention_output, shares.up)
    products = [
        d.having(count=d.count * shares_by_name.get(d.name, shares.projections))
        for d in durations
        if d.phase == "forward" and d.kind in WITH_WEIGHTS
    ]
    return pass_time("forward", products, rates)


@quantity("s")
def attention_core_forward_time_per_layer(layer_repeats, layer_kinds):
    """The forward time of the attention core (scores, softmax, dropout, weighted values), averaged over the layers.

    Source: arXiv 2205.05198, section 5.
    """
    return average_layer(layer_kinds, layer_repeats).attention_core


@quantity("s")
def repeated_time_per_layer(layer_repeats, layer_kinds):
    """The time to run the forward pass of a micro-batch through one layer again, averaged over the layers.

    Source: arXiv 2205.05198, section 5.
    """
    return average_layer(layer_kinds, layer_repeats).whole


# --- the ends of the network -----------------------------------------------------------------------------------------


@family(
    named=(
        "output_head_forward_time",
        "output_head_input_gradient_time",
        "output_head_weight_gradient_time",
    ),
    PHASE=("forward", "input_gradient", "weight_gradient"),
)
@quantity("s")
def output_head_PHASE_time(output_head_durations, kernel_rates, *, phase):
    """The time of a micro-batch in the output head, with the loss, in the phase PHASE.

    Source: arXiv 1909.08053, section 3.
    """
    return pass_time(phase, output_head_durations, kernel_rates)


@family(
    named=("embedding_forward_time", "embedding_backward_time"),
    PASS=("forward", "backward"),
    PHASE=("forward", "input_gradient"),
    WHAT=("The time of a micro-batch in the embedding", "The time of the gradients of the embedding for a micro-batch"),
)
@quantity("s")
def embedding_PASS_time(embedding_durations, tower_PASS_time, kernel_rates, *, phase):
    """WHAT, and in a tower before it. Source: arXiv 1909.08053, section 3; arXiv 2304.08485, section 4.1."""
    return pass_time(phase, embedding_durations, kernel_rates) + tower_PASS_time


@family(
    named=("tower_forward_time__encoder", "tower_backward_time__encoder"),
    PASS=("forward", "backward"),
    PHASES=(("forward",), ("input_gradient", "weight_gradient")),
)
@quantity("s", **WITH_TOWER)
def tower_PASS_time__encoder(tower_durations, kernel_rates, *, phases):
    """The PASS time of a micro-batch in a tower.

    Assumes that the host, which is ahead of the accelerator in the layers of the network, stays ahead in the tower.

    Source: arXiv 2304.08485, section 4.1.
    """
    return total(pass_time(phase, tower_durations, kernel_rates) for phase in phases)
