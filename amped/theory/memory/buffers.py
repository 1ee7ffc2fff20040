"""Working memory beside what is kept: a recomputed layer, its gradients, gathered weights, communication buffers."""

import numpy as np

from amped.theory.language.quantity import each_of, family, quantity
from amped.theory.nouns.conditions import OFFLOADED, REMATERIALIZED
from amped.theory.nouns.layer_kinds import DENSE, MIXTURE
from amped.theory.nouns.parallelisms import OF_TOKENS
from amped.theory.nouns.records import latest, total

# Layers that have a buffer on the accelerator: the layer that runs, and the layer that is being copied.
BUFFERED_LAYERS = 2


@quantity("byte")
def logits_gradient_bytes(
    predicted_tokens,
    loss_vocabulary,
    activation_precision,
    logits_precision,
    cross_entropy_copies,
    loss_parallel_copies,
    tensor_parallel_rows,
    gathered_logits,
    fused_cross_entropy,
):
    """The buffers of the loss for a micro-batch: the logits that the output head has written, and further tensors.

    The loss adds copies of the logits in its own precision, and later the gradient in the precision of activations. The
    larger of these two is counted. A loss on shares of the vocabulary may have more copies. A fused loss needs no
    buffers: it works in place on the logits that the output head keeps.

    Source: Megatron-LM, vocab_parallel_cross_entropy; PyTorch, torch/distributed/tensor/parallel/loss.py.
    """
    works_on_shares = (tensor_parallel_rows > 1) & (gathered_logits == 0)
    copies = cross_entropy_copies + loss_parallel_copies * works_on_shares
    gradient = np.maximum(activation_precision, copies * logits_precision)
    logit_bytes = activation_precision + gradient
    return predicted_tokens * loss_vocabulary * logit_bytes * (1 - fused_cross_entropy)


@quantity("byte")
def fullest_layer_activation_bytes(layer_operators, feedforward_operators, expert_operators):
    """The bytes that a layer keeps of a micro-batch if nothing is recomputed, for the layer that keeps most.

    Source: arXiv 2205.05198, eq. 1.
    """
    others = [o for o in layer_operators if o.part.block not in (DENSE, MIXTURE) and o.phase == "forward"]
    dense, mixture = (
        total(o.stash * (o.count > 0) for o in operators if o.phase == "forward")
        for operators in (feedforward_operators, expert_operators)
    )
    other_bytes = total(o.stash * np.where(o.count > 1, np.ceil(o.count), o.count) for o in others)
    return other_bytes + np.maximum(dense, mixture)


@quantity("byte")
def recomputed_layer_bytes(
    fullest_layer_activation_bytes,
    score_activation_bytes,
    recomputed_layer_fraction,
    recomputed_attention_core_fraction,
    recomputed_product_fraction,
):
    """The activations of the layer that is being recomputed: the whole layer, or only the scores of its attention.

    Source: arXiv 2205.05198, section 5.
    """
    layer_bytes = (recomputed_layer_fraction + recomputed_product_fraction > 0) * fullest_layer_activation_bytes
    return layer_bytes + recomputed_attention_core_fraction * score_activation_bytes


@quantity("byte")
def working_gradient_bytes(layer_operators):
    """The bytes of the largest activation gradient that a layer writes, and of an equally large gradient that it reads.

    Source: PyTorch, autograd (an output gradient is freed when the input gradient has been computed).
    """
    return 2 * latest(o.written * (1.0 * (o.count > 0)) for o in layer_operators if o.phase == "input_gradient")


# --- what is sent ----------------------------------------------------------------------------------------------------


