"""Parameters of each pipeline stage, of the accelerator that has most, and those that one accelerator updates."""

import numpy as np

from amped.theory.conditions import LISTED, ZERO_BUBBLE_V
from amped.theory.quantity import quantity


@quantity("count")
def non_expert_parameters_per_layer(non_expert_layer_parameters, layers):
    """Parameters of one layer without the routed experts, averaged over the layers. Source: definition."""
    return non_expert_layer_parameters / layers


@quantity("count")
def expert_parameters_per_layer(number_of_MoE_layers, number_of_experts, expert_parameters, layers):
    """Parameters of the routed experts of one layer, averaged over the layers. Source: arXiv 2006.16668."""
    return number_of_MoE_layers * number_of_experts * expert_parameters / layers


@quantity("count")
def first_stage_parameters(
    first_stage_layers,
    non_expert_parameters_per_layer,
    embedding_parameters,
    output_head_parameters,
    pipeline_parallel_degree,
):
    """Parameters of the first stage without the routed experts: with the embedding, and alone with the head too.

    Source: arXiv 1909.08053; Megatron-LM, embedding group.
    """
    ends = embedding_parameters + np.where(pipeline_parallel_degree > 1, 0, output_head_parameters)
    return first_stage_layers * non_expert_parameters_per_layer + ends


@quantity("count")
def last_stage_parameters(
    last_stage_layers,
    non_expert_parameters_per_layer,
    first_stage_parameters,
    output_head_parameters,
    tied_embeddings,
    vocabulary_size,
    embedding_dimension,
    pipeline_parallel_degree,
):
    """Parameters of the last stage without the routed experts: with the head, which holds a tied embedding once more.

    Source: arXiv 1909.08053; Megatron-LM, embedding group.
    """
    head = output_head_parameters + tied_embeddings * vocabulary_size * embedding_dimension
    last = last_stage_layers * non_expert_parameters_per_layer + head
    return np.where(pipeline_parallel_degree > 1, last, first_stage_parameters)


@quantity("count")
def middle_stage_parameters(middle_stage_layers, non_expert_parameters_per_layer):
    """Parameters of a stage between first and last without the routed experts. Source: arXiv 2104.04473, section 2.2."""
    return middle_stage_layers * non_expert_parameters_per_layer


@quantity("count")
def non_expert_parameters_per_accelerator(
    first_stage_parameters, middle_stage_parameters, last_stage_parameters, weight_split_degree
):
    """Parameters of one accelerator without the routed experts, unsharded by ZeRO, on the stage that has most.

    Source: arXiv 1909.08053.
    """
    largest = np.maximum(np.maximum(first_stage_parameters, middle_stage_parameters), last_stage_parameters)
    return largest / weight_split_degree


@quantity("count")
def expert_parameters_per_accelerator(
    largest_stage_layers,
    expert_parameters_per_layer,
    expert_split_degree,
    multi_token_prediction_expert_parameters_per_accelerator,
):
    """Parameters of the routed experts of one accelerator, unsharded by ZeRO, on the stage that has most.

    Source: arXiv 2006.16668.
    """
    layers = largest_stage_layers * expert_parameters_per_layer / expert_split_degree
    return layers + multi_token_prediction_expert_parameters_per_accelerator


@quantity("count")
def multi_token_prediction_expert_parameters_per_accelerator(
    multi_token_prediction_expert_parameters, expert_split_degree
):
    """Parameters of those experts on one accelerator of the stage with the output head. Source: arXiv 2412.19437."""
    return multi_token_prediction_expert_parameters / expert_split_degree


@quantity("count", **ZERO_BUBBLE_V)
def first_stage_parameters__zero_bubble_v(
    first_stage_layers, non_expert_parameters_per_layer, embedding_parameters, output_head_parameters
):
    """Parameters of the first stage without the routed experts: with embedding and head, tied ones once.

    Source: arXiv 2405.15362, section 3.
    """
    return first_stage_layers * non_expert_parameters_per_layer + embedding_parameters + output_head_parameters


@quantity("count", **ZERO_BUBBLE_V)
def last_stage_parameters__zero_bubble_v(last_stage_layers, non_expert_parameters_per_layer):
    """Parameters of the last stage, where the V turns, without the routed experts. Source: arXiv 2405.15362, section 3."""
    return last_stage_layers * non_expert_parameters_per_layer


@quantity("count", **LISTED)
def non_expert_parameters_per_accelerator__of_layout(
    first_stage_parameters,
    middle_stage_layers,
    non_expert_parameters_per_layer,
    last_stage_parameters,
    weight_split_degree,
):
    """Parameters of one accelerator without the routed experts on the stage that has most. Source: arXiv 1909.08053."""
    largest = np.maximum(first_stage_parameters, middle_stage_layers * non_expert_parameters_per_layer)
    return np.maximum(largest, last_stage_parameters) / weight_split_degree


@quantity("count")
def updated_parameters(
    non_expert_parameters_per_accelerator,
    expert_parameters_per_accelerator,
    optimizer_state_shards,
    expert_optimizer_state_shards,
):
    """Parameters whose states one accelerator holds, itself or on its host. Source: arXiv 1910.02054, section 5.1."""
    experts = expert_parameters_per_accelerator / expert_optimizer_state_shards
    return non_expert_parameters_per_accelerator / optimizer_state_shards + experts


@quantity("count")
def device_updated_parameters(updated_parameters, optimizer_offload):
    """Parameters that the accelerator itself updates. Source: DeepSpeed, ZeRO-Offload++ (Twin-Flow)."""
    return updated_parameters * (1 - optimizer_offload)
