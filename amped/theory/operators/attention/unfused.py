"""Attention in several kernels, which write all scores to memory."""

from amped.theory.quantity import quantity, records
from amped.theory.records import Gemm, contraction, streamed


@quantity("1")
def unfused_attentions_per_layer(attentions_per_layer, flash_attention):
    """Attentions of a layer that write their scores to memory. Source: arXiv 2205.14135."""
    return attentions_per_layer * (1 - flash_attention)


@records()
def attention_gemms(
    microbatch_size,
    context,
    query_split_degree,
    attention_heads,
    query_key_width,
    value_width,
    tensor_parallel_rows,
    ulysses_degree,
):
    """Scores and weighted values, over all pairs of positions. Source: arXiv 1706.03762, eq. 1."""
    batch = microbatch_size * attention_heads / (tensor_parallel_rows * ulysses_degree)
    queries = context / query_split_degree
    return (
        Gemm("attention_scores", queries, context, query_key_width, batch, 1.0),
        Gemm("attention_values", queries, value_width, context, batch, 1.0),
    )


@records(choice="grid_attention", value="summa")
def attention_gemms__summa(
    microbatch_size,
    context,
    token_split_degree,
    attention_heads,
    head_dimension,
    value_head_dimension,
    tensor_parallel_rows,
    summa_panels,
):
    """Scores and weighted values as SUMMA products of all heads: columns cut the queries, rows the keys.

    Source: arXiv 2410.00273, section 3 (its tool's sa_2d).
    """
    batch, queries = microbatch_size * attention_heads, context / token_split_degree
    keys, width = context / tensor_parallel_rows, value_head_dimension / tensor_parallel_rows
    return (
        Gemm("attention_scores", queries, keys, head_dimension, batch, 1.0, summa_panels),
        Gemm("attention_values", queries, width, context, batch, 1.0, summa_panels),
    )


@records()
def unfused_attention_operators(
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
        *streamed("softmax", "normalization", rows, width, *softmax, size, calls),
        *streamed("attention_dropout", "element_wise", rows, width, *dropped, mask + size - again, calls * drops),
        *contraction(values, *products, value_bytes, calls),
    )
