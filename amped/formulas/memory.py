"""Memory of one accelerator on the stage that holds most: states by ZeRO stage, activations by schedule, working memory."""

import numpy as np

from amped.quantity import SYSTEM, parameter, quantity


@quantity("byte")
def state_bytes_per_parameter(
    weight_precision, gradient_precision, optimizer_states_per_parameter, optimizer_state_precision,
    weight_shards, gradient_shards, optimizer_state_shards, weight_offload, gradient_offload, optimizer_offload,
):  # fmt: skip
    """Weight, gradient and optimizer states of a parameter on the accelerator, each shared out from its ZeRO stage on.

    Source: arXiv 1910.02054, section 5; arXiv 2101.06840 (offload). Differs: AMPeD shares out always.
    """
    states = optimizer_states_per_parameter * optimizer_state_precision / optimizer_state_shards
    states, gradients = states * (1 - optimizer_offload), gradient_precision / gradient_shards * (1 - gradient_offload)
    return weight_precision / weight_shards * (1 - weight_offload) + gradients + states


@quantity("byte")
def state_bytes_per_expert_parameter(
    weight_precision, gradient_precision, optimizer_states_per_parameter, optimizer_state_precision,
    expert_weight_shards, expert_gradient_shards, expert_optimizer_state_shards, weight_offload, gradient_offload,
    optimizer_offload,
):  # fmt: skip
    """Weight, gradient and optimizer states of a routed expert's parameter. Source: arXiv 1910.02054, section 5."""
    states = optimizer_states_per_parameter * optimizer_state_precision / expert_optimizer_state_shards
    gradients = gradient_precision / expert_gradient_shards * (1 - gradient_offload)
    return weight_precision / expert_weight_shards * (1 - weight_offload) + gradients + states * (1 - optimizer_offload)


@quantity("byte")
def expert_state_bytes_per_layer(expert_parameters_per_layer, expert_split_degree, state_bytes_per_expert_parameter):
    """States of the routed experts of one layer on one accelerator. Source: arXiv 2006.16668."""
    return expert_parameters_per_layer / expert_split_degree * state_bytes_per_expert_parameter


@quantity("byte")
def first_stage_state_bytes(
    first_stage_parameters, weight_split_degree, state_bytes_per_parameter, first_stage_layers,
    expert_state_bytes_per_layer,
):  # fmt: skip
    """States that an accelerator of the first stage holds. Source: arXiv 1910.02054, section 5."""
    shared = first_stage_parameters / weight_split_degree * state_bytes_per_parameter
    return shared + first_stage_layers * expert_state_bytes_per_layer


@quantity("byte")
def middle_stage_state_bytes(
    middle_stage_parameters, weight_split_degree, state_bytes_per_parameter, fullest_middle_stage_layers,
    expert_state_bytes_per_layer,
):  # fmt: skip
    """States that an accelerator of a stage between first and last holds. Source: arXiv 1910.02054, section 5."""
    shared = middle_stage_parameters / weight_split_degree * state_bytes_per_parameter
    return shared + fullest_middle_stage_layers * expert_state_bytes_per_layer


@quantity("byte")
def last_stage_state_bytes(
    last_stage_parameters, weight_split_degree, state_bytes_per_parameter, last_stage_layers,
    expert_state_bytes_per_layer, prediction_expert_parameters_per_accelerator, state_bytes_per_expert_parameter,
):  # fmt: skip
    """States that an accelerator of the last stage holds. Source: arXiv 1910.02054, section 5."""
    shared = last_stage_parameters / weight_split_degree * state_bytes_per_parameter
    further = prediction_expert_parameters_per_accelerator * state_bytes_per_expert_parameter
    return shared + last_stage_layers * expert_state_bytes_per_layer + further


@quantity("byte")
def first_stage_activation_bytes(
    device_activation_bytes_per_layer, first_stage_layers, embedding_activation_bytes, microbatches_in_flight,
    head_activation_bytes, microbatches_in_flight_at_the_head, pipeline_parallel_degree,
):  # fmt: skip
    """Activations that the first stage keeps: those of all micro-batches in flight, alone with the head's too.

    Source: arXiv 2205.05198, sections 4.2.3 and 4.3.
    """
    each = device_activation_bytes_per_layer * first_stage_layers + embedding_activation_bytes
    head = head_activation_bytes * microbatches_in_flight_at_the_head
    return each * microbatches_in_flight + np.where(pipeline_parallel_degree > 1, 0 * each, head)


