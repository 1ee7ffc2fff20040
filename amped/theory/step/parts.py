"""The parts of a step in the operator model: the work of the pacing stage for all micro-batches, and what it waits for."""

import numpy as np

from amped.theory.quantity import quantity
from amped.theory.records import of_phase


@quantity("s", choice="performance_model", value="operators")
def compute_forward_time__operators(
    forward_time_per_layer, embedding_forward_time, head_forward_time, pacing_layer_calls, pacing_embedding_calls,
    pacing_head_calls,
):  # fmt: skip
    """Forward time of all micro-batches on the pacing stage. Source: arXiv 2410.00273, section 3."""
    ends = pacing_embedding_calls * embedding_forward_time + pacing_head_calls * head_forward_time
    return pacing_layer_calls * forward_time_per_layer + ends


@quantity("s", choice="performance_model", value="operators")
def compute_backward_time__operators(
    input_gradient_time_per_layer, embedding_backward_time, head_input_gradient_time, pacing_layer_calls,
    pacing_embedding_calls, pacing_head_calls,
):  # fmt: skip
    """Time of the gradients of all activations on the pacing stage. Source: arXiv 2410.00273, section 3."""
    ends = pacing_embedding_calls * embedding_backward_time + pacing_head_calls * head_input_gradient_time
    return pacing_layer_calls * input_gradient_time_per_layer + ends


@quantity("s", choice="performance_model", value="operators")
def weight_update_time__operators(
    weight_gradient_time_per_layer, head_weight_gradient_time, pacing_layer_calls, pacing_head_calls
):
    """Time of the gradients of all weights on the pacing stage. Source: arXiv 2410.00273, section 3."""
    return pacing_layer_calls * weight_gradient_time_per_layer + pacing_head_calls * head_weight_gradient_time


@quantity("s", choice="performance_model", value="operators")
def recomputation_time__operators(recomputation_time_per_layer, pacing_layer_calls):
    """Time to compute activations again on the pacing stage. Source: arXiv 2205.05198, section 5."""
    return pacing_layer_calls * recomputation_time_per_layer


@quantity("s", choice="performance_model", value="operators")
def optimizer_time__operators(optimizer_durations, host_update_time, host_time_per_step):
    """Time of the optimizer step, all of it bound by memory; the host takes its share of the parameters meanwhile.

    With what else the host does between steps. Source: arXiv 1910.02054, section 3.1; DeepSpeed, ZeRO-Offload++
    (Twin-Flow).
    """
    return np.maximum(of_phase("update", optimizer_durations), host_update_time) + host_time_per_step


# --- tensor, context and expert parallelism, pipeline ----------------------------------------------------------------


@quantity("s", choice="performance_model", value="operators")
def exposed_tensor_communication_time__operators(
    exposed_tensor_communication_time_per_layer, end_communication_time, pacing_layer_calls, pacing_embedding_calls,
    pacing_head_calls,
):  # fmt: skip
    """Tensor-parallel communication that the pacing stage waits for. Source: arXiv 2205.05198, section 4.2.2."""
    ends = (pacing_embedding_calls + pacing_head_calls) * end_communication_time
    return pacing_layer_calls * exposed_tensor_communication_time_per_layer + ends


@quantity("s", choice="performance_model", value="operators")
def hidden_tensor_communication_time__operators(hidden_tensor_communication_time_per_layer, pacing_layer_calls):
    """Tensor-parallel communication beside computation on the pacing stage. Source: arXiv 2205.05198, section 4.2.2."""
    return pacing_layer_calls * hidden_tensor_communication_time_per_layer


@quantity("s", choice="performance_model", value="operators")
def exposed_context_communication_time__operators(exposed_context_communication_time_per_layer, pacing_layer_calls):
    """Exchange of keys and values that the pacing stage waits for. Source: arXiv 2310.01889."""
    return pacing_layer_calls * exposed_context_communication_time_per_layer


@quantity("s", choice="performance_model", value="operators")
def hidden_context_communication_time__operators(hidden_context_communication_time_per_layer, pacing_layer_calls):
    """Exchange of keys and values beside computation on the pacing stage. Source: arXiv 2310.01889."""
    return pacing_layer_calls * hidden_context_communication_time_per_layer


@quantity("s", choice="performance_model", value="operators")
def exposed_expert_communication_time__operators(exposed_expert_communication_time_per_layer, pacing_layer_calls):
    """Travel of tokens that the pacing stage waits for. Source: arXiv 2006.16668."""
    return pacing_layer_calls * exposed_expert_communication_time_per_layer


@quantity("s", choice="performance_model", value="operators")
def hidden_expert_communication_time__operators(hidden_expert_communication_time_per_layer, pacing_layer_calls):
    """Travel of tokens beside computation on the pacing stage. Source: arXiv 2412.19437, section 3.2.1."""
    return pacing_layer_calls * hidden_expert_communication_time_per_layer


@quantity("s", choice="performance_model", value="operators")
def hidden_pipeline_communication_time__operators(
    pipeline_communication_time, free_forward_time, overlap_pipeline_communication
):
    """Hand-overs beside forward computation. Source: Megatron-Core, --overlap-p2p-communication."""
    return overlap_pipeline_communication * np.minimum(pipeline_communication_time, free_forward_time)


@quantity("s", choice="performance_model", value="operators")
def exposed_pipeline_communication_time__operators(
    pipeline_communication_time, hidden_pipeline_communication_time, overlap_slowdown_fraction
):
    """Hand-overs that stages wait for, and what the hidden ones slow down. Source: arXiv 2410.00273, section 3."""
    return pipeline_communication_time - hidden_pipeline_communication_time * (1 - overlap_slowdown_fraction)


# --- data parallelism ------------------------------------------------------------------------------------------------


@quantity("s", choice="performance_model", value="operators")
def hidden_data_communication_time__operators(hidden_gradient_communication_time, hidden_weight_communication_time):
    """Data-parallel communication beside computation. Source: arXiv 2304.11277, section 3.3."""
    return hidden_gradient_communication_time + hidden_weight_communication_time


@quantity("s", choice="performance_model", value="operators")
def exposed_data_communication_time__operators(
    gradient_communication_time, weight_communication_time, hidden_data_communication_time, overlap_slowdown_fraction
):
    """Data-parallel communication that accelerators wait for, and what the hidden part slows down.

    Source: arXiv 2006.15704, section 3.2.
    """
    whole = gradient_communication_time + weight_communication_time
    return whole - hidden_data_communication_time * (1 - overlap_slowdown_fraction)
