"""Parameters of each pipeline stage, and the bytes that weights, gradients and optimizer keep for one of them."""

import numpy as np

from amped.quantity import parameter, quantity


@quantity("count")
def shared_parameters_per_layer(stack_parameters, layers):
    """Parameters of one layer without the routed experts, averaged over the layers. Source: definition."""
    return stack_parameters / layers


@quantity("count")
def expert_parameters_per_layer(number_of_MoE_layers, number_of_experts, expert_parameters, layers):
    """Parameters of the routed experts of one layer, averaged over the layers. Source: arXiv 2006.16668."""
    return number_of_MoE_layers * number_of_experts * expert_parameters / layers


@quantity("count")
def first_stage_parameters(
    first_stage_layers, shared_parameters_per_layer, embedding_parameters, head_parameters, pipeline_parallel_degree
):
    """Parameters of the first stage without the routed experts: with the embedding, and alone with the head too.

    Source: arXiv 1909.08053; Megatron-LM, embedding group.
    """
    ends = embedding_parameters + np.where(pipeline_parallel_degree > 1, 0, head_parameters)
    return first_stage_layers * shared_parameters_per_layer + ends


@quantity("count")
def last_stage_parameters(
    last_stage_layers, shared_parameters_per_layer, first_stage_parameters, head_parameters, tied_embeddings,
    vocabulary_size, embedding_dimension, pipeline_parallel_degree,
):  # fmt: skip
    """Parameters of the last stage without the routed experts: with the head, which holds a tied embedding once more.

    Source: arXiv 1909.08053; Megatron-LM, embedding group.
    """
    head = head_parameters + tied_embeddings * vocabulary_size * embedding_dimension
    last = last_stage_layers * shared_parameters_per_layer + head
    return np.where(pipeline_parallel_degree > 1, last, first_stage_parameters)


@quantity("count")
def middle_stage_parameters(middle_stage_layers, shared_parameters_per_layer):
    """Parameters of a stage between first and last without the routed experts. Source: arXiv 2104.04473, section 2.2."""
    return middle_stage_layers * shared_parameters_per_layer


@quantity("count")
def shared_parameters_per_accelerator(
    first_stage_parameters, middle_stage_parameters, last_stage_parameters, weight_split_degree
):
    """Parameters of one accelerator without the routed experts, unsharded by ZeRO, on the stage that has most.

    Source: arXiv 1909.08053.
    """
    largest = np.maximum(np.maximum(first_stage_parameters, middle_stage_parameters), last_stage_parameters)
    return largest / weight_split_degree


@quantity("count")
def expert_split_degree(expert_parallel_degree, expert_tensor_parallel_degree):
    """Shares into which the routed experts of a layer are cut. Source: arXiv 2006.16668."""
    return expert_parallel_degree * expert_tensor_parallel_degree


@quantity("count")
def expert_parameters_per_accelerator(
    largest_stage_layers, expert_parameters_per_layer, expert_split_degree, prediction_expert_parameters_per_accelerator
):
    """Parameters of the routed experts of one accelerator, unsharded by ZeRO, on the stage that has most.

    Source: arXiv 2006.16668.
    """
    layers = largest_stage_layers * expert_parameters_per_layer / expert_split_degree
    return layers + prediction_expert_parameters_per_accelerator


@quantity("count")
def state_replicas(data_parallel_degree, context_parallel_degree, tensor_parallel_degree, weight_split_degree):
    """Accelerators that hold the same parameters and can share out their states. Source: arXiv 1910.02054."""
    return data_parallel_degree * context_parallel_degree * (tensor_parallel_degree / weight_split_degree)


@quantity("count")
def expert_state_replicas(state_replicas, weight_split_degree, expert_parallel_degree, expert_tensor_parallel_degree):
    """Accelerators that hold the same experts and can share out their states.

    Source: Megatron-Core, expert data parallelism.
    """
    return state_replicas * weight_split_degree / (expert_parallel_degree * expert_tensor_parallel_degree)


@quantity("count")
def full_precision_copies(weight_precision, optimizer_state_precision):
    """Copies of a weight that the optimizer keeps: one, unless the weight itself is as precise as its states.

    Source: arXiv 1710.03740, section 3.1.
    """
    return 1.0 * (weight_precision < optimizer_state_precision)


@parameter("count", at_least=0)
def adam_moments_per_parameter():
    """Moments Adam keeps for a parameter, beside its copy in full precision. Source: arXiv 1412.6980."""
    return 2


@parameter("count", at_least=0)
def sgd_moments_per_parameter():
    """Moments SGD with momentum keeps for a parameter, beside its copy in full precision. Source: arXiv 1710.03740."""
    return 1


@quantity("count", choice="optimizer", value="adam")
def optimizer_states_per_parameter__adam(adam_moments_per_parameter, full_precision_copies):
    """Numbers that the optimizer keeps for a parameter. Source: arXiv 1910.02054, section 3.1."""
    return adam_moments_per_parameter + full_precision_copies


@quantity("count", choice="optimizer", value="sgd")
def optimizer_states_per_parameter__sgd(sgd_moments_per_parameter, full_precision_copies):
    """Numbers that the optimizer keeps for a parameter. Source: arXiv 1710.03740."""
    return sgd_moments_per_parameter + full_precision_copies


@quantity("count", choice="optimizer", value="none")
def optimizer_states_per_parameter__none():
    """Numbers that the optimizer keeps for a parameter: there is no optimizer. Source: definition."""
    return 0
