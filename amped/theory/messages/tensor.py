"""Tensor parallelism: what the tensor-parallel ranks of a layer communicate for a micro-batch."""

import numpy as np

from amped.theory.language.quantity import quantity, records
from amped.theory.nouns.layer_kinds import ATTENTION, IN_MIXER, IN_SPLIT_NETWORK, MIXTURE
from amped.theory.nouns.parameter_classes import ADAPTERS, EXPERT_ADAPTERS
from amped.theory.nouns.records import ANY_PART, Collective

# What the collectives of a layer wait for: a norm or, where norms come after the blocks, the operator before it.
NORMALIZED, SUMMED = ("attention_norm", "embedding_dropout"), ("feedforward_norm", "attention_residual")
MIXED, NETWORK = ("attention_output", "linear_attention_output"), ("feedforward_down", "shared_experts_down")


@quantity("1")
def tensor_parallel_feedforwards_per_layer(dense_fraction, MoE_fraction, shared_expert_fraction):
    """The number of feed-forward networks of a layer that tensor parallelism splits, averaged over the layers.

    These are dense networks and shared experts, but not routed experts.

    Source: Megatron-Core, MoE layers (routed tokens stay with the share of the sequence they are in).
    """
    return dense_fraction + MoE_fraction * shared_expert_fraction


@quantity("1")
def gathered_entry_fraction(quantized_gathers, matrix_operand_precision, activation_precision):
    """The bytes of an entry that tensor parallelism gathers before a product, as a share of the bytes of an activation.

    Source: NVIDIA Transformer Engine 2.11, pytorch/module/layernorm_linear.py (with_quantized_all_gather) and
    pytorch/distributed.py (gather_along_first_dim). Differs: the scales of fp8's blocks, 3 % of the bytes, are missing.
    """
    narrow = np.minimum(matrix_operand_precision / activation_precision, 1)
    return np.where(quantized_gathers, narrow, 1.0)


@quantity("1")
def gathered_gradient_layouts(gathered_entry_fraction, block_scaled):
    """The layouts in which tensor parallelism gathers the gradient of a product's output: one, or two with blocks.

    A gradient with scales of blocks cannot be transposed, so that it is gathered by rows for the input's gradient and
    by columns for the weight's gradient.

    Source: NVIDIA Transformer Engine 2.11, pytorch/module/base.py (grad_output_preprocess) and pytorch/distributed.py
    (_all_gather_mxfp8, _all_gather_nvfp4).
    """
    return 1 + block_scaled * (gathered_entry_fraction < 1)


@records()
def repeated_gather_collectives(
    microbatch_bytes,
    row_group,
    sequence_parallel,
    attentions_per_layer,
    tensor_parallel_feedforwards_per_layer,
    gathered_entry_fraction,
    each_projection_gathers,
    gated_mlp,
):
    """The all-gathers of an input that another projection of the same block has gathered already.

    Queries, keys and values have three projections; a feed-forward network with a gate has two. In the backward pass,
    each of these all-gathers is a reduce-scatter of the gradient.

    Source: PyTorch, tensor/parallel/style.py (ColwiseParallel with input_layouts=Shard(1)).
    """
    (rows,), volume, repeats = row_group, microbatch_bytes * gathered_entry_fraction, 1.0 * sequence_parallel
    repeats = repeats * each_projection_gathers
    attention, network = 2 * attentions_per_layer, gated_mlp * tensor_parallel_feedforwards_per_layer
    blocks = (
        ("key_and_value_input", attention, NORMALIZED, ANY_PART),
        ("gate_input", network, SUMMED, IN_SPLIT_NETWORK),
    )
    return tuple(
        Collective(name, "all_gather", volume, group=rows, count=repeats * calls, after=after, part=part)
        for name, calls, after, part in blocks
    )


@records()
def adapter_collectives(
    adapter_pairs,
    microbatch_bytes,
    microbatch_tokens,
    activation_precision,
    row_group,
    expert_tensor_group,
    attentions_per_layer,
    dense_fraction,
    MoE_fraction,
):
    """The messages that tensor parallelism adds for adapters, in each pass: one of their outputs, one of their ranks.

    An adapter beside a product that splits outputs reduces the gradient of its input; one beside a product that splits
    inputs gathers its output, and in the backward pass the gradient of it. Both count as one gather of a micro-batch in
    each pass, which is half of an all-reduce. The rows between its two products are gathered, or summed, too.

    Source: Megatron-Bridge, peft/utils.py (ParallelLinearAdapter: linear_in and linear_out with gather_output,
    scatter_to_sequence_parallel_region).
    """
    layers, messages = {ATTENTION: attentions_per_layer, MIXTURE: MoE_fraction}, []
    groups = {ADAPTERS: row_group[0], EXPERT_ADAPTERS: expert_tensor_group[0]}
    for pair in adapter_pairs:
        calls = pair.down.count * layers.get(pair.part.block, dense_fraction)
        share = {ADAPTERS: 1.0}.get(pair.down.weights, pair.rows / microbatch_tokens)
        between = microbatch_tokens * pair.up.k * activation_precision
        for name, volume in ((pair.up.name, microbatch_bytes), (pair.down.name, between)):
            shape = {"group": groups[pair.down.weights], "count": calls, "after": (name,), "part": pair.part}
            messages.append(Collective(name, "all_reduce", volume * share / 2, **shape))
    return tuple(messages)


@records()
def tensor_collectives(
    microbatch_bytes,
    row_group,
    sequence_parallel,
    mixers_per_layer,
    tensor_parallel_feedforwards_per_layer,
    gathered_entry_fraction,
    repeated_gather_collectives,
    adapter_collectives,
):
    """The tensor-parallel collectives of a forward pass of a layer: an all-reduce after each of its two blocks.

    The blocks are attention and the feed-forward network. With sequence parallelism each all-reduce is replaced by an
    all-gather before the block and a reduce-scatter after the block. The backward pass has as many collectives. The
    all-gathers may carry entries in the narrow format of the products.

    Source: arXiv 1909.08053, section 3; arXiv 2205.05198, section 4.2.2.
    """
    (rows,), payload, narrow = row_group, microbatch_bytes, microbatch_bytes * gathered_entry_fraction
    whole, halves = 1 - sequence_parallel, 1.0 * sequence_parallel
    blocks = (
        ("attention_input", "attention_output", mixers_per_layer, NORMALIZED, MIXED, IN_MIXER),
        (
            "feedforward_input",
            "feedforward_down",
            tensor_parallel_feedforwards_per_layer,
            SUMMED,
            NETWORK,
            IN_SPLIT_NETWORK,
        ),
    )
    return (
        repeated_gather_collectives
        + adapter_collectives
        + tuple(
            Collective(name, kind, volume, group=rows, count=calls * share, after=after, part=part)
            for inputs, outputs, calls, before_block, after_block, part in blocks
            for name, kind, volume, share, after in (
                (inputs, "all_gather", narrow, halves, before_block),
                (outputs, "reduce_scatter", payload, halves, after_block),
                (outputs, "all_reduce", payload, whole, after_block),
            )
        )
    )
