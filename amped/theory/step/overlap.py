"""Overlap of data parallelism: which gradients and weights are communicated in the time that layers leave free.

They are communicated while their links are free: while the accelerator computes, while it waits for the host and, where
gradients have links of their own, while it waits for tensor-parallel communication.
"""

import numpy as np

from amped.theory.quantity import quantity
from amped.theory.records import total
from amped.theory.resources import beside
from amped.theory.shardings import shares


@quantity("count")
def largest_stage_layer_passes(
    bottleneck_stage_layer_passes, largest_stage_layers, number_of_microbatches_per_minibatch
):
    """The forward passes through layers in a step on the stage that has most layers; its links are busy longest.

    It is not always the bottleneck stage: the last stage may have fewer layers, and the output head.

    Source: definition.
    """
    return np.maximum(bottleneck_stage_layer_passes, largest_stage_layers * number_of_microbatches_per_minibatch)


@quantity("s")
def free_forward_time(
    compute_forward_time, largest_stage_layer_passes, free_forward_time_per_layer, forward_time_per_layer
):
    """The time of a step's forward passes in which the links that gradients use are free; a lower bound.

    Every stage has as much time as the bottleneck stage computes; the stage with most layers has the busiest links.

    Source: definition.
    """
    layers = largest_stage_layer_passes * (free_forward_time_per_layer - forward_time_per_layer)
    return np.maximum(compute_forward_time + layers, 0)


@quantity("s")
def free_backward_time(
    compute_backward_time,
    weight_update_time,
    recomputation_time,
    largest_stage_layer_passes,
    free_backward_time_per_layer,
    backward_time_per_layer,
    offload_fill_time,
):
    """The time of a step's backward passes in which the links that gradients use are free; a lower bound.

    Every stage has as much time as the bottleneck stage computes; the stage with most layers has the busiest links.

    Source: definition.
    """
    computed = compute_backward_time + weight_update_time + recomputation_time
    layers = largest_stage_layer_passes * (free_backward_time_per_layer - backward_time_per_layer)
    return np.maximum(computed + layers + offload_fill_time, 0)


@quantity("s")
def gradient_communication_time(
    data_durations, gradients_are_scattered_each_microbatch, number_of_microbatches_per_minibatch
):
    """The time to reduce gradients in a step: once, or for each micro-batch if these scatter gradients over the shards.

    Source: arXiv 1910.02054, section 7.
    """
    once = total(d.time * d.count for d in data_durations if d.kind != "all_gather")
    return once * np.where(gradients_are_scattered_each_microbatch, number_of_microbatches_per_minibatch, 1)


