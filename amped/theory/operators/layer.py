"""All operators of one layer, forward and backward, as one accelerator runs them for one micro-batch.

One list serves the time, the memory, the breakdowns and the graph. The bytes are the least that must move: each operand
once. Kernels are fused as in Megatron-LM: bias with activation function, bias with dropout and residual addition, mask
with softmax.
"""

import numpy as np

from amped.theory.language.quantity import each_of, records
from amped.theory.nouns.kernel_work import NORM, Traffic, Work, operator, streamed
from amped.theory.nouns.layer_kinds import ATTENTION, IN_MIXER, IN_NETWORK, NETWORK_NORM, OPERATORS
from amped.theory.nouns.places import ATTENTION_DONE, NETWORKS_DONE
from amped.theory.nouns.records import total

# The operators that read the input of a layer; their input gradients are those of the layer.
AT_THE_INPUT = (
    "attention_connection",
    "attention_norm",
    "query_key_value",
    "query_down",
    "key_value_down",
    "key_value",
    "sparse_compressor",
    "heavy_compressor",
)


@records()
def norm_operators(
    residual_tokens,
    dimensionality,
    norms_per_layer,
    mixer_layer_fraction,
    network_layer_fraction,
    norm_vectors,
    in_place_norm,
    norm_recomputation,
    entry_costs,
):
    """The norms before attention and before the feed-forward network.

    Each block of an average layer has an equal share of its norms.

    In the backward pass the gradient of the input and the gradient of the weights are computed. For each of them, the
    norm reads both its input and the gradient of its output.

    Source: arXiv 2007.00072, table 3 (bdrln, bsb, blnrd without dropout and residual).
    """
    (cost,), entries = entry_costs, residual_tokens * dimensionality
    weights, norm = norm_vectors * dimensionality * cost.activation, cost.of(NORM, entries)
    backward_extra = norm.forward * norm_recomputation + Traffic(read=weights, written=weights)
    work = norm + Work(Traffic(read=weights), backward_extra, -in_place_norm * norm.kept)
    norms = ("normalization", residual_tokens, dimensionality, work)
    norms_per_block = norms_per_layer / (mixer_layer_fraction + network_layer_fraction)
    mixers, networks = norms_per_block * mixer_layer_fraction, norms_per_block * network_layer_fraction
    before_attention = ("norm_statistics all_reduce", "attention_connection", "embedding_dropout")
    before_network = ("feedforward_connection", "attention_residual")
    return (
        *streamed("attention_norm", *norms, count=mixers, after=before_attention, part=IN_MIXER),
        *streamed("feedforward_norm", *norms, count=networks, after=before_network, part=NETWORK_NORM),
    )


@records()
def residual_operators(
    residual_tokens,
    residual_bytes,
    dimensionality,
    dropout,
    dropout_mask_bytes,
    attention_output_bias,
    mlp_bias,
    mixer_layer_fraction,
    network_layer_fraction,
    entry_costs,
):
    """Bias, dropout and addition to the residual stream, after attention and after the feed-forward network.

    The backward pass adds the gradient of the block and the gradient of the residual stream. For the gradient of a
    bias, it reads the gradient of the output once more.

    Source: arXiv 1909.08053, section 3; Megatron-LM, bias_dropout_add.
    """
    (cost,), size, drops = entry_costs, residual_tokens * dimensionality, 1.0 * (dropout > 0)
    tensor, mask = residual_bytes, size * dropout_mask_bytes
    forward = Traffic((2 + 2 * drops) * size * cost.flop, 2 * tensor, tensor + mask, drawn=drops * size)
    backward = Traffic((1 + 2 * drops) * size * cost.flop, (2 + drops) * tensor + mask, (1 + drops) * tensor)
    shape = ("element_wise", residual_tokens, dimensionality)
    attention, network = (
        Work(forward, backward + Traffic(read=bias * tensor), mask) for bias in (attention_output_bias, mlp_bias)
    )
    return (
        *streamed(
            "attention_residual", *shape, attention, count=mixer_layer_fraction, after=ATTENTION_DONE, part=IN_MIXER
        ),
        *streamed(
            "feedforward_residual", *shape, network, count=network_layer_fraction, after=NETWORKS_DONE, part=IN_NETWORK
        ),
    )


@each_of(OPERATORS=OPERATORS[1:])
@records()
def product_operators(projection_operators, attention_output_operators, OPERATORS):
    """The operators of the projections of attention, of the feed-forward network, and of the experts.

    They are the products of activations with weights, and what runs between these products, as activation functions.

    Source: arXiv 1706.03762, figure 1.
    """
    projections = tuple(o.within(block=ATTENTION) for o in projection_operators + attention_output_operators)
    return total([projections, *OPERATORS])


@records(choice="weight_gradient_accumulation", value="separate")
def accumulation_operators__separate(product_operators, gradients_are_scattered_each_microbatch, entry_costs):
    """The kernels that add the gradient of a weight to the sum over the micro-batches.

    If ZeRO scatters the gradients of every micro-batch, the kernel copies the gradient to a buffer for sending instead.

    Source: PyTorch, autograd AccumulateGrad; Megatron-LM, main_grad.add_. Differs: the products that compute the
    gradients are still counted as if they added to the sum themselves. This additional traffic runs beside their
    multiplications, and costs time only with very small micro-batches.
    """
    (cost,), is_added = entry_costs, gradients_are_scattered_each_microbatch == 0
    read = cost.activation + cost.gradient * is_added
    accumulation = Traffic(flops=cost.flop, read=read, written=np.where(is_added, cost.gradient, cost.activation))
    return tuple(
        operator(
            f"{o.name}_accumulation",
            "element_wise",
            o.phase,
            (o.m, o.n, 0.0, o.batch),
            accumulation * (o.m * o.n * o.batch),
            count=o.count,
            part=o.part,
        )
        for o in product_operators
        if o.phase == "weight_gradient"
    )


@each_of(OPERATORS=OPERATORS[1:])
@records()
def like_layer_operators(
    norm_operators,
    attention_operators,
    residual_operators,
    OPERATORS,
    quantization_operators,
    accumulation_operators,
    adapter_operators,
    widening_operators,
    gradient_layer_fraction,
    input_gradient_fraction,
):
    """All operators of one layer in the format of products, each followed by the operators of its gradients.

    Source: arXiv 1706.03762, figure 1; arXiv 2106.09685, section 4.
    """
    blocks, casts = total([attention_operators, residual_operators, *OPERATORS]), widening_operators
    others = norm_operators + blocks + casts + quantization_operators + accumulation_operators
    return with_gradients_of(others, gradient_layer_fraction, input_gradient_fraction) + adapter_operators


def with_gradients_of(operators, share, passing_share):
    """The operators of an average layer, of which only a share of the layers has a backward pass.

    Args:
        operators: the operators of the layer, without those of adapters.
        share: the share of the layers that have a backward pass.
        passing_share: the share of the layers that compute the gradient of their input, too.

    Source: definition.
    """
    shares = {"forward": 1.0} | {("input_gradient", name): passing_share for name in AT_THE_INPUT}
    return tuple(o.having(count=o.count * shares.get((o.phase, o.name), shares.get(o.phase, share))) for o in operators)
