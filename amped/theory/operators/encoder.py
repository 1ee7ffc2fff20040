"""The operators of a layer that normalizes behind its blocks (BERT), in the fused kernels of arXiv 2007.00072 (SUB).

Names in brackets are the paper's. Masks have their own precision: with that of activations, words are the paper's.
"""

from amped.theory.quantity import records
from amped.theory.records import contraction, streamed


@records(choice="norm_position", value="post")
def norm_operators__post():
    """Norms behind the blocks lie in one kernel with the sum before them. Source: arXiv 2007.00072, table 3."""
    return ()


@records(choice="norm_position", value="post")
def projection_bias_operators__post(
    microbatch_tokens,
    projection_gemms,
    activation_precision,
    flops_per_elementary_operation,
    query_key_value_bias,
    attentions_per_layer,
):
    """Biases of queries, keys and values and their gradients [aib, baib]. Source: arXiv 2007.00072, table 3."""
    width, e = projection_gemms[0].n, activation_precision
    size, flop = microbatch_tokens * width, flops_per_elementary_operation
    forward, backward = (size * flop, (size + width) * e, size * e), (size * flop, size * e, width * e)
    calls = query_key_value_bias * attentions_per_layer
    return streamed(
        "projection_bias", "element_wise", microbatch_tokens, width, forward, backward, 0.0 * size * e, calls
    )


@records(choice="norm_position", value="post")
def attention_head_permutation_operators__post():
    """Heads stay where they are: their layout is chosen so. Source: arXiv 2007.00072, section 4."""
    return ()


@records(choice="norm_position", value="post")
def unfused_attention_operators__post(
    attention_gemms,
    query_bytes,
    key_bytes,
    value_bytes,
    dropout,
    dropout_mask_bytes,
    dropout_recomputation,
    activation_precision,
    flops_per_multiply_accumulate,
    flops_per_elementary_operation,
    unfused_attentions_per_layer,
):
    """Scores, softmax with dropout in one kernel [SM, BS], and weighted values. Source: arXiv 2007.00072, table 3."""
    (scores, values), calls = attention_gemms, unfused_attentions_per_layer
    rows, width, flop = scores.m * scores.batch, scores.n, flops_per_elementary_operation
    entries = rows * width
    size, mask = entries * activation_precision, entries * dropout_mask_bytes
    dropped = 1.0 * (dropout > 0) * size
    again = dropout_recomputation * dropped
    softmax = (
        (6 * entries * flop, size, size + dropped + mask, entries, 1.0 * (dropout > 0) * entries),
        (6 * entries * flop, 2 * size + mask + again, size + again),
    )
    kept = size + dropped - again + mask
    products = (flops_per_multiply_accumulate, activation_precision, activation_precision, None)
    return (
        *contraction(scores, *products, query_bytes + key_bytes, calls),
        *streamed("softmax", "normalization", rows, width, *softmax, kept, calls),
        *contraction(values, *products, value_bytes, calls),
    )


@records(choice="norm_position", value="post")
def feedforward_operators__post(
    feedforward_gemms, linear_input_bytes, activation_precision, matrix_operand_precision, gradient_precision,
    flops_per_multiply_accumulate, flops_per_elementary_operation, kept_activation_function_input_bytes,
    dense_fraction, activation_function_recomputation, activation_function_mask_bytes, dropout_mask_bytes,
    output_width_split_degree,
):  # fmt: skip
    """Up, bias with activation function and dropout [bad, bdrlb], down.

    Source: arXiv 2007.00072, table 3. Differs: the mask of this dropout, which BERT does not have, is moved but not kept.
    """
    entry = (flops_per_multiply_accumulate, matrix_operand_precision, activation_precision, gradient_precision)
    (up, down), e, flop = feedforward_gemms, activation_precision, flops_per_elementary_operation
    entries, bias = down.m * down.k / output_width_split_degree, up.n * activation_precision
    inputs, output, mask = up.m * up.n * e, entries * e, entries * dropout_mask_bytes
    again, bits = activation_function_recomputation, entries * activation_function_mask_bytes
    forward = (
        2 * entries * flop,
        inputs + bias,
        entries * kept_activation_function_input_bytes + output + mask,
        2 * entries,
    )
    backward = (
        (3 + 2 * again) * entries * flop,
        output + inputs + bits + mask + again * inputs,
        inputs + bias + again * output,
        (2 + 2 * again) * entries,
    )
    kept_output = entries * matrix_operand_precision * (1 - activation_function_recomputation)
    name = ("activation_function", "element_wise", down.m, up.n)
    return (
        *contraction(up, *entry, linear_input_bytes, dense_fraction),
        *streamed(*name, forward, backward, entries * kept_activation_function_input_bytes, dense_fraction),
        *contraction(down, *entry, kept_output, dense_fraction),
    )


@records(choice="norm_position", value="post")
def residual_operators__post(
    residual_tokens,
    residual_bytes,
    dimensionality,
    activation_precision,
    dropout,
    dropout_mask_bytes,
    in_place_norm,
    norm_recomputation,
    flops_per_elementary_operation,
):
    """Bias, dropout, sum and norm in one kernel [bdrln], and their gradients [bsb, blnrd, ebsb, baob, bei].

    Source: arXiv 2007.00072, table 3; the forward kernel also writes what its gradients read.
    """
    size, flop, e = residual_tokens * dimensionality, flops_per_elementary_operation, activation_precision
    a, r, n, mask = residual_bytes, residual_tokens * e, dimensionality * e, size * dropout_mask_bytes
    kept, none, rows = mask + a * (1 - in_place_norm), (0.0 * flop, 0.0 * a, 0.0 * a), (residual_tokens, dimensionality)
    sums, gradient = (10 * size + 6 * residual_tokens) * flop, (9 * size + 4 * residual_tokens) * flop
    again, norm, add = norm_recomputation * a, "normalization", "element_wise"
    through = (gradient + 7 * norm_recomputation * size * flop, 2 * a + mask + r + again, 2 * a + again)
    drawn = (0.0 * size, 1.0 * (dropout > 0) * size)
    first, second = (sums, 2 * a + 3 * n, 3 * a + mask + r, *drawn), (sums, 2 * a + 3 * n, 4 * a + mask + r, *drawn)
    behind_first, behind_second = (6 * size * flop, 4 * a + n, a + 3 * n), (4 * size * flop, 2 * a + n, a + 2 * n)
    return (
        *streamed("attention_residual", norm, *rows, first, behind_first, kept),
        *streamed("attention_residual_norm", norm, *rows, none, through, 0.0 * a)[1:],
        *streamed("attention_output_bias", add, *rows, none, (size * flop, a, n), 0.0 * a)[1:],
        *streamed("layer_input", add, *rows, none, (size * flop, 2 * a, a), 0.0 * a)[1:],
        *streamed("feedforward_residual", norm, *rows, second, behind_second, kept),
        *streamed("feedforward_residual_norm", norm, *rows, none, through, 0.0 * a)[1:],
    )
