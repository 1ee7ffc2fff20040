"""Attention in several kernels, which write all scores to memory."""

from amped.theory.language.quantity import quantity, records
from amped.theory.nouns.kernel_work import DROPOUT, MASKING, SOFTMAX, Traffic, Work, contraction, streamed
from amped.theory.nouns.places import EXCHANGED, SCORED
from amped.theory.nouns.records import Gemm


@quantity("1")
def unfused_attentions_per_layer(attentions_per_layer, fused_attentions_per_layer):
    """The number of attentions of a layer that write their scores to memory. Source: arXiv 2205.14135, section 2.2."""
    return attentions_per_layer - fused_attentions_per_layer


@records()
def attention_head_gemms(
    microbatch_size,
    context,
    query_split_degree,
    attention_heads,
    query_key_width,
    value_width,
    tensor_parallel_rows,
    ulysses_degree,
):
    """The two products of the heads of an accelerator: scores, and weighted values, for all pairs of tokens.

    Source: arXiv 1706.03762, eq. 1.
    """
    batch = microbatch_size * attention_heads / (tensor_parallel_rows * ulysses_degree)
    queries = context / query_split_degree
    return (
        Gemm("attention_scores", queries, context, query_key_width, batch=batch),
        Gemm("attention_values", queries, value_width, context, batch=batch),
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
    """Scores and weighted values of all heads as SUMMA products.

    The columns of the grid split the queries; its rows split the keys.

    Source: arXiv 2410.00273, section 3 (sa_2d in its code).
    """
    batch, queries = microbatch_size * attention_heads, context / token_split_degree
    keys, width = context / tensor_parallel_rows, value_head_dimension / tensor_parallel_rows
    return (
        Gemm("attention_scores", queries, keys, head_dimension, batch=batch, panels=summa_panels),
        Gemm("attention_values", queries, width, context, batch=batch, panels=summa_panels),
    )


@records()
def unfused_attention_operators(
    attention_gemms, softmax_operators, query_bytes, key_bytes, value_bytes, unfused_attentions_per_layer, entry_costs
):
    """Scores, softmax, dropout and weighted values as separate kernels, each of which passes over all scores.

    Source: arXiv 2205.05198, section 4.1.
    """
    (scores, values), (cost,) = attention_gemms, entry_costs
    calls = {"kind": "batched_contraction", "count": unfused_attentions_per_layer}
    before_values = (
        "attention_dropout",
        "probabilities_conversion",
        "softmax",
        "attention_values_inputs broadcast",
        "attention_values_weights broadcast",
    )
    before_scores = (*EXCHANGED, "attention_scores_weights broadcast")
    return (
        *contraction(scores, cost, stash=query_bytes + key_bytes, after=before_scores, **calls),
        *softmax_operators,
        *contraction(values, cost, stash=value_bytes, after=before_values, **calls),
    )


@records(choice="softmax_kernels", value="separate")
def softmax_conversion_operators__separate(
    attention_gemms, softmax_precision, unfused_attentions_per_layer, entry_costs
):
    """The kernels that convert scores to full precision before a softmax, and its result back; and their gradients'.

    The result is kept in both precisions: the softmax keeps it in full precision, and the product with the values keeps
    it as converted.

    Source: NVIDIA Transformer Engine, FusedScaleMaskSoftmax.forward_torch_softmax, and PyTorch's autograd of it.
    """
    (scores, _), (cost,), wide = attention_gemms, entry_costs, softmax_precision
    rows, narrow = scores.m * scores.batch, cost.activation
    precisions = ((narrow, wide), (wide, narrow))
    widened, narrowed = (Traffic(cost.flop, read, written) * (rows * scores.n) for read, written in precisions)
    kernels = (
        ("scores_conversion", Work(widened, narrowed), SCORED),
        ("probabilities_conversion", Work(narrowed, widened, rows * scores.n * narrow), ("softmax",)),
    )
    return tuple(
        operator
        for name, work, after in kernels
        for operator in streamed(
            name, "single_kernel", rows, scores.n, work, count=unfused_attentions_per_layer, after=after
        )
    )


@records()
def causal_mask_operators(
    attention_gemms,
    causal,
    causal_mask_kernels,
    softmax_precision,
    unfused_attentions_per_layer,
    entry_costs,
):
    """The kernel that masks the scores of later tokens, and the kernel that masks the gradients of these scores.

    Source: PyTorch, masked_fill: one kernel forward and one backward, each of which reads and writes all entries.
    """
    (scores, _), (cost,) = attention_gemms, entry_costs
    rows = scores.m * scores.batch
    return streamed(
        "causal_mask",
        "single_kernel",
        rows,
        scores.n,
        cost.of(MASKING, rows * scores.n, softmax_precision),
        count=unfused_attentions_per_layer * causal * causal_mask_kernels,
        after=("scores_conversion", *SCORED),
    )


@records()
def softmax_operators(
    attention_gemms,
    softmax_conversion_operators,
    causal_mask_operators,
    softmax_precision,
    dropout,
    dropout_mask_bytes,
    dropout_recomputation,
    unfused_attentions_per_layer,
    entry_costs,
):
    """The masked softmax of the scores, and the dropout of the probabilities, each as a kernel of its own.

    Source: arXiv 2205.05198, section 4.1; arXiv 2007.00072, table 3.
    """
    (scores, _), (cost,), calls = attention_gemms, entry_costs, unfused_attentions_per_layer
    rows = scores.m * scores.batch
    entries = rows * scores.n
    size, mask = entries * cost.activation, entries * dropout_mask_bytes
    recomputed_bytes = dropout_recomputation * size
    mask_work = Work(
        Traffic(written=mask),
        Traffic(read=mask + recomputed_bytes, written=recomputed_bytes),
        mask + size - recomputed_bytes,
    )
    dropped, shape = cost.of(DROPOUT, entries) + mask_work, (rows, scores.n)
    probabilities, after = cost.of(SOFTMAX, entries, softmax_precision), ("causal_mask", "scores_conversion", *SCORED)
    drawn, converted = calls * (dropout > 0), ("probabilities_conversion", "softmax")
    return (
        *softmax_conversion_operators,
        *causal_mask_operators,
        *streamed("softmax", "normalization", *shape, probabilities, count=calls, after=after),
        *streamed("attention_dropout", "element_wise", *shape, dropped, count=drawn, after=converted),
    )
