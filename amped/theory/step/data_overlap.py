"""Overlap of data parallelism: which gradients and weights are communicated in the time that layers leave free.

They are communicated while their links are free: while the accelerator computes, while it waits for the host and, where
gradients have links of their own, while it waits for tensor-parallel communication. At most the shorter of message and
free time overlaps (`beside` in `nouns/resources.py`); what remains is `exposed_data_communication_time` in `parts.py`.
"""

import numpy as np

from amped.theory.language.quantity import family, quantity
from amped.theory.nouns.records import time_of, total
from amped.theory.nouns.resources import beside
from amped.theory.nouns.shardings import is_sharded

# The kinds of data-parallel collectives that hand out weights; all others reduce gradients.
OF_WEIGHTS = ("all_gather", "broadcast")


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
    compute_forward_time,
    bottleneck_stage_layer_passes,
    largest_stage_layer_passes,
    layer_windows,
    layer_computation,
    bottleneck_layer_shares,
):
    """The time of a step's forward passes in which the links that gradients use are free; a lower bound.

    Every stage has as much time as the bottleneck stage computes and waits; the stage with most layers has the busiest
    links.

    Source: definition.
    """
    (shares,) = bottleneck_layer_shares
    forward, free = (shares.mean([getattr(w, name) for w in layer_windows]) for name in ("forward", "free_forward"))
    waits = bottleneck_stage_layer_passes * (forward - shares.mean([passes.forward for passes in layer_computation]))
    busy = largest_stage_layer_passes * (forward - free)
    return np.maximum(compute_forward_time + waits - busy, 0)


@quantity("s")
def free_backward_time(
    compute_backward_time,
    weight_update_time,
    recomputation_time,
    bottleneck_stage_layer_passes,
    largest_stage_layer_passes,
    layer_windows,
    layer_computation,
    bottleneck_layer_shares,
    offload_fill_time,
):
    """The time of a step's backward passes in which the links that gradients use are free; a lower bound.

    Every stage has as much time as the bottleneck stage computes and waits; the stage with most layers has the busiest
    links.

    Source: definition.
    """
    (shares,), computed = bottleneck_layer_shares, compute_backward_time + weight_update_time + recomputation_time
    backward, free = (shares.mean([getattr(w, name) for w in layer_windows]) for name in ("backward", "free_backward"))
    waits = bottleneck_stage_layer_passes * (backward - shares.mean([passes.backward for passes in layer_computation]))
    busy = largest_stage_layer_passes * (backward - free)
    return np.maximum(computed + waits - busy + offload_fill_time, 0)


@quantity("s")
def forward_end_time(
    bottleneck_stage_embedding_passes,
    embedding_forward_time,
    bottleneck_stage_output_head_passes,
    output_head_forward_time,
):
    """The time of the embedding and of the output head in the forward passes of a step, on the bottleneck stage.

    Source: definition.
    """
    embedding = bottleneck_stage_embedding_passes * embedding_forward_time
    return embedding + bottleneck_stage_output_head_passes * output_head_forward_time


@quantity("s")
def backward_end_time(
    bottleneck_stage_embedding_passes,
    embedding_backward_time,
    bottleneck_stage_output_head_passes,
    output_head_input_gradient_time,
    output_head_weight_gradient_time,
):
    """The time of the embedding and of the output head in the backward passes of a step, on the bottleneck stage.

    Source: definition.
    """
    head = output_head_input_gradient_time + output_head_weight_gradient_time
    return bottleneck_stage_embedding_passes * embedding_backward_time + bottleneck_stage_output_head_passes * head


@family(
    named=("forward_chunk_window_time", "backward_chunk_window_time"),
    PASS=("forward", "backward"),
    WINDOW=("weight_forward_window", "free_backward"),
    SPAN=("forward", "backward"),
)
@quantity("s")
def PASS_chunk_window_time(
    WINDOW_time,
    PASS_end_time,
    layer_windows,
    bottleneck_layer_shares,
    bottleneck_stage_layer_passes,
    largest_stage_layer_passes,
    virtual_pipeline_stages,
    pipeline_parallel_degree,
    number_of_microbatches_per_minibatch,
    *,
    span,
):
    """The time of PASS passes in which one stage can communicate gradients or weights of its chunks of layers.

        time = ((v − 1)·p·(free time − ends) + free time) / (v·m),
        ends = max(time of embedding and output head − SPAN passes of the layers that the fullest stage has more, 0).

    There are v chunks of layers on each of p stages, and m micro-batches. Only one chunk has the embedding, and only
    one the output head: they hide nothing of the other chunks. A bottleneck with few layers waits for its ends as long
    as the stage with most layers computes those that it has more, so that the time does not jump where another
    stage becomes the bottleneck.

    Source: Megatron-Core, --overlap-grad-reduce and --overlap-param-gather (chunk by chunk).
    """
    v, p, m = virtual_pipeline_stages, pipeline_parallel_degree, number_of_microbatches_per_minibatch
    missing_layer_passes = largest_stage_layer_passes - bottleneck_stage_layer_passes
    time = bottleneck_layer_shares[0].mean([getattr(windows, span) for windows in layer_windows])
    ends = np.maximum(PASS_end_time - missing_layer_passes * time, 0)
    others = (v - 1) * p * np.maximum(WINDOW_time - ends, 0)
    return (others + WINDOW_time) / (v * m)


