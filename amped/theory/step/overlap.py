"""Data parallelism beside computation: which gradients and weights travel in the time that layers left free.

Where gradients have links of their own they also travel while tensor parallelism is waited for.
"""

import numpy as np

from amped.theory.parallelisms import shares
from amped.theory.quantity import quantity
from amped.theory.records import total


@quantity("s")
def free_forward_time(
    compute_forward_time,
    exposed_tensor_forward_communication_time_per_layer,
    overlapped_tensor_forward_communication_time_per_layer,
    bottleneck_stage_layer_passes,
    hidden_context_communication_time,
    hidden_expert_communication_time,
    gradients_have_own_links,
):
    """Time of a step's forward passes in which no layer communicates on the links of gradients; at least this much.

    Source: definition. What layers hide forward and backward together is taken from both.
    """
    others = hidden_context_communication_time + hidden_expert_communication_time
    exchanges = (
        exposed_tensor_forward_communication_time_per_layer,
        overlapped_tensor_forward_communication_time_per_layer,
    )
    return time_without_messages(
        compute_forward_time - others, *exchanges, bottleneck_stage_layer_passes, gradients_have_own_links
    )


@quantity("s")
def free_backward_time(
    compute_backward_time,
    weight_update_time,
    recomputation_time,
    exposed_tensor_backward_communication_time_per_layer,
    overlapped_tensor_backward_communication_time_per_layer,
    bottleneck_stage_layer_passes,
    hidden_context_communication_time,
    hidden_expert_communication_time,
    gradients_have_own_links,
):
    """Time of a step's backward passes in which no layer communicates on the links of gradients; at least this much.

    Source: definition. What layers hide forward and backward together is taken from both.
    """
    computed = compute_backward_time + weight_update_time + recomputation_time
    others = hidden_context_communication_time + hidden_expert_communication_time
    exchanges = (
        exposed_tensor_backward_communication_time_per_layer,
        overlapped_tensor_backward_communication_time_per_layer,
    )
    return time_without_messages(computed - others, *exchanges, bottleneck_stage_layer_passes, gradients_have_own_links)


def time_without_messages(computed, exposed, hidden, calls, own_links):
    """Time with what layers wait for tensor parallelism, where its links are others; else without what it hides in.

    Source: definition.
    """
    return np.maximum(computed + np.where(own_links, exposed, -hidden) * calls, 0)


@quantity("s")
def gradient_communication_time(data_durations, zero_stage, number_of_microbatches_per_minibatch):
    """Reduction of gradients in a step: once, and for each micro-batch where ZeRO shards them.

    Source: arXiv 1910.02054, section 7.
    """
    once = total(d.time * d.count for d in data_durations if d.kind != "all_gather")
    return once * np.where(shares("gradient", zero_stage), number_of_microbatches_per_minibatch, 1)


@quantity("s")
def weight_communication_time(data_durations, zero_stage, number_of_microbatches_per_minibatch):
    """Gathering of weights in a step: once, and forward and backward of each micro-batch where ZeRO shards them.

    Source: arXiv 1910.02054, section 7; arXiv 2304.11277, section 3.2.
    """
    once = total(d.time * d.count for d in data_durations if d.kind == "all_gather")
    return once * np.where(shares("weight", zero_stage), 2 * number_of_microbatches_per_minibatch, 1)


@quantity("1")
def overlapped_microbatch_fraction(zero_stage, number_of_microbatches_per_minibatch):
    """Share of the micro-batches beside which gradients travel: the last, or all where ZeRO shards them.

    Source: arXiv 2006.15704, section 3.2.3; arXiv 1910.02054, section 7.2.
    """
    return np.where(shares("gradient", zero_stage), 1, 1 / number_of_microbatches_per_minibatch)


@quantity("1")
def overlappable_data_fraction(bottleneck_stage, zero_stage, prefetched_sharding_fraction):
    """Share of data-parallel communication that can overlap: all but the last layer's, of shards what is prefetched.

    Source: arXiv 2006.15704, section 3.2; arXiv 2304.11277, section 3.3.
    """
    others = 1 - 1 / np.maximum(bottleneck_stage[0].layers, 1)
    return others * np.where(shares("weight", zero_stage), prefetched_sharding_fraction, 1)


@quantity("s")
def overlapped_gradient_communication_time(
    gradient_communication_time,
    overlapped_microbatch_fraction,
    free_backward_time,
    overlappable_data_fraction,
    overlap_data_communication,
):
    """Reduction of gradients beside the backward pass; the last layer's has nothing left to hide behind.

    Source: arXiv 2006.15704, section 3.2.
    """
    able = gradient_communication_time * overlappable_data_fraction
    return overlap_data_communication * np.minimum(able, overlapped_microbatch_fraction * free_backward_time)


@quantity("s")
def overlapped_weight_communication_time(
    weight_communication_time,
    zero_stage,
    number_of_microbatches_per_minibatch,
    free_forward_time,
    free_backward_time,
    hidden_pipeline_communication_time,
    overlapped_gradient_communication_time,
    overlappable_data_fraction,
    overlap_data_communication,
):
    """Gathering of weights beside the first forward pass, or beside all passes where ZeRO shards them.

    Source: arXiv 2304.11277, section 3.3.
    """
    forward = free_forward_time - hidden_pipeline_communication_time
    every = forward + free_backward_time - overlapped_gradient_communication_time
    window = np.where(shares("weight", zero_stage), every, forward / number_of_microbatches_per_minibatch)
    able = weight_communication_time * overlappable_data_fraction
    return overlap_data_communication * np.minimum(able, window)
