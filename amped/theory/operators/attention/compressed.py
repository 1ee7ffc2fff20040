"""Attention to compressed keys: a token reads a window of keys, and entries that stand for several tokens (CSA, HCA).

All heads share one key of a token, which is its value, too. In sparsely compressed layers (CSA) an entry stands for a
few tokens, overlaps with the entry before it, and an indexer chooses the best entries of each token. In heavily
compressed layers (HCA) an entry stands for many tokens, and a token reads all entries. Other layers have the window
alone. Queries come from a latent vector; the output is projected group by group of heads, and then by one matrix.

    window + min(entries, chosen) keys, or window + entries

All accelerators of a tensor-parallel group compute the keys, the entries and the indexer. Numbers are averages over the
layers. Assumes that context parallelism sends the keys of all tokens, of which a window needs only the last ones.
"""

import numpy as np

from amped.theory.language.quantity import quantity, records
from amped.theory.nouns.conditions import COMPRESSED
from amped.theory.nouns.kernel_work import NORM, Traffic, Work, contraction, streamed
from amped.theory.nouns.mixer_work import shared_entries
from amped.theory.nouns.places import HEADS_JOINED, PROJECTION_INPUTS
from amped.theory.nouns.records import EntryKind, Gemm, total
from amped.theory.operators.attention.scores import windowed_score_fraction

# Keys and gates of an entry, of the tokens of an entry and, in sparsely compressed layers, also of those before them.
# Source: transformers, DeepseekV4CSACompressor and DeepseekV4HCACompressor.
SPARSE_SERIES, HEAVY_SERIES = 4, 2
# The softmax over the tokens of an entry, entry by entry of a gate, and the product with the keys.
COMPRESSION = Traffic(flops=5, read=1, functions=0.5)
COMPRESSION_GRADIENT = Traffic(flops=8, read=1, written=1, functions=0.5)


# --- which keys ------------------------------------------------------------------------------------------------------


def entry_fraction(tokens, parts, ratio, most):
    """The entries that a token of the last part of a sequence reads on average, as a share of the tokens.

    Args:
        tokens: the tokens of a sequence.
        parts: the number of parts into which it is cut.
        ratio: the tokens of an entry.
        most: the most entries that a token reads.

    Source: definition.
    """
    earlier = tokens * (1 - 1 / parts)
    read = shared_entries(tokens, ratio, most) - shared_entries(earlier, ratio, most)
    return read * parts / (tokens * tokens)


@records(**COMPRESSED)
def entry_kinds(
    document_tokens,
    indexers_per_layer,
    heavily_compressed_fraction,
    sparse_compression_ratio,
    heavy_compression_ratio,
    indexed_keys,
):
    """The kinds of entries that tokens read: chosen ones that stand for a few tokens, and all that stand for many.

    Source: transformers, DeepseekV4CSACompressor and DeepseekV4HCACompressor.
    """
    return (
        EntryKind("sparse", indexers_per_layer, sparse_compression_ratio, indexed_keys),
        EntryKind("heavy", heavily_compressed_fraction, heavy_compression_ratio, document_tokens),
    )


def compressed_score_fraction(tokens, parts, window, entry_kinds):
    """The share of the pairs of tokens that attention computes: those in the window, and those of tokens and entries.

    Args:
        tokens: the tokens of a sequence.
        parts: the number of parts into which it is cut.
        window: the tokens of the window.
        entry_kinds: the kinds of entries, as in `EntryKind`.

    Source: transformers, DeepseekV4Attention.
    """
    entries = (kind.share * entry_fraction(tokens, parts, kind.ratio, kind.most) for kind in entry_kinds)
    return windowed_score_fraction(window, tokens, parts) + total(entries)


@quantity("count", **COMPRESSED)
def effective_attention_window__compressed(attention_window, document_tokens, entry_kinds):
    """The keys and entries that the last token of a document reads, averaged over the layers: at most the tokens.

    Source: transformers, DeepseekV4Attention.
    """
    entries = total(kind.share * np.minimum(document_tokens / kind.ratio, kind.most) for kind in entry_kinds)
    return np.minimum(window_of(attention_window, document_tokens) + entries, document_tokens)


def window_of(attention_window, tokens):
    """The tokens of the window, but no more than the document; all of it without a window. Source: definition."""
    return np.where(attention_window > 0, np.minimum(attention_window, tokens), tokens)


@quantity("1", **COMPRESSED)
def causal_score_fraction__compressed(document_tokens, attention_window, entry_kinds, document_score_fraction):
    """The share of the scores that a network needs: window and entries, averaged over the layers.

    Source: transformers, DeepseekV4Attention (masks).
    """
    window = window_of(attention_window, document_tokens)
    return document_score_fraction * compressed_score_fraction(document_tokens, 1, window, entry_kinds)


