"""Which attention scores are computed: the scores of earlier tokens, and in some layers only those within a window."""

import numpy as np

from amped.theory.language.quantity import quantity, records
from amped.theory.nouns.conditions import BRANCHED, INDEXED
from amped.theory.nouns.records import AttentionMask


@quantity("count")
def effective_attention_window(attention_window, document_tokens):
    """The number of tokens to which a windowed layer looks back: the window, but no more than the document.

    Source: arXiv 2310.06825, section 2.
    """
    return np.where(attention_window > 0, np.minimum(attention_window, document_tokens), document_tokens)


@quantity("count", **INDEXED)
def effective_attention_window__indexed(indexed_keys, indexed_block_tokens, document_tokens, absorbed_latent_attention):
    """The number of keys that a token reads, if an indexer chooses them: the chosen ones, or all of the document.

    Latent attention that is not absorbed computes all scores and masks those of other keys, unless they are chosen in
    blocks. Of the block of the token itself, those before it are read: half of them, on average.

    Source: arXiv 2512.02556, section 2.1; transformers, MiniMaxM3VLIndexer (blocks).
    """
    is_chosen = (absorbed_latent_attention > 0) | (indexed_block_tokens > 1)
    is_short = indexed_keys >= document_tokens
    keys = np.where(is_short, indexed_keys, indexed_keys - (indexed_block_tokens - 1) / 2)
    return np.minimum(np.where(is_chosen, keys, document_tokens), document_tokens)


@quantity("1")
def document_score_fraction(document_tokens, sequence_fill, context):
    """The share of the pairs of tokens of a sequence that are in the same document; 1 for one document that fills it.

        share = (sum of the squared lengths of a sequence's documents) / context²

    Source: NVIDIA/Megatron-LM, core/packed_seq_params.py (cu_seqlens); arXiv 2107.02027, section 3.2 (masks).
    """
    return sequence_fill * document_tokens / context


def windowed_score_fraction(window, context, parts):
    """The share of its scores that the last part of a causal sequence needs, with an attention window of w tokens.

        n = s / parts,  a = s − n,  d = max(w − a, 0),
        fraction = (w·n − d·(d − 1)/2) / (n·s).

    A sequence of s tokens is cut into equal parts. The last part has n tokens, and a tokens come before it. The first d
    tokens of the last part have fewer than w tokens to which they can look back. `window` is w, and `context` is s.

    Source: definition.
    """
    part_tokens = context / parts
    short_tokens = np.maximum(window - (context - part_tokens), 0)
    return (window * part_tokens - short_tokens * (short_tokens - 1) / 2) / (part_tokens * context)


def score_fraction(causal, context, window, windowed_layer_fraction, parts):
    """The share of its scores that the last part of a sequence needs, averaged over layers with and without a window.

    Without a causal mask, a window of w tokens counts as w / s of the scores of every token, s being the context.

    Args:
        causal: 1 if the mask is causal, else 0.
        context: the tokens of a sequence.
        window: the tokens to which a windowed layer looks back.
        windowed_layer_fraction: the share of the layers with a window.
        parts: the number of parts into which a sequence is cut.

    Source: arXiv 2307.08691, section 3.1 (on and below the diagonal).
    """
    full_fraction = np.where(causal > 0, windowed_score_fraction(context, context, parts), 1.0)
    windowed_fraction = np.where(causal > 0, windowed_score_fraction(window, context, parts), window / context)
    return full_fraction + windowed_layer_fraction * (windowed_fraction - full_fraction)


@quantity("1")
def causal_score_fraction(
    causal, document_tokens, effective_attention_window, windowed_layer_fraction, document_score_fraction
):
    """The share of the scores that a network needs.

    With a causal mask these are the scores on and below the diagonal; with a window only the scores within it. Tokens
    attend to their own document alone.

    Source: arXiv 2307.08691, section 3.1. Differs: in layers with a window, documents count as equally long.
    """
    layers = (effective_attention_window, windowed_layer_fraction)
    return document_score_fraction * score_fraction(causal, document_tokens, *layers, 1)


@quantity("1")
def computed_score_fraction(
    causal,
    document_tokens,
    effective_attention_window,
    windowed_layer_fraction,
    unbalanced_sequence_split_degree,
    document_score_fraction,
):
    """The share of its scores that the busiest accelerator computes in a fused attention.

    If the sequence is split into contiguous parts, the accelerator with the last part has the most scores. An unfused
    attention is assumed to compute all scores, and to mask those that it does not need.

    Source: arXiv 2307.08691, section 3.1 (on and below the diagonal); arXiv 2311.09431, section 1 (the last part).
    """
    layers = (effective_attention_window, windowed_layer_fraction)
    return document_score_fraction * score_fraction(causal, document_tokens, *layers, unbalanced_sequence_split_degree)


@quantity("1", **BRANCHED)
def full_layer_score_fraction(
    causal,
    document_tokens,
    document_score_fraction,
    unbalanced_sequence_split_degree,
    fused_attentions_per_layer,
    attentions_per_layer,
):
    """The share of its scores that a layer without a window computes: all, or in a fused attention those of its mask.

    Source: arXiv 2307.08691, section 3.1.
    """
    parts = unbalanced_sequence_split_degree
    masked = document_score_fraction * score_fraction(causal, document_tokens, document_tokens, 0, parts)
    return 1 - fused_attentions_per_layer / np.maximum(attentions_per_layer, 1e-9) * (1 - masked)


@quantity("1", **INDEXED)
def all_score_fraction(causal, document_tokens, unbalanced_sequence_split_degree, document_score_fraction):
    """The share of the pairs of tokens that an indexer scores: a token scores all earlier ones of its document.

    Source: arXiv 2512.02556, eq. 1.
    """
    parts = unbalanced_sequence_split_degree
    return document_score_fraction * score_fraction(causal, document_tokens, document_tokens, 0, parts)


@quantity("1", **INDEXED)
def chosen_score_fraction(
    causal, document_tokens, indexed_keys, unbalanced_sequence_split_degree, document_score_fraction
):
    """The share of the pairs of tokens that an indexer chooses.

    Source: arXiv 2512.02556, eq. 4 (the chosen keys).
    """
    keys, parts = np.minimum(indexed_keys, document_tokens), unbalanced_sequence_split_degree
    return document_score_fraction * score_fraction(causal, document_tokens, keys, 1, parts)


@records()
def attention_masks(
    computed_score_fraction, causal, document_tokens, effective_attention_window, windowed_layer_fraction
):
    """The mask of the attention scores, averaged over the layers.

    A causal mask has one edge. A window adds an edge at its far end; without a causal mask it has an edge at each end.

    Source: arXiv 2307.08691, section 3.1 (blocks on the diagonal); arXiv 2310.06825, section 2 (windows).
    """
    windowed_share = windowed_layer_fraction * (effective_attention_window < document_tokens)
    return (AttentionMask("mask", computed_score_fraction, 1.0 * causal + windowed_share * (2 - causal)),)
