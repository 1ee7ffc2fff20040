"""An encoder of images or of sound in front of the network (a tower): its sizes, parameters and what is trained of it.

    image → patches → layers → projectors → tokens of the decoder

Its parameters are exact for the towers of `transformer_network_parameters`.
"""

import numpy as np

from amped.theory.language.quantity import NETWORK, family, quantity, records
from amped.theory.nouns.conditions import WITH_TOWER
from amped.theory.nouns.parameter_classes import PROJECTOR, TOWER, ParameterClass
from amped.theory.nouns.records import total
from amped.theory.nouns.tower_records import PROJECTOR_MATRICES, ClassCount, ProjectorMatrix

# For each value of `tower_training`: the classes that are trained.
TRAINED = {"trained": (TOWER, PROJECTOR), "projector": (PROJECTOR,), "frozen": ()}


@quantity("count", category=NETWORK)
def tower_head_dimension(tower_dimensionality, tower_attention_heads):
    """The width of a head of a tower: an equal share of its width. Source: arXiv 2010.11929, section 3.1."""
    return tower_dimensionality / tower_attention_heads


@quantity("count", category=NETWORK)
def tower_feedforward_dimension(tower_dimensionality):
    """The number of hidden units of the feed-forward networks of a tower: four times its width.

    Source: arXiv 2010.11929, table 1.
    """
    return 4 * tower_dimensionality


@quantity("count")
def tower_layer_parameters(
    tower_dimensionality,
    tower_attention_heads,
    tower_head_dimension,
    tower_feedforward_dimension,
    tower_gated_mlp,
    tower_biased_projections,
    tower_attention_output_bias,
    tower_mlp_bias,
    tower_norms_per_layer,
    tower_norm_vectors,
):
    """The parameters of one layer of a tower: attention, feed-forward network, norms.

    Source: arXiv 2010.11929, eq. 2–3.
    """
    width, heads = tower_dimensionality, tower_attention_heads * tower_head_dimension
    attention = 4 * width * heads + tower_biased_projections * heads + tower_attention_output_bias * width
    hidden = (1 + tower_gated_mlp) * tower_feedforward_dimension
    network = (hidden + tower_feedforward_dimension) * width + tower_mlp_bias * (hidden + width)
    return attention + network + tower_norms_per_layer * tower_norm_vectors * width


@quantity("count", **WITH_TOWER)
def tower_parameters__encoder(
    tower_layers,
    tower_layer_parameters,
    tower_dimensionality,
    tower_patch_values,
    tower_patch_biases,
    tower_position_table,
    tower_outer_norms,
    tower_norm_vectors,
    tower_further_parameters,
):
    """The parameters of a tower without its projectors: embedding of patches, positions, layers and norms.

    Source: arXiv 2010.11929, eq. 1–4.
    """
    rows = tower_patch_values + tower_patch_biases + tower_position_table + tower_outer_norms * tower_norm_vectors
    return tower_layers * tower_layer_parameters + rows * tower_dimensionality + tower_further_parameters


@records()
def projector_matrices(
    tower_projector_matrices, tower_projector_input_width, tower_projector_dimension, dimensionality
):
    """The matrices of a projector between a tower and the decoder. Source: arXiv 2310.03744, section 3.3."""
    number, hidden, outputs = tower_projector_matrices, tower_projector_dimension, dimensionality
    sides = (
        (tower_projector_input_width, np.where(number > 1, hidden, outputs), 1.0 * (number > 0)),
        (hidden, hidden, np.maximum(number - 2, 0)),
        (hidden, outputs, 1.0 * (number > 1)),
    )
    return tuple(ProjectorMatrix(name, *side) for name, side in zip(PROJECTOR_MATRICES, sides, strict=True))


@quantity("count", **WITH_TOWER)
def tower_projector_parameters__encoder(
    projector_matrices, tower_projectors, tower_projector_bias, tower_projector_further_parameters
):
    """The parameters of the projectors between a tower and the decoder. Source: arXiv 2310.03744, section 3.3."""
    matrices = total(m.count * m.outputs * (m.inputs + tower_projector_bias) for m in projector_matrices)
    return tower_projectors * matrices + tower_projector_further_parameters


@records(**WITH_TOWER)
def tower_class_parameters__encoder(tower_parameters, tower_projector_parameters):
    """The parameters of a tower by class. Source: definition."""
    return (ClassCount(TOWER, tower_parameters), ClassCount(PROJECTOR, tower_projector_parameters))


@records(**WITH_TOWER)
def tower_classes__encoder(weight_precision, trained_tower_classes):
    """The classes of parameters of a tower: its own, and those of its projectors.

    Source: arXiv 2304.08485, section 4.2.
    """
    trained = tuple(c.name for c in trained_tower_classes)
    return tuple(ParameterClass(name, weight_precision, trained=name in trained) for name in (TOWER, PROJECTOR))


@family(
    named=("trained_tower_classes__trained", "trained_tower_classes__projector", "trained_tower_classes__frozen"),
    TRAINING=tuple(TRAINED),
)
@records(choice="tower_training", value="TRAINING")
def trained_tower_classes__TRAINING(*, training):
    """The classes of a tower that are trained: those of TRAINING. Source: arXiv 2304.08485, section 4.2."""
    return tuple(ParameterClass(name) for name in TRAINED[training])


# --- rules -----------------------------------------------------------------------------------------------------------


@quantity("boolean", constrains="images_per_sequence", **WITH_TOWER)
def images_fit_into_the_sequence__encoder(images_per_sequence, tower_tokens_handed_on, context):
    """The tokens that a tower hands on are part of the decoder's sequence. Source: arXiv 2304.08485, section 4.1."""
    return images_per_sequence * tower_tokens_handed_on <= context
