"""Attention in one kernel that keeps no scores; and the sinks that some software accounts for behind it."""

from amped.theory.quantity import parameter, quantity, records
from amped.theory.records import streamed


@parameter("byte")
def softmax_statistic_precision():
    """Size of the logarithm of a row's sum that a fused attention keeps. Source: arXiv 2205.14135, algorithm 1."""
    return 4


@quantity("1")
def fused_attentions_per_layer(attentions_per_layer, flash_attention):
    """Attentions of a layer that are one kernel. Source: arXiv 2205.14135."""
    return attentions_per_layer * flash_attention


@parameter("1", at_least=1)
def fused_backward_products():
    """Products of a fused attention backward for each one forward: scores again, and four gradients of two.

    Source: arXiv 2307.08691, section 4.1.
    """
    return 2.5


@records()
def fused_attention_operators(
    attention_gemms,
    query_bytes,
    key_bytes,
    value_bytes,
    softmax_statistic_precision,
    computed_score_fraction,
    fused_backward_products,
    flops_per_multiply_accumulate,
    fused_attentions_per_layer,
    dropout,
):
    """Attention as one kernel that keeps no scores; its softmax counts in its efficiency.

    Source: arXiv 2205.14135; arXiv 2307.08691.
    """
    scores, values = attention_gemms
    flops = (scores.multiply_accumulates + values.multiply_accumulates) * flops_per_multiply_accumulate
    flops = flops * computed_score_fraction
    rows = scores.m * scores.batch
    statistics, output = rows * softmax_statistic_precision, query_bytes * values.n / scores.k
    inputs = query_bytes + key_bytes + value_bytes
    forward = (flops, inputs, output + statistics)
    backward = (flops * fused_backward_products, inputs + 2 * output + statistics, inputs)
    shape = ("fused_attention", "fused_attention", rows, scores.n)
    pair = streamed(*shape, forward, backward, inputs + statistics, fused_attentions_per_layer)
    return tuple(o.with_heads(scores.k, 1.0 * (dropout > 0)) for o in pair)


@records()
def sink_operators():
    """Kernels that account for attention sinks: none where the attention does. Source: NVIDIA Transformer Engine, softmax_type."""
    return ()


@records(choice="attention_kernel", value="flex")
def sink_operators__flex(
    attention_gemms,
    query_bytes,
    activation_precision,
    softmax_statistic_precision,
    flops_per_elementary_operation,
    attention_sinks,
    fused_attentions_per_layer,
):
    """The output of an attention without sinks, scaled in full precision by what they leave of each row's sum.

    Source: NVIDIA NeMo AutoModel, attention/flex_attention.py, and what PyTorch's autograd makes of it. Forward product
    and cast; backward two casts, two products and a sum. Passes are those of 2 kernels on average.
    """
    scores, values = attention_gemms
    rows, flop = scores.m * scores.batch, flops_per_elementary_operation
    e, wide = activation_precision, softmax_statistic_precision
    entries = query_bytes / activation_precision * values.n / scores.k
    there = (entries * flop / 2, entries * (e + wide) / 2, entries * (e + wide) / 2)
    back = (entries * 3 * flop / 2, entries * (e + 2 * wide), entries * (e + 3 * wide) / 2)
    calls = attention_sinks * fused_attentions_per_layer
    # what two calls keep together is the output without sinks
    return streamed("sink_scaling", "single_kernel", rows, values.n, there, back, entries * e / 2, 2 * calls)
