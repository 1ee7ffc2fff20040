"""All operators of one layer, forward and backward, as one accelerator runs them for one micro-batch.

One list serves the time, the memory, the breakdowns and the graph. Bytes are those that must move: each operand once.
Kernels are fused as Megatron-LM fuses them: bias with activation, bias with dropout and residual, mask with softmax.
"""

import numpy as np

from amped.theory.parallelisms import shares
from amped.theory.quantity import records
from amped.theory.records import Operator, streamed


@records()
def norm_operators(
    residual_tokens,
    residual_bytes,
    dimensionality,
    norms_per_layer,
    norm_vectors,
    activation_precision,
    in_place_norm,
    norm_recomputation,
    flops_per_elementary_operation,
):
    """The norms before attention and before the feed-forward network: 7 operations an entry, 13 backward.

    Source: arXiv 2007.00072, table 3 (bdrln, bsb, blnrd without dropout and residual). Backward the gradients of the
    input and of the weights each read both tensors.
    """
    size, flop = residual_tokens * dimensionality, flops_per_elementary_operation
    weights = norm_vectors * dimensionality * activation_precision
    forward = (7 * size * flop, residual_bytes + weights, residual_bytes)
    again = norm_recomputation * residual_bytes
    work = (13 + 7 * norm_recomputation) * size * flop
    backward = (work, 4 * residual_bytes + weights + again, residual_bytes + weights + again)
    rest = (
        residual_tokens,
        dimensionality,
        forward,
        backward,
        residual_bytes * (1 - in_place_norm),
        norms_per_layer / 2,
    )
    before_attention = streamed("attention_norm", "normalization", *rest)
    return before_attention + streamed("feedforward_norm", "normalization", *rest)


@records()
def residual_operators(
    residual_tokens,
    residual_bytes,
    dimensionality,
    dropout,
    dropout_mask_bytes,
    attention_output_bias,
    mlp_bias,
    flops_per_elementary_operation,
    attention_layer_fraction,
):
    """Bias, dropout and sum with the residual stream behind each block; backward the two gradients are added.

    Source: arXiv 1909.08053; Megatron-LM, bias_dropout_add. A bias's gradient reads that of the output once more.
    """
    size, drops = residual_tokens * dimensionality, 1.0 * (dropout > 0)
    mask = size * dropout_mask_bytes
    work = ((2 + 2 * drops) * size * flops_per_elementary_operation, 2 * residual_bytes, residual_bytes + mask)
    forward = (*work, 0.0 * size, drops * size)
    dropped = drops * residual_bytes
    flops, read = (1 + 2 * drops) * size * flops_per_elementary_operation, 2 * residual_bytes + dropped + mask
    shape, written = ("element_wise", residual_tokens, dimensionality), residual_bytes + dropped
    behind_attention = (flops, read + attention_output_bias * residual_bytes, written)
    behind_feedforward = (flops, read + mlp_bias * residual_bytes, written)
    attention = streamed("attention_residual", *shape, forward, behind_attention, mask, attention_layer_fraction)
    return attention + streamed("feedforward_residual", *shape, forward, behind_feedforward, mask)


@records()
def accumulation_operators():
    """Kernels that add up gradients: none where products do. Source: Megatron-LM, fused_weight_gradient_mlp_cuda."""
    return ()


@records(choice="weight_gradient_accumulation", value="separate")
def accumulation_operators__separate(
    projection_operators,
    attention_output_operators,
    feedforward_operators,
    expert_operators,
    activation_precision,
    gradient_precision,
    zero_stage,
    flops_per_elementary_operation,
):
    """What a product left of a weight's gradient, added to that of other micro-batches, or copied to be sent.

    It is sent where the gradients of every micro-batch are sharded.
    Source: PyTorch, autograd AccumulateGrad; Megatron-LM, main_grad.add_. Differs: products are counted as if they added
    up themselves, which they do beside their multiplications, at no cost but for very small micro-batches.
    """
    every = projection_operators + attention_output_operators + feedforward_operators + expert_operators
    kept, left = ~shares("gradient", zero_stage), activation_precision
    read, written = left + gradient_precision * kept, np.where(kept, gradient_precision, left)
    return tuple(
        Operator(
            f"{o.name}_accumulation",
            "element_wise",
            "weight_gradient",
            o.m,
            o.n,
            0.0,
            o.batch,
            entries * flops_per_elementary_operation,
            entries * read,
            entries * written,
            0.0 * entries,
            1.0,
            o.count,
        )
        for o in every
        if o.phase == "weight_gradient"
        for entries in (o.m * o.n * o.batch,)
    )


@records()
def layer_operators(
    norm_operators,
    projection_operators,
    projection_bias_operators,
    query_key_norm_operators,
    rotary_operators,
    unfused_attention_operators,
    fused_attention_operators,
    sink_operators,
    attention_head_permutation_operators,
    attention_output_operators,
    residual_operators,
    feedforward_operators,
    expert_operators,
    quantization_operators,
    accumulation_operators,
):
    """All operators of one layer, each followed by its gradients.

    Source: arXiv 1706.03762, figure 1.
    """
    attention = norm_operators + projection_operators + projection_bias_operators + query_key_norm_operators
    attention = attention + rotary_operators + unfused_attention_operators + fused_attention_operators + sink_operators
    attention = attention + attention_head_permutation_operators + attention_output_operators
    return (
        attention
        + residual_operators
        + feedforward_operators
        + expert_operators
        + quantization_operators
        + accumulation_operators
    )
