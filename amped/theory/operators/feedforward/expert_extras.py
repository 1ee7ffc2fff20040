"""Kernels around experts that some software does not fuse: biases, and products with routing probabilities."""

from amped.theory.language.quantity import quantity, records
from amped.theory.nouns.kernel_work import Traffic, Work, streamed
from amped.theory.nouns.layer_kinds import IN_EXPERTS, IN_MIXTURE


@records()
def expert_bias_operators(expert_gemms, expert_bias, MoE_fraction, entry_costs):
    """The kernel that computes the gradients of the biases of routed experts, as sums over rows.

    In the forward pass the products of the experts add the biases themselves.

    Source: NVIDIA Transformer Engine, GroupedLinear.
    """
    (_, up, down, *_), (cost,) = expert_gemms, entry_costs
    rows, width = up.m * up.batch, up.n + down.n
    sums = Traffic(flops=cost.flop, read=cost.activation) * (rows * width)
    calls = expert_bias * MoE_fraction
    return streamed("expert_bias", "element_wise", rows, width, Work(backward=sums), count=calls, part=IN_MIXTURE)


@records(choice="expert_bias_addition", value="separate_output")
def expert_bias_operators__separate_output(expert_gemms, routing_precision, expert_bias, MoE_fraction, entry_costs):
    """The kernels of the biases of routed experts, if only the up projections add their biases in their products.

    The up projection has a kernel for the gradient of its bias. The down projection has kernels that add its bias.

    Source: Megatron-Core, transformer/moe/experts.py (TEGroupedMLP._apply_bias), and PyTorch's autograd of it.
    """
    (_, up, down, *_), (cost,) = expert_gemms, entry_costs
    rows, calls = up.m * up.batch, expert_bias * MoE_fraction
    sums = Traffic(flops=cost.flop, read=cost.activation) * (rows * up.n)
    work = Work(backward=sums)
    summed = streamed("expert_up_bias", "element_wise", rows, up.n, work, count=calls, part=IN_EXPERTS)
    return summed + output_bias_operators(down, cost, routing_precision, calls)


@records(choice="expert_bias_addition", value="separate")
def expert_bias_operators__separate(expert_gemms, routing_precision, expert_bias, MoE_fraction, entry_costs):
    """The kernels that add the biases to the rows of each expert, and then join the rows of all experts.

    The up projection has a sum for each expert and a join forward, and as many kernels backward. The sum repeats the
    bias for each row, so that it computes the address of each entry.

    Source: NVIDIA NeMo AutoModel, moe/experts.py (_apply_bias), and PyTorch's autograd of it.
    """
    (_, up, down, *_), (cost,), calls = expert_gemms, entry_costs, expert_bias * MoE_fraction
    flop, narrow = cost.flop, cost.activation
    added, copied = (
        Work(Traffic(flop, narrow, narrow, indexed=1), Traffic(flop, narrow)),
        Traffic(0 * flop, narrow, narrow),
    )
    joined = Work(copied, copied)
    one, whole = (up.m, up.n), (up.m * up.batch, up.n)
    return (
        *rowwise_operators("expert_up_bias_sum", one, added, calls * up.batch, ("experts_up",)),
        *rowwise_operators("expert_up_bias", whole, joined, calls, ("expert_up_bias_sum",)),
        *output_bias_operators(down, cost, routing_precision, calls),
    )


def output_bias_operators(down, cost, routing_precision, calls):
    """The kernels that add the biases of the down projection, multiplied with the routing probability in fp32.

    Forward each expert has a product and a sum, and all experts together a join and a cast. Backward each expert has a
    cast, and a product and a sum for each of two gradients, those of the bias and of the probability; all experts
    together have a cast and a join. The products repeat a row or a column, so that they compute the address of each
    entry. Kernels of one record have equal shares of its bytes and flops.

    Args:
        down: the grouped product of the down projections.
        cost: the costs of an entry.
        routing_precision: the bytes of a routing probability.
        calls: the number of times that a layer adds these biases.
    """
    flop, narrow, wide, experts = cost.flop, cost.activation, routing_precision, calls * down.batch
    product, gradient = Traffic(flop, written=wide, indexed=1), Traffic(flop, wide, wide, indexed=1)
    added, reduced = Traffic(flop, narrow + wide, wide), Traffic(2 * flop / 3, wide, narrow / 3)
    joined = Work(*(Traffic(0 * flop, read, (wide + narrow) / 2) for read in (wide, narrow)))
    one, whole, name = (down.m, down.n), (down.m * down.batch, down.n), "expert_down_bias"
    return (
        *rowwise_operators(f"{name}_product", one, Work(product), experts, ("experts_down",)),
        *rowwise_operators(f"{name}_product", one, Work(backward=gradient), 2 * experts),
        *rowwise_operators(f"{name}_sum", one, Work(added), experts, ("experts_down", f"{name}_product")),
        *rowwise_operators(f"{name}_sum", one, Work(backward=reduced), 3 * experts),
        *rowwise_operators(name, whole, joined, 2 * calls, (f"{name}_sum",)),
    )