@quantity("byte")
def middle_stage_activation_bytes(
    device_activation_bytes_per_layer, fullest_middle_stage_layers, microbatches_in_flight_behind_the_first
):
    """Activations that the fullest stage between first and last keeps. Source: arXiv 2205.05198, section 4.2.3."""
    return device_activation_bytes_per_layer * fullest_middle_stage_layers * microbatches_in_flight_behind_the_first


@quantity("byte")
def last_stage_activation_bytes(
    device_activation_bytes_per_layer, last_stage_layers, microbatches_in_flight_at_the_end, head_activation_bytes,
    microbatches_in_flight_at_the_head, first_stage_activation_bytes, pipeline_parallel_degree,
):  # fmt: skip
    """Activations that the last stage keeps, with the logits. Source: arXiv 2205.05198, sections 4.2.3 and 4.3."""
    each = device_activation_bytes_per_layer * last_stage_layers * microbatches_in_flight_at_the_end
    each = each + head_activation_bytes * microbatches_in_flight_at_the_head
    return np.where(pipeline_parallel_degree > 1, each, first_stage_activation_bytes)


@quantity("byte")
def gathered_weight_bytes(
    number_of_attention_layers, attention_parameters, norm_parameters, feedforward_parameters,
    router_and_shared_expert_parameters, number_of_dense_layers, number_of_MoE_layers, number_of_experts,
    expert_parameters, weight_split_degree,
    expert_parallel_degree, expert_tensor_parallel_degree, weight_precision, zero_stage, sharding_degree,
    expert_weight_shards,
):  # fmt: skip
    """Weights of the largest layer, whole for the time it runs where ZeRO shards them.

    Source: arXiv 1910.02054, section 5.3.
    """
    core = ((number_of_attention_layers > 0) * attention_parameters + norm_parameters) / weight_split_degree
    dense = (number_of_dense_layers > 0) * feedforward_parameters / weight_split_degree
    held = number_of_experts * expert_parameters / (expert_parallel_degree * expert_tensor_parallel_degree)
    experts = held * (expert_weight_shards > 1)
    mixture = (number_of_MoE_layers > 0) * (router_and_shared_expert_parameters / weight_split_degree + experts)
    sharded = (zero_stage >= 3) & (sharding_degree > 1)
    return sharded * (core + np.maximum(dense, mixture)) * weight_precision


@quantity("byte")
def layer_working_bytes(
    recomputed_layer_bytes, working_gradient_bytes, communication_buffer_bytes, context_buffer_bytes,
    activation_staging_bytes, column_buffer_bytes, expert_working_bytes,
):  # fmt: skip
    """Working memory of any stage that grows with the micro-batch: a layer recomputed, its gradients, what is sent.

    Source: arXiv 2205.05198, section 5.
    """
    buffers = communication_buffer_bytes + context_buffer_bytes + column_buffer_bytes + activation_staging_bytes
    return recomputed_layer_bytes + np.maximum(working_gradient_bytes, expert_working_bytes) + buffers


@quantity("boolean")
def last_stage_is_fullest(
    first_stage_state_bytes, middle_stage_state_bytes, last_stage_state_bytes, first_stage_activation_bytes,
    middle_stage_activation_bytes, last_stage_activation_bytes, logits_gradient_bytes,
):  # fmt: skip
    """Whether the last stage, with head and logits, needs most memory; so where it is the only one.

    Source: arXiv 2205.05198, section 4.3.
    """
    first = first_stage_state_bytes + first_stage_activation_bytes
    middle = middle_stage_state_bytes + middle_stage_activation_bytes
    last = last_stage_state_bytes + last_stage_activation_bytes + logits_gradient_bytes
    return last >= np.maximum(first, middle)


@quantity("boolean")
def middle_stage_is_fullest(
    first_stage_state_bytes, middle_stage_state_bytes, first_stage_activation_bytes, middle_stage_activation_bytes,
    last_stage_is_fullest,
):  # fmt: skip
    """Whether a stage between first and last needs most memory. Source: arXiv 2205.05198, section 4.2.3."""
    first = first_stage_state_bytes + first_stage_activation_bytes
    return (middle_stage_state_bytes + middle_stage_activation_bytes > first) & (last_stage_is_fullest == 0)


def of_fullest(is_middle, is_last, first, middle, last):
    """The value of the stage that needs most memory. Source: definition."""
    return np.where(is_last > 0, last, np.where(is_middle > 0, middle, first))


@quantity("count")
def held_parameters(
    first_stage_parameters, middle_stage_parameters, last_stage_parameters, middle_stage_is_fullest,
    last_stage_is_fullest, weight_split_degree,
):  # fmt: skip
    """Parameters of the fullest accelerator without the routed experts, unsharded by ZeRO. Source: definition."""
    stages = (first_stage_parameters, middle_stage_parameters, last_stage_parameters)
    return of_fullest(middle_stage_is_fullest, last_stage_is_fullest, *stages) / weight_split_degree


