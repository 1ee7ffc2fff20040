"""Pipeline stages: what each has to do for a micro-batch, which of them paces the others, and who waits for whom.

The first stage has the embedding, the last the output head. A step takes the slowest stage's work for all micro-batches,
and how long it waits for the others is on `bubbles.py`.
"""

import numpy as np

from amped.quantity import MAPPING, parameter, quantity, records
from amped.records import total
from amped.stage_records import Stage


@parameter("boolean", category=MAPPING)
def uneven_chunks():
    """Whether the layers of a stage may be dealt out unevenly to its chunks, which are then timed as if all were alike.

    Source: Megatron-Core, --pipeline-model-parallel-layout; PyTorch, torch.distributed.pipelining.
    """
    return 0


@quantity("count", category=MAPPING)
def number_of_first_stage_layers(stage_layers):
    """Layers of the first pipeline stage: as many as of the others unless given.

    Source: Megatron-Core, --decoder-first-pipeline-num-layers.
    """
    return stage_layers


@quantity("count", category=MAPPING, when_given=("number_of_last_stage_layers",))
def number_of_first_stage_layers__beside_the_last(layers, pipeline_parallel_degree, number_of_last_stage_layers):
    """Layers of the first pipeline stage: as many as of each but the last. Source: Megatron-Core, pipeline layout."""
    return (layers - number_of_last_stage_layers) / np.maximum(pipeline_parallel_degree - 1, 1)


@quantity("count", category=MAPPING, when_given=("number_of_first_stage_layers",))
def number_of_last_stage_layers__beside_the_first(layers, pipeline_parallel_degree, number_of_first_stage_layers):
    """Layers of the last pipeline stage: as many as of each but the first. Source: Megatron-Core, pipeline layout."""
    return (layers - number_of_first_stage_layers) / np.maximum(pipeline_parallel_degree - 1, 1)


@quantity("count", category=MAPPING)
def number_of_last_stage_layers(stage_layers):
    """Layers of the last pipeline stage: as many as of the others unless given.

    Source: Megatron-Core, --decoder-last-pipeline-num-layers.
    """
    return stage_layers


@quantity("count")
def first_stage_layers(layers, pipeline_parallel_degree, number_of_first_stage_layers):
    """Layers of the first pipeline stage; all, where it is the only one. Source: definition."""
    return np.where(pipeline_parallel_degree > 1, number_of_first_stage_layers, layers)


@quantity("count")
def last_stage_layers(layers, pipeline_parallel_degree, number_of_last_stage_layers):
    """Layers of the last pipeline stage; all, where it is the only one. Source: definition."""
    return np.where(pipeline_parallel_degree > 1, number_of_last_stage_layers, layers)


@quantity("count")
def middle_stage_layers(layers, pipeline_parallel_degree, first_stage_layers, last_stage_layers):
    """Layers of each pipeline stage between the first and the last. Source: Megatron-Core, pipeline layout."""
    between = np.maximum(pipeline_parallel_degree - 2, 1)
    return np.where(pipeline_parallel_degree > 2, (layers - first_stage_layers - last_stage_layers) / between, 0)


@quantity("count")
def largest_stage_layers(first_stage_layers, middle_stage_layers, last_stage_layers):
    """Layers of the stage that has most. Source: definition."""
    return np.maximum(np.maximum(first_stage_layers, middle_stage_layers), last_stage_layers)


@records()
def pipeline_stages(layers, pipeline_parallel_degree, first_stage_layers, middle_stage_layers, last_stage_layers):
    """The stages, of several, that can set the pace: the first, of those between, all alike, the outermost, and the last.

    Where there are none between, the last stands for them. Source: definition. Differs: with hand-overs beside computation
    another of those between may be done later, by less than all hand-overs of a micro-batch.
    """
    last, between = pipeline_parallel_degree - 1, 1.0 * (pipeline_parallel_degree > 2)
    inner, behind = np.where(between > 0, middle_stage_layers, last_stage_layers), between * last_stage_layers
    return (
        Stage("first", first_stage_layers, 0.0, layers - first_stage_layers, 0.0, last, 1.0, 0.0),
        Stage("last but one", inner, layers - behind - inner, behind, last - between, between, 0.0, 1 - between),
        Stage("last", last_stage_layers, layers - last_stage_layers, 0.0, last, 0.0, 0.0, 1.0),
    )


@quantity("s")
def layer_time(
    forward_time_per_layer, input_gradient_time_per_layer, weight_gradient_time_per_layer,
    recomputation_time_per_layer, exposed_tensor_communication_time_per_layer,
    exposed_context_communication_time_per_layer, exposed_expert_communication_time_per_layer,
    exposed_offload_communication_time_per_layer,
):  # fmt: skip
    """Time of one layer for a micro-batch, all passes and what it waits for. Source: definition."""
    compute = forward_time_per_layer + input_gradient_time_per_layer + weight_gradient_time_per_layer
    communication = exposed_tensor_communication_time_per_layer + exposed_context_communication_time_per_layer
    communication = communication + exposed_offload_communication_time_per_layer
    return compute + recomputation_time_per_layer + communication + exposed_expert_communication_time_per_layer


