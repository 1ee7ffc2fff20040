"""Time of a layer, of the embedding and of the output head for a micro-batch, all passes and what they wait for."""

from amped.theory.quantity import quantity
from amped.theory.records import total


@quantity("s")
def layer_time(
    forward_time_per_layer,
    input_gradient_time_per_layer,
    weight_gradient_time_per_layer,
    recomputation_time_per_layer,
    exposed_tensor_communication_time_per_layer,
    exposed_context_communication_time_per_layer,
    exposed_expert_communication_time_per_layer,
    exposed_offload_communication_time_per_layer,
):
    """Time of one layer for a micro-batch, all passes and what it waits for. Source: definition."""
    compute = forward_time_per_layer + input_gradient_time_per_layer + weight_gradient_time_per_layer
    communication = exposed_tensor_communication_time_per_layer + exposed_context_communication_time_per_layer
    communication = communication + exposed_offload_communication_time_per_layer
    return compute + recomputation_time_per_layer + communication + exposed_expert_communication_time_per_layer


@quantity("s")
def vocabulary_parallel_communication_time(tensor_durations, has_vocabulary, sequence_parallel):
    """Tensor-parallel communication of a micro-batch at the ends: the embedding's output, the head's input gradient.

    Source: arXiv 1909.08053, section 3. Differs: the sums of the loss, a few bytes a token, are left out.
    """
    once = [d for d in tensor_durations if d.name.startswith("feedforward")]
    halves = total(d.time for d in once if d.kind != "all_reduce") * sequence_parallel
    return has_vocabulary * (halves + total(d.time for d in once if d.kind == "all_reduce") * (1 - sequence_parallel))


@quantity("s")
def embedding_time(embedding_forward_time, embedding_backward_time, vocabulary_parallel_communication_time):
    """What a micro-batch takes in the embedding. Source: definition."""
    return embedding_forward_time + embedding_backward_time + vocabulary_parallel_communication_time


@quantity("s")
def output_head_time(
    output_head_forward_time,
    output_head_input_gradient_time,
    output_head_weight_gradient_time,
    vocabulary_parallel_communication_time,
    layer_time,
    multi_token_prediction_layers,
):
    """What a micro-batch takes in the output head, and in the layers that predict further tokens.

    Source: definition.
    """
    head = (
        output_head_forward_time
        + output_head_input_gradient_time
        + output_head_weight_gradient_time
        + vocabulary_parallel_communication_time
    )
    return head + multi_token_prediction_layers * layer_time


@quantity("s")
def forward_pass_time_per_layer(
    forward_time_per_layer,
    tensor_forward_communication_time_per_layer,
    exposed_context_communication_time_per_layer,
    exposed_expert_communication_time_per_layer,
    communication_rounds,
):
    """Time of a micro-batch's forward pass through a layer, with its share of what it waits for. Source: definition."""
    exchanged = exposed_context_communication_time_per_layer + exposed_expert_communication_time_per_layer
    return forward_time_per_layer + tensor_forward_communication_time_per_layer + exchanged / communication_rounds
