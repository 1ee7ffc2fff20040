"""What communication runs beside computation: each kind in the time that the kinds before it left.

A second hides a second of communication on the same links, once: tensor parallelism first, then context, experts, the pipeline,
and data parallelism last. Where gradients have links of their own they also travel while tensor parallelism is waited for.
"""

import numpy as np

from amped.quantity import MAPPING, parameter, quantity
from amped.records import total


@quantity("s")
def unhidden_compute_time_per_layer(
    forward_time_per_layer, input_gradient_time_per_layer, weight_gradient_time_per_layer,
    hidden_tensor_communication_time_per_layer,
):  # fmt: skip
    """Computation of a layer beside which no tensor-parallel communication runs. Source: definition."""
    compute = forward_time_per_layer + input_gradient_time_per_layer + weight_gradient_time_per_layer
    return np.maximum(compute - hidden_tensor_communication_time_per_layer, 0)


@parameter("boolean", category=MAPPING)
def overlap_context_communication():
    """Whether keys and values are exchanged while attention computes: a gather comes before it.

    Source: arXiv 2407.21783, section 3.3.2.
    """
    return 0


@parameter("boolean", choice="context_parallel_kind", value="ring")
def overlap_context_communication__ring():
    """Whether keys and values are exchanged while attention computes: a ring is made for that.

    Source: arXiv 2310.01889, section 3.
    """
    return 1


@quantity("1")
def attention_beside_exchange_fraction():
    """Share of attention beside which keys and values can travel: all, where blocks are gathered piece by piece.

    Source: arXiv 2310.01889, section 3.
    """
    return 1


@quantity("1", choice="context_parallel_kind", value="ring")
def attention_beside_exchange_fraction__ring(context_parallel_degree):
    """Share of attention beside which keys and values can travel: every block's but the last.

    Source: arXiv 2310.01889, section 3.
    """
    return (context_parallel_degree - 1) / context_parallel_degree


@quantity("1", choice="context_parallel_kind", value="all_to_all")
def attention_beside_exchange_fraction__all_to_all():
    """Share of attention beside which heads can travel: none, it needs all of them. Source: arXiv 2309.14509, section 3."""
    return 0


@quantity("s")
def hidden_context_communication_time_per_layer(
    context_pass_time_per_layer, context_gradient_time_per_layer, communicating_passes, core_forward_time_per_layer,
    core_gradient_time_per_layer, input_gradient_time_per_layer, tensor_gather_time_per_layer,
    attention_beside_exchange_fraction, overlap_context_communication,
):  # fmt: skip
    """Exchange of keys and values beside scores and values, forward and, as far as no input is gathered there, backward.

    Source: arXiv 2310.01889, section 3. The last step of gradients in a ring has no attention left beside it.
    """
    gathers = np.minimum(tensor_gather_time_per_layer, input_gradient_time_per_layer)
    left = np.minimum(core_gradient_time_per_layer, input_gradient_time_per_layer - gathers)
    forward = np.minimum(context_pass_time_per_layer, attention_beside_exchange_fraction * core_forward_time_per_layer)
    back = context_pass_time_per_layer + attention_beside_exchange_fraction * context_gradient_time_per_layer
    backward = np.minimum(back, attention_beside_exchange_fraction * left)
    return overlap_context_communication * (forward * (communicating_passes - 1) + backward)


@quantity("s")
def exposed_context_communication_time_per_layer(
    context_communication_time_per_layer, hidden_context_communication_time_per_layer, overlap_slowdown_fraction
):
    """Exchange of keys and values that accelerators wait for, and what the hidden part slows down.

    Source: arXiv 2310.01889, section 3.
    """
    hidden = hidden_context_communication_time_per_layer * (1 - overlap_slowdown_fraction)
    return context_communication_time_per_layer - hidden


@parameter("boolean", category=MAPPING)
def overlap_expert_communication():
    """Whether tokens travel to experts while other micro-batches compute. Source: arXiv 2412.19437, section 3.2.1."""
    return 0


@quantity("s")
def hidden_expert_communication_time_per_layer(
    expert_communication_time_per_layer, unhidden_compute_time_per_layer, hidden_context_communication_time_per_layer,
    overlap_expert_communication,
):  # fmt: skip
    """Travel of tokens beside the computation of another micro-batch. Source: arXiv 2412.19437, section 3.2.1."""
    window = unhidden_compute_time_per_layer - hidden_context_communication_time_per_layer
    return overlap_expert_communication * np.minimum(expert_communication_time_per_layer, window)


@quantity("s")
def exposed_expert_communication_time_per_layer(
    expert_communication_time_per_layer, hidden_expert_communication_time_per_layer, overlap_slowdown_fraction
):
    """Travel of tokens that accelerators wait for, and what the hidden part slows down. Source: arXiv 2006.16668."""
    hidden = hidden_expert_communication_time_per_layer * (1 - overlap_slowdown_fraction)
    return expert_communication_time_per_layer - hidden


@quantity("boolean", category=MAPPING)
def data_links_are_their_own(inter_node_tensor_parallel_degree, inter_node_data_parallel_degree):
    """Whether gradients travel while tensor parallelism does.

    Unless given: where they cross nodes and tensor parallelism stays inside. Source: definition. Differs: what of gradients
    is added up inside nodes shares the links of tensor parallelism.
    """
    return (inter_node_tensor_parallel_degree <= 1) & (inter_node_data_parallel_degree > 1)


