"""Attention in one kernel that keeps no scores; and the sinks that some software accounts for behind it."""

from amped.theory.kernel_work import FUSED_BACKWARD_PRODUCTS, Traffic, Work, streamed
from amped.theory.places import EXCHANGED
from amped.theory.quantity import parameter, quantity, records


@quantity("1")
def fused_attentions_per_layer(attentions_per_layer, flash_attention):
    """Attentions of a layer that are one kernel. Source: arXiv 2205.14135."""
    return attentions_per_layer * flash_attention


@parameter("1", at_least=1)
def fused_backward_products():
    """Products of a fused attention backward for each one forward: scores again, and four gradients of two.

    Source: arXiv 2307.08691, section 4.1.
    """
    return FUSED_BACKWARD_PRODUCTS


@records()
def fused_attention_operators(
    attention_gemms,
    query_bytes,
    key_bytes,
    value_bytes,
    softmax_statistic_precision,
    computed_score_fraction,
    fused_backward_products,
    fused_attentions_per_layer,
    dropout,
    entry_costs,
):
    """Attention as one kernel that keeps no scores; its softmax counts in its efficiency.

    Source: arXiv 2205.14135; arXiv 2307.08691.
    """
    (scores, values), (cost,) = attention_gemms, entry_costs
    flops = (scores.multiply_accumulates + values.multiply_accumulates) * cost.product * computed_score_fraction
    rows, output = scores.m * scores.batch, query_bytes * values.n / scores.k
    inputs, statistics = query_bytes + key_bytes + value_bytes, rows * softmax_statistic_precision
    forward = Traffic(flops, inputs, output + statistics)
    backward = Traffic(flops * fused_backward_products, inputs + 2 * output + statistics, inputs)
    shape, work = ("fused_attention", rows, scores.n), Work(forward, backward, inputs + statistics)
    pair = streamed("fused_attention", *shape, work, count=fused_attentions_per_layer, after=EXCHANGED)
    return tuple(o.with_heads((scores.k + values.n) / 2, 1.0 * (dropout > 0)) for o in pair)


@records(choice="attention_kernel", value="flex")
def sink_operators__flex(
    attention_gemms, query_bytes, softmax_statistic_precision, attention_sinks, fused_attentions_per_layer, entry_costs
):
    """The output of an attention without sinks, scaled in full precision by what they leave of each row's sum.

    Source: NVIDIA NeMo AutoModel, attention/flex_attention.py, and what PyTorch's autograd makes of it. Forward product
    and cast; backward two casts, two products and a sum. Passes are those of 2 kernels on average.
    """
    (scores, values), (cost,), wide = attention_gemms, entry_costs, softmax_statistic_precision
    narrow, entries = cost.activation, query_bytes / cost.activation * values.n / scores.k
    scaled = Traffic(flops=cost.flop / 2, read=(narrow + wide) / 2, written=(narrow + wide) / 2)
    gradient = Traffic(flops=3 * cost.flop / 2, read=narrow + 2 * wide, written=(narrow + 3 * wide) / 2)
    # what two calls keep together is the output without sinks
    work = Work(scaled * entries, gradient * entries, entries * narrow / 2)
    own = {"count": 2 * attention_sinks * fused_attentions_per_layer, "after": ("fused_attention",)}
    return streamed("sink_scaling", "single_kernel", scores.m * scores.batch, values.n, work, **own)
