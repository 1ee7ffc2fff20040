"""Memory of one accelerator, on the stage that holds most: states by ZeRO stage, activations by KOR22."""

import numpy as np

from amped.quantity import parameter, quantity


@quantity("count")
def stage_shared_parameters(stack_parameters, pipeline_parallel_degree):
    """Parameters of one stage's layers without the routed experts. Source: arXiv 2104.04473, section 2.2."""
    return stack_parameters / pipeline_parallel_degree


@quantity("count")
def end_stage_parameters(
    pipeline_parallel_degree, embedding_parameters, head_parameters, tied_embeddings, vocabulary_size,
    embedding_dimension,
):  # fmt: skip
    """Parameters that the fullest stage has beside its layers: embedding or head, both where there is one stage.

    A tied embedding lies on the first and on the last stage. Source: arXiv 1909.08053; Megatron-LM, embedding group.
    """
    last = head_parameters + tied_embeddings * vocabulary_size * embedding_dimension
    fullest = np.maximum(embedding_parameters, last)
    return np.where(pipeline_parallel_degree > 1, fullest, embedding_parameters + head_parameters)


@quantity("count")
def stage_parameters(stage_shared_parameters, end_stage_parameters):
    """Parameters of the fullest stage without the routed experts, over its whole tensor-parallel group.

    Source: AMPeD, gradient all-reduce.
    """
    return stage_shared_parameters + end_stage_parameters


@quantity("count")
def stage_expert_parameters(MoE_stage_layers, number_of_experts, expert_parameters):
    """Parameters of all routed experts of one stage. Source: arXiv 2006.16668."""
    return MoE_stage_layers * number_of_experts * expert_parameters


@quantity("count")
def shared_parameters_per_accelerator(stage_parameters, tensor_parallel_degree):
    """Parameters of one accelerator without the routed experts, unsharded by ZeRO. Source: arXiv 1909.08053."""
    return stage_parameters / tensor_parallel_degree


@quantity("count")
def expert_parameters_per_accelerator(stage_expert_parameters, expert_parallel_degree, expert_tensor_parallel_degree):
    """Parameters of the routed experts of one accelerator, unsharded by ZeRO. Source: arXiv 2006.16668."""
    return stage_expert_parameters / (expert_parallel_degree * expert_tensor_parallel_degree)


@quantity("count")
def state_replicas(data_parallel_degree, context_parallel_degree):
    """Accelerators that hold the same parameters and can share out their states. Source: arXiv 1910.02054."""
    return data_parallel_degree * context_parallel_degree


@quantity("count")
def expert_state_replicas(
    state_replicas, tensor_parallel_degree, expert_parallel_degree, expert_tensor_parallel_degree
):
    """Accelerators that hold the same experts and can share out their states.

    Source: Megatron-Core, expert data parallelism.
    """
    return state_replicas * tensor_parallel_degree / (expert_parallel_degree * expert_tensor_parallel_degree)


@quantity("byte")
def weight_bytes(
    shared_parameters_per_accelerator, expert_parameters_per_accelerator, weight_precision, zero_stage,
    state_replicas, expert_state_replicas,
):  # fmt: skip
    """Memory of the weights; ZeRO shares them out from stage 3.

    Source: arXiv 1910.02054, section 5. Differs: AMPeD shares out always.
    """
    shared = shared_parameters_per_accelerator / np.where(zero_stage >= 3, state_replicas, 1)
    experts = expert_parameters_per_accelerator / np.where(zero_stage >= 3, expert_state_replicas, 1)
    return (shared + experts) * weight_precision


@quantity("byte")
def gradient_bytes(
    shared_parameters_per_accelerator, expert_parameters_per_accelerator, gradient_precision, zero_stage,
    state_replicas, expert_state_replicas,
):  # fmt: skip
    """Memory of the gradients; ZeRO shares them out from stage 2.

    Source: arXiv 1910.02054, section 5. Differs: AMPeD shares out always.
    """
    shared = shared_parameters_per_accelerator / np.where(zero_stage >= 2, state_replicas, 1)
    experts = expert_parameters_per_accelerator / np.where(zero_stage >= 2, expert_state_replicas, 1)
    return (shared + experts) * gradient_precision


@parameter("count", at_least=0)
def adam_states_per_parameter():
    """Numbers Adam keeps for a parameter: its full-precision copy and two moments.

    Source: arXiv 1910.02054, section 3.1.
    """
    return 3


