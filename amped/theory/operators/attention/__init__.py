"""The operators of attention, each kind in a file.

The chapter takes tokens, heads and widths on one accelerator. It hands on records for `operators/layer.py`.

    projections     queries, keys, values and the output; biases, norms and rotary positions between them
    multi_latent    projections through low-rank latent vectors (an alternative of `attention_kind`)
    sparse_indexed  an indexer that chooses the keys of each token (an alternative if it has heads)
    compressed      a window of keys, and entries that stand for several tokens (an alternative of `attention_kind`)
    scores          which share of the scores is computed: causal, within a window
    linear          layers whose tokens change a state in turn; gated_delta_net, kimi_delta_attention, mamba2 and
                    lightning_attention: their products; recurrences: kinds without products of chunks
    unfused         scores, softmax, dropout and weighted values in separate kernels, with all scores in memory
    fused           scores, softmax, dropout and weighted values in one kernel that keeps no scores

The share of fused attentions is a factor, so that both pages may stand in one plan.
"""

PAGES = (
    "scores",
    "projections",
    "multi_latent",
    "sparse_indexed",
    "compressed",
    "unfused",
    "fused",
    "linear",
    "gated_delta_net",
    "kimi_delta_attention",
    "mamba2",
    "lightning_attention",
    "recurrences",
)
