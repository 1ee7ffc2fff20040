"""What frameworks leave to kernels of their own, where fused kernels would not go to memory again."""

import numpy as np

from amped.quantity import MAPPING, parameter, quantity, records, selector
from amped.records import Operator, streamed


@parameter("1", category=MAPPING, at_least=1)
def streaming_traffic_factor():
    """Bytes that norms and element-wise operators of layers and ends move for each that fused kernels would.

    Eager frameworks launch a kernel for each operation, and each reads and writes its tensors.
    Source: arXiv 2007.00072, section 4 (fused and not); definition for 1: all fused.
    """
    return 1


@selector("fused", "separate", category=MAPPING)
def gradient_accumulation():
    """Whether a weight's gradient is added to those of other micro-batches by its product, or by a kernel of its own.

    Source: Megatron-LM, --no-gradient-accumulation-fusion.
    """
    return "fused"


@records()
def accumulation_operators():
    """Kernels that add up gradients: none where products do. Source: Megatron-LM, fused_weight_gradient_mlp_cuda."""
    return ()


@records(choice="gradient_accumulation", value="separate")
def accumulation_operators__separate(
    projection_operators, attention_output_operators, feedforward_operators, expert_operators, activation_precision,
    gradient_precision, zero_stage, flops_per_elementary_operation,
):  # fmt: skip
    """What a product left of a weight's gradient, added to that of other micro-batches, or copied to be sent.

    It is sent where the gradients of every micro-batch are sharded.
    Source: PyTorch, autograd AccumulateGrad; Megatron-LM, main_grad.add_. Differs: products are counted as if they added
    up themselves, which they do beside their multiplications, at no cost but for very small micro-batches.
    """
    every = projection_operators + attention_output_operators + feedforward_operators + expert_operators
    kept, left = zero_stage < 2, activation_precision
    read, written = left + gradient_precision * kept, np.where(kept, gradient_precision, left)
    return tuple(
        Operator(f"{o.name}_accumulation", "element_wise", "weight_gradient", o.m, o.n, 0.0, o.batch,
                 entries * flops_per_elementary_operation, entries * read, entries * written, 0.0 * entries, 1.0, o.count)
        for o in every if o.phase == "weight_gradient" for entries in (o.m * o.n * o.batch,)
    )  # fmt: skip


# --- biases of experts -----------------------------------------------------------------------------------------------


@selector("fused", "separate", category=MAPPING)
def expert_bias_addition():
    """Whether grouped products add the biases of experts, or kernels of their own, expert by expert.

    Source: NVIDIA Transformer Engine, GroupedLinear (fused); NVIDIA NeMo AutoModel, moe/experts.py (separate).
    """
    return "fused"


@records()
def expert_bias_operators(
    expert_gemms, activation_precision, flops_per_elementary_operation, expert_bias, MoE_fraction
):  # fmt: skip
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


# --- probabilities of experts -----------------------------------------------------------------------------------------


@selector("fused", "separate", category=MAPPING)
def expert_weighting():
    """Whether the experts' activation function multiplies with a token's probability too, or kernels of their own.

    Source: Megatron-Core, fused_bias_swiglu (fused), MLP.activation_func_with_probs (separate).
    """
    return "fused"


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


# --- attention sinks -------------------------------------------------------------------------------------------------


@records()
def sink_operators():
    """Kernels that account for attention sinks: none where the attention does. Source: NVIDIA Transformer Engine, softmax_type."""
    return ()


@records(choice="attention_kernel", value="flex")
def sink_operators__flex(
    attention_gemms, query_bytes, activation_precision, softmax_statistic_precision, flops_per_elementary_operation,
    attention_sinks, fused_attentions_per_layer,
):  # fmt: skip
    """The output of an attention without sinks, scaled in full precision by what they leave of each row's sum.

    Source: NVIDIA NeMo AutoModel, attention/flex_attention.py, and what PyTorch's autograd makes of it. Forward product
    and cast; backward two casts, two products and a sum. Passes are those of 2 kernels on average.
    """
    scores, values = attention_gemms
    rows, flop = scores.m * scores.batch, flops_per_elementary_operation
    e, wide = activation_precision, softmax_statistic_precision
    entries = query_bytes / activation_precision * values.n / scores.k
    there = (entries * flop / 2, entries * (e + wide) / 2, entries * (e + wide) / 2)
    back = (entries * 3 * flop / 2, entries * (e + 2 * wide), entries * (e + 3 * wide) / 2)
    calls = attention_sinks * fused_attentions_per_layer
    # what two calls keep together is the output without sinks
    return streamed("sink_scaling", "single_kernel", rows, values.n, there, back, entries * e / 2, 2 * calls)
