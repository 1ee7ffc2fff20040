"""Floating-point operations of a step on one accelerator: those that a training needs, and those that it does."""

import numpy as np

from amped.theory.language.quantity import each_of, quantity
from amped.theory.nouns.conditions import WITH_TOWER
from amped.theory.nouns.layer_kinds import BLOCKS, EITHER, GEMMS, PASSES
from amped.theory.nouns.parameter_classes import EMBEDDINGS, PROJECTOR, TOWER
from amped.theory.nouns.records import total


def multiply_accumulates_of(gemms):
    """The multiply-accumulates of several matrix products. Source: definition."""
    return total(gemm.multiply_accumulates for gemm in gemms)


@each_of(GEMMS=GEMMS, PASSES=PASSES)
@quantity("count")
def layer_multiply_accumulates(
    GEMMS,
    PASSES,
    attention_multiply_accumulates,
    linear_scan_work,
    linear_attention_passes,
    adapter_pairs,
    connection_gemms,
):
    """The multiply-accumulates of the layers on one accelerator in the forward passes of a step.

    They are those of the products with weights of each block of a layer, of hyper-connections around it and of
    adapters, those of scores and weighted values, and those within the chunks of linear attention.

    Source: AMPeD, computation time.
    """
    blocks = total(multiply_accumulates_of(gemms) * passes for gemms, passes in zip(GEMMS, PASSES, strict=True))
    passes_of = dict(zip((block.name for block in BLOCKS), PASSES, strict=True))
    adapters = total(pair.multiply_accumulates * passes_of[pair.part.block] for pair in adapter_pairs)
    chunks = multiply_accumulates_of(linear_scan_work) * linear_attention_passes
    connected = total(passes_of[block] for blocks_of_kind in EITHER.values() for block in blocks_of_kind)
    connections = multiply_accumulates_of(connection_gemms) * connected
    return blocks + attention_multiply_accumulates + chunks + adapters + connections


@quantity("count")
def surplus_expert_multiply_accumulates(expert_gemms, expert_load_factor, MoE_layer_passes):
    """The multiply-accumulates of routed experts on one accelerator that only an unequal load of the experts causes.

    They are counted for the forward passes of a step. With a capacity factor, the experts spend them on rows of their
    buffers that no token fills.

    Source: arXiv 2006.16668, section 2.2 (expert capacity that no token uses).
    """
    _, up, down, *_ = expert_gemms
    return multiply_accumulates_of((up, down)) * MoE_layer_passes * (1 - 1 / np.maximum(expert_load_factor, 1))


@quantity("count")
def attention_multiply_accumulates(attention_gemms, attention_passes):
    """The multiply-accumulates of scores and weighted values on one accelerator in the forward passes of a step.

    Source: AMPeD, computation time.
    """
    return multiply_accumulates_of(attention_gemms) * attention_passes


@quantity("count")
def output_head_multiply_accumulates(
    output_head_gemms,
    multi_token_prediction_gemms,
    number_of_microbatches_per_minibatch,
    pipeline_parallel_degree,
    multi_token_prediction_layers,
):
    """The multiply-accumulates of the output head on one accelerator in the forward passes of a step.

    They are averaged over the stages. Source: arXiv 2104.04473, appendix. Differs: in Megatron-LM only the last stage
    has the output head.
    """
    calls = number_of_microbatches_per_minibatch / pipeline_parallel_degree
    head = multiply_accumulates_of(output_head_gemms) * (1 + multi_token_prediction_layers)
    return (head + multiply_accumulates_of(multi_token_prediction_gemms)) * calls


@quantity("1", choice="attention_flop_convention", value="full")
def counted_score_fraction__full(
    windowed_layer_fraction, effective_attention_window, document_tokens, document_score_fraction
):
    """The share of the attention scores whose FLOPs are counted.

    All scores within documents are counted; in windowed layers only the scores in the window, with a whole window for
    each token.

    Source: arXiv 2104.04473, eq. 3.
    """
    within = 1 - windowed_layer_fraction * (1 - effective_attention_window / document_tokens)
    return document_score_fraction * within


