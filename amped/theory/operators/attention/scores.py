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


@quantity("1")
def causal_score_fraction(causal, context, effective_attention_window, windowed_layer_fraction):
    """Share of the scores that a network needs: on and below the diagonal where it is causal, else all; or in a window.

    Source: arXiv 2307.08691, section 3.1.
    """
    whole = np.where(causal > 0, windowed_score_fraction(context, context, 1), 1.0)
    near = np.where(
        causal > 0,
        windowed_score_fraction(effective_attention_window, context, 1),
        effective_attention_window / context,
    )
    return whole + windowed_layer_fraction * (near - whole)


@quantity("1")
def computed_score_fraction(
    causal, context, effective_attention_window, unbalanced_sequence_split_degree, windowed_layer_fraction
):
    """Share of its scores that the busiest accelerator computes in a fused attention.

    Source: arXiv 2307.08691, section 3.1 (on and below the diagonal); arXiv 2311.09431, section 1 (the last share).
    Assumes that an attention without fusion computes and masks all of them, and that windows to both sides have no edges.
    """
    whole = np.where(causal > 0, windowed_score_fraction(context, context, unbalanced_sequence_split_degree), 1.0)
    windowed = np.where(
        causal > 0,
        windowed_score_fraction(effective_attention_window, context, unbalanced_sequence_split_degree),
        effective_attention_window / context,
    )
    return whole + windowed_layer_fraction * (windowed - whole)
