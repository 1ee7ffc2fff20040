"""Tensor parallelism: what the tensor-parallel ranks of a layer communicate for a micro-batch."""

from amped.theory.quantity import quantity, records
from amped.theory.records import Collective

# What the collectives of a layer wait for: a norm or, where norms come after the blocks, the operator before it.
NORMALIZED, SUMMED = ("attention_norm", "embedding_dropout"), ("feedforward_norm", "attention_residual")
NETWORK = ("feedforward_down", "shared_experts_down")


@quantity("1")
def tensor_parallel_feedforwards_per_layer(dense_fraction, MoE_fraction, shared_expert_fraction):
    """The number of feed-forward networks of a layer that tensor parallelism splits, averaged over the layers.

    These are dense networks and shared experts, but not routed experts.

    Source: Megatron-Core, MoE layers (routed tokens stay with the share of the sequence they are in).
    """
    return dense_fraction + MoE_fraction * shared_expert_fraction


@records()
def tensor_collectives(
    microbatch_bytes, row_group, sequence_parallel, attentions_per_layer, tensor_parallel_feedforwards_per_layer
):
    """The tensor-parallel collectives of a forward pass of a layer: an all-reduce after each of its two blocks.

    The blocks are attention and the feed-forward network. With sequence parallelism each all-reduce is replaced by an
    all-gather before the block and a reduce-scatter after the block. The backward pass has as many collectives.

    Source: arXiv 1909.08053, section 3; arXiv 2205.05198, section 4.2.2.
    """
    (rows,), sent = row_group, microbatch_bytes
    whole, halves, networks = 1 - sequence_parallel, 1.0 * sequence_parallel, tensor_parallel_feedforwards_per_layer
    own, attentions = ("attention_output",), attentions_per_layer
    return (
        Collective("attention_input", "all_gather", sent, group=rows, count=attentions * halves, after=NORMALIZED),
        Collective("attention_output", "reduce_scatter", sent, group=rows, count=attentions * halves, after=own),
        Collective("attention_output", "all_reduce", sent, group=rows, count=attentions * whole, after=own),
        Collective("feedforward_input", "all_gather", sent, group=rows, count=networks * halves, after=SUMMED),
        Collective("feedforward_down", "reduce_scatter", sent, group=rows, count=networks * halves, after=NETWORK),
        Collective("feedforward_down", "all_reduce", sent, group=rows, count=networks * whole, after=NETWORK),
    )
