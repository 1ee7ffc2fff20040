"""Which scores of an attention are computed: those of earlier tokens, and in some layers those of a window only."""

import numpy as np

from amped.theory.quantity import quantity


@quantity("count")
def effective_attention_window(attention_window, context):
    """Tokens that a windowed layer looks back to: no more than there are. Source: arXiv 2310.06825, section 2."""
    return np.where(attention_window > 0, np.minimum(attention_window, context), context)


def windowed_score_fraction(reach, context, shares):
    """Share of its scores that the last of some equal shares of a sequence needs, each token looking back to a window.

    The last share starts after a tokens: its first w − a tokens, if there are any, have fewer behind them.
    Source: definition.
    """
    rows = context / shares
    fewer = np.maximum(reach - (context - rows), 0)
    return (reach * rows - fewer * (fewer - 1) / 2) / (rows * context)


def score_fraction(causal, context, window, windowed_layer_fraction, shares):
    """Share of the scores that the last part of a sequence needs, averaged over layers with and without a window.

    Source: arXiv 2307.08691, section 3.1 (on and below the diagonal). Windows to both sides have no edges.
    """
    whole = np.where(causal > 0, windowed_score_fraction(context, context, shares), 1.0)
    near = np.where(causal > 0, windowed_score_fraction(window, context, shares), window / context)
    return whole + windowed_layer_fraction * (near - whole)


@quantity("1")
def causal_score_fraction(causal, context, effective_attention_window, windowed_layer_fraction):
    """Share of the scores that a network needs: on and below the diagonal where it is causal, else all; or in a window.

    Source: arXiv 2307.08691, section 3.1.
    """
    return score_fraction(causal, context, effective_attention_window, windowed_layer_fraction, 1)


@quantity("1")
def computed_score_fraction(
    causal, context, effective_attention_window, windowed_layer_fraction, unbalanced_sequence_split_degree
):
    """Share of its scores that the busiest accelerator computes in a fused attention.

    Source: arXiv 2307.08691, section 3.1 (on and below the diagonal); arXiv 2311.09431, section 1 (the last share).
    Assumes that an attention without fusion computes and masks all of them.
    """
    layers = (effective_attention_window, windowed_layer_fraction)
    return score_fraction(causal, context, *layers, unbalanced_sequence_split_degree)