@quantity("s")
def gradient_communication_time(
    data_durations,
    gradients_are_scattered_each_microbatch,
    number_of_microbatches_per_minibatch,
    data_exchanges_per_step,
):
    """The time to reduce gradients in a step: once, or for each micro-batch if these scatter gradients over the shards.

    Source: arXiv 1910.02054, section 7.
    """
    one_exchange = time_of(d for d in data_durations if d.kind not in OF_WEIGHTS)
    rounds = number_of_microbatches_per_minibatch, data_exchanges_per_step
    return one_exchange * np.where(gradients_are_scattered_each_microbatch, *rounds)


@quantity("s")
def weight_communication_time(
    data_durations,
    weights_are_gathered_each_microbatch,
    number_of_microbatches_per_minibatch,
    data_exchanges_per_step,
    gradient_layer_fraction,
):
    """The time to gather weights in a step.

    Weights are gathered once in a step. If each pass gathers them, they are gathered twice for each micro-batch; those
    of a layer without a backward pass once.

    Source: arXiv 1910.02054, section 7; arXiv 2304.11277, section 3.2.
    """
    one_exchange = time_of(d for d in data_durations if d.kind in OF_WEIGHTS)
    rounds = (1 + gradient_layer_fraction) * number_of_microbatches_per_minibatch, data_exchanges_per_step
    return one_exchange * np.where(weights_are_gathered_each_microbatch, *rounds)


@quantity("1")
def overlappable_data_fraction(bottleneck_stage, zero_stage, prefetched_sharding_fraction):
    """The share of data-parallel communication that can overlap computation: the messages of all layers except one.

    If weights are sharded, only the share that is prefetched can overlap.

    Source: arXiv 2006.15704, section 3.2; arXiv 2304.11277, section 3.3.
    """
    others = 1 - 1 / np.maximum(total(bottleneck_stage[0].kinds), 1)
    return others * np.where(is_sharded("weight", zero_stage), prefetched_sharding_fraction, 1)


@quantity("s")
def last_gradient_bucket_time(data_durations):
    """The time in which the last gradients of a step are reduced, after the backward pass: one message of each kind.

    Source: arXiv 2006.15704, section 3.2 (buckets).
    """
    return total(d.time * (d.count > 0) for d in data_durations if d.kind not in OF_WEIGHTS)


@quantity("s")
def first_weight_bucket_time(data_durations):
    """The time in which the first weights of a step are gathered, before the forward pass: one message of each kind.

    Source: arXiv 2304.11277, section 3.3.
    """
    return total(d.time * (d.count > 0) for d in data_durations if d.kind in OF_WEIGHTS)


@quantity("s")
def overlappable_gradient_time(gradient_communication_time, overlappable_data_fraction, last_gradient_bucket_time):
    """The time of gradient messages in a step that can run beside other layers, and are not in the last bucket.

    Source: arXiv 2006.15704, section 3.2.
    """
    others = gradient_communication_time - last_gradient_bucket_time
    return np.minimum(overlappable_data_fraction * gradient_communication_time, others)


@quantity("s")
def overlappable_weight_time(weight_communication_time, overlappable_data_fraction, first_weight_bucket_time):
    """The time of weight messages in a step that can run beside other layers, and are not in the first bucket.

    Source: arXiv 2304.11277, section 3.3.
    """
    others = weight_communication_time - first_weight_bucket_time
    return np.minimum(overlappable_data_fraction * weight_communication_time, others)


def overlappable_time(whole, others, free, sharded, chunks, microbatches):
    """The time of messages in a step that can run beside computation, with several chunks of layers.

        time = min(others, (1 − 1 / chunks)·whole + free / (chunks·micro-batches)).

    The messages of the last chunk can run no longer than one micro-batch takes in that chunk. Sharded states are sent
    in every micro-batch, so that they count as one chunk of one micro-batch.

    Args:
        whole: the time of all messages.
        others: the time of the messages that can run beside other layers.
        free: the time of all passes in which links are free.
        sharded: whether the states that are sent are sharded.
        chunks: the number of chunks of layers on a stage.
        microbatches: the number of micro-batches in a step.

    Source: Megatron-Core, --overlap-grad-reduce and --overlap-param-gather (chunk by chunk).
    """
    v, m = np.where(sharded, 1, chunks), np.where(sharded, 1, microbatches)
    return np.minimum(others, (1 - 1 / v) * whole + free / (v * m))


