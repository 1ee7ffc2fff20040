"""Layers of each pipeline stage: even, with a first and a last stage of their own, or as a layout lists them.

The text of a layout is structure, like a choice: the number of stages that it lists is the number of records made of
it.
"""

import numpy as np

from amped.theory.language.quantity import MAPPING, family, quantity, records
from amped.theory.nouns.conditions import LISTED
from amped.theory.nouns.records import latest, total
from amped.theory.nouns.stage_records import NO, YES, Ends, Stage, ends_of, had

ENDS = ("first", "last")
# Kinds of feed-forward networks, as in the names of quantities.
KINDS = ("dense", "MoE")


@family(
    named=(
        "number_of_first_stage_layers__beside_the_last",
        "number_of_last_stage_layers__beside_the_first",
    ),
    END=ENDS,
    OTHER=("last", "first"),
)
@quantity("count", category=MAPPING, when_given=("number_of_OTHER_stage_layers",))
def number_of_END_stage_layers__beside_the_OTHER(layers, pipeline_parallel_degree, number_of_OTHER_stage_layers):
    """The number of layers of the END pipeline stage, if the number of layers of the OTHER stage is given.

    All stages except the OTHER have equally many layers.

    Source: Megatron-Core, pipeline layout.
    """
    return (layers - number_of_OTHER_stage_layers) / np.maximum(pipeline_parallel_degree - 1, 1)


@family(
    named=(
        "first_stage_layers",
        "last_stage_layers",
    ),
    END=ENDS,
)
@quantity("count")
def END_stage_layers(layers, pipeline_parallel_degree, number_of_END_stage_layers):
    """The number of layers of the END pipeline stage: all layers if it is the only stage. Source: definition."""
    return np.where(pipeline_parallel_degree > 1, number_of_END_stage_layers, layers)


@quantity("count")
def middle_stage_layers(layers, pipeline_parallel_degree, first_stage_layers, last_stage_layers):
    """The number of layers of each pipeline stage between the first and the last.

    Source: Megatron-Core, pipeline layout.
    """
    between = np.maximum(pipeline_parallel_degree - 2, 1)
    return np.where(pipeline_parallel_degree > 2, (layers - first_stage_layers - last_stage_layers) / between, 0)


@quantity("count")
def largest_stage_layers(first_stage_layers, middle_stage_layers, last_stage_layers):
    """The number of layers of the stage that has most layers. Source: definition."""
    return latest((first_stage_layers, middle_stage_layers, last_stage_layers))


@records()
def stage_ends():
    """Whether the first stage and the last of several stages have the embedding and the output head.

    The first stage has the embedding, and the last stage has the output head.

    Source: arXiv 2104.04473, section 2.2.
    """
    return Ends("first", embedding=YES, output_head=NO), Ends("last", embedding=NO, output_head=YES)


@family(named=("stage_ends__zero_bubble_v", "stage_ends__dualpipe_v"), SCHEDULE=("zero_bubble_v", "dualpipe_v"))
@records(choice="pipeline_schedule", value="SCHEDULE")
def stage_ends__SCHEDULE():
    """Whether the first stage and the last of several stages have the embedding and the output head, in a V of stages.

    The first stage has both. The last stage, at which the V turns back, has none of them.

    Source: arXiv 2405.15362, section 3.
    """
    return Ends("first", embedding=YES, output_head=YES), Ends("last", embedding=NO, output_head=NO)


@records()
def pipeline_stages(
    layers, pipeline_parallel_degree, first_stage_layers, middle_stage_layers, last_stage_layers, stage_ends
):
    """The pipeline stages as three records: the first stage, the stages between (all alike), and the last stage.

    A single stage is described by the last record. If there are no stages between, the second record equals the last
    stage.

    Source: definition. Differs: the second record has the place of the last of the stages between. If sends overlap
    computation, another of these stages may finish later, by less than all sends of a micro-batch take.
    """
    (start, end), last = stage_ends, pipeline_parallel_degree - 1
    first_layers, last_layers = first_stage_layers, last_stage_layers
    between, alone = 1.0 * (pipeline_parallel_degree > 2), 1.0 * (pipeline_parallel_degree == 1)
    inner, after = np.where(between > 0, middle_stage_layers, last_layers), between * last_layers
    inner_place, inner_ends = (last - between, between, between * (last - 1)), (NO, had(end.output_head, 1 - between))
    first_ends, last_ends = (start.embedding, start.output_head), (alone, end.output_head)
    return (
        stage_of_one_kind(
            "first", first_layers, (0.0, layers - first_layers), place=(0.0, last, last), ends=first_ends
        ),
        stage_of_one_kind("between", inner, (layers - after - inner, after), place=inner_place, ends=inner_ends),
        stage_of_one_kind("last", last_layers, (layers - last_layers, 0.0), place=(last, 0.0, 0.0), ends=last_ends),
    )


