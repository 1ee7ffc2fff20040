"""The optimizer step in the backward pass: each weight is updated as soon as its gradient is there, and frees it.

    gradients in memory = those of the largest weight, or of the largest layer where replicas shard weights

Each weight has kernels of its own, which move as many bytes as those of a step after the backward pass. They are
counted in full, although where replicas shard weights they run beside the products of other layers: the step is at most
as much shorter as the optimizer takes.
"""

import numpy as np

from amped.theory.language.quantity import quantity
from amped.theory.nouns.parameter_classes import EMBEDDINGS
from amped.theory.nouns.records import latest, total
from amped.theory.nouns.shardings import is_sharded

IN_BACKWARD = {"choice": "optimizer_placement", "value": "in_backward"}


@quantity("count")
def largest_trained_weight(
    single_products, vocabulary_size, embedding_dimension, parameter_classes, weight_split_degree
):
    """The number of parameters of the largest weight on an accelerator that training changes.

    The experts of a mixture are one weight for each of their products.

    Source: PyTorch, nn.Module.parameters.
    """
    trained = {c.name: c.changes for c in parameter_classes}
    sizes = [trained[gemm.weights] * (gemm.count > 0) * gemm.k * gemm.n * gemm.batch for gemm in single_products]
    return latest([*sizes, trained[EMBEDDINGS] * vocabulary_size * embedding_dimension / weight_split_degree])


@quantity("count")
def largest_trained_unit(
    layer_parameters,
    parameter_classes,
    parameter_groups,
    embedding_parameters,
    output_head_parameters,
    weight_split_degree,
):
    """The number of trained parameters in an accelerator's shard of the largest unit: of a layer, or of an end.

    Source: PyTorch, fully_shard (one reduce-scatter for each wrapped module, then the hooks of its parameters).
    """
    trained = {c.name: c.changes for c in parameter_classes}
    layers = [
        total(
            n * c.changes / c.among(parameter_groups).gradient_shards
            for c, n in zip(parameter_classes, layer.split(parameter_classes, parameter_groups).counts, strict=True)
        )
        for layer in layer_parameters
    ]
    ends = np.maximum(embedding_parameters, output_head_parameters) / weight_split_degree
    return latest([*layers, trained[EMBEDDINGS] * ends / parameter_groups[0].gradient_shards])


@quantity("byte", **IN_BACKWARD)
def live_gradient_bytes__in_backward(largest_trained_weight, largest_trained_unit, zero_stage, gradient_precision):
    """The bytes of the gradients that live at the same time: of the largest weight, or of the largest sharded unit.

    Source: torchtune, training/memory.py (the hook updates a weight and drops its gradient).
    """
    return gradient_precision * np.where(
        is_sharded("gradient", zero_stage), largest_trained_unit, largest_trained_weight
    )


# --- rules -----------------------------------------------------------------------------------------------------------


@quantity("boolean", constrains="number_of_microbatches_per_minibatch", **IN_BACKWARD)
def a_step_has_one_microbatch__in_backward(number_of_microbatches_per_minibatch):
    """Gradients are not accumulated, because each is freed after its update.

    Source: torchtune, recipes/full_finetune_single_device.py (gradient accumulation with optimizer_in_bwd is refused).
    """
    return number_of_microbatches_per_minibatch == 1


@quantity("boolean", constrains="gradient_clipping", **IN_BACKWARD)
def gradients_are_not_clipped__in_backward(gradient_clipping):
    """Gradients are not clipped, because their norm is known only after the backward pass.

    Source: torchtune, recipes/full_finetune_single_device.py; torchtitan, config (early_step_in_backward).
    """
    return gradient_clipping == 0


@quantity("boolean", constrains="pipeline_parallel_degree", **IN_BACKWARD)
def one_stage_has_all_layers__in_backward(pipeline_parallel_degree):
    """There are no pipeline stages, whose micro-batches add up gradients.

    Source: torchtitan, components/optimizer.py (build_optimizers).
    """
    return pipeline_parallel_degree == 1


@quantity("boolean", constrains="expert_parallel_degree", **IN_BACKWARD)
def accelerators_have_all_experts__in_backward(expert_parallel_degree):
    """Experts are not spread over accelerators.

    Source: torchtitan, components/optimizer.py (build_optimizers).
    """
    return expert_parallel_degree == 1


@quantity("boolean", constrains="zero_stage", **IN_BACKWARD)
def gradients_are_reduced_by_layer__in_backward(zero_stage, replica_group):
    """Replicas shard gradients, so that those of a layer are reduced before its update; or there is one replica.

    Without shards, gradients stay in the buckets of the all-reduce.

    Source: torchtune and torchtitan, which shard with fully_shard; arXiv 2006.15704, section 3.2 (buckets).
    """
    return is_sharded("gradient", zero_stage) | (replica_group[0].degree == 1)
