"""Memory of activations kept for the backward pass (KOR22, arXiv 2205.05198), by what each operator stashes.

With a feed-forward network of four times the width, as many key heads as query heads, 2-byte activations and dropout,
the sum is the paper's: s·b·h·(10 + 24/t + 5·a·s/(h·t)) bytes a layer, and 34/t + 5·a·s/(h·t) with sequence parallelism.
"""

import numpy as np

from amped.quantity import MAPPING, parameter, quantity


@parameter("boolean", category=MAPPING)
def sequence_parallel():
    """Whether norms and dropouts are split along the sequence over the tensor-parallel group.

    Source: arXiv 2205.05198, section 4.2.2.
    """
    return 0


@parameter("byte", category=MAPPING)
def dropout_mask_precision():
    """Size of one entry of a dropout mask. Source: arXiv 2205.05198, section 4.1."""
    return 1


@quantity("byte")
def dropout_mask_bytes(dropout, dropout_mask_precision):
    """Size of one entry of a dropout mask, nothing where there is no dropout. Source: arXiv 2205.05198, section 4.1."""
    return (dropout > 0) * dropout_mask_precision


@quantity("byte")
def unsplit_activation_bytes(
    dimensionality, norms_per_layer, activation_precision, dropout_mask_bytes, tensor_parallel_degree, sequence_parallel
):
    """Stash of a token in a layer outside the split matrices: inputs of norms and of the two blocks, dropout masks.

    Source: arXiv 2205.05198, section 4.2.1 (10·h).
    """
    entries = (norms_per_layer + 2) * activation_precision + 2 * dropout_mask_bytes
    return dimensionality * entries / np.where(sequence_parallel > 0, tensor_parallel_degree, 1)


@quantity("byte")
def attention_activation_bytes(
    attention_heads, key_value_heads, head_dimension, value_head_dimension, activation_precision, tensor_parallel_degree
):
    """Stash of a token in attention: queries, keys, values and the input of the output projection.

    Source: arXiv 2205.05198, section 4.1 (8·h).
    """
    width = attention_heads * (head_dimension + value_head_dimension)
    width = width + key_value_heads * (head_dimension + value_head_dimension)
    return width * activation_precision / tensor_parallel_degree


@quantity("byte")
def score_activation_bytes(
    attention_heads, context, activation_precision, dropout_mask_bytes, tensor_parallel_degree, flash_attention
):
    """Stash of a token's scores: softmax output, dropout mask and dropout output; none in a fused kernel.

    Source: arXiv 2205.05198, section 4.1 (5·a·s).
    """
    entry = activation_precision + (dropout_mask_bytes > 0) * activation_precision + dropout_mask_bytes
    return (1 - flash_attention) * attention_heads * context * entry / tensor_parallel_degree


@quantity("byte")
def feedforward_activation_bytes(feedforward_dimension, gated_mlp, activation_precision, tensor_parallel_degree):
    """Stash of a token in a dense feed-forward network: input and output of the activation, and the gate.

    Source: arXiv 2205.05198, section 4.1 (16·h).
    """
    return (2 + gated_mlp) * feedforward_dimension * activation_precision / tensor_parallel_degree


@quantity("byte")
def expert_activation_bytes(
    dimensionality, experts_per_token, expert_feedforward_dimension, gated_experts,
    shared_experts_feedforward_dimension, gated_mlp, activation_precision, tensor_parallel_degree,
    expert_tensor_parallel_degree,
):  # fmt: skip
    """Stash of a token in a mixture of experts: its copy for each expert visited, and their hidden units.

    An expert's tensor-parallel shares each have the copy whole.

    Source: arXiv 2205.05198, section 4.1, for each visit.
    """
    hidden = experts_per_token * (2 + gated_experts) * expert_feedforward_dimension
    hidden = hidden + (2 + gated_mlp) * shared_experts_feedforward_dimension
    copies = experts_per_token * dimensionality * expert_tensor_parallel_degree
    return (hidden + copies) * activation_precision / tensor_parallel_degree


@quantity("1")
def attentions_per_layer(layers, cross_attention_layers):
    """Attentions of a layer, on average: 1, and a second where a layer attends to an encoder. Source: definition."""
    return (layers + cross_attention_layers) / layers


@quantity("byte")
def layer_activation_bytes(
    microbatch_tokens, unsplit_activation_bytes, attention_activation_bytes, score_activation_bytes,
    attentions_per_layer, feedforward_activation_bytes, expert_activation_bytes, number_of_dense_layers,
    number_of_MoE_layers, layers,
):  # fmt: skip
    """Stash of a micro-batch in one layer with nothing recomputed, averaged over the layers.

    Source: arXiv 2205.05198, eq. 1 and section 4.2.
    """
    feedforward = number_of_dense_layers * feedforward_activation_bytes + number_of_MoE_layers * expert_activation_bytes
    attention = (attention_activation_bytes + score_activation_bytes) * attentions_per_layer
    return microbatch_tokens * (unsplit_activation_bytes + attention + feedforward / layers)


