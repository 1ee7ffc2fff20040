"""Data parallelism beside computation: which gradients and weights travel in the time that layers left free.

They travel while their links are free: beside computation, while the host is waited for, and where gradients have links
of their own while tensor parallelism is waited for.
"""

import numpy as np

from amped.theory.parallelisms import shares
from amped.theory.quantity import quantity
from amped.theory.records import total
from amped.theory.resources import beside


@quantity("s")
def free_forward_time(
    compute_forward_time, bottleneck_stage_layer_passes, free_forward_time_per_layer, forward_time_per_layer
):
    """Time of a step's forward passes in which no layer communicates on the links of gradients; at least this much.

    Source: definition.
    """
    layers = bottleneck_stage_layer_passes * (free_forward_time_per_layer - forward_time_per_layer)
    return np.maximum(compute_forward_time + layers, 0)


@quantity("s")
def free_backward_time(
    compute_backward_time,
    weight_update_time,
    recomputation_time,
    bottleneck_stage_layer_passes,
    free_backward_time_per_layer,
    backward_time_per_layer,
    offload_fill_time,
):
    """Time of a step's backward passes in which no layer communicates on the links of gradients; at least this much.

    Source: definition.
    """
    computed = compute_backward_time + weight_update_time + recomputation_time
    layers = bottleneck_stage_layer_passes * (free_backward_time_per_layer - backward_time_per_layer)
    return np.maximum(computed + layers + offload_fill_time, 0)


@quantity("s")
def gradient_communication_time(
    data_durations, gradients_are_scattered_each_microbatch, number_of_microbatches_per_minibatch
):
    """Reduction of gradients in a step: once, and for each micro-batch where ZeRO shards them.

    Source: arXiv 1910.02054, section 7.
    """
    once = total(d.time * d.count for d in data_durations if d.kind != "all_gather")
    return once * np.where(gradients_are_scattered_each_microbatch, number_of_microbatches_per_minibatch, 1)


@quantity("s")
def weight_communication_time(
    data_durations, weights_are_gathered_each_microbatch, number_of_microbatches_per_minibatch
):
    """Gathering of weights in a step: once, and forward and backward of each micro-batch where ZeRO shards them.

    Source: arXiv 1910.02054, section 7; arXiv 2304.11277, section 3.2.
    """
    once = total(d.time * d.count for d in data_durations if d.kind == "all_gather")
    return once * np.where(weights_are_gathered_each_microbatch, 2 * number_of_microbatches_per_minibatch, 1)


@quantity("1")
def overlapped_microbatch_fraction(
    gradients_are_scattered_each_microbatch,
    number_of_microbatches_per_minibatch,
    virtual_pipeline_stages,
    pipeline_parallel_degree,
):
    """Share of the micro-batches beside which gradients travel: the last, or all where ZeRO shards them.

    With chunks of layers, those of a chunk are whole when the last round of micro-batches has left it: beside all other
    chunks of that round. Source: arXiv 2006.15704, section 3.2.3; arXiv 1910.02054, section 7.2; Megatron-Core,
    --overlap-grad-reduce (a bucket for each chunk).
    """
    chunks = ((virtual_pipeline_stages - 1) * pipeline_parallel_degree + 1) / virtual_pipeline_stages
    return np.where(gradients_are_scattered_each_microbatch, 1, chunks / number_of_microbatches_per_minibatch)


@quantity("1")
def overlappable_data_fraction(bottleneck_stage, zero_stage, prefetched_sharding_fraction):
    """Share of data-parallel communication that can overlap: all but the last layer's, of shards what is prefetched.

    Source: arXiv 2006.15704, section 3.2; arXiv 2304.11277, section 3.3.
    """
    others = 1 - 1 / np.maximum(total(bottleneck_stage[0].kinds), 1)
    return others * np.where(shares("weight", zero_stage), prefetched_sharding_fraction, 1)


def overlappable_time(whole, able, free, chunks, microbatches):
    """What of a step's messages may run beside it: of the last chunk no more than one micro-batch takes there.

    Source: definition; `able` is the share that has a layer beside it, `free` the time of all passes.
    """
    others, own = (1 - 1 / chunks) * whole, free / (chunks * microbatches)
    return np.minimum(able * whole, others + own)


@quantity("s")
def overlapped_gradient_communication_time(
    gradient_communication_time,
    overlapped_microbatch_fraction,
    free_backward_time,
    overlappable_data_fraction,
    overlap_data_communication,
    gradients_are_scattered_each_microbatch,
    virtual_pipeline_stages,
    number_of_microbatches_per_minibatch,
    pipeline_bubble_time,
):
    """Reduction of gradients beside the backward pass; the last layer's has nothing left to hide behind.

    Where each micro-batch has its own, also while the stage waits for others. Source: arXiv 2006.15704, section 3.2.
    """
    sharded, whole = gradients_are_scattered_each_microbatch > 0, gradient_communication_time
    chunks = np.where(sharded, 1, virtual_pipeline_stages)
    rounds = np.where(sharded, 1, number_of_microbatches_per_minibatch)
    free = free_backward_time + sharded * pipeline_bubble_time
    able = overlappable_time(whole, overlappable_data_fraction, free, chunks, rounds)
    return beside(able, overlapped_microbatch_fraction * free, overlap_data_communication)


@quantity("s")
def overlapped_weight_communication_time(
    weight_communication_time,
    weights_are_gathered_each_microbatch,
    virtual_pipeline_stages,
    number_of_microbatches_per_minibatch,
    pipeline_parallel_degree,
    free_forward_time,
    free_backward_time,
    pipeline_communication_time,
    overlapped_gradient_communication_time,
    overlappable_data_fraction,
    overlap_data_communication,
    pipeline_bubble_time,
):
    """Gathering of weights beside the first round of forward passes, or beside all passes where ZeRO shards them.

    Source: arXiv 2304.11277, section 3.3; Megatron-Core, --overlap-param-gather (chunk by chunk).
    """
    v, m = virtual_pipeline_stages, number_of_microbatches_per_minibatch
    sharded = weights_are_gathered_each_microbatch > 0
    forward = np.maximum(free_forward_time - pipeline_communication_time, 0)
    every = forward + free_backward_time + pipeline_bubble_time - overlapped_gradient_communication_time
    window = np.where(sharded, every, forward * ((v - 1) * pipeline_parallel_degree + 1) / (v * m))
    free, chunks, rounds = np.where(sharded, every, forward), np.where(sharded, 1, v), np.where(sharded, 1, m)
    able = overlappable_time(weight_communication_time, overlappable_data_fraction, free, chunks, rounds)
    return beside(able, window, overlap_data_communication)
