"""The operators of attention's core, of feed-forward networks, and the list of a whole layer."""

import numpy as np

from amped.quantity import parameter, quantity, records
from amped.records import activation_work, contraction, streamed


@quantity("1")
def dense_fraction(number_of_dense_layers, layers):
    """Share of the layers that have a plain feed-forward network. Source: definition."""
    return number_of_dense_layers / layers


@parameter("byte")
def softmax_statistic_precision():
    """Size of the logarithm of a row's sum that a fused attention keeps. Source: arXiv 2205.14135, algorithm 1."""
    return 4


@quantity("byte")
def query_bytes(microbatch_tokens, attention_heads, score_dimension, tensor_parallel_rows, activation_precision):
    """Queries of a micro-batch on one accelerator. Source: arXiv 2205.05198, section 4.1 (2·s·b·h)."""
    return microbatch_tokens * attention_heads * score_dimension / tensor_parallel_rows * activation_precision


@quantity("byte")
def attention_output_bytes(
    microbatch_tokens, attention_heads, weighted_dimension, tensor_parallel_rows, activation_precision
):
    """Weighted values of a micro-batch on one accelerator. Source: arXiv 2205.05198, section 4.1 (2·s·b·h)."""
    return microbatch_tokens * attention_heads * weighted_dimension / tensor_parallel_rows * activation_precision


@quantity("byte")
def key_bytes(microbatch_tokens, key_value_heads, head_dimension, tensor_parallel_rows, activation_precision):
    """Keys of a micro-batch on one accelerator. Source: arXiv 2205.05198, section 4.1 (2·s·b·h)."""
    return microbatch_tokens * key_value_heads * head_dimension / tensor_parallel_rows * activation_precision


@quantity("byte")
def value_bytes(microbatch_tokens, key_value_heads, value_head_dimension, tensor_parallel_rows, activation_precision):
    """Values of a micro-batch on one accelerator. Source: arXiv 2205.05198, section 4.1 (2·s·b·h)."""
    return microbatch_tokens * key_value_heads * value_head_dimension / tensor_parallel_rows * activation_precision


@quantity("byte", choice="attention_kind", value="multi_latent")
def key_bytes__multi_latent(
    microbatch_tokens, attention_heads, head_dimension, tensor_parallel_rows, activation_precision,
    absorbed_latent_attention, key_value_latent_dimension, rotary_head_dimension,
):  # fmt: skip
    """Keys of a micro-batch on one accelerator: of every head, or one latent vector for all. Source: arXiv 2405.04434."""
    latent = key_value_latent_dimension + rotary_head_dimension
    width = np.where(absorbed_latent_attention > 0, latent, attention_heads * head_dimension / tensor_parallel_rows)
    return microbatch_tokens * width * activation_precision


@quantity("byte", choice="attention_kind", value="multi_latent")
def value_bytes__multi_latent(
    microbatch_tokens, attention_heads, value_head_dimension, tensor_parallel_rows, activation_precision,
    absorbed_latent_attention,
):  # fmt: skip
    """Values of a micro-batch on one accelerator: of every head, or none beside the latent vector.

    Source: arXiv 2405.04434, section 2.1.2.
    """
    width = attention_heads * value_head_dimension / tensor_parallel_rows
    return microbatch_tokens * width * activation_precision * (1 - absorbed_latent_attention)


@records()
def unfused_attention_operators(
    attention_gemms, query_bytes, key_bytes, value_bytes, dropout, dropout_mask_bytes, dropout_recomputation,
    activation_precision, flops_per_multiply_accumulate, flops_per_elementary_operation, unfused_attentions_per_layer,
):  # fmt: skip
    """Scores, masked softmax, dropout and weighted values, each a kernel that writes all scores.

    Source: arXiv 2205.05198, section 4.1; arXiv 2007.00072, table 3.
    """
    (scores, values), calls = attention_gemms, unfused_attentions_per_layer
    rows, width, flop = scores.m * scores.batch, scores.n, flops_per_elementary_operation
    entries, drops = rows * width, 1.0 * (dropout > 0)
    size, mask = entries * activation_precision, entries * dropout_mask_bytes
    again = dropout_recomputation * size
    softmax = ((4 * entries * flop, size, size, entries), (4 * entries * flop, 2 * size, size))
    dropped = (
        (entries * flop, size, size + mask, 0.0 * entries, entries),
        (entries * flop, size + mask + again, size + again),
    )
    products = (flops_per_multiply_accumulate, activation_precision, activation_precision, None)
    return (
        *contraction(scores, *products, query_bytes + key_bytes, calls),
        *streamed("softmax", "normalisation", rows, width, *softmax, size, calls),
        *streamed("attention_dropout", "element_wise", rows, width, *dropped, mask + size - again, calls * drops),
        *contraction(values, *products, value_bytes, calls),
    )


