"""Mixtures of experts: the router, the routed experts, the shared experts, and how many tokens come to each expert.

The tokens of a micro-batch are divided among all accelerators of a stage's replicas. Each accelerator sends its own
tokens to their experts. A group of `expert_parallel_degree` accelerators holds all experts; each expert is cut into
`expert_tensor_parallel_degree` shares. A visit is one token that goes to one expert.
"""

import numpy as np

from amped.theory.language.quantity import quantity, records
from amped.theory.nouns.kernel_work import MOVE, ROUTING, Traffic, Work, activation_work, contraction, streamed
from amped.theory.nouns.layer_kinds import IN_EXPERTS, IN_MIXTURE, IN_ROUTER
from amped.theory.nouns.parameter_classes import EXPERTS
from amped.theory.nouns.places import COMBINED, DISPATCHED, EXPERTS_DONE, EXPERTS_UP_DONE, NETWORK_INPUTS
from amped.theory.nouns.records import Gemm


@quantity("count")
def routed_tokens(microbatch_tokens, tensor_parallel_rows):
    """The tokens of a micro-batch that one accelerator routes to experts.

    It is an equal share of the tokens, even if all tensor-parallel ranks hold all tokens.

    Source: Megatron-Core, MoE token dispatcher (mixtures under tensor parallelism are sequence parallel).
    """
    return microbatch_tokens / tensor_parallel_rows


@quantity("count")
def dispatched_tokens(routed_tokens, experts_per_token, expert_tensor_parallel_degree, expert_load_factor):
    """The rows that the experts of one accelerator compute: one row for each token and each of its experts.

    If several accelerators share the matrices of an expert, each of them computes the rows that all of them receive.

    Source: arXiv 2101.03961, section 2; arXiv 2504.14960, section on the token dispatcher (expert tensor parallelism).
    """
    return routed_tokens * experts_per_token * expert_tensor_parallel_degree * expert_load_factor


@quantity("count")
def expert_units_per_accelerator(expert_feedforward_dimension, expert_tensor_parallel_degree):
    """The hidden units of one routed expert on one accelerator. Source: Megatron-Core, expert tensor parallelism."""
    return expert_feedforward_dimension / expert_tensor_parallel_degree


@quantity("count")
def shared_expert_units_per_accelerator(shared_experts_feedforward_dimension, tensor_parallel_rows):
    """The hidden units of the shared experts on one accelerator. Source: arXiv 1909.08053, section 3."""
    return shared_experts_feedforward_dimension / tensor_parallel_rows


@quantity("count")
def experts_per_accelerator(number_of_experts, expert_parallel_degree):
    """The number of routed experts of a layer on one accelerator. Source: arXiv 2006.16668, section 3.3."""
    return number_of_experts / expert_parallel_degree


@records()
def routed_expert_gemms(
    dispatched_tokens, expert_width, gated_experts, experts_per_accelerator, expert_units_per_accelerator
):
    """The matrix products of the routed experts on an accelerator.

    Source: arXiv 2101.03961, section 2; Megatron-Core, expert tensor parallelism.
    """
    experts, inner = experts_per_accelerator, expert_units_per_accelerator
    visits, of_experts = dispatched_tokens / experts, {"batch": experts, "weights": EXPERTS}
    return (
        Gemm("experts_up", visits, (1 + gated_experts) * inner, expert_width, **of_experts),
        Gemm("experts_down", visits, expert_width, inner, **of_experts),
    )


@records()
def expert_gemms(
    microbatch_tokens,
    routed_tokens,
    dimensionality,
    expert_latent_dimension,
    gated_mlp,
    router_width,
    routed_expert_gemms,
    shared_expert_units_per_accelerator,
):
    """The matrix products of a mixture: router, routed experts, to a narrower width and back, shared experts.

    Source: arXiv 2101.03961, section 2; transformers, NemotronHMoE (fc1_latent_proj, fc2_latent_proj).
    """
    shared, latent = shared_expert_units_per_accelerator, expert_latent_dimension
    return (
        Gemm("router", routed_tokens, router_width, dimensionality),
        *routed_expert_gemms,
        Gemm("expert_narrowing", routed_tokens, latent, dimensionality, count=1.0 * (latent > 0)),
        Gemm("expert_widening", routed_tokens, dimensionality, latent, count=1.0 * (latent > 0)),
        Gemm("shared_experts_up", microbatch_tokens, (1 + gated_mlp) * shared, dimensionality),
        Gemm("shared_experts_down", microbatch_tokens, dimensionality, shared),
    )