@quantity("count")
def counted_layer_multiply_accumulates(
    layer_multiply_accumulates,
    attention_multiply_accumulates,
    counted_score_fraction,
    surplus_expert_multiply_accumulates,
):
    """The multiply-accumulates of the layers in the forward passes of a step that count for utilization.

    Only a share of the attention scores counts (`attention_flop_convention`), and experts count as if their load were
    equal.

    Source: arXiv 2104.04473, appendix.
    """
    uncounted = (1 - counted_score_fraction) * attention_multiply_accumulates
    return layer_multiply_accumulates - uncounted - surplus_expert_multiply_accumulates


@each_of(GEMMS=GEMMS, PASSES=PASSES)
@quantity("count")
def frozen_multiply_accumulates(
    GEMMS, PASSES, output_head_multiply_accumulates, parameter_classes, gradient_layer_fraction
):
    """The multiply-accumulates that frozen weights save: one product of each, two in layers without gradients.

    Source: arXiv 2106.09685, section 4.2 (no gradients for the vast majority of the parameters).
    """
    trained = {c.name: c.changes for c in parameter_classes}
    blocks = [
        gemm.multiply_accumulates * passes * (2 - gradient_layer_fraction)
        for gemms, passes in zip(GEMMS, PASSES, strict=True)
        for gemm in gemms
        if trained[gemm.weights] == 0
    ]
    return total([output_head_multiply_accumulates * (1 - trained[EMBEDDINGS]), *blocks])


@quantity("flop", **WITH_TOWER)
def tower_forward_flops__encoder(
    tower_gemms,
    tower_attention_multiply_accumulates,
    flops_per_multiply_accumulate,
    number_of_microbatches_per_minibatch,
):
    """The FLOPs of the forward passes of a step in a tower, for one replica of the network.

    Source: arXiv 2104.04473, appendix; arXiv 2010.11929, eq. 1–4.
    """
    products = multiply_accumulates_of(tower_gemms) + tower_attention_multiply_accumulates
    return flops_per_multiply_accumulate * products * number_of_microbatches_per_minibatch


@quantity("flop", **WITH_TOWER)
def tower_flops__encoder(
    tower_forward_flops,
    tower_gemms,
    tower_attention_multiply_accumulates,
    flops_per_multiply_accumulate,
    number_of_microbatches_per_minibatch,
    parameter_classes,
):
    """The FLOPs that a step needs in a tower, for one replica of the network.

    What is trained needs three times the FLOPs of its forward pass, and what is frozen no more than these. The input of
    patches has no gradient, nor has that of a projector behind a frozen tower.

    Source: arXiv 2104.04473, appendix; arXiv 2304.08485, section 4.2.
    """
    trained = {c.name: c.changes for c in parameter_classes}
    patches, projector, *_ = tower_gemms
    gradients = 2 * (
        total(gemm.multiply_accumulates * trained[gemm.weights] for gemm in tower_gemms)
        + tower_attention_multiply_accumulates * trained[TOWER]
    )
    behind_frozen = projector.multiply_accumulates * trained[PROJECTOR] * (1 - trained[TOWER])
    needless = patches.multiply_accumulates * trained[TOWER] + behind_frozen
    calls = flops_per_multiply_accumulate * number_of_microbatches_per_minibatch
    return tower_forward_flops + (gradients - needless) * calls


@quantity("count")
def tower_copies(tensor_parallel_degree, context_parallel_degree):
    """The number of accelerators that run a tower for the same images. Source: definition."""
    return tensor_parallel_degree * context_parallel_degree


@quantity("flop", **WITH_TOWER)
def tower_flops_per_accelerator__encoder(tower_flops, tower_copies, pipeline_parallel_degree):
    """The share of an accelerator in the FLOPs that a step needs in a tower. Source: definition."""
    return tower_flops / (tower_copies * pipeline_parallel_degree)


