"""The operators of attention, each kind in a file.

Takes tokens, heads and widths on one accelerator. Hands on records for `operators/layer.py`.

    projections     queries, keys, values and the output; biases, norms and rotary positions between
    multi_latent    the same through low-rank latent vectors (an alternative of `attention_kind`)
    scores          which share of the scores is computed: causal, within a window
    unfused         scores, softmax, dropout and values in kernels of their own, with all scores in memory
    fused           all of that in one kernel that keeps no scores

The share of fused and of unfused attentions is a factor, so both pages may stand in one plan.
"""

PAGES = ("scores", "projections", "multi_latent", "unfused", "fused")
