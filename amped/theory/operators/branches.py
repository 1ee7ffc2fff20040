"""Branches: small products beside the blocks of a layer, through which each token passes once.

They are gates and norms of a low rank, adapters, a router in several layers, the embedding of each layer. A network
says how many weights they have together (`branch_weights`), and how many entries of a token their kernels read and
write (`branch_values`). Tensor parallelism splits their products; messages between the two products of a branch are
left out.

Layers without a window may have wider heads than those with one. What their projections, scores and weighted values
have more stands here, too: their attention takes as long as that of the others and as these products.
"""

import numpy as np

from amped.theory.language.quantity import records
from amped.theory.nouns.conditions import BRANCHED
from amped.theory.nouns.kernel_work import Traffic, Work, contraction, fused_backward_flops, operator, streamed
from amped.theory.nouns.layer_kinds import IN_BRANCHES
from amped.theory.nouns.places import PROJECTED, PROJECTION_INPUTS
from amped.theory.nouns.records import Gemm

# Half of the entries of a branch are read forward, the others are written. Backward, an entry that was read is read
# again, the gradient of one that was written is read, and the gradient of one that was read is written.
PASSED = Work(Traffic(1, read=0.5, written=0.5), Traffic(2, read=1, written=0.5), kept=0.5)


@records(**BRANCHED)
def wider_head_gemms(
    microbatch_tokens,
    context,
    attention_heads,
    wider_head_entries,
    full_layer_score_fraction,
    tensor_parallel_rows,
):
    """Scores and weighted values of the entries that heads without a window have more, averaged over the layers.

    Source: arXiv 1706.03762, eq. 1.
    """
    tokens, keys, heads = microbatch_tokens, context * full_layer_score_fraction, attention_heads / tensor_parallel_rows
    return (
        Gemm("wider_scores", tokens, keys, wider_head_entries, batch=heads),
        Gemm("wider_values", tokens, wider_head_entries, keys, batch=heads),
    )


@records(**BRANCHED)
def branch_gemms__branched(
    microbatch_tokens,
    dimensionality,
    branch_parameters,
    branch_vector_parameters,
    wider_head_gemms,
    tensor_parallel_rows,
):
    """The products of the branches of an average layer, as one that has the residual stream on its long side.

    Source: definition (two operations for each weight and token). Differs: they are several small products.
    """
    width = (branch_parameters - branch_vector_parameters) / dimensionality / tensor_parallel_rows
    return (Gemm("branches", microbatch_tokens, width, dimensionality), *wider_head_gemms)


@records(**BRANCHED)
def branch_operators__branched(
    microbatch_tokens,
    branch_gemms,
    branch_values,
    wider_head_operators,
    layers,
    tensor_parallel_rows,
    entry_costs,
):
    """The products of the branches of an average layer, which read what other products keep, and their other kernels.

    Branches without weights have kernels alone; their product is counted zero times.

    Source: definition.
    """
    (cost,), (product, *_) = entry_costs, branch_gemms
    sides, multiplies = product.having(n=np.maximum(product.n, 1)), 1.0 * (product.n > 0)
    width = branch_values / layers / tensor_parallel_rows
    work = cost.of(PASSED, microbatch_tokens * width)
    passing = ("branch_values", "element_wise", microbatch_tokens, width, work)
    return (
        *contraction(sides, cost, count=multiplies, after=PROJECTION_INPUTS, part=IN_BRANCHES),
        *streamed(*passing, after=("branches",), part=IN_BRANCHES),
        *wider_head_operators,
    )


@records(**BRANCHED)
def wider_head_operators(wider_head_gemms, fused_backward_products, entry_costs):
    """What the attention of layers without a window has more for its wider heads: products, and bytes of tensors.

    Scores are counted with the heads that all layers have. Queries, keys and values are kept. A call is one product:
    there are two forward, and as many as a fused attention has backward.

    Source: arXiv 2307.08691, section 3.1. Differs: their kernel is that of all heads, and not one beside it.
    """
    (scores, _), (cost,) = wider_head_gemms, entry_costs
    has_more, entries = 1.0 * (scores.k > 0), scores.m * scores.k * scores.batch * cost.activation
    flops, sides = (
        scores.multiply_accumulates * cost.product,
        (scores.m, scores.n, np.maximum(scores.k, 1), scores.batch),
    )
    backward = fused_backward_flops(1.0, 1.0, fused_backward_products)
    passes = (("forward", 2.0, 3, 1, 3 * entries), ("input_gradient", backward, 5, 3, 0.0))
    return tuple(
        operator(
            "wider_heads",
            "batched_contraction",
            phase,
            sides,
            Traffic(flops, read * entries / products, written * entries / products),
            stash=kept / products,
            count=products * has_more,
            after=PROJECTED,
            part=IN_BRANCHES,
        )
        for phase, products, read, written, kept in passes
    )