@quantity("byte")
def communication_buffer_bytes(
    microbatch_bytes,
    layer_input_bytes,
    sequence_parallel,
    tensor_parallel_rows,
    pipeline_parallel_degree,
    microbatches_per_flush,
    receive_buffers_of_all_microbatches,
):
    """The communication buffers of a micro-batch.

    With sequence parallelism they hold the sequence that is gathered from its shares; with several stages also what a
    stage sends and receives, of one micro-batch or of all micro-batches of a run of the pipeline.

    Source: arXiv 2205.05198, section 4.2.2; Megatron-LM, p2p_communication; PyTorch, distributed/pipelining/stage.py.
    Differs: the first stage receives no activations, and the last stage no gradients.
    """
    gathered = microbatch_bytes * sequence_parallel * (tensor_parallel_rows > 1)
    buffers = 2 * np.where(receive_buffers_of_all_microbatches > 0, microbatches_per_flush, 1)
    return gathered + buffers * layer_input_bytes * (pipeline_parallel_degree > 1)


@family(named=("context_buffer_bytes",), KIND=OF_TOKENS)
@quantity("byte")
def KIND_buffer_bytes(KIND_collectives, KIND_parallel_degree):
    """The buffers of KIND parallelism in a forward pass: a second copy of what its messages carry.

    On a ring they hold the block of keys and values in use, and the block that arrives.

    Source: arXiv 2310.01889, section 3; arXiv 2407.21783, section 3.3.2; arXiv 2309.14509, section 3.
    """
    blocks = {"send_receive": 2}
    held = [c.volume * blocks.get(c.kind, 1) for c in KIND_collectives if not c.part.gradients]
    return total(held) * (KIND_parallel_degree > 1)


@quantity("byte")
def grid_column_buffer_bytes(local_key_value_bytes, tensor_parallel_columns, gathered_attentions_per_layer):
    """The bytes of the keys and values that are gathered from all columns of a grid, while a layer attends to them.

    Source: arXiv 2410.00273, section 3.
    """
    gathers = (tensor_parallel_columns > 1) & (gathered_attentions_per_layer > 0)
    return local_key_value_bytes * tensor_parallel_columns * gathers


@quantity("byte", when_given=("activation_offload",))
def activation_staging_bytes__offloaded(offloaded_activation_bytes_per_layer, largest_stage_layers):
    """The bytes of the buffers of activations that are copied to the host and back: the activations of two layers.

    Source: arXiv 2104.07857, section 6.2.
    """
    return offloaded_activation_bytes_per_layer * np.minimum(BUFFERED_LAYERS, largest_stage_layers)


# --- weights ---------------------------------------------------------------------------------------------------------


@quantity("count")
def gathered_expert_parameters(number_of_experts, expert_parameters, expert_split_degree, expert_weight_shards):
    """The parameters of the routed experts of a layer on one accelerator, if ZeRO shards them; else none.

    Source: arXiv 1910.02054, section 5.3.
    """
    return number_of_experts * expert_parameters / expert_split_degree * (expert_weight_shards > 1)


@quantity("count")
def gathered_feedforward_parameters(
    number_of_dense_layers,
    number_of_MoE_layers,
    feedforward_parameters,
    router_and_shared_expert_parameters,
    gathered_expert_parameters,
    weight_split_degree,
):
    """The parameters of the largest feed-forward network on one accelerator: a dense network, or a mixture of experts.

    Source: arXiv 1910.02054, section 5.3.
    """
    dense = (number_of_dense_layers > 0) * feedforward_parameters / weight_split_degree
    mixture = router_and_shared_expert_parameters / weight_split_degree + gathered_expert_parameters
    return np.maximum(dense, (number_of_MoE_layers > 0) * mixture)


@quantity("byte")
def gathered_weight_bytes(
    number_of_attention_layers,
    attention_parameters,
    norm_parameters,
    gathered_feedforward_parameters,
    weight_split_degree,
    weight_precision,
    weights_are_gathered_each_microbatch,
    sharding_degree,
):
    """The bytes of the weights of the largest layer, which are gathered while the layer runs if ZeRO shards weights.

    Source: arXiv 1910.02054, section 5.3.
    """
    core = ((number_of_attention_layers > 0) * attention_parameters + norm_parameters) / weight_split_degree
    sharded = (weights_are_gathered_each_microbatch > 0) & (sharding_degree > 1)
    return sharded * (core + gathered_feedforward_parameters) * weight_precision