@quantity("1", **COMPRESSED)
def computed_score_fraction__compressed(
    document_tokens, attention_window, entry_kinds, unbalanced_sequence_split_degree, document_score_fraction
):
    """The share of its scores that the busiest accelerator computes: that with the last part of a sequence.

    Source: transformers, DeepseekV4Attention; arXiv 2311.09431, section 1 (the last part).
    """
    parts, window = unbalanced_sequence_split_degree, window_of(attention_window, document_tokens)
    return document_score_fraction * compressed_score_fraction(document_tokens, parts, window, entry_kinds)


@quantity("1", **COMPRESSED)
def all_score_fraction__compressed(
    document_tokens, sparse_compression_ratio, unbalanced_sequence_split_degree, document_score_fraction
):
    """The share of the pairs of tokens that an indexer scores: a token and all earlier entries of its document.

    Source: transformers, DeepseekV4Indexer.
    """
    tokens, parts = document_tokens, unbalanced_sequence_split_degree
    return document_score_fraction * entry_fraction(tokens, parts, sparse_compression_ratio, tokens)


@quantity("1", **COMPRESSED)
def chosen_score_fraction__compressed(
    document_tokens, indexed_keys, sparse_compression_ratio, unbalanced_sequence_split_degree, document_score_fraction
):
    """The share of the pairs of tokens and entries, as of tokens, that an indexer chooses.

    Source: transformers, DeepseekV4Indexer.
    """
    parts, ratio = unbalanced_sequence_split_degree, sparse_compression_ratio
    return document_score_fraction * entry_fraction(document_tokens, parts, ratio, indexed_keys)


# --- products --------------------------------------------------------------------------------------------------------


@records(**COMPRESSED)
def indexer_gemms__compressed(
    microbatch_tokens,
    context,
    dimensionality,
    query_latent_dimension,
    indexer_heads,
    indexer_head_dimension,
    indexers_per_layer,
    all_score_fraction,
    indexer_loss_score_fraction,
):
    """The products of an indexer: queries, keys and gates of its entries, the weights of heads, scores of all entries.

    `count` is the share that they have of the three passes of a product, as in `indexer_gemms__indexed`.

    Source: transformers, DeepseekV4Indexer.
    """
    tokens, width, learns = microbatch_tokens, indexer_head_dimension, 1.0 * (indexer_loss_score_fraction > 0)
    products = indexers_per_layer * (1 + learns) / 3
    learned = 1 + 2 * indexer_loss_score_fraction / all_score_fraction
    scores = (tokens, context * all_score_fraction, width)
    return (
        Gemm("index_queries", tokens, indexer_heads * width, query_latent_dimension, count=products),
        Gemm("index_key", tokens, SPARSE_SERIES * width, dimensionality, count=products),
        Gemm("index_weights", tokens, indexer_heads, dimensionality, count=products),
        Gemm("index_scores", *scores, batch=indexer_heads, count=indexers_per_layer * learned / 3),
    )


@records(**COMPRESSED)
def compressed_projection_gemms(
    microbatch_tokens,
    dimensionality,
    attention_heads,
    head_dimension,
    query_latent_dimension,
    output_latent_dimension,
    output_groups,
    indexers_per_layer,
    heavily_compressed_fraction,
    tensor_parallel_rows,
):
    """The products of the projections of attention to compressed keys. Tensor parallelism splits those of heads.

    Source: transformers, DeepseekV4Attention.
    """
    tokens, ranks, width = microbatch_tokens, tensor_parallel_rows, head_dimension
    of_group, groups = attention_heads * width / output_groups, output_groups / ranks
    sparse, heavy = indexers_per_layer, heavily_compressed_fraction
    return (
        Gemm("query_down", tokens, query_latent_dimension, dimensionality),
        Gemm("query_up", tokens, attention_heads * width / ranks, query_latent_dimension),
        Gemm("key_value", tokens, width, dimensionality),
        Gemm("sparse_compressor", tokens, SPARSE_SERIES * width, dimensionality, count=sparse),
        Gemm("heavy_compressor", tokens, HEAVY_SERIES * width, dimensionality, count=heavy),
        Gemm("output_down", tokens, output_latent_dimension, of_group, batch=groups),
        Gemm("attention_output", tokens, dimensionality, groups * output_latent_dimension),
    )


@records(**COMPRESSED)
def projection_gemms__compressed(compressed_projection_gemms, indexer_gemms):
    """The products of the projections of attention to compressed keys, and those of its indexer.

    Source: transformers, DeepseekV4Attention.
    """
    *projections, down, output = compressed_projection_gemms
    return (*projections, *indexer_gemms, down, output)


