"""Uneven layouts: a text that lists the layers of every pipeline stage, and what follows from it stage by stage.

The text is structure, as a choice is: its length is that of the records made of it. Where a stage stands decides how many
micro-batches it holds, so the fullest stage need not be the one with most layers.
"""

import numpy as np

from amped.quantity import MAPPING, parameter, quantity, records
from amped.stage_records import Stage

LISTED = {"when_given": ("pipeline_layout",)}


@parameter("layout", category=MAPPING, replaces=("number_of_first_stage_layers", "number_of_last_stage_layers"))
def pipeline_layout():
    """Layers of each pipeline stage, from the first to the last: 9,10,10,11 or 9,10*2,11.

    Source: Megatron-Core, --pipeline-model-parallel-layout.
    """


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


@quantity("count", category=MAPPING, even_with=("number_of_last_stage_layers",), **LISTED)
def number_of_first_stage_layers__of_layout(first_listed_layers):
    """Layers of the first pipeline stage: as the layout lists them. Source: Megatron-Core, pipeline layout."""
    return first_listed_layers


@quantity("count", category=MAPPING, even_with=("number_of_first_stage_layers",), **LISTED)
def number_of_last_stage_layers__of_layout(last_listed_layers):
    """Layers of the last pipeline stage: as the layout lists them. Source: Megatron-Core, pipeline layout."""
    return last_listed_layers


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
        Stage(f"stage {place}", share.layers, ahead[place], whole - share.layers - ahead[place], 1.0 * place,
              1.0 * (last - place), 1.0 * (place == 0), 1.0 * (place == last))
        for place, share in enumerate(pipeline_layout)
    )  # fmt: skip


# --- memory: the fullest of the stages between ------------------------------------------------------------------------


@quantity("count")
def fullest_middle_stage_layers(middle_stage_layers):
    """Layers of the stage between first and last that needs most memory: they are alike. Source: definition."""
    return middle_stage_layers


@quantity("byte")
def state_bytes_per_layer(
    shared_parameters_per_layer, weight_split_degree, state_bytes_per_parameter, expert_state_bytes_per_layer
):
    """States of one layer on one accelerator. Source: arXiv 1910.02054, section 5."""
    return shared_parameters_per_layer / weight_split_degree * state_bytes_per_parameter + expert_state_bytes_per_layer


@quantity("count", **LISTED)
def fullest_middle_place(pipeline_layout):
    """Place of the stage between first and last that needs most memory: where all hold as much of a layer, of most layers.

    Source: arXiv 1811.06965; arXiv 2401.10241, table 2.
    """
    return place_of_most([share.layers for share in pipeline_layout])


@quantity("count", choice="pipeline_schedule", value="1f1b", **LISTED)
def fullest_middle_place__1f1b(
    pipeline_layout, state_bytes_per_layer, device_activation_bytes_per_layer, pipeline_parallel_degree,
    number_of_microbatches_per_minibatch,
):  # fmt: skip
    """Place of the stage between first and last that needs most memory: earlier ones hold more micro-batches.

    Source: arXiv 2205.05198, section 4.2.3.
    """
    needed = []
    for place, share in enumerate(pipeline_layout):
        held = np.minimum(pipeline_parallel_degree - place, number_of_microbatches_per_minibatch)
        needed.append(share.layers * (state_bytes_per_layer + device_activation_bytes_per_layer * held))
    return place_of_most(needed)


def place_of_most(needed):
    """The place between first and last of the largest of several values, of equal ones the first. Source: definition."""
    most, place = 0 * needed[0], 1 + 0 * (needed[0] > 0)
    for at, each in enumerate(needed[1:-1], 1):
        place = np.where(each > most, at, place)
        most = np.maximum(most, each)
    return place


@quantity("count", **LISTED)
def fullest_middle_stage_layers__of_layout(pipeline_layout, fullest_middle_place):
    """Layers of the stage between first and last that needs most memory. Source: definition."""
    found = 0 * fullest_middle_place
    for place, share in enumerate(pipeline_layout[1:-1], 1):
        found = np.where(fullest_middle_place == place, share.layers, found)
    return found


@quantity("count", **LISTED)
def middle_stage_parameters__of_layout(fullest_middle_stage_layers, shared_parameters_per_layer):
    """Parameters of the fullest stage between first and last without the routed experts. Source: arXiv 2104.04473, section 2.2."""
    return fullest_middle_stage_layers * shared_parameters_per_layer


@quantity("count", **LISTED)
def shared_parameters_per_accelerator__of_layout(
    first_stage_parameters, middle_stage_layers, shared_parameters_per_layer, last_stage_parameters,
    weight_split_degree,
):  # fmt: skip
    """Parameters of one accelerator without the routed experts on the stage that has most. Source: arXiv 1909.08053."""
    largest = np.maximum(first_stage_parameters, middle_stage_layers * shared_parameters_per_layer)
    return np.maximum(largest, last_stage_parameters) / weight_split_degree


@quantity("count", choice="pipeline_schedule", value="1f1b", **LISTED)
def microbatches_in_flight_behind_the_first__1f1b_of_layout(
    fullest_middle_place, pipeline_parallel_degree, number_of_microbatches_per_minibatch
):
    """Micro-batches whose activations the fullest stage between first and last holds. Source: arXiv 2205.05198, section 4.2.3."""
    return np.minimum(pipeline_parallel_degree - fullest_middle_place, number_of_microbatches_per_minibatch)
