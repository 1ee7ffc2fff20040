"""Mixtures of experts: the router, the routed experts, the shared experts, and how many tokens come to each.

Tokens are dealt out over all accelerators of a stage's replicas; each sends those of its own to their experts. A group
of `expert_parallel_degree` holds all experts, each cut into `expert_tensor_parallel_degree` shares.
"""

import numpy as np

from amped.theory.kernel_work import MOVE, ROUTING, Work, activation_work, contraction, streamed
from amped.theory.places import DISPATCHED, NETWORK_INPUTS
from amped.theory.quantity import quantity, records
from amped.theory.records import Gemm


@quantity("count")
def routed_tokens(microbatch_tokens, tensor_parallel_rows):
    """Tokens of a micro-batch that one accelerator routes: its share, also where others have the same tokens.

    Source: Megatron-Core, MoE token dispatcher (mixtures under tensor parallelism are sequence parallel).
    """
    return microbatch_tokens / tensor_parallel_rows


@quantity("count")
def dispatched_tokens(routed_tokens, experts_per_token, expert_tensor_parallel_degree, expert_load_factor):
    """Visits of tokens to the experts of one accelerator: those sent by all that share an expert's matrices.

    Source: arXiv 2101.03961, section 2; arXiv 2504.14960 (expert tensor parallelism).
    """
    return routed_tokens * experts_per_token * expert_tensor_parallel_degree * expert_load_factor


@records()
def expert_gemms(
    microbatch_tokens,
    routed_tokens,
    dispatched_tokens,
    dimensionality,
    expert_feedforward_dimension,
    gated_experts,
    gated_mlp,
    number_of_experts,
    shared_experts_feedforward_dimension,
    tensor_parallel_rows,
    expert_parallel_degree,
    expert_tensor_parallel_degree,
):
    """Router, the accelerator's routed experts (each visit of a token is a row), shared experts.

    Source: arXiv 2101.03961, section 2; Megatron-Core, expert tensor parallelism.
    """
    experts = number_of_experts / expert_parallel_degree
    visits, inner = dispatched_tokens / experts, expert_feedforward_dimension / expert_tensor_parallel_degree
    shared = shared_experts_feedforward_dimension / tensor_parallel_rows
    return (
        Gemm("router", routed_tokens, number_of_experts, dimensionality),
        Gemm("experts_up", visits, (1 + gated_experts) * inner, dimensionality, experts),
        Gemm("experts_down", visits, dimensionality, inner, experts),
        Gemm("shared_experts_up", microbatch_tokens, (1 + gated_mlp) * shared, dimensionality),
        Gemm("shared_experts_down", microbatch_tokens, dimensionality, shared),
    )


@records(choice="feedforward_kind", value="mixture")
def expert_operators__mixture(
    routing_operators,
    routed_expert_operators,
    expert_weighting_operators,
    expert_bias_operators,
    shared_expert_operators,
):
    """Operators of a mixture: router, routed experts, their dispatch and combination, shared experts.

    Source: arXiv 2101.03961, section 2; arXiv 2401.06066.
    """
    routed = routed_expert_operators + expert_weighting_operators + expert_bias_operators
    return routing_operators + routed + shared_expert_operators


@records()
def routing_operators(expert_gemms, linear_input_bytes, routing_precision, MoE_fraction, entry_costs):
    """The router, the probabilities of the experts and the choice among them: softmax, top-k, balance loss.

    Source: arXiv 2101.03961, section 2.2. Probabilities pass memory once each.
    """
    router, (cost,), calls = expert_gemms[0], entry_costs, {"count": MoE_fraction}
    choice = cost.of(ROUTING, router.m * router.n, routing_precision)
    return (
        *contraction(router, cost, stash=linear_input_bytes, after=NETWORK_INPUTS, **calls),
        *streamed("expert_choice", "normalization", router.m, router.n, choice, after=("router",), **calls),
    )


@records()
def routed_expert_operators(
    expert_gemms,
    routed_tokens,
    experts_per_token,
    expert_activation_policy,
    MoE_fraction,
    deduplicated_dispatch,
    entry_costs,
):
    """Own tokens in the order of their experts, the experts' networks in one grouped product each, and the way back.

    Source: arXiv 2101.03961, section 2; arXiv 2211.15841, section 5 (grouped products).
    """
    (_, up, down, *_), (cost,), (policy,) = expert_gemms, entry_costs, expert_activation_policy
    rows, calls, again = up.m * up.batch, {"count": MoE_fraction}, 2 * MoE_fraction
    inputs, hidden, products = rows * up.k, rows * down.k, {"kind": "grouped_contraction", **calls}
    sent = cost.of(MOVE, routed_tokens * experts_per_token * up.k)
    sorted_rows, activated = cost.of(MOVE, inputs), activation_work(up, hidden, cost, policy)
    to_send = {"count": again * (1 - deduplicated_dispatch), "after": ("expert_choice",)}
    before_activation, before_down = ("experts_up", "expert_up_bias"), ("expert_activation", "expert_weighting")
    kept, kind = hidden * cost.operand * (1 - policy.again), "element_wise"
    return (
        *streamed("expert_permutation", kind, routed_tokens, up.k, Work(sent, sent), **to_send),
        *streamed("expert_sorting", kind, rows, up.k, Work(sorted_rows, sorted_rows), count=again, after=DISPATCHED),
        *contraction(up, cost, stash=inputs * cost.operand, after=("expert_sorting",), **products),
        *streamed("expert_activation", kind, rows, down.k, activated, after=before_activation, **calls),
        *contraction(down, cost, stash=kept, after=before_down, **products),
    )


@records()
def shared_expert_operators(expert_gemms, activation_policy, MoE_fraction, shared_expert_fraction, entry_costs):
    """Shared experts, cut like a dense network; router and experts keep the same input. Source: arXiv 2401.06066."""
    (*_, up, down), (cost,), (policy,) = expert_gemms, entry_costs, activation_policy
    hidden, calls = down.m * down.k, {"count": MoE_fraction * shared_expert_fraction}
    activated = activation_work(up, hidden, cost, policy)
    kept, before = hidden * cost.operand * (1 - policy.again), ("shared_experts_up",)
    return (
        *contraction(up, cost, after=NETWORK_INPUTS, **calls),
        *streamed("shared_activation", "element_wise", down.m, down.k, activated, after=before, **calls),
        *contraction(down, cost, stash=kept, after=("shared_activation",), **calls),
    )


@quantity("byte", choice="feedforward_kind", value="mixture")
def expert_working_bytes__mixture(
    dispatched_tokens, dimensionality, activation_precision, deduplicated_dispatch, expert_weighting_bytes, MoE_fraction
):
    """Bytes of dispatched tokens in four buffers: computed, reordered, exchanged, as they came; or for weighting.

    Source: Megatron-Core, MoEAlltoAllTokenDispatcher; DeepEP, whose kernels reorder as they send.
    """
    visits = dispatched_tokens * dimensionality * activation_precision * (MoE_fraction > 0)
    return np.maximum((4 - 2 * deduplicated_dispatch) * visits, expert_weighting_bytes)
