"""Memory of activations: what the operators of a layer keep for the backward pass, and what works beside it.

With a feed-forward network of four times the width, as many key heads as query heads, 2-byte activations and dropout,
a layer's sum is that of arXiv 2205.05198: s·b·h·(10 + 24/t + 5·a·s/(h·t)), and 34/t + 5·a·s/(h·t) with sequence parallelism.
"""

import numpy as np

from amped.quantity import MAPPING, parameter, quantity
from amped.records import total

SCORES = ("softmax", "attention_dropout")


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


@quantity("1")
def attentions_per_layer(layers, number_of_attention_layers, cross_attention_layers):
    """Attentions of a layer, on average: 1, and a second where a layer attends to an encoder. Source: definition."""
    return (number_of_attention_layers + cross_attention_layers) / layers


@quantity("1")
def attention_layer_fraction(number_of_attention_layers, layers):
    """Share of the layers that attend to their own sequence. Source: definition."""
    return number_of_attention_layers / layers


@quantity("byte")
def layer_activation_bytes(layer_operators):
    """Stash of a micro-batch in one layer with nothing recomputed, averaged over the layers.

    Source: arXiv 2205.05198, eq. 1 and section 4.2.
    """
    return total(o.stash * o.count for o in layer_operators if o.phase == "forward")


@quantity("byte")
def score_activation_bytes(unfused_attention_operators):
    """Stash of a micro-batch's scores in one layer: softmax output, dropout mask and dropout output.

    Source: arXiv 2205.05198, section 4.1 (5·a·s²·b); none in a fused kernel.
    """
    return total(o.stash * o.count for o in unfused_attention_operators if o.phase == "forward" and o.name in SCORES)


@quantity("byte")
def layer_input_bytes(residual_bytes):
    """Stash of a micro-batch in one layer that is recomputed in full: its input.

    Source: arXiv 2205.05198, section 5 (2·s·b·h).
    """
    return residual_bytes


@quantity("byte")
def kept_activation_bytes_per_layer(
    layer_activation_bytes,
    score_activation_bytes,
    layer_input_bytes,
    recomputed_layer_fraction,
    recomputed_core_fraction,
):
    """Stash of a micro-batch in one layer: all, all but its scores, or its input where it is recomputed in full.

    Source: arXiv 2205.05198, section 5.
    """
    kept = layer_activation_bytes - recomputed_core_fraction * score_activation_bytes
    return recomputed_layer_fraction * layer_input_bytes + (1 - recomputed_layer_fraction) * kept


@quantity("byte", choice="activation_recomputation", value="alternate_products")
def kept_activation_bytes_per_layer__alternate_products(
    layer_input_bytes, query_bytes, value_bytes, attentions_per_layer, score_activation_bytes, microbatch_tokens,
    feedforward_dimension, attention_heads, tensor_parallel_rows, activation_precision, softmax_statistic_precision,
):  # fmt: skip
    """Stash of a micro-batch in one layer: its input, and the outputs of queries, values, attention, up and down.

    Source: torchtitan, parallelize_llama.py (_get_custom_policy). Differs: experts as a dense network of their width.
    """
    up = microbatch_tokens * feedforward_dimension / tensor_parallel_rows * activation_precision
    rows = microbatch_tokens * attention_heads / tensor_parallel_rows * softmax_statistic_precision
    attention = attentions_per_layer * (2 * query_bytes + value_bytes + rows) + score_activation_bytes
    return 2 * layer_input_bytes + attention + up


@quantity("byte")
def embedding_activation_bytes(embedding_operators):
    """Stash of a micro-batch in the embedding: the mask of its dropout. Source: arXiv 2205.05198, section 4.3."""
    return total(o.stash * o.count for o in embedding_operators if o.phase == "forward")


@quantity("byte")
def head_activation_bytes(head_operators, kept_activation_bytes_per_layer, multi_token_prediction_layers):
    """Stash of a micro-batch in the output head: inputs of the final norm and the head, and the logits of the loss.

    With that of the layers that predict further tokens. Source: arXiv 2205.05198, section 4.3 (4·s·b·h/t·(1 + v/h)).
    """
    head = total(o.stash * o.count for o in head_operators if o.phase == "forward")
    return head + multi_token_prediction_layers * kept_activation_bytes_per_layer


@quantity("byte")
def logits_gradient_bytes(
    head_gemms, activation_precision, logits_precision, cross_entropy_copies, fused_cross_entropy
):
    """Logits of a micro-batch before the loss and their gradient, in the precision of activations, and further copies.

    A fused loss works in place on the logits that the head keeps.
    Source: Megatron-LM, vocab_parallel_cross_entropy.
    """
    each = 2 * activation_precision + cross_entropy_copies * logits_precision
    return total(gemm.m * gemm.n for gemm in head_gemms) * each * (1 - fused_cross_entropy)


@quantity("byte")
def fullest_layer_activation_bytes(layer_operators, feedforward_operators, expert_operators):
    """Stash of a micro-batch in the layer that has most, with nothing recomputed. Source: arXiv 2205.05198, eq. 1."""
    branches = {o.name for o in feedforward_operators + expert_operators}
    others = [o for o in layer_operators if o.name not in branches and o.phase == "forward"]
    dense = total([0.0, *(o.stash * (o.count > 0) for o in feedforward_operators if o.phase == "forward")])
    mixture = total([0.0, *(o.stash * (o.count > 0) for o in expert_operators if o.phase == "forward")])
    whole = total(o.stash * np.where(o.count > 1, np.ceil(o.count), o.count) for o in others)
    return whole + np.maximum(dense, mixture)


@quantity("byte")
def recomputed_layer_bytes(
    fullest_layer_activation_bytes, score_activation_bytes, recomputed_layer_fraction, recomputed_core_fraction,
    recomputed_product_fraction,
):  # fmt: skip
    """Activations of the layer being recomputed. Source: arXiv 2205.05198, section 5."""
    whole = (recomputed_layer_fraction + recomputed_product_fraction > 0) * fullest_layer_activation_bytes
    return whole + recomputed_core_fraction * score_activation_bytes


@quantity("byte")
def working_gradient_bytes(layer_operators):
    """The largest gradient of an activation that a layer writes, and the one it comes from, of as many bytes.

    Source: definition.
    """
    written = [o.written * (1.0 * (o.count > 0)) for o in layer_operators if o.phase == "input_gradient"]
    largest = written[0]
    for each in written[1:]:
        largest = np.maximum(largest, each)
    return 2 * largest


@quantity("byte")
def communication_buffer_bytes(
    microbatch_bytes, residual_bytes, sequence_parallel, tensor_parallel_rows, pipeline_parallel_degree,
):  # fmt: skip
    """Buffers of a micro-batch: the sequence gathered from its shares, and what is sent to and received from neighbours.

    Source: arXiv 2205.05198, section 4.2.2; Megatron-LM, p2p_communication.
    """
    gathered = microbatch_bytes * sequence_parallel * (tensor_parallel_rows > 1)
    return gathered + 2 * residual_bytes * (pipeline_parallel_degree > 1)