@quantity("flop", **WITH_TOWER)
def surplus_tower_flops_per_accelerator__encoder(
    tower_flops,
    tower_layer_gemms,
    tower_attention_multiply_accumulates,
    tower_copies,
    tower_recomputation,
    parameter_classes,
    flops_per_multiply_accumulate,
    number_of_microbatches_per_minibatch,
    pipeline_parallel_degree,
):
    """The FLOPs of a step in a tower that are done more than once, on one accelerator, averaged over the stages.

    They are those of layers that run again, and those that accelerators of a tensor- or context-parallel group repeat.

    Source: definition.
    """
    (changes,) = [c.changes for c in parameter_classes if c.name == TOWER]
    layers = multiply_accumulates_of(tower_layer_gemms) + tower_attention_multiply_accumulates
    calls = flops_per_multiply_accumulate * number_of_microbatches_per_minibatch
    again = tower_recomputation * changes * layers * calls
    return (tower_flops * (1 - 1 / tower_copies) + again) / pipeline_parallel_degree


@quantity("flop")
def model_flops_per_accelerator(
    flops_per_multiply_accumulate,
    counted_layer_multiply_accumulates,
    output_head_multiply_accumulates,
    frozen_multiply_accumulates,
    attention_multiply_accumulates,
    counted_score_fraction,
    sequence_fill,
    gradient_layer_fraction,
    tower_flops_per_accelerator,
):
    """The FLOPs that a step needs on one accelerator, without recomputation: three times the FLOPs of forward passes.

    A backward pass has twice the FLOPs of a forward pass, or as many where weights have no gradient; layers below all
    that is trained have none. Padding needs no FLOPs. An accelerator counts its share of those of a tower.

    Source: arXiv 2104.04473, appendix (FLOPs of a transformer).
    """
    core = counted_score_fraction * attention_multiply_accumulates
    products = counted_layer_multiply_accumulates - core + output_head_multiply_accumulates
    padding = (1 - sequence_fill) * (3 * products - frozen_multiply_accumulates)
    needless = frozen_multiply_accumulates + 2 * (1 - gradient_layer_fraction) * core
    network = flops_per_multiply_accumulate * (3 * (core + products) - needless - padding)
    return network + tower_flops_per_accelerator


@quantity("count")
def recomputed_multiply_accumulates(
    counted_layer_multiply_accumulates,
    attention_multiply_accumulates,
    counted_score_fraction,
    recomputed_layer_fraction,
    recomputed_attention_core_fraction,
    recomputed_product_fraction,
):
    """The multiply-accumulates of recomputation in a step.

        recomputed = r·layers + c·core + q·(layers − core),
        r, c, q = recomputed shares of whole layers, of the attention core, and of the products with weights.

    `layers` and `core` are the multiply-accumulates of all layers and of their attention cores in forward passes.

    Source: arXiv 2104.04473, eq. 3 (96·B·s·L·h²…); arXiv 2205.05198, section 6.3.
    """
    core = counted_score_fraction * attention_multiply_accumulates
    products = recomputed_product_fraction * (counted_layer_multiply_accumulates - core)
    return (
        recomputed_layer_fraction * counted_layer_multiply_accumulates
        + recomputed_attention_core_fraction * core
        + products
    )


@quantity("flop")
def hardware_flops_per_accelerator(
    model_flops_per_accelerator,
    flops_per_multiply_accumulate,
    recomputed_multiply_accumulates,
    surplus_tower_flops_per_accelerator,
):
    """The FLOPs of a step on one accelerator, with recomputation. Source: arXiv 2104.04473, eq. 3."""
    network = model_flops_per_accelerator + flops_per_multiply_accumulate * recomputed_multiply_accumulates
    return network + surplus_tower_flops_per_accelerator


@quantity("1")
def attention_flops_fraction(
    attention_multiply_accumulates, flops_per_multiply_accumulate, model_flops_per_accelerator
):
    """The FLOPs of all scores and weighted values in forward passes, as a share of the FLOPs counted for a step.

    Source: definition.
    """
    return attention_multiply_accumulates * flops_per_multiply_accumulate / model_flops_per_accelerator