@records(choice="feedforward_kind", value="mixture")
def expert_operators__mixture(
    routing_operators,
    narrowing_operators,
    routed_expert_operators,
    clamp_operators,
    expert_weighting_operators,
    expert_bias_operators,
    shared_expert_operators,
):
    """The operators of a mixture of experts: router, routed experts, sorting of tokens by expert, and shared experts.

    Source: arXiv 2101.03961, section 2; arXiv 2401.06066, section 3.
    """
    routed = routed_expert_operators + clamp_operators + expert_weighting_operators + expert_bias_operators
    return routing_operators + narrowing_operators + routed + shared_expert_operators


@records()
def narrowing_operators(expert_gemms, MoE_fraction, entry_costs):
    """The projections of tokens to the width of a latent mixture, and back. The first reads what the router keeps.

    Source: transformers, NemotronHMoE (fc1_latent_proj, fc2_latent_proj).
    """
    (cost,), (*_, narrowing, widening, _, _) = entry_costs, expert_gemms
    calls = {"count": MoE_fraction * narrowing.count}
    kept = widening.m * widening.k * cost.operand
    return (
        *contraction(narrowing, cost, after=NETWORK_INPUTS, part=IN_ROUTER, **calls),
        *contraction(widening, cost, stash=kept, after=(*EXPERTS_DONE, *COMBINED), part=IN_MIXTURE, **calls),
    )


@records()
def routing_operators(expert_gemms, linear_input_bytes, routing_precision, MoE_fraction, entry_costs):
    """The router, and the choice of experts for each token: softmax, top-k and balance loss.

    Softmax, top-k and balance loss each read and write the probabilities of all experts once.

    Source: arXiv 2101.03961, section 2.2.
    """
    router, (cost,), calls = expert_gemms[0], entry_costs, {"count": MoE_fraction, "part": IN_ROUTER}
    choice = cost.of(ROUTING, router.m * router.n, routing_precision)
    return (
        *contraction(router, cost, stash=linear_input_bytes, after=NETWORK_INPUTS, **calls),
        *streamed("expert_choice", "normalization", router.m, router.n, choice, after=("router",), **calls),
    )


@quantity("1")
def row_move_factor(indexed_row_bandwidth_fraction, expert_capacity_factor):
    """The bytes of a move of rows in the order of an index, as a multiple of the bytes of rows in their own order.

    It tells how much longer such a move takes. It is 1 with a capacity, as products with masks then move the rows.

    Source: arXiv 2006.16668 (GShard), section 2.2 (masks); the row of the accelerator in the table kernel_efficiencies.
    Differs: the products with masks are not counted.
    """
    return np.where(expert_capacity_factor > 0, 1.0, 1 / indexed_row_bandwidth_fraction)


@records()
def row_move_operators(
    expert_gemms,
    routed_tokens,
    experts_per_token,
    MoE_fraction,
    permuted_dispatch_fraction,
    row_move_factor,
    entry_costs,
):
    """The kernels that sort tokens by expert before the experts, and sort them back behind the experts.

    Source: arXiv 2211.15841, section 5.
    """
    up, (cost,), copies, kind = expert_gemms[1], entry_costs, 2 * MoE_fraction, "element_wise"
    rows = up.m * up.batch
    moved = (cost.of(MOVE, entries * up.k) for entries in (routed_tokens * experts_per_token, rows))
    sending, sorting = (m._replace(read=m.read * row_move_factor, written=m.written * row_move_factor) for m in moved)
    to_send = {"count": copies * permuted_dispatch_fraction, "after": ("expert_choice",), "part": IN_MIXTURE}
    to_sort = {"count": copies, "after": DISPATCHED, "part": IN_EXPERTS}
    return (
        *streamed("expert_permutation", kind, routed_tokens, up.k, Work(sending, sending), **to_send),
        *streamed("expert_sorting", kind, rows, up.k, Work(sorting, sorting), **to_sort),
    )


