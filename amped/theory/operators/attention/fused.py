"""Attention in one kernel that keeps no scores, and the kernels for attention sinks that some software adds.

The backward pass is the operator with the phase `input_gradient`. The time of both is `fused_time` in
`roofline/kernels.py`.
"""

import numpy as np

from amped.theory.language.quantity import parameter, quantity, records
from amped.theory.nouns.conditions import INDEXED
from amped.theory.nouns.kernel_work import FUSED_BACKWARD_PRODUCTS, Traffic, Work, fused_backward_flops, streamed
from amped.theory.nouns.places import EXCHANGED

# Fused attentions with keys and values of unequal widths, which came with a version of cuDNN: the compute capabilities
# (from, and below), the width that keys exceed, and the versions that brought the forward and the backward pass.
# Source: NVIDIA Transformer Engine, fused_attn.cpp (nvte_get_fused_attn_backend), pull requests 1504 and 1797.
LATE_KERNELS = ((9.0, 10.0, 128, 90100, 90500), (10.0, 12.0, 128, 90900, 91100))


@quantity("1")
def fused_attention_exists(cudnn_version, compute_capability, query_key_width, value_width):
    """Whether the library has a fused attention for the widths of keys and values on this accelerator: 1, or 0.

    `LATE_KERNELS` is the table; both passes must exist. All that it does not list exists: FlashAttention-2 has every
    width up to 256 if keys and values are equally wide.

    Source: NVIDIA Transformer Engine, fused_attn.cpp (nvte_get_fused_attn_backend).
    """
    missing = False
    for lowest, below, width, forward, backward in LATE_KERNELS:
        is_here = (compute_capability >= lowest) & (compute_capability < below)
        is_wide = (query_key_width > width) & (query_key_width != value_width)
        missing = missing | (is_here & is_wide & (cudnn_version < np.maximum(forward, backward)))
    return 1.0 - missing


@quantity("1", **INDEXED)
def fused_attention_exists__indexed():
    """Whether there is a fused attention to chosen keys: yes, for all widths.

    Source: DeepSeek, FlashMLA (sparse attention); Megatron-Core, dsa.py (TileLang).
    """
    return 1.0


@quantity("1")
def fused_attentions_per_layer(attentions_per_layer, flash_attention, fused_attention_exists):
    """The number of attentions of a layer that run as one fused kernel. Source: arXiv 2205.14135, section 3.1."""
    return attentions_per_layer * flash_attention * fused_attention_exists


@parameter("1", at_least=1)
def fused_backward_products():
    """The matrix products in the backward pass of a fused attention, for each product of the forward pass.

    The forward pass has two products. The backward pass has five: it computes the scores again, and the gradients of
    both operands of both products. The products beyond four are as wide as the product of the scores.

    Source: arXiv 2307.08691, section 4.1.
    """
    return FUSED_BACKWARD_PRODUCTS


@quantity("byte")
def attention_input_bytes(query_bytes, key_bytes, value_bytes):
    """The bytes of the queries, keys and values of a micro-batch. Source: arXiv 2307.08691, section 2.3."""
    return query_bytes + key_bytes + value_bytes


@records()
def fused_attention_operators(
    attention_gemms,
    query_bytes,
    attention_input_bytes,
    softmax_statistic_precision,
    attention_masks,
    fused_backward_products,
    fused_attentions_per_layer,
    kept_attention_input_fraction,
    dropout,
    entry_costs,
):
    """The two kernels of a fused attention: one in the forward pass, one in the backward pass. They keep no scores.

    Only the two products are counted as flops; the measured rates of the kernel contain the time of the softmax.

    Source: arXiv 2205.14135, algorithm 1; arXiv 2307.08691, section 3.1.
    """
    (scores, values), (cost,), (mask,) = attention_gemms, entry_costs, attention_masks
    scored, weighted = (gemm.multiply_accumulates * cost.product * mask.share for gemm in attention_gemms)
    rows, output = scores.m * scores.batch, query_bytes * values.n / scores.k
    inputs, statistics = attention_input_bytes, rows * softmax_statistic_precision
    forward = Traffic(scored + weighted, inputs, output + statistics)
    gradients = fused_backward_flops(scored, weighted, fused_backward_products)
    backward = Traffic(gradients, inputs + 2 * output + statistics, inputs)
    passes = streamed(
        "fused_attention",
        "fused_attention",
        rows,
        scores.n,
        Work(forward, backward, inputs * kept_attention_input_fraction + statistics),
        count=fused_attentions_per_layer,
        after=EXCHANGED,
    )
    heads = ((scores.k, values.n), scores.n * mask.share, mask.edges)
    return tuple(o.with_heads(*heads, 1.0 * (dropout > 0)) for o in passes)


@records(choice="attention_kernel", value="flex")
def sink_operators__flex(
    attention_gemms, query_bytes, softmax_statistic_precision, attention_sinks, fused_attentions_per_layer, entry_costs
):
    """The kernels that add attention sinks to a fused attention that does not support them.

    The kernels multiply each row of the output by the share of the softmax that the sinks leave, in full precision.
    Forward there are two kernels: a product and a cast. Backward there are five: two casts, two products and a sum. The
    records count two calls in each pass, and each call has half of the bytes and flops.

    Source: NVIDIA NeMo AutoModel, attention/flex_attention.py, and PyTorch's autograd of it.
    """
    (scores, values), (cost,), wide = attention_gemms, entry_costs, softmax_statistic_precision
    narrow, entries = cost.activation, query_bytes / cost.activation * values.n / scores.k
    scaled = Traffic(flops=cost.flop / 2, read=(narrow + wide) / 2, written=(narrow + wide) / 2, indexed=1 / 2)
    gradient = Traffic(3 * cost.flop / 2, narrow + 2 * wide, (narrow + 3 * wide) / 2, indexed=1 / 2)
    # the two calls together keep the output without sinks
    work = Work(scaled * entries, gradient * entries, entries * narrow / 2)
    return streamed(
        "sink_scaling",
        "single_kernel",
        scores.m * scores.batch,
        values.n,
        work,
        count=2 * attention_sinks * fused_attentions_per_layer,
        after=("fused_attention",),
    )