@quantity("byte")
def placeholder_gradient_bytes(product_operators, activation_precision, placeholder_weight_gradients):
    """The bytes of empty gradients that products return to the framework: one for each weight of a layer.

    All layers share these empty gradients. Source: NVIDIA Transformer Engine, pytorch/module/base.py (get_dummy_wgrad).
    Differs: in the source two weights of the same shape share an empty gradient; here they count as two.
    """
    weights = [o for o in product_operators if o.phase == "weight_gradient" and o.kind == "contraction"]
    entries = total(o.m * o.n * (o.count > 0) for o in weights)
    return placeholder_weight_gradients * entries * activation_precision


@quantity("byte")
def weight_buffer_bytes(gathered_weight_bytes, placeholder_gradient_bytes):
    """The buffers of weights and weight gradients: the gathered weights of one layer, and empty gradients.

    Products hand empty gradients, without a value in them, to the framework.

    Source: arXiv 1910.02054, section 5.3.
    """
    return gathered_weight_bytes + placeholder_gradient_bytes


@quantity("byte")
def largest_end_weight_bytes(
    embedding_parameters, output_head_parameters, tensor_parallel_degree, weight_shards, weight_precision
):
    """The bytes of an accelerator's weights of the embedding or of the output head, whichever are more.

    Source: arXiv 1910.02054, section 5.3.
    """
    largest = np.maximum(embedding_parameters, output_head_parameters)
    return largest / tensor_parallel_degree / weight_shards * weight_precision


@quantity("byte", **OFFLOADED)
def weight_buffer_bytes__offloaded(
    gathered_weight_bytes,
    placeholder_gradient_bytes,
    offloaded_weight_bytes_per_layer,
    offloaded_gradient_bytes_per_layer,
    largest_stage_layers,
    largest_end_weight_bytes,
    weight_offload,
):
    """The buffers of weights that are copied from the host and of gradients that are copied to the host.

    There are buffers for the weights of two layers, or for the weights of the embedding or of the output head if these
    are more, and for the gradients of two layers. The gathered weights of one layer and the empty gradients come in
    addition.

    Source: arXiv 2104.07857, section 6.2 (prefetch beside computation).
    """
    count = np.minimum(BUFFERED_LAYERS, largest_stage_layers)
    weights = np.maximum(offloaded_weight_bytes_per_layer * count, largest_end_weight_bytes * weight_offload)
    buffers = weights + offloaded_gradient_bytes_per_layer * count
    return gathered_weight_bytes + placeholder_gradient_bytes + buffers


@each_of(KIND=OF_TOKENS)
@quantity("byte")
def layer_working_bytes(
    recomputed_layer_bytes,
    working_gradient_bytes,
    communication_buffer_bytes,
    KIND_buffer_bytes,
    activation_staging_bytes,
    grid_column_buffer_bytes,
    expert_working_bytes,
):
    """The working memory of a stage that grows with the micro-batch: a recomputed layer, gradients, and buffers.

    Source: arXiv 2205.05198, section 5.
    """
    buffers = total([communication_buffer_bytes, *KIND_buffer_bytes])
    buffers = buffers + grid_column_buffer_bytes + activation_staging_bytes
    return recomputed_layer_bytes + np.maximum(working_gradient_bytes, expert_working_bytes) + buffers


@quantity("byte", **REMATERIALIZED)
def rematerializable_bytes__rematerialization(
    recomputed_layer_bytes, layer_working_bytes, output_head_activation_bytes, logits_gradient_bytes
):
    """The working memory that a compiler can save: the activations of the layer that is being recomputed.

    On the stage with the output head it cannot save more than that by which a layer exceeds the loss.

    Source: OpenXLA, hlo_rematerialization.cc.
    """
    above_loss = layer_working_bytes - output_head_activation_bytes - logits_gradient_bytes
    return np.clip(above_loss, 0, recomputed_layer_bytes)
