"""Layouts: which of the stages between the first and the last needs most memory.

Where a stage stands decides how many micro-batches it holds, so the fullest stage need not be the one with most layers.
"""

import numpy as np

from amped.theory.conditions import LISTED
from amped.theory.quantity import quantity


@quantity("count")
def fullest_middle_stage_layers(middle_stage_layers):
    """Layers of the stage between first and last that needs most memory: they are alike. Source: definition."""
    return middle_stage_layers


def index_of_largest(needed):
    """The place between first and last of the largest of several values, of equal ones the first. Source: definition."""
    most, place = 0 * needed[0], 1 + 0 * (needed[0] > 0)
    for at, each in enumerate(needed[1:-1], 1):
        place = np.where(each > most, at, place)
        most = np.maximum(most, each)
    return place


@quantity("count", **LISTED)
def fullest_middle_stage_index(pipeline_layout):
    """Place of the stage between first and last that needs most memory: where all hold as much of a layer, of most layers.

    Source: arXiv 1811.06965; arXiv 2401.10241, table 2.
    """
    return index_of_largest([share.layers for share in pipeline_layout])


@quantity("count", choice="pipeline_schedule", value="1f1b", **LISTED)
def fullest_middle_stage_index__1f1b(
    pipeline_layout,
    state_bytes_per_layer,
    device_activation_bytes_per_layer,
    pipeline_parallel_degree,
    number_of_microbatches_per_minibatch,
):
    """Place of the stage between first and last that needs most memory: earlier ones hold more micro-batches.

    Source: arXiv 2205.05198, section 4.2.3.
    """
    needed = []
    for place, share in enumerate(pipeline_layout):
        held = np.minimum(pipeline_parallel_degree - place, number_of_microbatches_per_minibatch)
        needed.append(share.layers * (state_bytes_per_layer + device_activation_bytes_per_layer * held))
    return index_of_largest(needed)


@quantity("count", **LISTED)
def fullest_middle_stage_layers__of_layout(pipeline_layout, fullest_middle_stage_index):
    """Layers of the stage between first and last that needs most memory. Source: definition."""
    found = 0 * fullest_middle_stage_index
    for place, share in enumerate(pipeline_layout[1:-1], 1):
        found = np.where(fullest_middle_stage_index == place, share.layers, found)
    return found


@quantity("count", **LISTED)
def middle_stage_parameters__of_layout(fullest_middle_stage_layers, non_expert_parameters_per_layer):
    """Parameters of the fullest stage between first and last without the routed experts. Source: arXiv 2104.04473, section 2.2."""
    return fullest_middle_stage_layers * non_expert_parameters_per_layer


@quantity("count", choice="pipeline_schedule", value="1f1b", **LISTED)
def middle_stage_microbatches_in_flight__1f1b_of_layout(
    fullest_middle_stage_index, pipeline_parallel_degree, number_of_microbatches_per_minibatch
):
    """Micro-batches whose activations the fullest stage between first and last holds. Source: arXiv 2205.05198, section 4.2.3."""
    return np.minimum(pipeline_parallel_degree - fullest_middle_stage_index, number_of_microbatches_per_minibatch)
