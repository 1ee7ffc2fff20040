"""Mixtures of experts: the router, the routed experts, the shared experts, and how many tokens come to each.

Tokens are dealt out over all accelerators of a stage's replicas; each sends those of its own to their experts. A group of
`expert_parallel_degree` holds all experts, each cut into `expert_tensor_parallel_degree` shares.
"""

import numpy as np

from amped.theory.quantity import quantity, records
from amped.theory.records import Gemm, activation_work, contraction, streamed


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
        Gemm("router", routed_tokens, number_of_experts, dimensionality, 1.0, 1.0),
        Gemm("experts_up", visits, (1 + gated_experts) * inner, dimensionality, experts, 1.0),
        Gemm("experts_down", visits, dimensionality, inner, experts, 1.0),
        Gemm("shared_experts_up", microbatch_tokens, (1 + gated_mlp) * shared, dimensionality, 1.0, 1.0),
        Gemm("shared_experts_down", microbatch_tokens, dimensionality, shared, 1.0, 1.0),
    )


@records()
def expert_operators():
    """Operators of mixtures of experts: none in a dense network. Source: definition."""
    return ()


@records(choice="feedforward_kind", value="mixture")
def expert_operators__mixture(
    routing_operators,
    routed_expert_operators,
    expert_weighting_operators,
    expert_bias_operators,
    shared_expert_operators,
):
    """Router, routed experts between a dispatch and a combination of tokens, weighted, their biases, and shared experts.

    Source: arXiv 2101.03961, section 2; arXiv 2401.06066.
    """
    routed = routed_expert_operators + expert_weighting_operators + expert_bias_operators
    return routing_operators + routed + shared_expert_operators


@records()
def routing_operators(
    expert_gemms,
    linear_input_bytes,
    activation_precision,
    matrix_operand_precision,
    gradient_precision,
    routing_precision,
    flops_per_multiply_accumulate,
    flops_per_elementary_operation,
    MoE_fraction,
):
    """The router, the probabilities of the experts and the choice among them: softmax, top-k, balance loss.

    Source: arXiv 2101.03961, section 2.2. Probabilities pass memory once each.
    """
    router, flop = expert_gemms[0], flops_per_elementary_operation
    entries, calls = router.m * router.n, MoE_fraction
    size = entries * routing_precision
    choose = ((6 * entries * flop, 3 * size, 3 * size), (6 * entries * flop, 3 * size, 2 * size))
    entry = (flops_per_multiply_accumulate, matrix_operand_precision, activation_precision, gradient_precision)
    return (
        *contraction(router, *entry, linear_input_bytes, calls),
        *streamed("expert_choice", "normalization", router.m, router.n, *choose, size, calls),
    )


@records()
def routed_expert_operators(
    expert_gemms, routed_tokens, experts_per_token, activation_precision, matrix_operand_precision, gradient_precision,
    flops_per_multiply_accumulate, flops_per_elementary_operation, kept_expert_activation_function_input_bytes,
    activation_function_recomputation, expert_activation_function_mask_bytes, MoE_fraction, deduplicated_dispatch,
):  # fmt: skip
    """Own tokens in the order of their experts, the experts' networks in one grouped product each, and the way back.

    Source: arXiv 2101.03961, section 2; arXiv 2211.15841, section 5 (grouped products).
    """
    _, up, down, *_ = expert_gemms
    entry = (flops_per_multiply_accumulate, matrix_operand_precision, activation_precision, gradient_precision)
    rows, flop, e, calls = up.m * up.batch, flops_per_elementary_operation, activation_precision, MoE_fraction
    hidden, again, kept = rows * down.k, activation_function_recomputation, 1 - activation_function_recomputation
    ahead, back = activation_work(hidden, rows * up.n * e, e, expert_activation_function_mask_bytes, again, flop)
    own, there = routed_tokens * experts_per_token * up.k, rows * up.k
    sent, sorted_there = (own * flop, own * e, own * e), (there * flop, there * e, there * e)
    return (
        *streamed("expert_permutation", "element_wise", routed_tokens, up.k, sent, sent, 0.0 * own * e,
                  2 * calls * (1 - deduplicated_dispatch)),
        *streamed("expert_sorting", "element_wise", rows, up.k, sorted_there, sorted_there, 0.0 * there * e, 2 * calls),
        *contraction(up, *entry, there * matrix_operand_precision, calls, "grouped_contraction"),
        *streamed("expert_activation", "element_wise", rows, down.k, ahead, back,
                  hidden * kept_expert_activation_function_input_bytes, calls),
        *contraction(down, *entry, hidden * matrix_operand_precision * kept, calls, "grouped_contraction"),
    )  # fmt: skip


@records()
def shared_expert_operators(
    expert_gemms,
    linear_input_bytes,
    activation_precision,
    matrix_operand_precision,
    gradient_precision,
    flops_per_multiply_accumulate,
    flops_per_elementary_operation,
    kept_activation_function_input_bytes,
    activation_function_recomputation,
    activation_function_mask_bytes,
    MoE_fraction,
    shared_expert_fraction,
):
    """Shared experts, cut like a dense network; router and experts keep the same input. Source: arXiv 2401.06066."""
    *_, up, down = expert_gemms
    entry = (flops_per_multiply_accumulate, matrix_operand_precision, activation_precision, gradient_precision)
    hidden, again, kept = down.m * down.k, activation_function_recomputation, 1 - activation_function_recomputation
    work = (
        hidden,
        up.m * up.n * activation_precision,
        activation_precision,
        activation_function_mask_bytes,
        again,
        flops_per_elementary_operation,
    )
    calls = MoE_fraction * shared_expert_fraction
    return (
        *contraction(up, *entry, 0.0 * linear_input_bytes, calls),
        *streamed(
            "shared_activation",
            "element_wise",
            down.m,
            down.k,
            *activation_work(*work),
            hidden * kept_activation_function_input_bytes,
            calls,
        ),
        *contraction(down, *entry, hidden * matrix_operand_precision * kept, calls),
    )


@quantity("byte")
def expert_working_bytes():
    """Working memory of a mixture of experts beside its largest gradient: none in a dense network. Source: definition."""
    return 0


@quantity("byte", choice="feedforward_kind", value="mixture")
def expert_working_bytes__mixture(
    dispatched_tokens, dimensionality, activation_precision, deduplicated_dispatch, expert_weighting_bytes, MoE_fraction
):
    """Visits as experts leave them, in the order of their senders, exchanged, and as they came; or what weighting needs.

    Source: Megatron-Core, MoEAlltoAllTokenDispatcher; DeepEP, whose kernels reorder as they send.
    """
    visits = dispatched_tokens * dimensionality * activation_precision * (MoE_fraction > 0)
    return np.maximum((4 - 2 * deduplicated_dispatch) * visits, expert_weighting_bytes)
