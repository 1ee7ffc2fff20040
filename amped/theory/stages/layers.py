"""Layers of each pipeline stage: even, with a first and a last stage of their own, or as a layout lists them.

A layout's text is structure, as a choice is: its length is that of the records made of it.
"""

import numpy as np

from amped.theory.conditions import LISTED
from amped.theory.quantity import MAPPING, family, quantity, records
from amped.theory.stage_records import Stage

ENDS = ("first", "last")


@family(END=ENDS)
@quantity("count", category=MAPPING)
def number_of_END_stage_layers(stage_layers):
    """Layers of the END pipeline stage: as many as of the others unless given.

    Source: Megatron-Core, --decoder-END-pipeline-num-layers.
    """
    return stage_layers


@family(END=ENDS, OTHER=("last", "first"))
@quantity("count", category=MAPPING, when_given=("number_of_OTHER_stage_layers",))
def number_of_END_stage_layers__beside_the_OTHER(layers, pipeline_parallel_degree, number_of_OTHER_stage_layers):
    """Layers of the END pipeline stage: as many as of each but the OTHER. Source: Megatron-Core, pipeline layout."""
    return (layers - number_of_OTHER_stage_layers) / np.maximum(pipeline_parallel_degree - 1, 1)


@family(END=ENDS)
@quantity("count")
def END_stage_layers(layers, pipeline_parallel_degree, number_of_END_stage_layers):
    """Layers of the END pipeline stage; all, where it is the only one. Source: definition."""
    return np.where(pipeline_parallel_degree > 1, number_of_END_stage_layers, layers)


@quantity("count")
def middle_stage_layers(layers, pipeline_parallel_degree, first_stage_layers, last_stage_layers):
    """Layers of each pipeline stage between the first and the last. Source: Megatron-Core, pipeline layout."""
    between = np.maximum(pipeline_parallel_degree - 2, 1)
    return np.where(pipeline_parallel_degree > 2, (layers - first_stage_layers - last_stage_layers) / between, 0)


@quantity("count")
def largest_stage_layers(first_stage_layers, middle_stage_layers, last_stage_layers):
    """Layers of the stage that has most. Source: definition."""
    return np.maximum(np.maximum(first_stage_layers, middle_stage_layers), last_stage_layers)


@records()
def pipeline_stages(layers, pipeline_parallel_degree, first_stage_layers, middle_stage_layers, last_stage_layers):
    """The stages, of several, that can set the pace: the first, of those between, all alike, the outermost, and the last.

    Where there are none between, the last stands for them. Source: definition. Differs: with hand-overs beside computation
    another of those between may be done later, by less than all hand-overs of a micro-batch.
    """
    last, between = pipeline_parallel_degree - 1, 1.0 * (pipeline_parallel_degree > 2)
    inner, behind = np.where(between > 0, middle_stage_layers, last_stage_layers), between * last_stage_layers
    return (
        Stage("first", first_stage_layers, 0.0, layers - first_stage_layers, 0.0, last, 1.0, 0.0),
        Stage("last but one", inner, layers - behind - inner, behind, last - between, between, 0.0, 1 - between),
        Stage("last", last_stage_layers, layers - last_stage_layers, 0.0, last, 0.0, 0.0, 1.0),
    )


# --- layouts ---------------------------------------------------------------------------------------------------------


@quantity("count", **LISTED)
def number_of_listed_stages(pipeline_layout):
    """Stages that the layout lists. Source: definition."""
    return len(pipeline_layout)


@quantity("count", **LISTED)
def number_of_listed_layers(pipeline_layout):
    """Layers of all stages that the layout lists. Source: definition."""
    return before(pipeline_layout, len(pipeline_layout))


@quantity("count", **LISTED)
def first_listed_layers(pipeline_layout):
    """Layers that the layout lists first. Source: definition."""
    return pipeline_layout[0].layers


@quantity("count", **LISTED)
def last_listed_layers(pipeline_layout):
    """Layers that the layout lists last. Source: definition."""
    return pipeline_layout[-1].layers


def before(shares, place):
    """Layers of the stages before a place. Source: definition."""
    found = 0.0 * shares[0].layers
    for share in shares[:place]:
        found = found + share.layers
    return found


@family(END=ENDS, OTHER=("last", "first"))
@quantity("count", category=MAPPING, even_with=("number_of_OTHER_stage_layers",), **LISTED)
def number_of_END_stage_layers__of_layout(END_listed_layers):
    """Layers of the END pipeline stage: as the layout lists them. Source: Megatron-Core, pipeline layout."""
    return END_listed_layers


@quantity("count", **LISTED)
def middle_stage_layers__of_layout(pipeline_layout):
    """Layers of the stage between first and last that has most. Source: Megatron-Core, pipeline layout."""
    most = 0.0 * pipeline_layout[0].layers
    for share in pipeline_layout[1:-1]:
        most = np.maximum(most, share.layers)
    return most


