"""Multi-head latent attention: queries, keys and values come from low-rank latent vectors.

With `absorbed_latent_attention` the queries attend to the latent vectors themselves. The parameters of this attention
are on `inputs/network.py`.
"""

import numpy as np

from amped.theory.language.quantity import quantity, records
from amped.theory.nouns.conditions import MULTI_LATENT
from amped.theory.nouns.kernel_work import contraction
from amped.theory.nouns.places import PROJECTION_INPUTS, VALUES_WEIGHTED
from amped.theory.nouns.records import Gemm


@records()
def latent_projection_gemms(
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
    """The matrix products of the projections of multi-head latent attention.

    Tensor parallelism splits all of them except the down projections. With absorbed latent attention, the queries are
    multiplied with the up projection of the keys, and the outputs with the up projection of the values, head by head.

    Source: arXiv 2405.04434, eq. 9–19.
    """
    heads, tokens, absorbed = attention_heads / tensor_parallel_rows, microbatch_tokens, 1.0 * absorbed_latent_attention
    query_source = np.where(query_latent_dimension > 0, query_latent_dimension, dimensionality)
    content, rank = head_dimension - rotary_head_dimension, key_value_latent_dimension
    key_value = heads * (content + value_head_dimension)
    return (
        Gemm("query_down", tokens, query_latent_dimension, dimensionality),
        Gemm("query_up", tokens, heads * head_dimension, query_source),
        Gemm("key_value_down", tokens, rank + rotary_head_dimension, dimensionality),
        Gemm("key_value_up", tokens, key_value, rank, count=1.0 - absorbed),
        Gemm("query_absorption", tokens, rank, content, batch=heads, count=absorbed),
        Gemm("value_absorption", tokens, value_head_dimension, rank, batch=heads, count=absorbed),
        Gemm("attention_output", tokens, dimensionality, heads * value_head_dimension),
    )


@records(**MULTI_LATENT)
def projection_gemms__multi_latent(latent_projection_gemms, indexer_gemms):
    """The matrix products of the projections of multi-head latent attention, and those of its indexer if it has one.

    Source: arXiv 2405.04434, eq. 9–19; arXiv 2512.02556, eq. 1.
    """
    *projections, output = latent_projection_gemms
    return (*projections, *indexer_gemms, output)


@records(**MULTI_LATENT)
def projection_operators__multi_latent(
    latent_projection_gemms,
    indexer_operators,
    linear_input_bytes,
    attentions_per_layer,
    query_latent_dimension,
    latent_projection_recomputation,
    entry_costs,
):
    """The projections of multi-head latent attention, forward and backward, and its indexer if it has one.

    Both down projections read the same input, which is kept once. With absorbed latent attention, the queries are
    multiplied with the up projection of the keys, and the outputs with the up projection of the values, head by head.

    Source: arXiv 2405.04434, eq. 9–19.
    """
    (cost,), calls, compressed = entry_costs, attentions_per_layer, 1.0 * (query_latent_dimension > 0)
    query_down, query_up, key_value_down, key_value_up, query_in, value_out, _ = latent_projection_gemms

    def projected(gemm, after, kept=1.0):
        """The operators of a product that waits for `after`, and keeps the share `kept` of its input."""
        stash = gemm.m * gemm.k * gemm.batch * cost.operand * kept
        return contraction(gemm, cost, stash=stash, count=calls * gemm.count, after=after)

    query_up = projected(query_up, ("query_down", *PROJECTION_INPUTS), compressed)
    key_value_up = projected(key_value_up, ("key_value_down",))
    return (
        *contraction(query_down, cost, count=calls * compressed, after=PROJECTION_INPUTS),
        *query_up,
        *contraction(key_value_down, cost, stash=linear_input_bytes, count=calls, after=PROJECTION_INPUTS),
        *key_value_up,
        *(up[0].recomputing(latent_projection_recomputation) for up in (query_up, key_value_up)),
        *projected(query_in, ("query_up",)),
        *projected(value_out, VALUES_WEIGHTED),
        *indexer_operators,
    )


@quantity("1", **MULTI_LATENT)
def kept_attention_input_fraction__multi_latent(latent_projection_recomputation):
    """The share of the queries, keys and values that attention keeps: none if their projections are recomputed.

    Source: Megatron-Core, TransformerConfig (recompute_modules, mla_up_proj).
    """
    return 1 - latent_projection_recomputation


@quantity("byte", **MULTI_LATENT)
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
    """The size of the keys of a micro-batch on one accelerator.

    They are the keys of every head or, with absorbed latent attention, one latent vector for all heads.

    Source: arXiv 2405.04434, sections 2.1.2 and 2.1.3.
    """
    latent = key_value_latent_dimension + rotary_head_dimension
    width = np.where(absorbed_latent_attention > 0, latent, attention_heads * head_dimension / tensor_parallel_rows)
    return microbatch_tokens * width * activation_precision


@quantity("byte", **MULTI_LATENT)
def value_bytes__multi_latent(
    microbatch_tokens,
    attention_heads,
    value_head_dimension,
    tensor_parallel_rows,
    activation_precision,
    absorbed_latent_attention,
):
    """The size of the values of a micro-batch on one accelerator.

    They are the values of every head. With absorbed latent attention it is zero: the latent vector is counted as a key.

    Source: arXiv 2405.04434, section 2.1.2.
    """
    width = attention_heads * value_head_dimension / tensor_parallel_rows
    return microbatch_tokens * width * activation_precision * (1 - absorbed_latent_attention)


@quantity("count", **MULTI_LATENT)
def rotary_width__multi_latent(attention_heads, rotary_head_dimension, tensor_parallel_rows):
    """The entries of a token's queries and of its one rotary key that the position of the token rotates.

    Source: arXiv 2405.04434, eq. 14–15.
    """
    return (attention_heads / tensor_parallel_rows + 1) * rotary_head_dimension
