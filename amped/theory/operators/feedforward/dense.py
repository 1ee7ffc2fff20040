"""The dense feed-forward network: up projection (with gate), activation function, down projection."""

from amped.theory.language.quantity import records
from amped.theory.nouns.kernel_work import activation_work, contraction, streamed
from amped.theory.nouns.layer_kinds import IN_DENSE, LAST_IN_DENSE
from amped.theory.nouns.places import NETWORK_INPUTS
from amped.theory.nouns.records import Gemm


@records()
def feedforward_gemms(
    microbatch_tokens,
    dimensionality,
    feedforward_dimension,
    gated_mlp,
    tensor_parallel_rows,
    input_width_split_degree,
    output_width_split_degree,
    product_panels,
):
    """The matrix products of the dense feed-forward network; the gate and the up projection are one product.

    Source: arXiv 1909.08053, section 3.
    """
    up = (1 + gated_mlp) * feedforward_dimension / tensor_parallel_rows
    down, width = feedforward_dimension / input_width_split_degree, dimensionality / output_width_split_degree
    return (
        Gemm("feedforward_up", microbatch_tokens, up, dimensionality, panels=product_panels),
        Gemm("feedforward_down", microbatch_tokens, width, down, panels=product_panels),
    )


@records()
def feedforward_operators(
    feedforward_gemms,
    activation_function_operators,
    linear_input_bytes,
    activation_policy,
    dense_fraction,
    output_width_split_degree,
    entry_costs,
):
    """The operators of the dense feed-forward network: up projection (with gate), activation function, down projection.

    Source: arXiv 2205.05198, section 4.1; arXiv 2210.10246, section on in-place GELU (which input is not kept).
    """
    (up, down), (cost,), (policy,) = feedforward_gemms, entry_costs, activation_policy
    stash = down.m * down.k / output_width_split_degree * cost.operand * (1 - policy.recomputed)
    before_up = (*NETWORK_INPUTS, "feedforward_up_inputs broadcast", "feedforward_up_weights broadcast")
    before_down = ("activation_function", "feedforward_down_inputs broadcast", "feedforward_down_weights broadcast")
    return (
        *contraction(up, cost, stash=linear_input_bytes, count=dense_fraction, after=before_up, part=IN_DENSE),
        *activation_function_operators,
        *contraction(down, cost, stash=stash, count=dense_fraction, after=before_down, part=LAST_IN_DENSE),
    )


@records()
def activation_function_operators(
    feedforward_gemms, activation_policy, dense_fraction, mlp_bias, output_width_split_degree, entry_costs
):
    """The activation function of the dense feed-forward network, with its bias.

    Source: arXiv 2205.05198, section 4.1.
    """
    up, down = feedforward_gemms
    units = down.k / output_width_split_degree
    work = activation_work(up, down.m * units, entry_costs[0], activation_policy[0], mlp_bias)
    return streamed(
        "activation_function",
        "element_wise",
        down.m,
        units,
        work,
        count=dense_fraction,
        after=("feedforward_up",),
        part=IN_DENSE,
    )