@quantity("count")
def held_expert_parameters(
    first_stage_layers, fullest_middle_stage_layers, last_stage_layers, middle_stage_is_fullest, last_stage_is_fullest,
    expert_parameters_per_layer, expert_split_degree, prediction_expert_parameters_per_accelerator,
):  # fmt: skip
    """Parameters of the routed experts of the fullest accelerator, unsharded by ZeRO. Source: definition."""
    stages = (first_stage_layers, fullest_middle_stage_layers, last_stage_layers)
    held = of_fullest(middle_stage_is_fullest, last_stage_is_fullest, *stages)
    further = prediction_expert_parameters_per_accelerator * last_stage_is_fullest
    return held * expert_parameters_per_layer / expert_split_degree + further


@quantity("byte")
def weight_bytes(
    held_parameters, held_expert_parameters, weight_precision, weight_shards, expert_weight_shards, weight_offload
):
    """Memory of the weights; ZeRO shares them out from stage 3.

    Source: arXiv 1910.02054, section 5. Differs: AMPeD shares out always.
    """
    shared = held_parameters / weight_shards
    return (shared + held_expert_parameters / expert_weight_shards) * weight_precision * (1 - weight_offload)


@quantity("byte")
def gradient_bytes(
    held_parameters, held_expert_parameters, gradient_precision, gradient_shards, expert_gradient_shards,
    gradient_offload,
):  # fmt: skip
    """Memory of the gradients; ZeRO shares them out from stage 2.

    Source: arXiv 1910.02054, section 5. Differs: AMPeD shares out always.
    """
    shared = held_parameters / gradient_shards
    return (shared + held_expert_parameters / expert_gradient_shards) * gradient_precision * (1 - gradient_offload)


@quantity("byte")
def optimizer_state_bytes(
    held_parameters, held_expert_parameters, optimizer_states_per_parameter, optimizer_state_precision,
    optimizer_state_shards, expert_optimizer_state_shards, optimizer_offload,
):  # fmt: skip
    """Memory of the optimizer's states; ZeRO shares them out from stage 1.

    Source: arXiv 1910.02054, section 5. Differs: AMPeD shares out always.
    """
    shared = held_parameters / optimizer_state_shards
    kept = shared + held_expert_parameters / expert_optimizer_state_shards
    return kept * optimizer_states_per_parameter * optimizer_state_precision * (1 - optimizer_offload)


@quantity("byte")
def activation_bytes(
    first_stage_activation_bytes, middle_stage_activation_bytes, last_stage_activation_bytes, middle_stage_is_fullest,
    last_stage_is_fullest,
):  # fmt: skip
    """Activations that the fullest stage keeps for the backward pass. Source: arXiv 2205.05198, section 4.2.3."""
    stages = (first_stage_activation_bytes, middle_stage_activation_bytes, last_stage_activation_bytes)
    return of_fullest(middle_stage_is_fullest, last_stage_is_fullest, *stages)


@quantity("byte")
def temporary_bytes(layer_working_bytes, weight_buffer_bytes, logits_gradient_bytes, last_stage_is_fullest):
    """Working memory of the fullest stage: a layer recomputed, gradients, buffers, weights gathered, logits at the end.

    Source: arXiv 2205.05198, sections 4.3 and 5.
    """
    return layer_working_bytes + weight_buffer_bytes + logits_gradient_bytes * last_stage_is_fullest


@quantity("byte")
def memory_per_accelerator_bytes(
    weight_bytes, gradient_bytes, optimizer_state_bytes, activation_bytes, temporary_bytes
):
    """Memory that the fullest accelerator needs. Source: definition."""
    return weight_bytes + gradient_bytes + optimizer_state_bytes + activation_bytes + temporary_bytes


@parameter("byte", category=SYSTEM)
def reserved_memory_bytes():
    """Memory that driver, libraries and the gaps of the allocator take from every accelerator.

    Source: CUDA context, cuBLAS workspaces and NCCL buffers of PyTorch, about 1 GB (from memory, unverified).
    """
    return 1e9


@quantity("byte")
def available_memory_bytes(memory_capacity, reserved_memory_bytes):
    """Memory that is left for training. Source: definition."""
    return memory_capacity - reserved_memory_bytes


@quantity("boolean")
def fits_in_memory(memory_per_accelerator_bytes, available_memory_bytes, fits_in_host_memory):
    """Whether the fullest accelerator holds what it needs, and its host what it took over. Source: definition."""
    return (memory_per_accelerator_bytes <= available_memory_bytes) & (fits_in_host_memory > 0)
