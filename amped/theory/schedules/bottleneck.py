"""The stage that paces the pipeline, what it has to do in a step, and what stages hand over."""

import numpy as np

from amped.theory.quantity import quantity, records
from amped.theory.records import total
from amped.theory.stage_records import PassTimes


@records()
def pass_times(
    forward_pass_time_per_layer,
    layer_time,
    weight_gradient_time_per_layer,
    embedding_forward_time,
    embedding_backward_time,
    vocabulary_parallel_communication_time,
    output_head_forward_time,
    output_head_input_gradient_time,
    output_head_weight_gradient_time,
    multi_token_prediction_layers,
):
    """Times of a micro-batch's passes: forward, input gradients with what is computed again, weight gradients.

    Source: arXiv 2401.10241, section 1 (B and W).
    """
    none, more = 0 * embedding_forward_time, multi_token_prediction_layers
    input_gradient = layer_time - forward_pass_time_per_layer - weight_gradient_time_per_layer
    back = output_head_input_gradient_time + vocabulary_parallel_communication_time
    there = embedding_forward_time + vocabulary_parallel_communication_time
    return (
        PassTimes(
            "forward", forward_pass_time_per_layer, there, output_head_forward_time + more * forward_pass_time_per_layer
        ),
        PassTimes("input_gradient", input_gradient, embedding_backward_time, back + more * input_gradient),
        PassTimes(
            "weight_gradient",
            weight_gradient_time_per_layer,
            none,
            output_head_weight_gradient_time + more * weight_gradient_time_per_layer,
        ),
    )


@records()
def whole_pass_times(pass_times, layer_time, embedding_time, output_head_time):
    """Times of a micro-batch forward, and in all passes. Source: definition."""
    return (pass_times[0], PassTimes("all", layer_time, embedding_time, output_head_time))


@quantity("boolean")
def last_stage_is_bottleneck(
    layer_time,
    embedding_time,
    output_head_time,
    first_stage_layers,
    middle_stage_layers,
    last_stage_layers,
    pipeline_parallel_degree,
):
    """Whether the last stage, with the output head, takes longest for a micro-batch; so where it is the only one.

    Source: arXiv 2104.04473, section 2.2.
    """
    others = np.maximum(layer_time * first_stage_layers + embedding_time, layer_time * middle_stage_layers)
    return (layer_time * last_stage_layers + output_head_time >= others) | (pipeline_parallel_degree == 1)


@quantity("boolean")
def first_stage_is_bottleneck(
    layer_time,
    embedding_time,
    first_stage_layers,
    middle_stage_layers,
    last_stage_is_bottleneck,
    pipeline_parallel_degree,
):
    """Whether the first stage, with the embedding, takes longest for a micro-batch; so where it is the only one.

    Source: arXiv 2104.04473, section 2.2.
    """
    longest = layer_time * first_stage_layers + embedding_time >= layer_time * middle_stage_layers
    return (longest & (last_stage_is_bottleneck == 0)) | (pipeline_parallel_degree == 1)


@quantity("count")
def bottleneck_stage_layers(
    first_stage_layers, middle_stage_layers, last_stage_layers, first_stage_is_bottleneck, last_stage_is_bottleneck
):
    """Layers of the stage that paces the pipeline. Source: definition."""
    ends = np.where(first_stage_is_bottleneck > 0, first_stage_layers, last_stage_layers)
    return np.where(first_stage_is_bottleneck + last_stage_is_bottleneck > 0, ends, middle_stage_layers)


@quantity("s")
def bottleneck_stage_time(
    layer_time,
    bottleneck_stage_layers,
    embedding_time,
    output_head_time,
    first_stage_is_bottleneck,
    last_stage_is_bottleneck,
):
    """Time of a micro-batch on the stage that paces the pipeline, all passes. Source: definition."""
    return (
        bottleneck_stage_layers * layer_time
        + first_stage_is_bottleneck * embedding_time
        + last_stage_is_bottleneck * output_head_time
    )


@quantity("count")
def bottleneck_stage_layer_passes(
    bottleneck_stage_layers,
    last_stage_is_bottleneck,
    multi_token_prediction_layers,
    number_of_microbatches_per_minibatch,
):
    """Layers that the bottleneck stage runs forward in a step, with those behind the last. Source: definition."""
    layers = bottleneck_stage_layers + last_stage_is_bottleneck * multi_token_prediction_layers
    return layers * number_of_microbatches_per_minibatch


@quantity("count")
def bottleneck_stage_embedding_passes(first_stage_is_bottleneck, number_of_microbatches_per_minibatch):
    """Micro-batches that the bottleneck stage embeds in a step. Source: definition."""
    return first_stage_is_bottleneck * number_of_microbatches_per_minibatch


@quantity("count")
def bottleneck_stage_output_head_passes(last_stage_is_bottleneck, number_of_microbatches_per_minibatch):
    """Micro-batches that the bottleneck stage runs through the output head in a step. Source: definition."""
    return last_stage_is_bottleneck * number_of_microbatches_per_minibatch


# --- hand-overs ------------------------------------------------------------------------------------------------------


@quantity("s")
def stage_send_time(pipeline_durations):
    """Time to hand a micro-batch to the next stage. Source: arXiv 2104.04473, section 3.2."""
    return total(d.time * d.count for d in pipeline_durations)


@quantity("s")
def blocking_stage_send_time(stage_send_time, overlap_pipeline_communication):
    """Time that a hand-over keeps a stage from computing. Source: Megatron-Core, --overlap-p2p-communication."""
    return stage_send_time * (1 - overlap_pipeline_communication)


@quantity("count")
def chunks_per_stage(virtual_pipeline_stages):
    """Chunks of layers that a stage has, and between which micro-batches are handed over. Source: arXiv 2104.04473, section 2.2."""
    return virtual_pipeline_stages


@quantity("s")
def pipeline_communication_time(
    stage_send_time, number_of_microbatches_per_minibatch, chunks_per_stage, pipeline_parallel_degree
):
    """Time that a stage sends: each micro-batch, forward and backward, once for each chunk of layers.

    Chunks go round, so that the first and the last stage are neighbors too. Source: arXiv 2104.04473, section 2.2.2. Differs:
    with one chunk the first and the last of several stages have one neighbor, and are charged for two unless there are no others.
    """
    sides = np.where(
        chunks_per_stage > 1, 2 * (pipeline_parallel_degree > 1), np.minimum(pipeline_parallel_degree - 1, 2)
    )
    return sides * number_of_microbatches_per_minibatch * chunks_per_stage * stage_send_time
