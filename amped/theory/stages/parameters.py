"""Parameters: of a layer of each kind, of each stage, and of the accelerator that has most of them."""

import numpy as np

from amped.theory.language.quantity import each_of, quantity, records
from amped.theory.nouns.conditions import LISTED
from amped.theory.nouns.layer_kinds import BLOCKS, COUNTS, PARAMETERS, VECTOR_PARAMETERS
from amped.theory.nouns.parameter_classes import (
    ADAPTERS,
    EMBEDDINGS,
    EXPERT_ADAPTERS,
    EXPERTS,
    VECTORS,
    ParameterGroup,
    Parameters,
    counted,
)
from amped.theory.nouns.records import MATRICES, latest, total
from amped.theory.nouns.shardings import number_of_shards
from amped.theory.nouns.stage_records import had, lacked, on

# The states of a parameter, in the order of the fields of `ParameterGroup`.
STATES = ("weight", "gradient", "optimizer_state")


@records()
def parameter_groups(weight_split_degree, expert_split_degree, zero_stage, sharding_degree, expert_sharding_degree):
    """The two groups of parameters, with how each is split and sharded: all except routed experts, and routed experts.

    Source: arXiv 1910.02054, section 5; arXiv 2006.16668, section 3.
    """
    groups = ("shared", weight_split_degree, sharding_degree), ("expert", expert_split_degree, expert_sharding_degree)
    return tuple(
        ParameterGroup(name, split, *(number_of_shards(state, zero_stage, degree) for state in STATES))
        for name, split, degree in groups
    )


@each_of(PARAMETERS=PARAMETERS, BIASES=VECTOR_PARAMETERS)
@records()
def block_parameters(
    PARAMETERS,
    BIASES,
    parameter_classes,
    layers,
    norm_parameters,
    cross_attention_parameters,
    relative_position_parameters,
    adapter_pairs,
    weight_split_degree,
    expert_split_degree,
):
    """The parameters of each block of a layer by class, without routed experts, and what a layer has beside its blocks.

    Beside its blocks a layer has norms, and on average a share of cross-attentions and of tables of relative positions.
    Tensor parallelism splits all parameters of adapters; those of routed experts are split like the experts.

    Source: definition. Differs: the vectors of cross-attentions count as matrices.
    """
    blocks = []
    for block, parameters, vectors in zip(BLOCKS, PARAMETERS, BIASES, strict=True):
        adapters = {
            name: degree
            * total(p.parameters for p in adapter_pairs if p.part.block == block.name and p.down.weights == name)
            for name, degree in ((ADAPTERS, weight_split_degree), (EXPERT_ADAPTERS, expert_split_degree))
        }
        counts = {MATRICES: parameters - vectors, VECTORS: vectors, **adapters}
        blocks.append(counted(block.name, parameter_classes, counts))
    matrices = (cross_attention_parameters + relative_position_parameters) / layers
    return (*blocks, counted("others", parameter_classes, {MATRICES: matrices, VECTORS: norm_parameters}))


@each_of(COUNTS=COUNTS)
@records()
def layer_parameters(
    COUNTS, block_parameters, parameter_classes, layers, layer_kinds, number_of_experts, expert_parameters
):
    """The parameters of a layer of each kind by class, before model parallelism splits them.

    A kind has more or less than the average layer of the blocks that not every kind has.

    Source: arXiv 2006.16668, section 2.2.
    """
    (*blocks, other_parameters), kinds = block_parameters, []
    for kind in layer_kinds:
        numbers = [kind.multiple(b.name) * (n / layers) for b, n in zip(blocks, COUNTS, strict=True)]
        experts = {EXPERTS: kind.mixtures * number_of_experts * expert_parameters}
        counts = [
            on(numbers, (block.counts[place] for block in blocks))
            + (other_parameters.counts[place] + experts.get(c.name, 0.0))
            for place, c in enumerate(parameter_classes)
        ]
        kinds.append(Parameters(kind.name, tuple(counts)))
    return tuple(kinds)


@quantity("count", **LISTED)
def output_head_stage_parameters__of_layout(output_head_parameters, multi_token_prediction_parameters):
    """The parameters of the output head on its stage, without the modules of multi-token prediction.

    The layout itself places these modules on stages. Source: Megatron-Core, pipeline layout (m).
    """
    return output_head_parameters - multi_token_prediction_parameters


@records(**LISTED)
def multi_token_prediction_module(
    layer_parameters,
    parameter_classes,
    multi_token_prediction_parameters,
    multi_token_prediction_layers,
    norm_vectors,
    dimensionality,
):
    """The parameters of a module of multi-token prediction. Its layer is of the same kind as the last kind of layer.

    Source: arXiv 2412.19437, section 2.2 and eq. 21 (norms).
    """
    *_, layer = layer_parameters
    counts = {c.name: n for c, n in zip(parameter_classes, layer.counts, strict=True)}
    vectors = (counts[VECTORS] + 3 * norm_vectors * dimensionality) * (multi_token_prediction_layers > 0)
    matrices = multi_token_prediction_parameters / np.maximum(multi_token_prediction_layers, 1) - vectors
    return (counted("prediction", parameter_classes, counts | {MATRICES: matrices, VECTORS: vectors}),)


@records(**LISTED)
def kind_parameters__of_layout(layer_parameters, multi_token_prediction_module):
    """The parameters of a layer of each kind (dense or mixture of experts), and of a module of multi-token prediction.

    Source: arXiv 2412.19437, section 2.2.
    """
    return (*layer_parameters, *multi_token_prediction_module)