def rowwise_operators(name, sides, work, calls, after=()):
    """The operators of kernels of their own for the rows that come to experts.

    Args:
        name: the name of the operators.
        sides: the number of rows, and the number of entries in a row.
        work: the work of one call for an entry.
        calls: the number of calls in a layer.
        after: the names of the operators for which the forward pass waits.
    """
    rows, width = sides
    entries = rows * width
    return streamed(name, "single_kernel", rows, width, work * entries, count=calls, after=after, part=IN_EXPERTS)


@records(choice="activation_clamping", value="separate")
def clamp_operators__separate(expert_gemms, clamped_activation, expert_activation_policy, MoE_fraction, entry_costs):
    """The kernels that limit the inputs of the activation function of the experts, where no other kernel does it.

    Forward there are three kernels: one for each half of the inputs, which are not contiguous, and a join. The gate has
    an upper limit, the other half has two limits. Backward there is a comparison with each limit, a kernel that joins
    two masks, a choice for each half, and a join of the halves. A mask has half the bytes of an activation. If the
    activation function is recomputed, so is what limits its inputs; else they are kept twice. Kernels of one record
    have equal shares of its bytes and flops.

    Source: Megatron-Core, fusions/fused_bias_geglu.py (weighted_bias_quick_geglu_impl), and PyTorch's autograd of it.
    """
    (_, up, *_), (cost,), again = expert_gemms, entry_costs, expert_activation_policy[0].recomputed
    flop, size, sides = cost.flop, cost.activation, (up.m * up.batch, up.n)
    halves, joins = "expert_clamp_halves", "expert_clamp"
    half, joined = Traffic(flop / 2, size / 2, size / 2, indexed=1 / 2), Traffic(0 * flop, size, size)
    chosen = Traffic(flop / 2, 3 * size / 5, 7 * size / 20, indexed=1 / 2)
    masked = Traffic(flop / 4, 3 * size / 4, 5 * size / 8)
    calls, inputs = clamped_activation * MoE_fraction, ("experts_up", "expert_up_bias")
    return (
        *rowwise_operators(halves, sides, Work(half, kept=size * (1 - again) / 2), 2 * calls, inputs),
        *rowwise_operators(halves, sides, Work(backward=half), 2 * again * calls),
        *rowwise_operators(halves, sides, Work(backward=chosen), 5 * calls),
        *rowwise_operators(joins, sides, Work(joined), calls, (halves,)),
        *rowwise_operators(joins, sides, Work(backward=joined), again * calls),
        *rowwise_operators(joins, sides, Work(backward=masked), 2 * calls),
    )


@records(choice="expert_weighting", value="separate")
def expert_weighting_operators__separate(expert_gemms, routing_precision, MoE_fraction, entry_costs):
    """The kernels that multiply activations with routing probabilities, in the precision of the probabilities.

    Both the activations and the result are kept. Forward there are two kernels: a product, and a cast of the result.
    Backward there are five: two casts, the product again, and a product and a sum for the gradient of the probability.
    The bytes and flops of each call are the mean of the kernels of its pass.

    Source: Megatron-Core, MLP.activation_func_with_probs, and PyTorch's autograd of it.
    """
    (_, _, down, *_), (cost,), wide = expert_gemms, entry_costs, routing_precision
    flop, narrow, name, sides = cost.flop, cost.activation, "expert_weighting", (down.m * down.batch, down.k)
    product, cast = Traffic(flop, narrow, wide, indexed=1), Traffic(0 * flop, wide, narrow)
    repeated = Traffic(flop, wide, wide, indexed=1)
    gradients = Traffic(2 * flop, 2 * narrow + 3 * wide, 2 * wide + narrow) * (1 / 4)
    weighted, after = f"{name}_product", ("expert_activation",)
    return (
        *rowwise_operators(weighted, sides, Work(product, repeated, narrow), MoE_fraction, after),
        *rowwise_operators(name, sides, Work(cast), MoE_fraction, (weighted,)),
        *rowwise_operators(name, sides, Work(backward=gradients), 4 * MoE_fraction),
    )


@quantity("byte", choice="expert_weighting", value="separate")
def expert_weighting_bytes__separate(expert_gemms, activation_precision, routing_precision, MoE_fraction):
    """The working memory of the kernels that multiply activations with routing probabilities.

    It consists of four tensors as wide as the hidden units of an expert: a gradient in the precision of activations,
    and a gradient and two products in the precision of the probabilities.

    Source: Megatron-Core, MLP.activation_func_with_probs, and PyTorch's autograd of it.
    """
    down = expert_gemms[2]
    return (activation_precision + 3 * routing_precision) * down.m * down.batch * down.k * (MoE_fraction > 0)
