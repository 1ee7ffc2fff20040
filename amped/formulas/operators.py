"""The operators of one layer, forward and backward, as one accelerator runs them for one micro-batch.

One list serves the time, the memory, the breakdowns and the graph. Bytes are those that must move: each operand once.
Kernels are fused as Megatron-LM fuses them: bias with activation, bias with dropout and residual, mask with softmax.
"""

from amped.quantity import ACCELERATOR, NETWORK, parameter, quantity, records, selector
from amped.records import contraction, streamed


@parameter("flop", category=ACCELERATOR, above=0)
def flops_per_elementary_operation():
    """Floating-point operations of one addition, product, division or exponential.

    Source: definition, as in arXiv 2007.00072.
    """
    return 1


@selector("pre", "post", category=NETWORK)
def norm_position():
    """Where a layer normalises: its branches' inputs (pre) or the sums of branch and residual (post).

    Source: arXiv 2002.04745.
    """
    return "pre"


@selector("learned", "rope", "alibi", "relative_bias", "relative_projection", category=NETWORK)
def positions():
    """How the network knows positions; rope turns queries and keys in every layer. Source: arXiv 2104.09864."""
    return "learned"


@selector("dense", "mixture", category=NETWORK)
def feedforward_kind():
    """Whether layers have plain feed-forward networks only. Source: definition."""
    return "dense"


@selector("mixture", category=NETWORK, when_given=("number_of_experts",))
def feedforward_kind__experts():
    """Mixtures of experts where their number is given (a dense network is the case of one). Source: arXiv 1701.06538."""
    return "mixture"


@quantity("byte")
def matrix_operand_precision(activation_precision):
    """Size of an entry that a weight's product reads: that of an activation. Source: definition."""
    return activation_precision


@quantity("byte", choice="matrix_precision", value="fp8")
def matrix_operand_precision__fp8(fp8_precision):
    """Size of an entry that a weight's product reads in fp8. Source: arXiv 2209.05433."""
    return fp8_precision


@parameter("byte", bare="bit", above=0)
def fp8_precision():
    """Size of an fp8 number. Source: arXiv 2209.05433."""
    return 1


@quantity("count")
def residual_tokens(microbatch_tokens, sequence_split_degree):
    """Tokens of a micro-batch that one accelerator normalises and adds up. Source: arXiv 2205.05198, section 4.2.2."""
    return microbatch_tokens / sequence_split_degree


@quantity("byte")
def residual_bytes(residual_tokens, dimensionality, activation_precision):
    """Size of the residual stream of a micro-batch on one accelerator. Source: definition."""
    return residual_tokens * dimensionality * activation_precision


@records()
def norm_operators(
    residual_tokens, residual_bytes, dimensionality, norms_per_layer, norm_vectors, activation_precision, in_place_norm,
    norm_recomputation, flops_per_elementary_operation,
):  # fmt: skip
    """The norms before attention and before the feed-forward network: 7 operations an entry, 13 backward.

    Source: arXiv 2007.00072, table 3 (bdrln, bsb, blnrd without dropout and residual). Backward the gradients of the
    input and of the weights each read both tensors.
    """
    size, flop = residual_tokens * dimensionality, flops_per_elementary_operation
    weights = norm_vectors * dimensionality * activation_precision
    forward = (7 * size * flop, residual_bytes + weights, residual_bytes)
    again = norm_recomputation * residual_bytes
    work = (13 + 7 * norm_recomputation) * size * flop
    backward = (work, 4 * residual_bytes + weights + again, residual_bytes + weights + again)
    rest = (
        residual_tokens,
        dimensionality,
        forward,
        backward,
        residual_bytes * (1 - in_place_norm),
        norms_per_layer / 2,
    )
    before_attention = streamed("attention_norm", "normalisation", *rest)
    return before_attention + streamed("feedforward_norm", "normalisation", *rest)


@quantity("byte")
def linear_input_bytes(residual_tokens, dimensionality, matrix_operand_precision, norm_recomputation):
    """Stash of a product's input that comes from a norm: none where that is computed again.

    Source: arXiv 2205.05198, section 4.1 (2·s·b·h).
    """
    return residual_tokens * dimensionality * matrix_operand_precision * (1 - norm_recomputation)


@records()
def projection_operators(
    projection_gemms, linear_input_bytes, activation_precision, matrix_operand_precision, gradient_precision,
    flops_per_multiply_accumulate, attentions_per_layer,
):  # fmt: skip
    """Projection into queries, keys and values, which keeps its input. Source: arXiv 2205.05198, section 4.1."""
    entry = (flops_per_multiply_accumulate, matrix_operand_precision, activation_precision, gradient_precision)
    return contraction(projection_gemms[0], *entry, linear_input_bytes, attentions_per_layer)


