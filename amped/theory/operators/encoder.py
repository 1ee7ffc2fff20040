"""The operators of a layer that normalizes after its blocks (BERT), in the fused kernels of arXiv 2007.00072, table 3.

Names in brackets are the paper's names of kernels. Masks have a precision of their own: where it equals the precision
of activations, the words that move are those of the paper's table.
"""

from amped.theory.language.quantity import records
from amped.theory.nouns.conditions import POST_NORMS
from amped.theory.nouns.kernel_work import ACTIVATION, Traffic, Work, streamed
from amped.theory.nouns.layer_kinds import IN_DENSE
from amped.theory.nouns.places import ATTENTION_DONE, NETWORKS_DONE, SCORED


@records(**POST_NORMS)
def projection_bias_operators__post(
    microbatch_tokens, projection_gemms, query_key_value_bias, attentions_per_layer, entry_costs
):
    """The kernel that adds the biases of queries, keys and values, and the kernel of the gradients of these biases.

    The source calls the kernels aib and baib.

    Source: arXiv 2007.00072, table 3.
    """
    (cost,), width = entry_costs, projection_gemms[0].n
    entries, bias = microbatch_tokens * width, width * cost.activation
    flops, tensor = entries * cost.flop, entries * cost.activation
    return streamed(
        "projection_bias",
        "element_wise",
        microbatch_tokens,
        width,
        Work(Traffic(flops, tensor + bias, tensor), Traffic(flops, tensor, bias)),
        count=query_key_value_bias * attentions_per_layer,
        after=("query_key_value",),
    )


@records(**POST_NORMS)
def softmax_operators__post(
    attention_gemms, dropout, dropout_mask_bytes, dropout_recomputation, unfused_attentions_per_layer, entry_costs
):
    """The softmax with dropout in one kernel, forward and backward. The source calls the kernels SM and BS.

    Source: arXiv 2007.00072, table 3.
    """
    (scores, _), (cost,), drops = attention_gemms, entry_costs, 1.0 * (dropout > 0)
    rows = scores.m * scores.batch
    entries = rows * scores.n
    size, mask, flops = entries * cost.activation, entries * dropout_mask_bytes, 6 * entries * cost.flop
    dropped = drops * size
    recomputed_bytes = dropout_recomputation * dropped
    forward = Traffic(flops, size, size + dropped + mask, functions=entries, drawn=drops * entries)
    backward = Traffic(flops, 2 * size + mask + recomputed_bytes, size + recomputed_bytes)
    work = Work(forward, backward, size + dropped - recomputed_bytes + mask)
    calls = unfused_attentions_per_layer
    return streamed("softmax", "normalization", rows, scores.n, work, count=calls, after=SCORED)


@records(**POST_NORMS)
def activation_function_operators__post(
    feedforward_gemms, activation_policy, dense_fraction, dropout_mask_bytes, output_width_split_degree, entry_costs
):
    """Bias, activation function and dropout in one kernel, and the kernel of their gradients.

    The source calls the kernels bad and bdrlb. Source: arXiv 2007.00072, table 3. Differs: the time to write and read
    the mask of this dropout is counted, but not its memory, because BERT itself does not have this dropout.
    """
    (up, down), (cost,), (policy,) = feedforward_gemms, entry_costs, activation_policy
    entries, bias = down.m * down.k / output_width_split_degree, up.n * cost.activation
    inputs, output, mask = up.m * up.n * cost.activation, entries * cost.activation, entries * dropout_mask_bytes
    function = Traffic(2 * entries * cost.flop, inputs, output, ACTIVATION.forward.functions * entries)
    gradient = Traffic(3 * entries * cost.flop, output + inputs, inputs, ACTIVATION.backward.functions * entries)
    kept_bytes, bits = entries * policy.kept, entries * policy.mask
    forward = function + Traffic(read=bias, written=kept_bytes + mask)
    backward = gradient + function * policy.recomputed + Traffic(read=bits + mask, written=bias)
    return streamed(
        "activation_function",
        "element_wise",
        down.m,
        up.n,
        Work(forward, backward, kept_bytes),
        count=dense_fraction,
        after=("feedforward_up",),
        part=IN_DENSE,
    )


@records(**POST_NORMS)
def residual_operators__post(
    residual_tokens,
    residual_bytes,
    dimensionality,
    dropout,
    dropout_mask_bytes,
    in_place_norm,
    norm_recomputation,
    entry_costs,
):
    """Bias, dropout, residual addition and norm in one kernel, and the kernels of their gradients.

    The source calls the forward kernel bdrln, and the backward kernels bsb, blnrd, ebsb, baob and bei. The forward
    kernel also writes the tensors that the backward kernels read.

    Source: arXiv 2007.00072, table 3.
    """
    (cost,), size, tensor = entry_costs, residual_tokens * dimensionality, residual_bytes
    vector, rows, flops = dimensionality * cost.activation, residual_tokens * cost.activation, size * cost.flop
    mask = size * dropout_mask_bytes
    token_flops, stash = residual_tokens * cost.flop, mask + tensor * (1 - in_place_norm)
    sums = Traffic(
        10 * flops + 6 * token_flops, 2 * tensor + 3 * vector, 3 * tensor + mask + rows, drawn=(dropout > 0) * size
    )
    recomputed_norm = Traffic(7 * flops, tensor, tensor) * norm_recomputation
    through = Traffic(9 * flops + 4 * token_flops, 2 * tensor + mask + rows, 2 * tensor) + recomputed_norm

    first = Work(sums, Traffic(6 * flops, 4 * tensor + vector, tensor + 3 * vector), stash)
    second = Work(sums + Traffic(written=tensor), Traffic(4 * flops, 2 * tensor + vector, tensor + 2 * vector), stash)
    norm, add = ((kind, residual_tokens, dimensionality) for kind in ("normalization", "element_wise"))
    return (
        *streamed("attention_residual", *norm, first, after=ATTENTION_DONE),
        *streamed("attention_residual_norm", *norm, Work(backward=through)),
        *streamed("attention_output_bias", *add, Work(backward=Traffic(flops, tensor, vector))),
        *streamed("layer_input", *add, Work(backward=Traffic(flops, 2 * tensor, tensor))),
        *streamed("feedforward_residual", *norm, second, after=NETWORKS_DONE),
        *streamed("feedforward_residual_norm", *norm, Work(backward=through)),
    )
