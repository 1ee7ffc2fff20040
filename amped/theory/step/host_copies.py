"""Copies to and from the host in a step: on the bottleneck stage, and around the optimizer."""

import numpy as np

from amped.theory.language.quantity import quantity
from amped.theory.nouns.conditions import BY_OPERATORS, OFFLOADED


@quantity("s", **BY_OPERATORS, **OFFLOADED)
def hidden_offload_communication_time__operators(
    layer_windows,
    bottleneck_layer_shares,
    bottleneck_stage_layer_passes,
    offload_fill_time,
    overlapped_update_offload_time,
):
    """The time in which copies between accelerator and host overlap computation.

    The computation is that of the layers of the bottleneck stage, or that of the optimizer on accelerator and host. A
    bottleneck stage without layers hides nothing; it waits for the first copies of the other stages.

    Source: arXiv 2101.06840, section 4.1; arXiv 2104.07857, section 6.2.
    """
    per_layer = bottleneck_layer_shares[0].mean([windows.overlapped_copies for windows in layer_windows])
    layers = bottleneck_stage_layer_passes * per_layer
    return np.maximum(layers - offload_fill_time, 0) + overlapped_update_offload_time


@quantity("s", **BY_OPERATORS, **OFFLOADED)
def exposed_offload_communication_time__operators(
    layer_windows,
    bottleneck_layer_shares,
    bottleneck_stage_layer_passes,
    offload_fill_time,
    update_offload_time,
    overlapped_update_offload_time,
):
    """The time that the bottleneck stage loses because of copies between accelerator and host.

    It waits for copies, and hidden copies slow its computation down.

    Source: arXiv 2101.06840, section 4.1; arXiv 2104.07857, section 4.1.
    """
    per_layer = bottleneck_layer_shares[0].mean([windows.exposed_copies for windows in layer_windows])
    layers = bottleneck_stage_layer_passes * per_layer + offload_fill_time
    return layers + update_offload_time - overlapped_update_offload_time