@quantity("s")
def embedding_time(embedding_forward_time, embedding_backward_time, end_communication_time):
    """What a micro-batch takes in the embedding. Source: definition."""
    return embedding_forward_time + embedding_backward_time + end_communication_time


@quantity("s")
def head_time(
    head_forward_time, head_input_gradient_time, head_weight_gradient_time, end_communication_time, layer_time,
    multi_token_prediction_layers,
):  # fmt: skip
    """What a micro-batch takes in the output head, and in the layers that predict further tokens. Source: definition."""
    head = head_forward_time + head_input_gradient_time + head_weight_gradient_time + end_communication_time
    return head + multi_token_prediction_layers * layer_time


@quantity("boolean")
def last_stage_paces(
    layer_time, embedding_time, head_time, first_stage_layers, middle_stage_layers, last_stage_layers,
    pipeline_parallel_degree,
):  # fmt: skip
    """Whether the last stage, with the output head, takes longest for a micro-batch; so where it is the only one.

    Source: arXiv 2104.04473, section 2.2.
    """
    others = np.maximum(layer_time * first_stage_layers + embedding_time, layer_time * middle_stage_layers)
    return (layer_time * last_stage_layers + head_time >= others) | (pipeline_parallel_degree == 1)


@quantity("boolean")
def first_stage_paces(
    layer_time, embedding_time, first_stage_layers, middle_stage_layers, last_stage_paces, pipeline_parallel_degree
):
    """Whether the first stage, with the embedding, takes longest for a micro-batch; so where it is the only one.

    Source: arXiv 2104.04473, section 2.2.
    """
    longest = layer_time * first_stage_layers + embedding_time >= layer_time * middle_stage_layers
    return (longest & (last_stage_paces == 0)) | (pipeline_parallel_degree == 1)


@quantity("count")
def pacing_stage_layers(
    first_stage_layers, middle_stage_layers, last_stage_layers, first_stage_paces, last_stage_paces
):
    """Layers of the stage that paces the pipeline. Source: definition."""
    ends = np.where(first_stage_paces > 0, first_stage_layers, last_stage_layers)
    return np.where(first_stage_paces + last_stage_paces > 0, ends, middle_stage_layers)


@quantity("count")
def pacing_layer_calls(
    pacing_stage_layers, last_stage_paces, multi_token_prediction_layers, number_of_microbatches_per_minibatch
):
    """Layers that the pacing stage runs forward in a step, with those behind the last. Source: definition."""
    layers = pacing_stage_layers + last_stage_paces * multi_token_prediction_layers
    return layers * number_of_microbatches_per_minibatch


@quantity("count")
def pacing_embedding_calls(first_stage_paces, number_of_microbatches_per_minibatch):
    """Micro-batches that the pacing stage embeds in a step. Source: definition."""
    return first_stage_paces * number_of_microbatches_per_minibatch


@quantity("count")
def pacing_head_calls(last_stage_paces, number_of_microbatches_per_minibatch):
    """Micro-batches that the pacing stage runs through the output head in a step. Source: definition."""
    return last_stage_paces * number_of_microbatches_per_minibatch


@parameter("boolean", category=MAPPING)
def overlap_pipeline_communication():
    """Whether stages hand micro-batches over while they compute. Source: Megatron-Core, --overlap-p2p-communication."""
    return 0


@quantity("s")
def boundary_time(pipeline_durations):
    """Time to hand a micro-batch to the next stage. Source: arXiv 2104.04473, section 3.2."""
    return total(d.time * d.count for d in pipeline_durations)


@quantity("count")
def chunks_per_stage(virtual_pipeline_stages):
    """Chunks of layers that a stage has, and between which micro-batches are handed over. Source: arXiv 2104.04473, section 2.2."""
    return virtual_pipeline_stages


@quantity("s")
def pipeline_communication_time(
    boundary_time, number_of_microbatches_per_minibatch, chunks_per_stage, pipeline_parallel_degree
):
    """Time that a stage sends: each micro-batch, forward and backward, once for each chunk of layers.

    Chunks go round, so that the first and the last stage are neighbours too. Source: arXiv 2104.04473, section 2.2.2. Differs:
    with one chunk the first and the last of several stages have one neighbour, and are charged for two unless there are no others.
    """
    sides = np.where(
        chunks_per_stage > 1, 2 * (pipeline_parallel_degree > 1), np.minimum(pipeline_parallel_degree - 1, 2)
    )
    return sides * number_of_microbatches_per_minibatch * chunks_per_stage * boundary_time
