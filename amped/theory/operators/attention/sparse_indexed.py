"""Sparse attention whose keys an indexer chooses (DSA): narrow heads score earlier tokens, attention reads the best.

    score of a key = sum over the heads of weight · relu(index query · index key)

Block-sparse attention (MSA) chooses blocks of keys by their largest score, each head for itself and without weights.

The heads of the indexer share one key of a token. The indexer reads the tokens without sending gradients back to them;
it learns from a loss of its own, that its scores follow the weights of attention. All accelerators of a
tensor-parallel group compute the whole indexer. How many keys attention reads is on `scores.py`.

Not counted: the key of the indexer in the messages of context parallelism (128 of 704 entries of a token), and the time
to gather the chosen keys, which the products of attention hide if an accelerator has many heads.
"""

import numpy as np

from amped.theory.language.quantity import records
from amped.theory.nouns.conditions import INDEXED
from amped.theory.nouns.kernel_work import ROTATION, Traffic, Work, contraction, fused_backward_flops, streamed
from amped.theory.nouns.places import PROJECTED, PROJECTION_INPUTS
from amped.theory.nouns.records import Gemm

# Passes of a product with weights in training: forward, and the gradients of inputs and of weights. Source: definition.
PASSES = 3


@records(**INDEXED)
def indexer_gemms__indexed(
    microbatch_tokens,
    context,
    dimensionality,
    query_latent_dimension,
    indexer_heads,
    indexer_head_dimension,
    indexer_head_weights,
    indexers_per_layer,
    all_score_fraction,
    indexer_loss_score_fraction,
):
    """The products of an indexer: queries, the key, the weights of heads, and the scores of all earlier tokens.

    `count` is the share that they have of the three passes of a product: there are no gradients of the inputs, and the
    two gradients of a score are computed where the indexer learns.

    Source: arXiv 2512.02556, eq. 1; Megatron-Core, dsa.py (inputs without gradients).
    """
    tokens, width, learns = microbatch_tokens, indexer_head_dimension, 1.0 * (indexer_loss_score_fraction > 0)
    source = np.where(query_latent_dimension > 0, query_latent_dimension, dimensionality)
    products, scored = indexers_per_layer * (1 + learns) / PASSES, context * all_score_fraction
    learned = 1 + 2 * indexer_loss_score_fraction / all_score_fraction
    return (
        Gemm("index_queries", tokens, indexer_heads * width, source, count=products),
        Gemm("index_key", tokens, width, dimensionality, count=products),
        Gemm("index_weights", tokens, indexer_heads, dimensionality, count=products * indexer_head_weights),
        Gemm("index_scores", tokens, scored, width, batch=indexer_heads, count=indexers_per_layer * learned / PASSES),
    )


@records(**INDEXED)
def indexer_operators__indexed(
    indexer_projection_operators,
    index_score_operators,
    key_choice_operators,
    index_target_operators,
):
    """The operators of an indexer, from its projections to the chosen keys, and those of its loss.

    Source: arXiv 2512.02556, section 2.1.
    """
    return indexer_projection_operators + index_score_operators + key_choice_operators + index_target_operators


@records(**INDEXED)
def indexer_projection_operators(
    indexer_gemms, indexer_head_weights, indexers_per_layer, indexer_loss_score_fraction, entry_costs
):
    """The projections of the indexer, and the rotation of its queries and its key. They read inputs that others keep.

    Source: arXiv 2512.02556, eq. 1; DeepSeek-V3.2-Exp, inference/model.py (Indexer).
    """
    (queries, key, weights, _), (cost,), learns = indexer_gemms, entry_costs, 1.0 * (indexer_loss_score_fraction > 0)
    counts = {"forward": indexers_per_layer, "weight_gradient": indexers_per_layer * learns}
    inputs = (
        (queries, ("query_down", *PROJECTION_INPUTS), 1.0),
        (key, PROJECTION_INPUTS, 1.0),
        (weights, PROJECTION_INPUTS, indexer_head_weights),
    )
    products = (o for gemm, after, calls in inputs for o in contraction(gemm, cost, count=calls, after=after))
    width = queries.n + key.n
    turned = cost.of(ROTATION, queries.m * width)
    return (
        *(o.having(count=counts[o.phase] * o.count) for o in products if o.phase in counts),
        *streamed(
            "index_rotation",
            "element_wise",
            queries.m,
            width,
            Work(turned),
            count=indexers_per_layer,
            after=("index_queries", "index_key"),
        ),
    )