@quantity("s")
def overlapped_gradient_communication_time(
    gradient_communication_time,
    overlappable_gradient_time,
    backward_chunk_window_time,
    free_backward_time,
    overlap_data_communication,
    gradients_are_scattered_each_microbatch,
    gradients_delay_handovers,
    virtual_pipeline_stages,
    number_of_microbatches_per_minibatch,
    pipeline_bubble_time,
):
    """The time in which gradients are reduced while the backward pass runs. The gradients of one layer cannot overlap.

        time = switch·min(overlappable time, window),
        window = backward_chunk_window_time or, where ZeRO shards gradients, free backward time + bubble.

    `switch` is `overlap_data_communication`, or 0 if gradients delay handovers: then they are reduced after the pass.
    If ZeRO shards gradients, the gradients of each micro-batch are reduced, also while the stage waits in the bubble.

    Source: arXiv 2006.15704, section 3.2.
    """
    v, m = virtual_pipeline_stages, number_of_microbatches_per_minibatch
    sharded = gradients_are_scattered_each_microbatch > 0
    free = free_backward_time + sharded * pipeline_bubble_time
    overlappable = overlappable_time(gradient_communication_time, overlappable_gradient_time, free, sharded, v, m)
    window = np.where(sharded, free, backward_chunk_window_time)
    return beside(overlappable, window, overlap_data_communication * (gradients_delay_handovers == 0))


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
def first_forward_window_time(
    weight_forward_window_time,
    forward_chunk_window_time,
    gradients_delay_handovers,
    data_exchanges_per_step,
    number_of_microbatches_per_minibatch,
):
    """The forward time of a step in which weights can be gathered, if they are not gathered for each micro-batch.

        time = forward_chunk_window_time, or where gradients delay handovers
        time = weight_forward_window_time·exchanges / micro-batches.

    In the second case each chunk gathers its own weights, beside its first micro-batch.

    Source: Megatron-Core, --overlap-param-gather (chunk by chunk); PyTorch, fully_shard (implicit prefetching).
    """
    own_window = weight_forward_window_time * data_exchanges_per_step / number_of_microbatches_per_minibatch
    return np.where(gradients_delay_handovers, own_window, forward_chunk_window_time)


@quantity("s")
def overlapped_weight_communication_time(
    weight_communication_time,
    overlappable_weight_time,
    weights_are_gathered_each_microbatch,
    virtual_pipeline_stages,
    number_of_microbatches_per_minibatch,
    weight_forward_window_time,
    first_forward_window_time,
    sharded_weight_window_time,
    overlap_data_communication,
):
    """The time in which weights are gathered while passes run: the first forward passes, or all if ZeRO shards weights.

        time = switch·min(overlappable time, window).

    `switch` is `overlap_data_communication`. The window is `sharded_weight_window_time` where ZeRO shards weights,
    else `first_forward_window_time`.

    Source: arXiv 2304.11277, section 3.3; Megatron-Core, --overlap-param-gather (chunk by chunk).
    """
    v, m = virtual_pipeline_stages, number_of_microbatches_per_minibatch
    sharded = weights_are_gathered_each_microbatch > 0
    window = np.where(sharded, sharded_weight_window_time, first_forward_window_time)
    free = np.where(sharded, sharded_weight_window_time, weight_forward_window_time)
    overlappable = overlappable_time(weight_communication_time, overlappable_weight_time, free, sharded, v, m)
    return beside(overlappable, window, overlap_data_communication)


@quantity("s")
def data_exchanges_of_other_stages_time(
    gradients_delay_handovers,
    weights_are_gathered_each_microbatch,
    gradient_communication_time,
    weight_communication_time,
    overlapped_weight_communication_time,
    pipeline_parallel_degree,
):
    """The time in a step in which a stage waits because the other stages exchange gradients or weights in their turn.

        time = (p − 1)·(gradients + weights that are waited for), if gradients delay handovers, else 0.

    The last micro-batch runs backward through the p stages, and each of them exchanges its gradients before the stage
    before can begin. In the same way the first micro-batch waits on each stage for its weights. With several chunks on
    a stage, it does so chunk by chunk.

    Source: pytorch/pytorch, pull request 165106 ("blocks the other stages from executing their backwards").
    """
    gathers = weight_communication_time - overlapped_weight_communication_time
    exchanges = gradient_communication_time + gathers * (weights_are_gathered_each_microbatch == 0)
    return gradients_delay_handovers * (pipeline_parallel_degree - 1) * exchanges
