"""What some software leaves to kernels of their own around experts: their biases, and the probabilities of tokens."""

from amped.theory.quantity import quantity, records
from amped.theory.records import streamed


@records()
def expert_bias_operators(
    expert_gemms, activation_precision, flops_per_elementary_operation, expert_bias, MoE_fraction
):
    """Gradients of the biases of routed experts: sums over their rows; forward the grouped products add them.

    Source: NVIDIA Transformer Engine, GroupedLinear.
    """
    _, up, down, *_ = expert_gemms
    entries, rows = up.m * up.batch * (up.n + down.n), up.m * up.batch
    work = (entries * flops_per_elementary_operation, entries * activation_precision, 0.0 * entries)
    return streamed(
        "expert_bias", "element_wise", rows, up.n + down.n, work, work, 0.0 * entries, expert_bias * MoE_fraction
    )[1:]


@records(choice="expert_bias_addition", value="separate")
def expert_bias_operators__separate(
    expert_gemms, activation_precision, routing_precision, flops_per_elementary_operation, expert_bias, MoE_fraction
):
    """Biases added to the rows of each expert, which are joined again; the second times its probability, in full precision.

    Source: NVIDIA NeMo AutoModel, moe/experts.py (_apply_bias), and what PyTorch's autograd makes of it. Up: sum and
    join; backward the bias's sum and a join. Down: product, sum, join, cast; backward cast twice, join, and for bias
    and probability each a product and a sum. Passes are those of 2 and 4 kernels on average.
    """
    _, up, down, *_ = expert_gemms
    rows, flop, e, wide = up.m * up.batch, flops_per_elementary_operation, activation_precision, routing_precision
    ups, downs, calls = rows * up.n, rows * down.n, expert_bias * MoE_fraction
    up_there, up_back = (ups * flop / 2, ups * e, ups * e), (ups * flop / 2, ups * e, ups * e / 2)
    down_there = (downs * flop / 2, downs * (e + 3 * wide) / 4, downs * (e + 3 * wide) / 4)
    down_back = (downs * flop, downs * (2 * e + 5 * wide) / 4, downs * (2 * e + 3 * wide) / 4)
    return (
        *streamed("expert_up_bias", "single_kernel", rows, up.n, up_there, up_back, 0.0 * ups, 2 * calls),
        *streamed("expert_down_bias", "single_kernel", rows, down.n, down_there, down_back, 0.0 * downs, 4 * calls),
    )


@records()
def expert_weighting_operators():
    """Kernels that multiply with probabilities: none where the activation function does. Source: Megatron-Core, fused_bias_swiglu."""
    return ()


@records(choice="expert_weighting", value="separate")
def expert_weighting_operators__separate(
    expert_gemms, activation_precision, routing_precision, flops_per_elementary_operation, MoE_fraction
):
    """Activations times probabilities in the precision of these, and cast back; they are kept as they were and as they are.

    Source: Megatron-Core, MLP.activation_func_with_probs, and what PyTorch's autograd makes of it: forward product and
    cast; backward two casts, the product again, and for the probability a product and a sum. Passes are those of one of them.
    """
    down, e, wide, flop = expert_gemms[2], activation_precision, routing_precision, flops_per_elementary_operation
    entries = down.m * down.batch * down.k
    there = (entries * flop / 2, entries * (e + wide) / 2, entries * (wide + e) / 2)
    back = (3 * entries * flop / 5, entries * (2 * e + 4 * wide) / 5, entries * (3 * wide + e) / 5)
    shape = ("expert_weighting", "single_kernel", down.m * down.batch, down.k)
    forward, _ = streamed(*shape, there, there, entries * e / 2, 2 * MoE_fraction)
    _, backward = streamed(*shape, back, back, 0.0 * entries, 5 * MoE_fraction)
    return forward, backward


@quantity("byte")
def expert_weighting_bytes():
    """Working memory of kernels that multiply with probabilities: none where there are none. Source: definition."""
    return 0


@quantity("byte", choice="expert_weighting", value="separate")
def expert_weighting_bytes__separate(expert_gemms, activation_precision, routing_precision, MoE_fraction):
    """Working memory of kernels that multiply with probabilities: a gradient, as wide as these, and two products of it.

    Source: Megatron-Core, MLP.activation_func_with_probs, and what PyTorch's autograd makes of it.
    """
    down = expert_gemms[2]
    return (activation_precision + 3 * routing_precision) * down.m * down.batch * down.k * (MoE_fraction > 0)
