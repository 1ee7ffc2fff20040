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

    The up projection has two kernels forward (a sum and a join) and two backward (the sum for the gradient of the bias,
    and a join). The records count 2 calls for each pass; the bytes and flops are divided equally among the calls.

    Source: NVIDIA NeMo AutoModel, moe/experts.py (_apply_bias), and PyTorch's autograd of it.
    """
    (_, up, down, *_), (cost,) = expert_gemms, entry_costs
    flop, narrow, calls = cost.flop, cost.activation, expert_bias * MoE_fraction
    forward, backward = Traffic(flop / 2, narrow, narrow), Traffic(flop / 2, narrow, narrow / 2)
    added = added_bias("expert_up_bias", up, forward, backward, 2 * calls, "experts_up")
    return added + output_bias_operators(down, cost, routing_precision, calls)


def output_bias_operators(down, cost, routing_precision, calls):
    """The kernels that add the biases of the down projection, multiplied with the routing probability in fp32.

    There are four kernels forward (a product, a sum, a join, a cast) and seven backward: two casts, a join, and a
    product and a sum for each of two gradients, those of the bias and of the probability. The records count 4 calls
    for each pass; the bytes and flops of all kernels are divided equally among the calls.

    Args:
        down: the grouped product of the down projections.
        cost: the costs of an entry.
        routing_precision: the bytes of a routing probability.
        calls: the number of times that a layer adds these biases.
    """
    flop, narrow = cost.flop, cost.activation
    forward = Traffic(flop / 2, (narrow + 3 * routing_precision) / 4, (narrow + 3 * routing_precision) / 4)
    backward = Traffic(flop, (2 * narrow + 5 * routing_precision) / 4, (2 * narrow + 3 * routing_precision) / 4)
    return added_bias("expert_down_bias", down, forward, backward, 4 * calls, "experts_down")


def added_bias(name, gemm, forward, backward, calls, after):
    """The operators of a bias that kernels of their own add to the rows that a grouped product writes.

    Args:
        name: the name of the operators.
        gemm: the grouped product.
        forward: the work of one call for an entry in the forward pass.
        backward: the work of one call for an entry in the backward pass.
        calls: the number of calls in a layer.
        after: the name of the operator for which the forward pass waits.
    """
    rows = gemm.m * gemm.batch
    work = Work(forward * (rows * gemm.n), backward * (rows * gemm.n))
    return streamed(name, "single_kernel", rows, gemm.n, work, count=calls, after=(after,), part=IN_EXPERTS)


@records(choice="expert_weighting", value="separate")
def expert_weighting_operators__separate(expert_gemms, routing_precision, MoE_fraction, entry_costs):
    """The kernels that multiply activations with routing probabilities, in the precision of the probabilities.

    Both the activations and the result are kept. Forward there are two kernels: a product, and a cast of the result.
    Backward there are five: two casts, the product again, and a product and a sum for the gradient of the probability.
    The bytes and flops of each call are the mean of the kernels of its pass.

    Source: Megatron-Core, MLP.activation_func_with_probs, and PyTorch's autograd of it.
    """
    (_, _, down, *_), (cost,), wide = expert_gemms, entry_costs, routing_precision
    rows, flop, narrow = down.m * down.batch, cost.flop, cost.activation
    forward = Traffic(flop / 2, (narrow + wide) / 2, (wide + narrow) / 2) * (rows * down.k)
    backward = Traffic(3 * flop / 5, (2 * narrow + 4 * wide) / 5, (3 * wide + narrow) / 5) * (rows * down.k)
    shape, work = ("expert_weighting", "single_kernel", rows, down.k), Work(forward, kept=rows * down.k * narrow / 2)
    return (
        *streamed(*shape, work, count=2 * MoE_fraction, after=("expert_activation",), part=IN_EXPERTS),
        *streamed(*shape, Work(backward=backward), count=5 * MoE_fraction, part=IN_EXPERTS),
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
