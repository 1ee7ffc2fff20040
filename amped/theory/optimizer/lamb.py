"""LAMB: Adam whose update of each tensor is scaled by the ratio of two norms."""

from amped.theory.language.quantity import quantity, records
from amped.theory.nouns.kernel_work import Traffic, operator


@quantity("count", choice="optimizer", value="lamb")
def optimizer_states_per_parameter__lamb(adam_moments_per_parameter, full_precision_copies):
    """The number of values that LAMB keeps for a parameter: those of Adam. Source: arXiv 1904.00962, algorithm 2."""
    return adam_moments_per_parameter + full_precision_copies


@records(choice="optimizer", value="lamb")
def update_scaling_operators__lamb(device_updated_parameters, optimizer_state_precision, entry_costs):
    """The kernels of LAMB besides those of Adam: the norms of each weight and of its update, and the scaled update.

    Adam's kernel writes the update in place of the weight. The norms read the weight and the update; then both are read
    once more, and the weight is written.

    Source: arXiv 1904.00962, algorithm 2; NVIDIA apex, csrc/multi_tensor_lamb.cu.
    """
    parameters, flop, state = device_updated_parameters, entry_costs[0].flop, optimizer_state_precision
    parts = (
        ("update_norms", Traffic(4 * flop, 2 * state)),
        ("scaled_update", Traffic(2 * flop, 2 * state, state)),
    )
    sides = (parameters, 1.0, 0.0, 1.0)
    return tuple(operator(name, "element_wise", "update", sides, work * parameters) for name, work in parts)
