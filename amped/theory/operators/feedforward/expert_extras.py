"""What some software leaves to kernels of their own around experts: their biases, and the probabilities of tokens."""

from amped.theory.kernel_work import Traffic, Work, streamed
from amped.theory.quantity import quantity, records


@records()
def expert_bias_operators(expert_gemms, expert_bias, MoE_fraction, entry_costs):
    """Gradients of the biases of routed experts: sums over their rows; forward the grouped products add them.

    Source: NVIDIA Transformer Engine, GroupedLinear.
    """
    (_, up, down, *_), (cost,) = expert_gemms, entry_costs
    rows, width = up.m * up.batch, up.n + down.n
    sums = Traffic(flops=cost.flop, read=cost.activation) * (rows * width)
    return streamed("expert_bias", "element_wise", rows, width, Work(backward=sums), count=expert_bias * MoE_fraction)


@records(choice="expert_bias_addition", value="separate")
def expert_bias_operators__separate(expert_gemms, routing_precision, expert_bias, MoE_fraction, entry_costs):
    """Biases added to the rows of each expert, which are joined again; the second times its probability, in fp32.

    Source: NVIDIA NeMo AutoModel, moe/experts.py (_apply_bias), and what PyTorch's autograd makes of it. Up: sum and
    join; backward the bias's sum and a join. Down: product, sum, join, cast; backward cast twice, join, and for bias
    and probability each a product and a sum. Passes are those of 2 and 4 kernels on average.
    """
    (_, up, down, *_), (cost,), wide = expert_gemms, entry_costs, routing_precision
    rows, flop, narrow, calls = up.m * up.batch, cost.flop, cost.activation, expert_bias * MoE_fraction
    up_there, up_back = Traffic(flop / 2, narrow, narrow), Traffic(flop / 2, narrow, narrow / 2)
    down_there = Traffic(flop / 2, (narrow + 3 * wide) / 4, (narrow + 3 * wide) / 4)
    down_back = Traffic(flop, (2 * narrow + 5 * wide) / 4, (2 * narrow + 3 * wide) / 4)

    def added(name, gemm, there, back, kernels, after):
        work = Work(there * (rows * gemm.n), back * (rows * gemm.n))
        return streamed(name, "single_kernel", rows, gemm.n, work, count=kernels * calls, after=(after,))

    return (
        *added("expert_up_bias", up, up_there, up_back, 2, "experts_up"),
        *added("expert_down_bias", down, down_there, down_back, 4, "experts_down"),
    )


@records(choice="expert_weighting", value="separate")
def expert_weighting_operators__separate(expert_gemms, routing_precision, MoE_fraction, entry_costs):
    """Activations times the experts' probabilities, in their precision, and cast back; both forms are kept.

    Source: Megatron-Core, MLP.activation_func_with_probs, and what PyTorch's autograd makes of it: forward product and
    cast; backward two casts, the product again, and for the probability a product and a sum. Passes are those of one of
    them.
    """
    (_, _, down, *_), (cost,), wide = expert_gemms, entry_costs, routing_precision
    rows, flop, narrow = down.m * down.batch, cost.flop, cost.activation
    there = Traffic(flop / 2, (narrow + wide) / 2, (wide + narrow) / 2) * (rows * down.k)
    back = Traffic(3 * flop / 5, (2 * narrow + 4 * wide) / 5, (3 * wide + narrow) / 5) * (rows * down.k)
    shape, kept = ("expert_weighting", "single_kernel", rows, down.k), rows * down.k * narrow / 2
    return (
        *streamed(*shape, Work(there, kept=kept), count=2 * MoE_fraction, after=("expert_activation",)),
        *streamed(*shape, Work(backward=back), count=5 * MoE_fraction),
    )


@quantity("byte", choice="expert_weighting", value="separate")
def expert_weighting_bytes__separate(expert_gemms, activation_precision, routing_precision, MoE_fraction):
    """Working memory of kernels that multiply with probabilities: a gradient, as wide as these, and two products of it.

    Source: Megatron-Core, MLP.activation_func_with_probs, and what PyTorch's autograd makes of it.
    """
    down = expert_gemms[2]
    return (activation_precision + 3 * routing_precision) * down.m * down.batch * down.k * (MoE_fraction > 0)
