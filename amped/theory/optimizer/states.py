"""The states of parameters: weights, gradients and what the optimizer keeps, in the shard of one accelerator."""

import numpy as np

from amped.theory.language.quantity import quantity, records
from amped.theory.nouns.parameter_classes import ModelState
from amped.theory.nouns.records import total
from amped.theory.nouns.stage_records import Held


@quantity("count")
def full_precision_copies(weight_precision, optimizer_state_precision):
    """The number of copies of a weight that the optimizer keeps: 1, or 0 if the weight is as precise as the states.

    Source: arXiv 1710.03740, section 3.1.
    """
    return 1.0 * (weight_precision < optimizer_state_precision)


@quantity("byte")
def optimizer_bytes_per_parameter(
    optimizer_states_per_parameter,
    full_precision_copies,
    optimizer_state_precision,
    moment_precision,
    weight_averages,
):
    """The bytes of the optimizer states of one parameter, unsharded: a copy in full precision, moments and averages.

    Source: arXiv 1910.02054, section 3.1; arXiv 2412.19437, section 3.3.2 (moments in 16 bits) and 3.2.3 (averages).
    """
    copies = np.minimum(full_precision_copies, optimizer_states_per_parameter)
    kept = (copies + weight_averages * (optimizer_states_per_parameter > 0)) * optimizer_state_precision
    return kept + (optimizer_states_per_parameter - copies) * moment_precision


@records()
def optimizer_states_by_class(parameter_classes, optimizer_bytes_per_parameter):
    """The bytes of the optimizer states of one parameter of each class, unsharded; none for what is not trained.

    Source: arXiv 1910.02054, section 3.1.
    """
    return tuple(Held(c.name, c.changes * optimizer_bytes_per_parameter) for c in parameter_classes)


@records()
def model_states(
    parameter_classes,
    parameter_groups,
    optimizer_states_by_class,
    weight_copy_bytes_per_parameter,
    gradient_precision,
    whole_gradient_bytes_per_parameter,
    gradient_copy_bytes_per_parameter,
    weight_offload,
    gradient_offload,
    optimizer_offload,
):
    """The bytes of the weight, the gradient and the optimizer states of one parameter in the shard of an accelerator.

    They are given for each class of parameters. Each of the three also has the share that is offloaded to the host.

    Source: arXiv 1910.02054, section 5; arXiv 2101.06840, section 3 (offload). Differs: AMPeD always shards all states.
    """
    states, whole_gradient = [], whole_gradient_bytes_per_parameter
    for c, state in zip(parameter_classes, optimizer_states_by_class, strict=True):
        group = c.among(parameter_groups)
        gradient = np.where(whole_gradient > 0, whole_gradient, gradient_precision / group.gradient_shards)
        weight = c.precision / group.weight_shards + weight_copy_bytes_per_parameter
        gradient = c.changes * (gradient + gradient_copy_bytes_per_parameter)
        states.append((weight, gradient, state.bytes / group.optimizer_state_shards))
    weights, gradients, optimizer_states = zip(*states, strict=True)
    return (
        ModelState("weight", weights, weight_offload),
        ModelState("gradient", gradients, gradient_offload),
        ModelState("optimizer_state", optimizer_states, optimizer_offload),
    )


@quantity("count")
def updated_parameters(
    trained_parameters_per_accelerator, expert_class_parameters, parameter_classes, parameter_groups
):
    """The parameters whose optimizer states one accelerator holds, in its own memory or in its host's memory.

    Source: arXiv 1910.02054, section 5.1.
    """
    (shared, expert), ((*counts,),) = parameter_groups, [parameters.counts for parameters in expert_class_parameters]
    trained = total(c.changes * n for c, n in zip(parameter_classes, counts, strict=True) if c.routed)
    experts = trained / expert.optimizer_state_shards
    return trained_parameters_per_accelerator / shared.optimizer_state_shards + experts


@quantity("count")
def device_updated_parameters(updated_parameters, optimizer_offload):
    """The parameters that the accelerator itself updates. Source: DeepSpeed, ZeRO-Offload++ (Twin-Flow)."""
    return updated_parameters * (1 - optimizer_offload)