def stage_of_one_kind(name, layers, others, place, ends):
    """A stage of a pipeline in which all layers are of one kind.

    Args:
        name: the name of the record.
        layers: the number of layers of the stage.
        others: the number of layers on the stages before it, and on the stages after it.
        place: the index of the stage; the number of stages after it; and the number of stages after the first of the
            stages that the record represents.
        ends: whether the stage has the embedding, and whether it has the output head.

    Source: definition.
    """
    (before, after), (index, stages_after, most_stages_after), (embedding, output_head) = others, place, ends
    return Stage(
        name,
        layers=layers,
        kinds=(layers,),
        kinds_before=(before,),
        kinds_after=(after,),
        index=index,
        stages_after=stages_after,
        most_stages_after=most_stages_after,
        has_embedding=embedding,
        has_output_head=output_head,
    )


# --- layouts ---------------------------------------------------------------------------------------------------------


@quantity("count", **LISTED)
def number_of_listed_stages(pipeline_layout):
    """The number of stages that the layout lists. Source: definition."""
    return len(pipeline_layout)


@quantity("count", **LISTED)
def number_of_listed_layers(pipeline_layout):
    """The number of layers of all stages that the layout lists. Source: definition."""
    return total(share.layers for share in pipeline_layout)


@quantity("count", **LISTED)
def first_listed_layers(pipeline_layout):
    """The number of layers of the first stage that the layout lists. Source: definition."""
    return pipeline_layout[0].layers


@quantity("count", **LISTED)
def last_listed_layers(pipeline_layout):
    """The number of layers of the last stage that the layout lists. Source: definition."""
    return pipeline_layout[-1].layers


@quantity("count", **LISTED)
def middle_stage_layers__of_layout(pipeline_layout):
    """The number of layers of the stage that has most layers, among the stages between the first and the last.

    Source: Megatron-Core, pipeline layout.
    """
    return latest([0.0, *(share.layers for share in pipeline_layout[1:-1])])


@records(**LISTED)
def pipeline_stages__of_layout(pipeline_layout, stage_ends):
    """The pipeline stages that the layout lists, one record each. Source: Megatron-Core, pipeline layout."""
    stages, last, zeros = [], len(pipeline_layout) - 1, tuple(0.0 * kind for kind in pipeline_layout[0].kinds)
    for place, share in enumerate(pipeline_layout):
        before, after = (
            summed_kinds(zeros, shares) for shares in (pipeline_layout[:place], pipeline_layout[place + 1 :])
        )
        embedding, output_head = ends_of(place, last, stage_ends)
        stage = Stage(
            share.name,
            layers=share.layers,
            kinds=share.kinds,
            kinds_before=before,
            kinds_after=after,
            index=1.0 * place,
            stages_after=1.0 * (last - place),
            most_stages_after=1.0 * (last - place),
            has_embedding=embedding,
            has_output_head=output_head,
        )
        stages.append(stage)
    return tuple(stages)


def summed_kinds(zeros, stages):
    """The number of layers of each kind, summed over several stages of a layout.

    Args:
        zeros: a zero for each kind of layer.
        stages: what the layout lists for these stages.

    Source: definition.
    """
    return tuple(total((zero, *(share.kinds[kind] for share in stages))) for kind, zero in enumerate(zeros))


# --- kinds of layers, on average over the stages ---------------------------------------------------------------------


@family(
    named=(
        "dense_stage_layers",
        "MoE_stage_layers",
    ),
    KIND=KINDS,
)
@quantity("count")
def KIND_stage_layers(number_of_KIND_layers, multi_token_prediction_KIND_layers, pipeline_parallel_degree):
    """The number of layers with a KIND feed-forward network on one pipeline stage, averaged over the stages.

    Source: definition.
    """
    return (number_of_KIND_layers + multi_token_prediction_KIND_layers) / pipeline_parallel_degree


