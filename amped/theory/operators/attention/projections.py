"""Projections into queries, keys and values and out of attention, and what is done to each head between them.

A product's `count` is how often a layer of its kind calls it for one micro-batch. Dimensions are the accelerator's share;
shares that are not whole stay fractions (key heads fewer than the tensor degree).
"""

from amped.theory.quantity import quantity, records
from amped.theory.records import Gemm, contraction, streamed


@records()
def projection_gemms(
    microbatch_tokens,
    dimensionality,
    attention_heads,
    key_value_heads,
    head_dimension,
    tensor_parallel_rows,
    input_width_split_degree,
    output_width_split_degree,
    product_panels,
):
    """Projections of attention, split by heads. Source: arXiv 1909.08053, section 3."""
    query_key_value = head_dimension * (attention_heads + 2 * key_value_heads) / tensor_parallel_rows
    inputs, outputs = (
        attention_heads * head_dimension / input_width_split_degree,
        dimensionality / output_width_split_degree,
    )
    return (
        Gemm("query_key_value", microbatch_tokens, query_key_value, dimensionality, 1.0, 1.0, product_panels),
        Gemm("attention_output", microbatch_tokens, outputs, inputs, 1.0, 1.0, product_panels),
    )


@quantity("byte")
def query_bytes(microbatch_tokens, attention_heads, query_key_width, tensor_parallel_rows, activation_precision):
    """Queries of a micro-batch on one accelerator. Source: arXiv 2205.05198, section 4.1 (2·s·b·h)."""
    return microbatch_tokens * attention_heads * query_key_width / tensor_parallel_rows * activation_precision


@quantity("byte")
def key_bytes(microbatch_tokens, key_value_heads, head_dimension, tensor_parallel_rows, activation_precision):
    """Keys of a micro-batch on one accelerator. Source: arXiv 2205.05198, section 4.1 (2·s·b·h)."""
    return microbatch_tokens * key_value_heads * head_dimension / tensor_parallel_rows * activation_precision


@quantity("byte")
def value_bytes(microbatch_tokens, key_value_heads, value_head_dimension, tensor_parallel_rows, activation_precision):
    """Values of a micro-batch on one accelerator. Source: arXiv 2205.05198, section 4.1 (2·s·b·h)."""
    return microbatch_tokens * key_value_heads * value_head_dimension / tensor_parallel_rows * activation_precision


@quantity("byte")
def attention_output_bytes(microbatch_tokens, attention_heads, value_width, tensor_parallel_rows, activation_precision):
    """Weighted values of a micro-batch on one accelerator. Source: arXiv 2205.05198, section 4.1 (2·s·b·h)."""
    return microbatch_tokens * attention_heads * value_width / tensor_parallel_rows * activation_precision


@records()
def projection_operators(
    projection_gemms,
    linear_input_bytes,
    activation_precision,
    matrix_operand_precision,
    gradient_precision,
    flops_per_multiply_accumulate,
    attentions_per_layer,
):
    """Projection into queries, keys and values, which keeps its input. Source: arXiv 2205.05198, section 4.1."""
    entry = (flops_per_multiply_accumulate, matrix_operand_precision, activation_precision, gradient_precision)
    return contraction(projection_gemms[0], *entry, linear_input_bytes, attentions_per_layer)


@records()
def projection_bias_operators(
    microbatch_tokens,
    projection_gemms,
    activation_precision,
    flops_per_elementary_operation,
    query_key_value_bias,
    attentions_per_layer,
):
    """Gradients of the biases of queries, keys and values; forward the product itself adds them.

    Source: Megatron-LM, fused linear layers.
    """
    width = projection_gemms[0].n
    size, flop = microbatch_tokens * width, flops_per_elementary_operation
    work = (size * flop, size * activation_precision, width * activation_precision)
    calls = query_key_value_bias * attentions_per_layer
    return streamed("projection_bias", "element_wise", microbatch_tokens, width, work, work, 0.0 * work[1], calls)[1:]


@records()
def attention_output_operators(
    projection_gemms,
    activation_precision,
    matrix_operand_precision,
    gradient_precision,
    flops_per_multiply_accumulate,
    output_width_split_degree,
    attentions_per_layer,
):
    """Projection out of attention, which keeps its input. Source: arXiv 2205.05198, section 4.1."""
    entry = (flops_per_multiply_accumulate, matrix_operand_precision, activation_precision, gradient_precision)
    output = projection_gemms[-1]
    kept = output.m * output.k / output_width_split_degree * matrix_operand_precision
    return contraction(output, *entry, kept, attentions_per_layer)


@records()
def attention_head_permutation_operators(
    attention_output_bytes,
    microbatch_tokens,
    dimensionality,
    unfused_attentions_per_layer,
    flops_per_elementary_operation,
):
    """Heads brought together behind an unfused attention, and apart again backward.

    Source: Megatron-LM, ParallelAttention (context_layer.permute().contiguous()).
    """
    size, none = attention_output_bytes, 0.0 * attention_output_bytes
    copy = (0.0 * flops_per_elementary_operation, size, size)
    shape = (microbatch_tokens, dimensionality)
    return streamed("head_permutation", "element_wise", *shape, copy, copy, none, unfused_attentions_per_layer)


@records()
def query_key_norm_operators(
    microbatch_tokens,
    query_bytes,
    key_bytes,
    activation_precision,
    tensor_parallel_rows,
    attention_heads,
    key_value_heads,
    head_dimension,
    query_key_norm,
    attentions_per_layer,
    flops_per_elementary_operation,
):
    """Norms of each head's query and key, which keep their inputs: 7 operations an entry, 13 backward.

    Source: arXiv 2302.05442, section 3.1.1; arXiv 2007.00072, table 3 (operations of a norm).
    """
    size, flop = query_bytes + key_bytes, flops_per_elementary_operation
    entries, heads = size / activation_precision, (attention_heads + key_value_heads) / tensor_parallel_rows
    forward, backward = (7 * entries * flop, size, size), (13 * entries * flop, 4 * size, size)
    shape = ("query_key_norm", "normalization", microbatch_tokens * heads, head_dimension)
    return streamed(*shape, forward, backward, size, query_key_norm * attentions_per_layer)


@quantity("count")
def rotary_width(attention_heads, key_value_heads, head_dimension, tensor_parallel_rows):
    """Entries of a token's queries and keys that carry its position, on one accelerator. Source: arXiv 2104.09864."""
    return (attention_heads + key_value_heads) * head_dimension / tensor_parallel_rows


@records()
def rotary_operators():
    """Positions within attention: nothing to do where they were added to the embedding. Source: arXiv 1706.03762."""
    return ()


@records(choice="positions", value="rope")
def rotary_operators__rope(
    microbatch_tokens, rotary_width, activation_precision, attentions_per_layer, flops_per_elementary_operation
):
    """Queries and keys turned by their position: 3 operations an entry. Source: arXiv 2104.09864, eq. 34."""
    size = microbatch_tokens * rotary_width
    work = (3 * size * flops_per_elementary_operation, size * activation_precision, size * activation_precision)
    kind = ("rotary_positions", "element_wise")
    return streamed(
        *kind, microbatch_tokens, rotary_width, work, work, 0.0 * size * activation_precision, attentions_per_layer
    )
