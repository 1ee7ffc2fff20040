"""Parameters: of a layer of each kind, of each stage, and of the accelerator that has most of them."""

import numpy as np

from amped.theory.language.quantity import each_of, quantity, records
from amped.theory.nouns.conditions import LISTED
from amped.theory.nouns.layer_kinds import BLOCKS, COUNTS, PARAMETERS
from amped.theory.nouns.records import latest, total
from amped.theory.nouns.stage_records import ParameterGroup, Parameters, had, lacked, on


@quantity("count")
def expert_parameters_per_layer(number_of_MoE_layers, number_of_experts, expert_parameters, layers):
    """The parameters of the routed experts of one layer, averaged over the layers.

    Source: arXiv 2006.16668, section 2.2.
    """
    return number_of_MoE_layers * number_of_experts * expert_parameters / layers


@records()
def parameter_groups(
    weight_split_degree,
    weight_shards,
    gradient_shards,
    optimizer_state_shards,
    expert_split_degree,
    expert_weight_shards,
    expert_gradient_shards,
    expert_optimizer_state_shards,
):
    """The two groups of parameters: routed experts, and all other parameters, with how each is split and sharded.

    Source: arXiv 1910.02054, section 5; arXiv 2006.16668, section 3.
    """
    shards = weight_shards, gradient_shards, optimizer_state_shards
    expert_shards = expert_weight_shards, expert_gradient_shards, expert_optimizer_state_shards
    return (
        ParameterGroup("shared", weight_split_degree, *shards),
        ParameterGroup("expert", expert_split_degree, *expert_shards),
    )


@each_of(COUNTS=COUNTS, PARAMETERS=PARAMETERS)
@records()
def layer_parameters(
    non_expert_layer_parameters, COUNTS, PARAMETERS, layers, layer_kinds, number_of_experts, expert_parameters
):
    """The parameters of a layer of each kind, before model parallelism splits them.

    A kind has more or less than the average layer of the blocks that not every kind has.

    Source: arXiv 2006.16668, section 2.2.
    """
    blocks = [(b.name, n / layers * each) for b, n, each in zip(BLOCKS, COUNTS, PARAMETERS, strict=True)]
    average, kinds = non_expert_layer_parameters / layers, []
    for kind in layer_kinds:
        more = total([0.0, *((kind.multiple(name) - 1) * each for name, each in blocks if name in kind.blocks)])
        experts = kind.mixtures * number_of_experts * expert_parameters
        kinds.append(Parameters(kind.name, average + more, experts))
    return tuple(kinds)


@quantity("count", **LISTED)
def output_head_stage_parameters__of_layout(output_head_parameters, multi_token_prediction_parameters):
    """The parameters of the output head on its stage, without the modules of multi-token prediction.

    The layout itself places these modules on stages. Source: Megatron-Core, pipeline layout (m).
    """
    return output_head_parameters - multi_token_prediction_parameters


@records(**LISTED)
def multi_token_prediction_module(layer_parameters, multi_token_prediction_parameters, multi_token_prediction_layers):
    """The parameters of a module of multi-token prediction. Its layer is of the same kind as the last kind of layer.

    Source: arXiv 2412.19437, section 2.2.
    """
    *_, layer = layer_parameters
    return (
        Parameters(
            "prediction", multi_token_prediction_parameters / np.maximum(multi_token_prediction_layers, 1), layer.expert
        ),
    )


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
    kind_parameters,
    embedding_parameters,
    output_head_stage_parameters,
    tied_embedding_parameters,
    output_head_stage_expert_parameters,
    replicated_embedding,
):
    """The parameters of each stage: layers, embedding and output head.

    If the embedding is tied to the output head, and both are on different stages, each of the two stages has a copy.

    Source: arXiv 1909.08053, section 3; Megatron-LM, embedding group.
    """
    shared, expert = parameter_groups
    embedding = embedding_parameters * np.where(replicated_embedding > 0, shared.split_degree, 1)
    found = []
    for s in pipeline_stages:
        head = output_head_stage_parameters + lacked(s.has_embedding, tied_embedding_parameters)
        ends = had(s.has_embedding, embedding) + had(s.has_output_head, head)
        whole = on(s.kinds, (kind.shared for kind in kind_parameters)) + ends
        experts = on(s.kinds, (kind.expert for kind in kind_parameters))
        experts = experts + had(s.has_output_head, output_head_stage_expert_parameters)
        found.append(Parameters(s.name, whole / shared.split_degree, experts / expert.split_degree))
    return tuple(found)


@quantity("count")
def tied_embedding_parameters(tied_embeddings, vocabulary_size, embedding_dimension):
    """The parameters that the embedding and the output head have in common.

    Source: arXiv 1608.05859, section on weight tying.
    """
    return tied_embeddings * vocabulary_size * embedding_dimension


@quantity("count")
def non_expert_parameters_per_accelerator(stage_parameters):
    """The parameters of one accelerator without routed experts, on the stage that has most parameters, before sharding.

    Source: arXiv 1909.08053, section 3.
    """
    return latest(held.shared for held in stage_parameters)


@quantity("count")
def expert_parameters_per_accelerator(
    largest_stage_layers, expert_parameters_per_layer, expert_split_degree, multi_token_prediction_expert_parameters
):
    """The parameters of routed experts on one accelerator, on the stage that has most layers, before ZeRO shards them.

    Source: arXiv 2006.16668, section 3; arXiv 2412.19437, section 2.2 (modules of multi-token prediction).
    """
    layers = largest_stage_layers * expert_parameters_per_layer
    return (layers + multi_token_prediction_expert_parameters) / expert_split_degree


@quantity("count", **LISTED)
def expert_parameters_per_accelerator__of_layout(stage_parameters):
    """The parameters of routed experts on one accelerator, on the stage that has most of them, before ZeRO shards them.

    Source: arXiv 2006.16668, section 3.
    """
    return latest(held.expert for held in stage_parameters)
