"""The states of parameters: weights, gradients and what the optimizer keeps, in the shard of one accelerator."""

import numpy as np

from amped.theory.language.quantity import quantity, records
from amped.theory.nouns.records import total
from amped.theory.nouns.stage_records import ModelState


@quantity("count")
def full_precision_copies(weight_precision, optimizer_state_precision):
    """The number of copies of a weight that the optimizer keeps: 1, or 0 if the weight is as precise as the states.

    Source: arXiv 1710.03740, section 3.1.
    """
    return 1.0 * (weight_precision < optimizer_state_precision)


@quantity("byte")
def optimizer_bytes_per_parameter(optimizer_states_per_parameter, optimizer_state_precision):
    """The bytes of the optimizer states of one parameter, unsharded. Source: arXiv 1910.02054, section 3.1."""
    return optimizer_states_per_parameter * optimizer_state_precision


@records()
def model_states(
    parameter_groups,
    weight_precision,
    weight_copy_bytes_per_parameter,
    gradient_precision,
    whole_gradient_bytes_per_parameter,
    gradient_copy_bytes_per_parameter,
    optimizer_bytes_per_parameter,
    weight_offload,
    gradient_offload,
    optimizer_offload,
):
    """The bytes of the weight, the gradient and the optimizer states of one parameter in the shard of an accelerator.

    Each of the three also has the share that is offloaded to the host.

    Source: arXiv 1910.02054, section 5; arXiv 2101.06840, section 3 (offload). Differs: AMPeD always shards all states.
    """
    whole = whole_gradient_bytes_per_parameter

    def held(group):
        gradient = np.where(whole > 0, whole, gradient_precision / group.gradient_shards)
        return {
            "weight": weight_precision / group.weight_shards + weight_copy_bytes_per_parameter,
            "gradient": gradient + gradient_copy_bytes_per_parameter,
            "optimizer_state": optimizer_bytes_per_parameter / group.optimizer_state_shards,
        }

    shared, expert = map(held, parameter_groups)
    offloads = {"weight": weight_offload, "gradient": gradient_offload, "optimizer_state": optimizer_offload}
    return tuple(ModelState(name, shared[name], expert[name], offload) for name, offload in offloads.items())


@records()
def device_states(model_states):
    """The bytes of one parameter on the accelerator: weight, gradient and optimizer states together, without offload.

    Source: arXiv 1910.02054, section 5.
    """
    kept = [(state.shared, state.expert, 1 - state.offload) for state in model_states]
    shared, expert = total(s * here for s, _, here in kept), total(e * here for _, e, here in kept)
    return (ModelState("all", shared, expert, 0.0),)


@quantity("count")
def updated_parameters(non_expert_parameters_per_accelerator, expert_parameters_per_accelerator, parameter_groups):
    """The parameters whose optimizer states one accelerator holds, in its own memory or in its host's memory.

    Source: arXiv 1910.02054, section 5.1.
    """
    shared, expert = parameter_groups
    experts = expert_parameters_per_accelerator / expert.optimizer_state_shards
    return non_expert_parameters_per_accelerator / shared.optimizer_state_shards + experts


@quantity("count")
def device_updated_parameters(updated_parameters, optimizer_offload):
    """The parameters that the accelerator itself updates. Source: DeepSpeed, ZeRO-Offload++ (Twin-Flow)."""
    return updated_parameters * (1 - optimizer_offload)