@quantity("count")
def attention_passes(
    number_of_attention_layers,
    cross_attention_layers,
    multi_token_prediction_layers,
    pipeline_parallel_degree,
    number_of_microbatches_per_minibatch,
):
    """The number of forward passes through an attention on an accelerator in a step, averaged over the stages.

    Cross-attention counts like any other attention: encoder and decoder are both assumed to see `context` tokens.

    Source: arXiv 1706.03762, section 3.1.
    """
    attentions = number_of_attention_layers + cross_attention_layers + multi_token_prediction_layers
    return attentions / pipeline_parallel_degree * number_of_microbatches_per_minibatch


@quantity("count")
def linear_attention_passes(
    number_of_linear_attention_layers, pipeline_parallel_degree, number_of_microbatches_per_minibatch
):
    """The number of forward passes through a linear attention on an accelerator in a step, averaged over the stages.

    Source: definition.
    """
    return number_of_linear_attention_layers / pipeline_parallel_degree * number_of_microbatches_per_minibatch


@quantity("count")
def branch_passes(number_of_branch_layers, pipeline_parallel_degree, number_of_microbatches_per_minibatch):
    """The number of forward passes through the branches of a layer on an accelerator in a step.

    It is averaged over the stages. Source: definition.
    """
    return number_of_branch_layers / pipeline_parallel_degree * number_of_microbatches_per_minibatch


@family(
    named=(
        "dense_layer_passes",
        "MoE_layer_passes",
    ),
    KIND=KINDS,
)
@quantity("count")
def KIND_layer_passes(KIND_stage_layers, number_of_microbatches_per_minibatch):
    """The number of forward passes through a KIND feed-forward network on an accelerator in a step.

    It is averaged over the stages. Source: definition.
    """
    return KIND_stage_layers * number_of_microbatches_per_minibatch


# --- rules -----------------------------------------------------------------------------------------------------------


@quantity("boolean", constrains="pipeline_parallel_degree", **LISTED)
def the_layout_lists_every_stage(number_of_listed_stages, pipeline_parallel_degree):
    """The layout lists the layers of every pipeline stage. Source: Megatron-Core, pipeline layout."""
    return number_of_listed_stages == pipeline_parallel_degree


@quantity("boolean", constrains="layers", **LISTED)
def the_layout_lists_every_layer(number_of_listed_layers, layers):
    """The stages of the layout together have all layers of the network. Source: Megatron-Core, pipeline layout."""
    return number_of_listed_layers == layers


@family(
    named=(
        "the_first_stage_is_that_of_the_layout",
        "the_last_stage_is_that_of_the_layout",
    ),
    END=ENDS,
)
@quantity("boolean", constrains="number_of_END_stage_layers", **LISTED)
def the_END_stage_is_that_of_the_layout(number_of_END_stage_layers, END_listed_layers):
    """The given number of layers of the END stage equals the number that the layout lists. Source: definition."""
    return number_of_END_stage_layers == END_listed_layers


@quantity("boolean", constrains="pipeline_parallel_degree")
def layers_divide_by_stages_and_chunks(
    layers,
    pipeline_parallel_degree,
    virtual_pipeline_stages,
    first_stage_layers,
    middle_stage_layers,
    last_stage_layers,
):
    """Each stage has at least one layer, and a whole number of layers in each of its chunks.

    All chunks of a stage have equally many layers. All stages between the first and the last have equally many layers.
    Together the stages have all layers of the network.

    Source: arXiv 2104.04473, section 2.2.
    """
    chunks = virtual_pipeline_stages
    has_two, has_more = pipeline_parallel_degree == 2, pipeline_parallel_degree > 2
    is_incomplete = has_two & (first_stage_layers + last_stage_layers != layers) | has_more & (middle_stage_layers < 1)
    end_remainders = np.mod(first_stage_layers, chunks) + np.mod(last_stage_layers, chunks)
    middle_remainder = np.mod(middle_stage_layers, chunks) + is_incomplete
    fewest = np.minimum(np.minimum(first_stage_layers, last_stage_layers), layers - pipeline_parallel_degree + 1)
    return (end_remainders + middle_remainder == 0) & (fewest >= 1)