@records(choice="attention_kind", value="multi_latent")
def projection_operators__multi_latent(
    projection_gemms, linear_input_bytes, activation_precision, matrix_operand_precision, gradient_precision,
    flops_per_multiply_accumulate, attentions_per_layer, query_latent_dimension, absorbed_latent_attention,
):  # fmt: skip
    """Projections of multi-head latent attention; both down projections keep the same input.

    Absorbed, queries meet the keys' up projection and outputs that of the values, head by head.

    Source: arXiv 2405.04434, eq. 9–19.
    """
    entry = (flops_per_multiply_accumulate, matrix_operand_precision, activation_precision, gradient_precision)
    query_down, query_up, key_value_down, key_value_up, query_in, value_out, _ = projection_gemms
    compressed, latent = 1.0 * (query_latent_dimension > 0), matrix_operand_precision
    calls, kept = (
        attentions_per_layer * (1 - absorbed_latent_attention),
        attentions_per_layer * absorbed_latent_attention,
    )
    return (
        *contraction(query_down, *entry, 0.0 * linear_input_bytes, attentions_per_layer * compressed),
        *contraction(query_up, *entry, query_up.m * query_up.k * latent * compressed, attentions_per_layer),
        *contraction(key_value_down, *entry, linear_input_bytes, attentions_per_layer),
        *contraction(key_value_up, *entry, key_value_up.m * key_value_up.k * latent, calls),
        *contraction(query_in, *entry, query_in.m * query_in.k * query_in.batch * latent, kept),
        *contraction(value_out, *entry, value_out.m * value_out.k * value_out.batch * latent, kept),
    )


@records()
def projection_bias_operators(
    microbatch_tokens, projection_gemms, activation_precision, flops_per_elementary_operation, query_key_value_bias,
    attentions_per_layer,
):  # fmt: skip
    """Gradients of the biases of queries, keys and values; forward the product itself adds them.

    Source: Megatron-LM, fused linear layers.
    """
    width = projection_gemms[0].n
    size, flop = microbatch_tokens * width, flops_per_elementary_operation
    work = (size * flop, size * activation_precision, width * activation_precision)
    calls = query_key_value_bias * attentions_per_layer
    return streamed("projection_bias", "element_wise", microbatch_tokens, width, work, work, 0.0 * work[1], calls)[1:]


@records()
def head_permutation_operators(
    attention_output_bytes, microbatch_tokens, dimensionality, unfused_attentions_per_layer,
    flops_per_elementary_operation,
):  # fmt: skip
    """Heads brought together behind an unfused attention, and apart again backward.

    Source: Megatron-LM, ParallelAttention (context_layer.permute().contiguous()).
    """
    size, none = attention_output_bytes, 0.0 * attention_output_bytes
    copy = (0.0 * flops_per_elementary_operation, size, size)
    shape = (microbatch_tokens, dimensionality)
    return streamed("head_permutation", "element_wise", *shape, copy, copy, none, unfused_attentions_per_layer)


@records()
def attention_output_operators(
    projection_gemms, activation_precision, matrix_operand_precision, gradient_precision, flops_per_multiply_accumulate,
    output_width_split_degree, attentions_per_layer,
):  # fmt: skip
    """Projection out of attention, which keeps its input. Source: arXiv 2205.05198, section 4.1."""
    entry = (flops_per_multiply_accumulate, matrix_operand_precision, activation_precision, gradient_precision)
    output = projection_gemms[-1]
    kept = output.m * output.k / output_width_split_degree * matrix_operand_precision
    return contraction(output, *entry, kept, attentions_per_layer)


@records()
def residual_operators(
    residual_tokens, residual_bytes, dimensionality, dropout, dropout_mask_bytes, attention_output_bias, mlp_bias,
    flops_per_elementary_operation, attention_layer_fraction,
):  # fmt: skip
    """Bias, dropout and sum with the residual stream behind each block; backward the two gradients are added.

    Source: arXiv 1909.08053; Megatron-LM, bias_dropout_add. A bias's gradient reads that of the output once more.
    """
    size, drops = residual_tokens * dimensionality, 1.0 * (dropout > 0)
    mask = size * dropout_mask_bytes
    work = ((2 + 2 * drops) * size * flops_per_elementary_operation, 2 * residual_bytes, residual_bytes + mask)
    forward = (*work, 0.0 * size, drops * size)
    dropped = drops * residual_bytes
    flops, read = (1 + 2 * drops) * size * flops_per_elementary_operation, 2 * residual_bytes + dropped + mask
    shape, written = ("element_wise", residual_tokens, dimensionality), residual_bytes + dropped
    behind_attention = (flops, read + attention_output_bias * residual_bytes, written)
    behind_feedforward = (flops, read + mlp_bias * residual_bytes, written)
    attention = streamed("attention_residual", *shape, forward, behind_attention, mask, attention_layer_fraction)
    return attention + streamed("feedforward_residual", *shape, forward, behind_feedforward, mask)
