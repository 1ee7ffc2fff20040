"""Copies from and to the host in a step: on the bottleneck stage, and around the optimizer."""

from amped.theory.conditions import OFFLOADED
from amped.theory.quantity import quantity


@quantity("s", choice="performance_model", value="operators", **OFFLOADED)
def hidden_offload_communication_time__operators(
    overlapped_offload_communication_time_per_layer,
    bottleneck_stage_layer_passes,
    offload_fill_time,
    overlapped_update_offload_time,
):
    """Copies from and to the host beside computation on the bottleneck stage, and beside the host's optimizer.

    Source: arXiv 2101.06840, section 4.1; arXiv 2104.07857, section 6.2.
    """
    layers = bottleneck_stage_layer_passes * overlapped_offload_communication_time_per_layer - offload_fill_time
    return layers + overlapped_update_offload_time


@quantity("s", choice="performance_model", value="operators", **OFFLOADED)
def exposed_offload_communication_time__operators(
    exposed_offload_communication_time_per_layer,
    bottleneck_stage_layer_passes,
    offload_fill_time,
    update_offload_time,
    overlapped_update_offload_time,
):
    """Copies from and to the host that the bottleneck stage waits for, and what the hidden ones slow down.

    Source: arXiv 2101.06840, section 4.1; arXiv 2104.07857, section 4.1.
    """
    layers = bottleneck_stage_layer_passes * exposed_offload_communication_time_per_layer + offload_fill_time
    return layers + update_offload_time - overlapped_update_offload_time