@quantity("s")
def free_forward_time(
    compute_forward_time, exposed_forward_exchange_per_layer, hidden_forward_exchange_per_layer, pacing_layer_calls,
    hidden_context_communication_time, hidden_expert_communication_time, data_links_are_their_own,
):  # fmt: skip
    """Time of a step's forward passes in which no layer communicates on the links of gradients; at least this much.

    Source: definition. What layers hide forward and backward together is taken from both.
    """
    others = hidden_context_communication_time + hidden_expert_communication_time
    exchanges = (exposed_forward_exchange_per_layer, hidden_forward_exchange_per_layer)
    return free_time(compute_forward_time - others, *exchanges, pacing_layer_calls, data_links_are_their_own)


@quantity("s")
def free_backward_time(
    compute_backward_time, weight_update_time, recomputation_time, exposed_backward_exchange_per_layer,
    hidden_backward_exchange_per_layer, pacing_layer_calls, hidden_context_communication_time,
    hidden_expert_communication_time, data_links_are_their_own,
):  # fmt: skip
    """Time of a step's backward passes in which no layer communicates on the links of gradients; at least this much.

    Source: definition. What layers hide forward and backward together is taken from both.
    """
    computed = compute_backward_time + weight_update_time + recomputation_time
    others = hidden_context_communication_time + hidden_expert_communication_time
    exchanges = (exposed_backward_exchange_per_layer, hidden_backward_exchange_per_layer)
    return free_time(computed - others, *exchanges, pacing_layer_calls, data_links_are_their_own)


def free_time(computed, exposed, hidden, calls, own_links):
    """Time with what layers wait for tensor parallelism, where its links are others; else without what it hides in.

    Source: definition.
    """
    return np.maximum(computed + np.where(own_links, exposed, -hidden) * calls, 0)


@quantity("boolean", category=MAPPING)
def overlap_data_communication(zero_stage):
    """Whether gradients are reduced beside the backward pass, and weights gathered beside passes.

    Unless given: where weights are sharded, as FSDP does, and else not, as Megatron-LM does not by itself.
    Source: arXiv 2304.11277 (FSDP), section 3.3; Megatron-LM, --overlap-grad-reduce.
    """
    return zero_stage >= 3


@quantity("s")
def gradient_communication_time(data_durations, zero_stage, number_of_microbatches_per_minibatch):
    """Reduction of gradients in a step: once, and for each micro-batch where ZeRO shards them.

    Source: arXiv 1910.02054, section 7.
    """
    once = total(d.time * d.count for d in data_durations if d.kind != "all_gather")
    return once * np.where(zero_stage >= 2, number_of_microbatches_per_minibatch, 1)


@quantity("s")
def weight_communication_time(data_durations, zero_stage, number_of_microbatches_per_minibatch):
    """Gathering of weights in a step: once, and forward and backward of each micro-batch where ZeRO shards them.

    Source: arXiv 1910.02054, section 7; arXiv 2304.11277, section 3.2.
    """
    once = total(d.time * d.count for d in data_durations if d.kind == "all_gather")
    return once * np.where(zero_stage >= 3, 2 * number_of_microbatches_per_minibatch, 1)


@quantity("1")
def overlapped_microbatch_fraction(zero_stage, number_of_microbatches_per_minibatch):
    """Share of the micro-batches beside which gradients travel: the last, or all where ZeRO shards them.

    Source: arXiv 2006.15704, section 3.2.3; arXiv 1910.02054, section 7.2.
    """
    return np.where(zero_stage >= 2, 1, 1 / number_of_microbatches_per_minibatch)


@quantity("1")
def hideable_data_fraction(pacing_stage_layers, zero_stage, prefetched_sharding_fraction):
    """Share of data-parallel communication that can hide: all but the last layer's, of shards what is prefetched in time.

    Source: arXiv 2006.15704, section 3.2; arXiv 2304.11277, section 3.3.
    """
    others = 1 - 1 / np.maximum(pacing_stage_layers, 1)
    return others * np.where(zero_stage >= 3, prefetched_sharding_fraction, 1)


@quantity("s")
def hidden_gradient_communication_time(
    gradient_communication_time, overlapped_microbatch_fraction, free_backward_time, hideable_data_fraction,
    overlap_data_communication,
):  # fmt: skip
    """Reduction of gradients beside the backward pass; the last layer's has nothing left to hide behind.

    Source: arXiv 2006.15704, section 3.2.
    """
    able = gradient_communication_time * hideable_data_fraction
    return overlap_data_communication * np.minimum(able, overlapped_microbatch_fraction * free_backward_time)


@quantity("s")
def hidden_weight_communication_time(
    weight_communication_time, zero_stage, number_of_microbatches_per_minibatch, free_forward_time,
    free_backward_time, hidden_pipeline_communication_time, hidden_gradient_communication_time, hideable_data_fraction,
    overlap_data_communication,
):  # fmt: skip
    """Gathering of weights beside the first forward pass, or beside all passes where ZeRO shards them.

    Source: arXiv 2304.11277, section 3.3.
    """
    forward = free_forward_time - hidden_pipeline_communication_time
    every = forward + free_backward_time - hidden_gradient_communication_time
    window = np.where(zero_stage >= 3, every, forward / number_of_microbatches_per_minibatch)
    able = weight_communication_time * hideable_data_fraction
    return overlap_data_communication * np.minimum(able, window)