@quantity("1")
def unfused_attentions_per_layer(attentions_per_layer, flash_attention):
    """Attentions of a layer that write their scores to memory. Source: arXiv 2205.14135."""
    return attentions_per_layer * (1 - flash_attention)


@quantity("1")
def fused_attentions_per_layer(attentions_per_layer, flash_attention):
    """Attentions of a layer that are one kernel. Source: arXiv 2205.14135."""
    return attentions_per_layer * flash_attention


@parameter("1", at_least=1)
def fused_backward_products():
    """Products of a fused attention backward for each one forward: scores again, and four gradients of two.

    Source: arXiv 2307.08691, section 4.1.
    """
    return 2.5


@records()
def fused_attention_operators(
    attention_gemms, query_bytes, key_bytes, value_bytes, softmax_statistic_precision, computed_score_fraction,
    fused_backward_products, flops_per_multiply_accumulate, fused_attentions_per_layer, dropout,
):  # fmt: skip
    """Attention as one kernel that keeps no scores; its softmax counts in its efficiency.

    Source: arXiv 2205.14135; arXiv 2307.08691.
    """
    scores, values = attention_gemms
    flops = (scores.multiply_accumulates + values.multiply_accumulates) * flops_per_multiply_accumulate
    flops = flops * computed_score_fraction
    rows = scores.m * scores.batch
    statistics, output = rows * softmax_statistic_precision, query_bytes * values.n / scores.k
    inputs = query_bytes + key_bytes + value_bytes
    forward = (flops, inputs, output + statistics)
    backward = (flops * fused_backward_products, inputs + 2 * output + statistics, inputs)
    shape = ("fused_attention", "fused_attention", rows, scores.n)
    pair = streamed(*shape, forward, backward, inputs + statistics, fused_attentions_per_layer)
    return tuple(o.with_heads(scores.k, 1.0 * (dropout > 0)) for o in pair)


@records()
def feedforward_operators(
    feedforward_gemms, linear_input_bytes, activation_precision, matrix_operand_precision, gradient_precision,
    flops_per_multiply_accumulate, flops_per_elementary_operation, kept_activation_input_bytes, dense_fraction,
    activation_function_recomputation, activation_mask_bytes, mlp_bias, output_width_split_degree,
):  # fmt: skip
    """The dense feed-forward network: up (with gate), activation function with its bias, down.

    Source: arXiv 2205.05198, section 4.1; arXiv 2210.10246 (what is not kept).
    """
    entry = (flops_per_multiply_accumulate, matrix_operand_precision, activation_precision, gradient_precision)
    up, down = feedforward_gemms
    units = down.k / output_width_split_degree
    entries, inputs, again = down.m * units, up.m * up.n * activation_precision, activation_function_recomputation
    work = (entries, inputs, activation_precision, activation_mask_bytes, again, flops_per_elementary_operation)
    forward, (flops, read, *rest) = activation_work(*work)
    backward, kept = (flops, read + mlp_bias * inputs, *rest), entries * kept_activation_input_bytes
    kept_output = entries * matrix_operand_precision * (1 - activation_function_recomputation)
    name = ("activation_function", "element_wise", down.m, units)
    return (
        *contraction(up, *entry, linear_input_bytes, dense_fraction),
        *streamed(*name, forward, backward, kept, dense_fraction),
        *contraction(down, *entry, kept_output, dense_fraction),
    )


@records()
def layer_operators(
    norm_operators, projection_operators, projection_bias_operators, query_key_norm_operators, rotary_operators,
    unfused_attention_operators, fused_attention_operators, sink_operators, head_permutation_operators,
    attention_output_operators, residual_operators, feedforward_operators, expert_operators, quantization_operators,
    accumulation_operators,
):  # fmt: skip
    """All operators of one layer, each followed by its gradients.

    Source: arXiv 1706.03762, figure 1.
    """
    attention = norm_operators + projection_operators + projection_bias_operators + query_key_norm_operators
    attention = attention + rotary_operators + unfused_attention_operators + fused_attention_operators + sink_operators
    attention = attention + head_permutation_operators + attention_output_operators
    return (
        attention
        + residual_operators
        + feedforward_operators
        + expert_operators
        + quantization_operators
        + accumulation_operators
    )