@records(**LISTED)
def pipeline_stages__of_layout(pipeline_layout):
    """All stages of the layout. Source: Megatron-Core, pipeline layout."""
    last, whole = len(pipeline_layout) - 1, before(pipeline_layout, len(pipeline_layout))
    ahead = [before(pipeline_layout, place) for place in range(last + 1)]
    return tuple(
        Stage(
            f"stage {place}",
            share.layers,
            ahead[place],
            whole - share.layers - ahead[place],
            1.0 * place,
            1.0 * (last - place),
            1.0 * (place == 0),
            1.0 * (place == last),
        )
        for place, share in enumerate(pipeline_layout)
    )


# --- kinds of layers, on average over the stages ---------------------------------------------------------------------


@quantity("count")
def dense_stage_layers(number_of_dense_layers, multi_token_prediction_dense_layers, pipeline_parallel_degree):
    """Dense layers of one pipeline stage, on average. Source: definition."""
    return (number_of_dense_layers + multi_token_prediction_dense_layers) / pipeline_parallel_degree


@quantity("count")
def MoE_stage_layers(number_of_MoE_layers, multi_token_prediction_MoE_layers, pipeline_parallel_degree):
    """Mixture-of-experts layers of one pipeline stage, on average. Source: definition."""
    return (number_of_MoE_layers + multi_token_prediction_MoE_layers) / pipeline_parallel_degree


@quantity("count")
def attention_passes(
    number_of_attention_layers,
    cross_attention_layers,
    multi_token_prediction_layers,
    pipeline_parallel_degree,
    number_of_microbatches_per_minibatch,
):
    """Times that an accelerator runs an attention forward in a step; one over an encoder's output has the same shape.

    Assumes that both stacks see `context` tokens.

    Source: arXiv 1706.03762, section 3.1.
    """
    attentions = number_of_attention_layers + cross_attention_layers + multi_token_prediction_layers
    return attentions / pipeline_parallel_degree * number_of_microbatches_per_minibatch


@quantity("count")
def dense_layer_passes(dense_stage_layers, number_of_microbatches_per_minibatch):
    """Times that an accelerator runs a dense feed-forward network forward in a step. Source: definition."""
    return dense_stage_layers * number_of_microbatches_per_minibatch


@quantity("count")
def MoE_layer_passes(MoE_stage_layers, number_of_microbatches_per_minibatch):
    """Times that an accelerator runs a mixture of experts forward in a step. Source: definition."""
    return MoE_stage_layers * number_of_microbatches_per_minibatch


# --- rules -----------------------------------------------------------------------------------------------------------


@quantity("boolean", constrains="pipeline_parallel_degree", when_given=("pipeline_layout",))
def the_layout_lists_every_stage(number_of_listed_stages, pipeline_parallel_degree):
    """The layout has a number of layers for each pipeline stage. Source: Megatron-Core, pipeline layout."""
    return number_of_listed_stages == pipeline_parallel_degree


@quantity("boolean", constrains="layers", when_given=("pipeline_layout",))
def the_layout_lists_every_layer(number_of_listed_layers, layers):
    """The stages of the layout have all layers. Source: Megatron-Core, pipeline layout."""
    return number_of_listed_layers == layers


@quantity("boolean", constrains="virtual_pipeline_stages", when_given=("pipeline_layout",))
def a_layout_has_one_chunk_a_stage(virtual_pipeline_stages):
    """Stages of a layout have one chunk of layers each. Source: definition; lists of chunks are not modeled."""
    return virtual_pipeline_stages == 1


@family(END=ENDS)
@quantity("boolean", constrains="number_of_END_stage_layers", **LISTED)
def the_END_stage_is_that_of_the_layout(number_of_END_stage_layers, END_listed_layers):
    """The END stage has the layers that the layout lists, where both are given. Source: definition."""
    return number_of_END_stage_layers == END_listed_layers


@quantity("boolean", constrains="pipeline_parallel_degree")
def layers_divide_by_stages_and_chunks(
    layers,
    pipeline_parallel_degree,
    virtual_pipeline_stages,
    first_stage_layers,
    middle_stage_layers,
    last_stage_layers,
    uneven_chunks,
):
    """Each stage has layers, together all of them, those between first and last equally many, and its chunks as many.

    Uneven chunks have one layer at least. Source: arXiv 2104.04473, section 2.2.
    """
    chunks = np.where(uneven_chunks > 0, 1, virtual_pipeline_stages)
    two, many = pipeline_parallel_degree == 2, pipeline_parallel_degree > 2
    missing = two & (first_stage_layers + last_stage_layers != layers) | many & (middle_stage_layers < 1)
    whole = np.mod(first_stage_layers, chunks) + np.mod(last_stage_layers, chunks)
    between = np.mod(middle_stage_layers, chunks) + missing
    fewest = np.minimum(np.minimum(first_stage_layers, last_stage_layers), layers - pipeline_parallel_degree + 1)
    return (whole + between == 0) & (fewest >= virtual_pipeline_stages / chunks)
