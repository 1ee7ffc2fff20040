"""Multi-head latent attention: queries, keys and values come from low-rank vectors, or latent vectors are attended to.

Its leaves are on `inputs/network.py`.
"""

import numpy as np

from amped.theory.quantity import quantity, records
from amped.theory.records import Gemm, contraction


@records(choice="attention_kind", value="multi_latent")
def projection_gemms__multi_latent(
    microbatch_tokens,
    dimensionality,
    attention_heads,
    head_dimension,
    value_head_dimension,
    query_latent_dimension,
    key_value_latent_dimension,
    rotary_head_dimension,
    tensor_parallel_rows,
    absorbed_latent_attention,
):
    """Projections of multi-head latent attention; the down projections are not split.

    Source: arXiv 2405.04434, eq. 9–19.
    """
    heads, tokens = attention_heads / tensor_parallel_rows, microbatch_tokens
    compressed = 1.0 * (query_latent_dimension > 0)
    down = compressed * query_latent_dimension
    source = down + (1 - compressed) * dimensionality
    key_value = heads * (head_dimension - rotary_head_dimension + value_head_dimension)
    latent, kept = key_value_latent_dimension + rotary_head_dimension, 1.0 * absorbed_latent_attention
    content, rank = head_dimension - rotary_head_dimension, key_value_latent_dimension
    return (
        Gemm("query_down", tokens, down, dimensionality, 1.0, 1.0),
        Gemm("query_up", tokens, heads * head_dimension, source, 1.0, 1.0),
        Gemm("key_value_down", tokens, latent, dimensionality, 1.0, 1.0),
        Gemm("key_value_up", tokens, key_value, rank, 1.0, 1.0 - absorbed_latent_attention),
        Gemm("query_absorption", tokens, rank, content, heads, kept),
        Gemm("value_absorption", tokens, value_head_dimension, rank, heads, kept),
        Gemm("attention_output", tokens, dimensionality, heads * value_head_dimension, 1.0, 1.0),
    )


@records(choice="attention_kind", value="multi_latent")
def projection_operators__multi_latent(
    projection_gemms,
    linear_input_bytes,
    activation_precision,
    matrix_operand_precision,
    gradient_precision,
    flops_per_multiply_accumulate,
    attentions_per_layer,
    query_latent_dimension,
    absorbed_latent_attention,
):
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


@quantity("byte", choice="attention_kind", value="multi_latent")
def key_bytes__multi_latent(
    microbatch_tokens,
    attention_heads,
    head_dimension,
    tensor_parallel_rows,
    activation_precision,
    absorbed_latent_attention,
    key_value_latent_dimension,
    rotary_head_dimension,
):
    """Keys of a micro-batch on one accelerator: of every head, or one latent vector for all. Source: arXiv 2405.04434."""
    latent = key_value_latent_dimension + rotary_head_dimension
    width = np.where(absorbed_latent_attention > 0, latent, attention_heads * head_dimension / tensor_parallel_rows)
    return microbatch_tokens * width * activation_precision


@quantity("byte", choice="attention_kind", value="multi_latent")
def value_bytes__multi_latent(
    microbatch_tokens,
    attention_heads,
    value_head_dimension,
    tensor_parallel_rows,
    activation_precision,
    absorbed_latent_attention,
):
    """Values of a micro-batch on one accelerator: of every head, or none beside the latent vector.

    Source: arXiv 2405.04434, section 2.1.2.
    """
    width = attention_heads * value_head_dimension / tensor_parallel_rows
    return microbatch_tokens * width * activation_precision * (1 - absorbed_latent_attention)


@quantity("count", choice="attention_kind", value="multi_latent")
def rotary_width__multi_latent(attention_heads, rotary_head_dimension, tensor_parallel_rows):
    """Entries of a token's queries, and of the one key beside the latent vector, that carry its position.

    Source: arXiv 2405.04434, eq. 14–15.
    """
    return (attention_heads / tensor_parallel_rows + 1) * rotary_head_dimension