@records()
def routed_expert_operators(
    expert_gemms, row_move_operators, expert_activation_policy, clamped_activation, MoE_fraction, entry_costs
):
    """The routed experts: tokens are sorted by expert, pass through the experts, and are sorted back.

    The products of all experts run together, as grouped products. A clamped activation function compares each of its
    inputs with a limit.

    Source: arXiv 2101.03961, section 2; arXiv 2211.15841, section 5 (grouped products).
    """
    (_, up, down, *_), (cost,), (policy,) = expert_gemms, entry_costs, expert_activation_policy
    rows, calls = up.m * up.batch, {"count": MoE_fraction, "part": IN_EXPERTS}
    hidden, products = rows * down.k, {"kind": "grouped_contraction", **calls}
    compared = Traffic(flops=clamped_activation * rows * up.n * cost.flop)
    activated = activation_work(up, hidden, cost, policy) + Work(compared, compared)
    stash, function = hidden * cost.operand * (1 - policy.recomputed), ("expert_activation", "element_wise")
    return (
        *row_move_operators,
        *contraction(up, cost, stash=rows * up.k * cost.operand, after=("expert_sorting",), **products),
        *streamed(*function, rows, down.k, activated, after=EXPERTS_UP_DONE, **calls),
        *contraction(down, cost, stash=stash, after=("expert_activation", "expert_weighting"), **products),
    )


@records()
def shared_expert_operators(
    expert_gemms, activation_policy, shared_expert_gate, MoE_fraction, shared_expert_fraction, entry_costs
):
    """The shared experts, which tensor parallelism splits like a dense network, and the gate of their output.

    They keep no input of their own: they read the tokens that the router reads and keeps. The gate is the sigmoid of
    one number for each token, which it computes from the same tokens; it keeps the output.

    Source: arXiv 2401.06066, section 3.2; transformers, Qwen2MoeSparseMoeBlock (gate).
    """
    (*_, up, down), (cost,), (policy,) = expert_gemms, entry_costs, activation_policy
    hidden, calls = down.m * down.k, {"count": MoE_fraction * shared_expert_fraction, "part": IN_ROUTER}
    activated = activation_work(up, hidden, cost, policy)
    stash, before = hidden * cost.operand * (1 - policy.recomputed), ("shared_experts_up",)
    gated = Work(Traffic(3, read=2, written=1), Traffic(6, read=3, written=2), kept=1)
    gates = {"count": calls["count"] * shared_expert_gate, "part": IN_ROUTER, "after": ("shared_experts_down",)}
    outputs = cost.of(gated, down.m * down.n)
    return (
        *contraction(up, cost, after=NETWORK_INPUTS, **calls),
        *streamed("shared_activation", "element_wise", down.m, down.k, activated, after=before, **calls),
        *contraction(down, cost, stash=stash, after=("shared_activation",), **calls),
        *streamed("shared_expert_gate", "element_wise", down.m, down.n, outputs, **gates),
    )


@quantity("1")
def permuted_dispatch_fraction(deduplicated_dispatch):
    """The share of the visits that a kernel of its own puts into the order for sending: all, or none.

    Kernels that send a token once to an accelerator also reorder the tokens. Source: DeepEP, README.
    """
    return 1 - deduplicated_dispatch


@quantity("byte")
def dispatch_buffer_bytes(dispatched_tokens, expert_width, activation_precision, permuted_dispatch_fraction):
    """The buffers of tokens around the experts of an accelerator: four, or two.

    The four buffers hold the tokens as they arrive, as the experts have computed them, in the order for sending, and
    after the exchange. The last two are not needed if the kernels that send tokens also reorder them.

    Source: Megatron-Core, MoEAlltoAllTokenDispatcher; DeepEP.
    """
    return (2 + 2 * permuted_dispatch_fraction) * dispatched_tokens * expert_width * activation_precision


@quantity("byte", choice="dispatcher", value="allgather")
def dispatch_buffer_bytes__allgather(
    dispatched_tokens, routed_tokens, expert_parallel_degree, expert_width, activation_precision
):
    """The buffers of tokens around the experts of an accelerator, if every accelerator gathers all tokens.

    Two buffers hold the visits of its own experts, before and after them, and two hold all tokens: as they were
    gathered, and as sums over the visits before the reduce-scatter.

    Source: Megatron-Core, transformer/moe/token_dispatcher.py (MoEAllGatherTokenDispatcher).
    """
    return 2 * (dispatched_tokens + routed_tokens * expert_parallel_degree) * expert_width * activation_precision


@quantity("byte", choice="feedforward_kind", value="mixture")
def expert_working_bytes__mixture(dispatch_buffer_bytes, expert_weighting_bytes, MoE_fraction):
    """The working memory of a mixture of experts: buffers of tokens, or the buffers of a separate weighting.

    The larger of these two is counted.

    Source: definition.
    """
    return np.maximum(dispatch_buffer_bytes * (MoE_fraction > 0), expert_weighting_bytes)