@quantity("byte")
def layer_input_bytes(
    microbatch_tokens, dimensionality, activation_precision, tensor_parallel_degree, sequence_parallel
):
    """Stash of a micro-batch in one layer that is recomputed in full: its input.

    Source: arXiv 2205.05198, section 5 (2·s·b·h).
    """
    share = np.where(sequence_parallel > 0, tensor_parallel_degree, 1)
    return microbatch_tokens * dimensionality * activation_precision / share


@quantity("byte", choice="activation_recomputation", value="none")
def stage_activation_bytes__none(layer_activation_bytes, stage_layers):
    """Stash of a micro-batch in one stage. Source: arXiv 2205.05198, section 4.2."""
    return layer_activation_bytes * stage_layers


@quantity("byte", choice="activation_recomputation", value="selective")
def stage_activation_bytes__selective(
    layer_activation_bytes, microbatch_tokens, score_activation_bytes, attentions_per_layer, stage_layers
):
    """Stash of a micro-batch in one stage, all but the scores. Source: arXiv 2205.05198, section 5."""
    scores = microbatch_tokens * score_activation_bytes * attentions_per_layer
    return (layer_activation_bytes - scores) * stage_layers


@quantity("byte", choice="activation_recomputation", value="full")
def stage_activation_bytes__full(layer_input_bytes, stage_layers):
    """Stash of a micro-batch in one stage: the inputs of its layers. Source: arXiv 2205.05198, section 5."""
    return layer_input_bytes * stage_layers


@quantity("byte", choice="activation_recomputation", value="block")
def stage_activation_bytes__block(layer_activation_bytes, layer_input_bytes, number_of_recomputed_layers, stage_layers):
    """Stash of a micro-batch in one stage, some of whose layers keep their inputs only.

    Source: Megatron-LM, --recompute-method block.
    """
    kept = stage_layers - number_of_recomputed_layers
    return layer_input_bytes * number_of_recomputed_layers + layer_activation_bytes * kept


@quantity("byte")
def logits_bytes(microbatch_tokens, vocabulary_size, logits_precision, tensor_parallel_degree):
    """Logits of a micro-batch, which the last stage holds. Source: arXiv 2205.05198, section 4.3 (4·s·b·v/t)."""
    return microbatch_tokens * vocabulary_size * logits_precision / tensor_parallel_degree


@quantity("boolean")
def last_stage_is_fullest(
    stage_activation_bytes, microbatches_in_flight, microbatches_in_flight_at_the_end, logits_bytes,
    pipeline_parallel_degree,
):  # fmt: skip
    """Whether the last stage, with its logits, holds more than the first, with its micro-batches in flight.

    Source: arXiv 2205.05198, section 4.2.3.
    """
    first = stage_activation_bytes * microbatches_in_flight
    last = stage_activation_bytes * microbatches_in_flight_at_the_end + logits_bytes
    return (pipeline_parallel_degree == 1) | (last > first)


@quantity("byte")
def activation_bytes(
    stage_activation_bytes, microbatches_in_flight, microbatches_in_flight_at_the_end, last_stage_is_fullest
):
    """Activations that the fullest stage keeps for the backward pass.

    Source: arXiv 2205.05198, section 4.2.3. Differs: the dropout mask of the embedding and the input of the final norm
    are left out.
    """
    held = np.where(last_stage_is_fullest > 0, microbatches_in_flight_at_the_end, microbatches_in_flight)
    return stage_activation_bytes * held


@quantity("byte")
def fullest_layer_activation_bytes(
    microbatch_tokens,
    unsplit_activation_bytes,
    attention_activation_bytes,
    score_activation_bytes,
    feedforward_activation_bytes,
    expert_activation_bytes,
    number_of_dense_layers,
    number_of_MoE_layers,
    cross_attention_layers,
):
    """Stash of a micro-batch in the layer that has most, with nothing recomputed. Source: arXiv 2205.05198, eq. 1."""
    dense = (number_of_dense_layers > 0) * feedforward_activation_bytes
    mixture = (number_of_MoE_layers > 0) * expert_activation_bytes
    attentions = 1 + (cross_attention_layers > 0)
    attention = (attention_activation_bytes + score_activation_bytes) * attentions
    return microbatch_tokens * (unsplit_activation_bytes + attention + np.maximum(dense, mixture))


@quantity("byte", choice="activation_recomputation", value="none")
def recomputed_layer_bytes__none(layer_activation_bytes):
    """Activations of the layer being recomputed: none is. Source: definition."""
    return 0 * layer_activation_bytes


@quantity("byte", choice="activation_recomputation", value="selective")
def recomputed_layer_bytes__selective(microbatch_tokens, score_activation_bytes):
    """Scores of the layer being recomputed. Source: arXiv 2205.05198, section 5."""
    return microbatch_tokens * score_activation_bytes


@quantity("byte", choice="activation_recomputation", value="full")
def recomputed_layer_bytes__full(fullest_layer_activation_bytes):
    """Activations of the layer being recomputed. Source: arXiv 2205.05198, section 5."""
    return fullest_layer_activation_bytes


@quantity("byte", choice="activation_recomputation", value="block")
def recomputed_layer_bytes__block(fullest_layer_activation_bytes, number_of_recomputed_layers):
    """Activations of the layer being recomputed. Source: arXiv 2205.05198, section 5."""
    return (number_of_recomputed_layers > 0) * fullest_layer_activation_bytes