@records(**COMPRESSED)
def projection_operators__compressed(
    compressed_projection_gemms,
    compression_operators,
    indexer_operators,
    linear_input_bytes,
    attentions_per_layer,
    entry_costs,
):
    """The projections into queries, keys and entries, and the indexer. All that read the layer's input share one copy.

    Source: transformers, DeepseekV4Attention.
    """
    (cost,), calls = entry_costs, attentions_per_layer
    down, up, key, sparse, heavy, *_ = compressed_projection_gemms
    latent = up.m * up.k * cost.operand
    return (
        *contraction(down, cost, count=calls, after=PROJECTION_INPUTS),
        *contraction(up, cost, stash=latent, count=calls, after=("query_down",)),
        *contraction(key, cost, stash=linear_input_bytes, count=calls, after=PROJECTION_INPUTS),
        *contraction(sparse, cost, count=calls * sparse.count, after=PROJECTION_INPUTS),
        *contraction(heavy, cost, count=calls * heavy.count, after=PROJECTION_INPUTS),
        *compression_operators,
        *indexer_operators,
    )


@records(**COMPRESSED)
def compression_operators(compressed_projection_gemms, indexer_gemms, indexers_per_layer, entry_costs):
    """The kernels that join the keys of the tokens of an entry by a softmax over their gates. They keep both.

    What they write is smaller than what they read by the tokens of an entry, and not counted.

    Source: transformers, DeepseekV4CSACompressor, DeepseekV4HCACompressor and DeepseekV4Indexer.
    """
    (cost,), (_, _, _, sparse, heavy, *_), index = entry_costs, compressed_projection_gemms, indexer_gemms[1]
    work = Work(COMPRESSION, COMPRESSION_GRADIENT, kept=1)
    kernels = (
        ("sparse_compression", sparse, sparse.count),
        ("heavy_compression", heavy, heavy.count),
        ("index_compression", index, indexers_per_layer),
    )
    return tuple(
        operator
        for name, gemm, count in kernels
        for operator in streamed(
            name, "element_wise", gemm.m, gemm.n, cost.of(work, gemm.m * gemm.n), count=count, after=(gemm.name,)
        )
    )


@records(**COMPRESSED)
def query_key_norm_operators__compressed(
    microbatch_tokens, query_bytes, head_dimension, attentions_per_layer, entry_costs
):
    """The norms of the query of each head and of the key that all heads share. They keep their inputs.

    Source: transformers, DeepseekV4Attention (q_b_norm, kv_norm).
    """
    (cost,), calls = entry_costs, attentions_per_layer
    entries = query_bytes / cost.activation + microbatch_tokens * head_dimension
    rows = entries / head_dimension
    norm, after = cost.of(NORM, entries), ("query_up", "key_value")
    return streamed("query_key_norm", "normalization", rows, head_dimension, norm, count=calls, after=after)


@records(**COMPRESSED)
def attention_output_operators__compressed(compressed_projection_gemms, attentions_per_layer, entry_costs):
    """The projection of each group of heads, and the matrix that joins the groups. Both keep their inputs.

    Source: transformers, DeepseekV4Attention (o_a_proj, o_b_proj).
    """
    (cost,), (*_, down, output), calls = entry_costs, compressed_projection_gemms, attentions_per_layer
    heads, latent = down.m * down.k * down.batch * cost.operand, output.m * output.k * cost.operand
    return (
        *contraction(down, cost, stash=heads, count=calls, after=HEADS_JOINED),
        *contraction(output, cost, stash=latent, count=calls, after=("output_down",)),
    )


# --- sizes -----------------------------------------------------------------------------------------------------------


@quantity("byte", **COMPRESSED)
def key_bytes__compressed(microbatch_tokens, head_dimension, entry_kinds, activation_precision):
    """The size of the keys and entries of a micro-batch, which all heads share.

    Source: transformers, DeepseekV4Attention.
    """
    entries = total(kind.share / kind.ratio for kind in entry_kinds)
    return microbatch_tokens * head_dimension * (1 + entries) * activation_precision


@quantity("byte", **COMPRESSED)
def value_bytes__compressed(microbatch_tokens, activation_precision):
    """The size of the values of a micro-batch: zero, they are the keys. Source: transformers, DeepseekV4Attention."""
    return 0 * microbatch_tokens * activation_precision


@quantity("count", **COMPRESSED)
def rotary_width__compressed(attention_heads, rotary_head_dimension, tensor_parallel_rows):
    """The entries of a token that its position rotates: of queries, of the key, and back in the outputs of heads.

    Source: transformers, DeepseekV4Attention.
    """
    return (2 * attention_heads / tensor_parallel_rows + 1) * rotary_head_dimension