@parameter("count", at_least=0)
def sgd_states_per_parameter():
    """Numbers SGD with momentum keeps for a parameter: its full-precision copy and one moment.

    Source: arXiv 1710.03740.
    """
    return 2


@quantity("count", choice="optimizer", value="adam")
def optimizer_states_per_parameter__adam(adam_states_per_parameter):
    """Numbers that the optimizer keeps for a parameter. Source: arXiv 1412.6980."""
    return adam_states_per_parameter


@quantity("count", choice="optimizer", value="sgd")
def optimizer_states_per_parameter__sgd(sgd_states_per_parameter):
    """Numbers that the optimizer keeps for a parameter. Source: arXiv 1710.03740."""
    return sgd_states_per_parameter


@quantity("byte")
def optimizer_state_bytes(
    shared_parameters_per_accelerator, expert_parameters_per_accelerator, optimizer_states_per_parameter,
    optimizer_state_precision, zero_stage, state_replicas, expert_state_replicas,
):  # fmt: skip
    """Memory of the optimizer's states; ZeRO shares them out from stage 1.

    Source: arXiv 1910.02054, section 5. Differs: AMPeD shares out always.
    """
    shared = shared_parameters_per_accelerator / np.where(zero_stage >= 1, state_replicas, 1)
    experts = expert_parameters_per_accelerator / np.where(zero_stage >= 1, expert_state_replicas, 1)
    return (shared + experts) * optimizer_states_per_parameter * optimizer_state_precision


@quantity("byte")
def gathered_weight_bytes(
    attention_parameters, norm_parameters, feedforward_parameters, router_and_shared_expert_parameters,
    number_of_dense_layers, number_of_MoE_layers, number_of_experts, expert_parameters, tensor_parallel_degree,
    expert_parallel_degree, expert_tensor_parallel_degree, weight_precision, zero_stage, state_replicas,
):  # fmt: skip
    """Weights of the largest layer, whole for the time it runs where ZeRO shards them.

    Source: arXiv 1910.02054, section 5.3.
    """
    core = (attention_parameters + norm_parameters) / tensor_parallel_degree
    dense = (number_of_dense_layers > 0) * feedforward_parameters / tensor_parallel_degree
    experts = number_of_experts * expert_parameters / (expert_parallel_degree * expert_tensor_parallel_degree)
    mixture = (number_of_MoE_layers > 0) * (router_and_shared_expert_parameters / tensor_parallel_degree + experts)
    sharded = (zero_stage >= 3) & (state_replicas > 1)
    return sharded * (core + np.maximum(dense, mixture)) * weight_precision


@quantity("byte")
def temporary_bytes(recomputed_layer_bytes, gathered_weight_bytes, logits_bytes, last_stage_is_fullest):
    """Working memory of the fullest stage: the layer being recomputed, weights gathered for a layer, logits at the end.

    Source: arXiv 2205.05198, section 4.3. Differs: buffers of communication and of the allocator are left out.
    """
    return recomputed_layer_bytes + gathered_weight_bytes + logits_bytes * last_stage_is_fullest


@quantity("byte")
def memory_per_accelerator_bytes(
    weight_bytes, gradient_bytes, optimizer_state_bytes, activation_bytes, temporary_bytes
):
    """Memory that the fullest accelerator needs. Source: definition."""
    return weight_bytes + gradient_bytes + optimizer_state_bytes + activation_bytes + temporary_bytes


@quantity("boolean")
def fits_in_memory(memory_per_accelerator_bytes, memory_capacity):
    """Whether the fullest accelerator holds what it needs. Source: definition."""
    return memory_per_accelerator_bytes <= memory_capacity


@quantity("count")
def largest_microbatch_size(
    memory_capacity, weight_bytes, gradient_bytes, optimizer_state_bytes, gathered_weight_bytes, activation_bytes,
    temporary_bytes, microbatch_size, minibatch_size,
):  # fmt: skip
    """Largest micro-batch that fits, with as many in flight as now; 0: not even one sequence. Source: definition."""
    fixed = weight_bytes + gradient_bytes + optimizer_state_bytes + gathered_weight_bytes
    sequence = (activation_bytes + temporary_bytes - gathered_weight_bytes) / microbatch_size
    return np.maximum(np.minimum(np.floor((memory_capacity - fixed) / sequence), minibatch_size), 0)
