"""Memory of the host: what is offloaded there, and whether it fits."""

from amped.theory.language.quantity import quantity
from amped.theory.memory.fullest_stage import value_of_stage
from amped.theory.nouns.conditions import OFFLOADED
from amped.theory.nouns.records import latest, total


@quantity("byte")
def host_state_bytes(fullest_stage_index, stage_parameters, model_states):
    """The bytes of weights, gradients and optimizer states that the host keeps for an accelerator of the fullest stage.

    Source: arXiv 2101.06840, section 3.
    """
    state_bytes = [total(state.of(stage) * state.offload for state in model_states) for stage in stage_parameters]
    return value_of_stage(fullest_stage_index, state_bytes)


@quantity("byte")
def host_activation_bytes(offloaded_activation_bytes_per_layer, pipeline_stages, stage_microbatches_in_flight):
    """The activations that the host keeps for one accelerator, on the stage that offloads most activations.

    Source: arXiv 2104.07857, section 5.1 (CPU offload for activations).
    """
    layers = [s.layers * held.layers for s, held in zip(pipeline_stages, stage_microbatches_in_flight, strict=True)]
    return offloaded_activation_bytes_per_layer * latest(layers)


@quantity("byte", **OFFLOADED)
def host_memory_bytes__offloaded(host_state_bytes, host_activation_bytes):
    """The memory that the host keeps for one accelerator. Source: definition."""
    return host_state_bytes + host_activation_bytes


@quantity("boolean", when_given=("host_memory_capacity",), **OFFLOADED)
def fits_in_host_memory__known(host_memory_bytes, number_of_accelerators_of_a_host, host_memory_capacity):
    """Whether everything that the accelerators of a host offload fits into the host's memory. Source: definition."""
    return host_memory_bytes * number_of_accelerators_of_a_host <= host_memory_capacity