@records()
def stage_parameters(
    pipeline_stages,
    parameter_groups,
    parameter_classes,
    kind_parameters,
    embedding_parameters,
    output_head_stage_parameters,
    tied_embedding_parameters,
    output_head_stage_expert_parameters,
    replicated_embedding,
    tower_class_parameters,
):
    """The parameters of each stage by class: layers, embedding and output head, and a tower before the embedding.

    If the embedding is tied to the output head, and both are on different stages, each of the two stages has a copy.
    Tensor parallelism does not split a tower: each accelerator has all of it.

    Source: arXiv 1909.08053, section 3; Megatron-LM, embedding group.
    """
    whole, stages = parameter_groups[0].split_degree, []
    copies = np.where(replicated_embedding > 0, whole, 1)
    for s in pipeline_stages:
        head = output_head_stage_parameters + lacked(s.has_embedding, tied_embedding_parameters)
        ends = {
            EMBEDDINGS: had(s.has_embedding, embedding_parameters * copies) + had(s.has_output_head, head),
            EXPERTS: had(s.has_output_head, output_head_stage_expert_parameters),
            **{c.name: had(s.has_embedding, c.count * whole) for c in tower_class_parameters},
        }
        counts = [
            on(s.kinds, (kind.counts[place] for kind in kind_parameters)) + ends.get(c.name, 0.0)
            for place, c in enumerate(parameter_classes)
        ]
        stages.append(Parameters(s.name, tuple(counts)).split(parameter_classes, parameter_groups))
    return tuple(stages)


@quantity("count")
def tied_embedding_parameters(tied_embeddings, vocabulary_size, embedding_dimension):
    """The parameters that the embedding and the output head have in common.

    Source: arXiv 1608.05859, section on weight tying.
    """
    return tied_embeddings * vocabulary_size * embedding_dimension


@quantity("count")
def non_expert_parameters_per_accelerator(stage_parameters, parameter_classes):
    """The parameters of one accelerator without routed experts, on the stage that has most parameters, before sharding.

    Source: arXiv 1909.08053, section 3.
    """
    return latest(parameters.shared(parameter_classes) for parameters in stage_parameters)


@quantity("count")
def trained_parameters_per_accelerator(stage_parameters, parameter_classes):
    """The parameters that training changes on one accelerator, without routed experts, on the stage that has most.

    Source: arXiv 1909.08053, section 3.
    """
    return latest(parameters.trained(parameter_classes) for parameters in stage_parameters)


@records()
def network_parameters(
    layer_parameters,
    layer_kinds,
    layers,
    parameter_classes,
    embedding_parameters,
    output_head_parameters,
    tower_class_parameters,
):
    """The parameters of the whole network by class.

    Source: definition. Differs: routed experts of multi-token prediction are missing.
    """
    ends = {
        EMBEDDINGS: embedding_parameters + output_head_parameters,
        **{c.name: c.count for c in tower_class_parameters},
    }
    counts = (
        ends.get(c.name, 0.0) + layers * on([k.share for k in layer_kinds], numbers)
        for c, *numbers in zip(parameter_classes, *(kind.counts for kind in layer_parameters), strict=True)
    )
    return (Parameters("network", tuple(counts)),)


@quantity("count")
def trained_parameters(network_parameters, parameter_classes):
    """The number of parameters of the whole network that training changes.

    Source: arXiv 2106.09685, section 4.2. Differs: routed experts of multi-token prediction are missing.
    """
    ((*counts,),) = [parameters.counts for parameters in network_parameters]
    return total(c.changes * number for c, number in zip(parameter_classes, counts, strict=True))


@quantity("count")
def expert_parameters_per_accelerator(
    largest_stage_layers,
    number_of_MoE_layers,
    number_of_experts,
    expert_parameters,
    layers,
    expert_split_degree,
    multi_token_prediction_expert_parameters,
):
    """The parameters of routed experts on one accelerator, on the stage that has most layers, before ZeRO shards them.

    Source: arXiv 2006.16668, section 3; arXiv 2412.19437, section 2.2 (modules of multi-token prediction).
    """
    per_layer = number_of_MoE_layers * number_of_experts * expert_parameters / layers
    return (largest_stage_layers * per_layer + multi_token_prediction_expert_parameters) / expert_split_degree


@quantity("count", **LISTED)
def expert_parameters_per_accelerator__of_layout(stage_parameters, parameter_classes):
    """The parameters of routed experts on one accelerator, on the stage that has most of them, before ZeRO shards them.

    Source: arXiv 2006.16668, section 3.
    """
    (place,) = [place for place, c in enumerate(parameter_classes) if c.name == EXPERTS]
    return latest(parameters.counts[place] for parameters in stage_parameters)


@records()
def expert_class_parameters(expert_parameters_per_accelerator, stage_parameters, parameter_classes):
    """The parameters of each class of routed experts on one accelerator before ZeRO shards them: theirs, and adapters.

    Source: arXiv 2006.16668, section 3; Megatron-Bridge, peft/utils.py (ParallelLinearAdapter, is_expert).
    """
    own = {EXPERTS: expert_parameters_per_accelerator}
    counts = [
        own.get(c.name, latest(parameters.counts[place] for parameters in stage_parameters)) * c.routed
        for place, c in enumerate(parameter_classes)
    ]
    return (Parameters("expert", tuple(counts)),)