@quantity("s")
def weight_communication_time(
    data_durations, weights_are_gathered_each_microbatch, number_of_microbatches_per_minibatch
):
    """The time to gather weights in a step.

    Weights are gathered once in a step. If each pass gathers them, they are gathered twice for each micro-batch.

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
    """The share of the micro-batches beside which gradients are communicated.

        fraction = ((v − 1)·p + 1) / (v·m).

    It is 1 if ZeRO shards gradients. Otherwise the equation holds, with v chunks of layers on each of p stages and m
    micro-batches. With one chunk it is the last micro-batch. With several chunks, the gradients of a chunk are complete
    when the last p micro-batches have left the chunk; they are communicated beside the other chunks.

    Source: arXiv 2006.15704, section 3.2.3; arXiv 1910.02054, section 7.2; Megatron-Core, --overlap-grad-reduce (a
    bucket for each chunk).
    """
    v, p, m = virtual_pipeline_stages, pipeline_parallel_degree, number_of_microbatches_per_minibatch
    return np.where(gradients_are_scattered_each_microbatch, 1, fraction_beside_other_chunks(v, p, m))


def fraction_beside_other_chunks(chunks, stages, microbatches):
    """The share of the backward passes of a stage beside which it can exchange the gradients of its chunks of layers.

        fraction = ((chunks − 1)·stages + 1) / (chunks·micro-batches).

    The gradients of a chunk are complete after its last micro-batch. While they are exchanged, the stage runs the
    passes of the chunks that follow, and each of these processes as many micro-batches in a row as there are stages.
    The 1 is the last pass of all: with a single chunk, gradients are exchanged beside the last micro-batch alone.

    Source: arXiv 2006.15704, section 3.2.3; Megatron-Core, --overlap-grad-reduce (a bucket for each chunk).
    """
    return ((chunks - 1) * stages + 1) / (chunks * microbatches)


@quantity("1")
def overlappable_data_fraction(bottleneck_stage, zero_stage, prefetched_sharding_fraction):
    """The share of data-parallel communication that can overlap computation: that of all layers except one.

    If weights are sharded, only the share that is prefetched can overlap.

    Source: arXiv 2006.15704, section 3.2; arXiv 2304.11277, section 3.3.
    """
    others = 1 - 1 / np.maximum(total(bottleneck_stage[0].kinds), 1)
    return others * np.where(shares("weight", zero_stage), prefetched_sharding_fraction, 1)


def overlappable_time(whole, able, free, chunks, microbatches):
    """The time of messages in a step that can run beside computation, with several chunks of layers.

        time = min(able·whole, (1 − 1 / chunks)·whole + free / (chunks·micro-batches)).

    `whole` is the time of all messages, `able` the share of the messages that can overlap a layer, and `free` the
    time of all passes. The messages of the last chunk can run no longer than one micro-batch takes in that chunk.

    Source: Megatron-Core, --overlap-grad-reduce and --overlap-param-gather (chunk by chunk).
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
    """The time in which gradients are reduced while the backward pass runs. The gradients of one layer cannot overlap.

        time = switch·min(overlappable time, fraction·free),
        free = free backward time or, where ZeRO shards gradients, free backward time + bubble.

    `switch` is `overlap_data_communication`, and `fraction` is `overlapped_microbatch_fraction`. If ZeRO shards
    gradients, the gradients of each micro-batch are reduced, also while the stage waits in the pipeline bubble.

    Source: arXiv 2006.15704, section 3.2.
    """
    sharded, whole = gradients_are_scattered_each_microbatch > 0, gradient_communication_time
    chunks = np.where(sharded, 1, virtual_pipeline_stages)
    rounds = np.where(sharded, 1, number_of_microbatches_per_minibatch)
    free = free_backward_time + sharded * pipeline_bubble_time
    able = overlappable_time(whole, overlappable_data_fraction, free, chunks, rounds)
    return beside(able, overlapped_microbatch_fraction * free, overlap_data_communication)


@quantity("s")
def weight_forward_window_time(free_forward_time, pipeline_communication_time):
    """The forward time of a step in which links are free to gather weights, without the sends between stages.

    Source: definition.
    """
    return np.maximum(free_forward_time - pipeline_communication_time, 0)


@quantity("s")
def sharded_weight_window_time(
    weight_forward_window_time, free_backward_time, pipeline_bubble_time, overlapped_gradient_communication_time
):
    """The time of a step in which links are free to gather sharded weights: both passes and the bubble.

    The time of gradient messages that run in the same time is subtracted. Source: arXiv 2304.11277, section 3.3.
    """
    passes = weight_forward_window_time + free_backward_time
    return passes + pipeline_bubble_time - overlapped_gradient_communication_time


@quantity("s")
def overlapped_weight_communication_time(
    weight_communication_time,
    weights_are_gathered_each_microbatch,
    virtual_pipeline_stages,
    number_of_microbatches_per_minibatch,
    pipeline_parallel_degree,
    weight_forward_window_time,
    sharded_weight_window_time,
    overlappable_data_fraction,
    overlap_data_communication,
):
    """The time in which weights are gathered while passes run: the first forward passes, or all if ZeRO shards weights.

        time = switch·min(overlappable time, window),
        window = forward·((v − 1)·p + 1) / (v·m), or where ZeRO shards weights
        window = sharded_weight_window_time.

    `switch` is `overlap_data_communication`, and `forward` is `weight_forward_window_time`. There are v chunks of
    layers on each of p stages, and m micro-batches.

    Source: arXiv 2304.11277, section 3.3; Megatron-Core, --overlap-param-gather (chunk by chunk).
    """
    v, m = virtual_pipeline_stages, number_of_microbatches_per_minibatch
    sharded = weights_are_gathered_each_microbatch > 0
    forward, every = weight_forward_window_time, sharded_weight_window_time
    window = np.where(sharded, every, forward * fraction_beside_other_chunks(v, pipeline_parallel_degree, m))
    free, chunks, rounds = np.where(sharded, every, forward), np.where(sharded, 1, v), np.where(sharded, 1, m)
    able = overlappable_time(weight_communication_time, overlappable_data_fraction, free, chunks, rounds)
    return beside(able, window, overlap_data_communication)