@records(**INDEXED)
def index_score_operators(
    indexer_gemms,
    context,
    indexed_block_tokens,
    indexers_per_layer,
    all_score_fraction,
    indexer_loss_score_fraction,
    softmax_statistic_precision,
    entry_costs,
):
    """The kernel of the index scores, and that of their gradients for the keys from which the indexer learns.

    The kernel adds up the heads and writes one score for each pair of tokens, or the largest of each block and head. It
    is timed as a fused attention with heads as wide: the weighted sum over heads stands for the softmax.

    Source: arXiv 2512.02556, eq. 1. Differs: in 16 bits, as in training; DeepSeek's inference computes it in fp8.
    """
    (queries, key, weights, scores), (cost,) = indexer_gemms, entry_costs
    scored = scores.m * scores.n * scores.k * scores.batch * cost.product
    kept = queries.m * (queries.n + key.n + weights.n) * cost.activation
    share = indexer_loss_score_fraction / all_score_fraction
    learns, heads = 1.0 * (share > 0), scores.m * scores.batch
    written = scores.m * scores.n * scores_of_a_pair(scores.batch, indexed_block_tokens)
    forward = Traffic(scored, kept, written * softmax_statistic_precision)
    backward = Traffic(fused_backward_flops(scored * share, 0.0), kept, kept)
    shape, calls = ("index_scores", "fused_attention", heads), {"count": indexers_per_layer}
    passes = (
        *streamed(*shape, context, Work(forward, None, kept * learns), after=("index_rotation", *PROJECTED), **calls),
        *streamed(*shape, context * share, Work(None, backward), count=indexers_per_layer * learns),
    )
    return tuple(o.with_heads((scores.k, scores.k), np.maximum(scores.n, 1.0), 1.0, 0.0) for o in passes)


def scores_of_a_pair(heads, block):
    """How many scores of a token and a key are written: one, or one of each head for a whole block.

    Args:
        heads: the heads of the indexer.
        block: the keys of a block.

    Source: arXiv 2512.02556, eq. 1; transformers, MiniMaxM3VLIndexer.
    """
    return np.where(block > 1, heads / block, 1.0)


@records(**INDEXED)
def key_choice_operators(
    indexer_gemms,
    indexed_keys,
    indexed_block_tokens,
    document_tokens,
    indexers_per_layer,
    softmax_statistic_precision,
    entry_costs,
):
    """The kernel that finds the largest scores of each token, and keeps their places, which are as wide as a score.

    Source: Megatron-Core, dsa.py (topk of the scores). Assumes that the scores of few queries at a time are in memory.
    """
    scores, score_bytes = indexer_gemms[3], softmax_statistic_precision
    each = scores_of_a_pair(scores.batch, indexed_block_tokens)
    pairs, chosen = (
        scores.m * scores.n * each,
        scores.m * np.minimum(indexed_keys, document_tokens) * score_bytes * each,
    )
    read = Traffic(flops=pairs * entry_costs[0].flop, read=pairs * score_bytes, written=chosen)
    work, calls = Work(read, None, chosen), {"count": indexers_per_layer, "after": ("index_scores",)}
    return streamed("key_choice", "normalization", scores.m, scores.n, work, **calls)


@records(**INDEXED)
def index_target_operators(
    attention_gemms,
    context,
    indexers_per_layer,
    indexer_loss_score_fraction,
    softmax_statistic_precision,
    entry_costs,
):
    """The kernel that computes the weights of attention once more, as the target of the indexer's loss.

    It computes the scores of all heads for the keys from which the indexer learns, and adds up the heads.

    Source: arXiv 2512.02556, eq. 3 and 4; Megatron-Core, dsa.py (compute_dsa_indexer_loss). Differs: the sum over
    tensor-parallel ranks, and the loss itself, are not counted.
    """
    (scores, values), (cost,), share = attention_gemms, entry_costs, indexer_loss_score_fraction
    flops, rows = scores.multiply_accumulates * share * cost.product, scores.m * scores.batch
    read = rows * scores.k * cost.activation
    keys = np.maximum(context * share, 1.0)
    passes = streamed(
        "index_target",
        "fused_attention",
        rows,
        keys,
        Work(Traffic(flops, read, scores.m * context * share * softmax_statistic_precision)),
        count=indexers_per_layer * (share > 0),
        after=("key_choice",),
    )
    return tuple(o.with_heads((scores.k, values.n), keys, 1.0, 0.0) for o in passes)
