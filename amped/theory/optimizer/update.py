"""The optimizer step in mixed precision: its kernels with their times, and its messages."""

from amped.theory.language.quantity import records
from amped.theory.nouns.kernel_work import ADAM, Traffic, operator


@records()
def gradient_operators(
    device_updated_parameters,
    gradient_precision,
    optimizer_state_precision,
    optimizer_bytes_per_parameter,
    gradient_clipping,
    kept_gradient_fraction,
    entry_costs,
):
    """The kernels on the gradients of an optimizer step, the reset last; none without optimizer states.

    They unscale the gradients, compute their norm, clip them, and reset those that are kept.

    Source: Megatron-LM, Float16OptimizerWithFloat16Params; arXiv 1710.03740, section 3.
    """
    gradient, state, flop = gradient_precision, optimizer_state_precision, entry_costs[0].flop
    parts = (
        ("gradient_unscale", Traffic(flop, gradient, state), 1.0),
        ("gradient_norm", Traffic(2 * flop, state), gradient_clipping),
        ("gradient_clip", Traffic(flop, state, state), gradient_clipping),
        ("gradient_reset", Traffic(0 * flop, written=gradient), kept_gradient_fraction),
    )
    return kernels_of(parts, device_updated_parameters, optimizer_bytes_per_parameter)


def kernels_of(parts, parameters, state_bytes):
    """The kernels that pass over all updated parameters once; none without optimizer states.

    Args:
        parts: for each its name, its traffic for a parameter, and how often it runs.
        parameters: the number of parameters.
        state_bytes: the bytes of the states of a parameter.

    Source: definition.
    """
    sides, used = (parameters, 1.0, 0.0, 1.0), 1.0 * (state_bytes > 0)
    return tuple(
        operator(name, "element_wise", "update", sides, work * parameters, count=used * calls)
        for name, work, calls in parts
    )


@records()
def optimizer_operators(
    device_updated_parameters,
    optimizer_state_precision,
    weight_precision,
    optimizer_bytes_per_parameter,
    full_precision_copies,
    entry_costs,
    gradient_operators,
    update_scaling_operators,
    optimizer_products,
):
    """The kernels of an optimizer step in mixed precision, with the matrix products of an optimizer that has any.

    After the kernels on gradients, they update the optimizer states (and averages of weights) and copy the result to
    the weights; then the gradients are reset. If there is no copy of the weights in full precision, the update reads
    and writes the weights themselves.

    Source: Megatron-LM, Float16OptimizerWithFloat16Params; arXiv 1710.03740, section 3.
    """
    state, weight, flop = optimizer_state_precision, weight_precision, entry_costs[0].flop
    states = optimizer_bytes_per_parameter + (1 - full_precision_copies) * weight
    updated = Traffic(flops=ADAM.flops * flop, read=state + states, written=states, functions=ADAM.functions)
    parts = (
        ("optimizer_update", updated, 1.0),
        ("weight_copy", Traffic(0 * flop, state, weight), full_precision_copies),
    )
    *before, reset = gradient_operators
    updates = kernels_of(parts, device_updated_parameters, optimizer_bytes_per_parameter)
    return (*before, *updates, reset, *update_scaling_operators, *optimizer_products)


@records()
def optimizer_durations(optimizer_operators, kernel_rates):
    """The time of each kernel of the optimizer step by the roofline model.

    Source: Williams et al., CACM 52(4), 2009; the equations of the page `roofline/kernels`.
    """
    return kernel_rates[0].durations(optimizer_operators)
