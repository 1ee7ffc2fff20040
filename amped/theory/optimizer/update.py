"""The optimizer step in mixed precision: its kernels with their times, and its messages."""

from amped.theory.language.quantity import records
from amped.theory.nouns.kernel_work import ADAM, Traffic, operator


@records()
def optimizer_operators(
    device_updated_parameters,
    gradient_precision,
    optimizer_state_precision,
    weight_precision,
    optimizer_bytes_per_parameter,
    full_precision_copies,
    gradient_clipping,
    kept_gradient_fraction,
    entry_costs,
    update_scaling_operators,
    optimizer_products,
):
    """The kernels of an optimizer step in mixed precision, with the matrix products of an optimizer that has any.

    The kernels unscale the gradients, compute their norm, clip the gradients, update the optimizer states (and averages
    of weights), copy the result to the weights, and reset the gradients that are kept. If there is no copy of the weights in full
    precision, the update reads and writes the weights themselves.

    Source: Megatron-LM, Float16OptimizerWithFloat16Params; arXiv 1710.03740, section 3.
    """
    gradient, state, weight, flop = gradient_precision, optimizer_state_precision, weight_precision, entry_costs[0].flop
    states = optimizer_bytes_per_parameter + (1 - full_precision_copies) * weight
    updated = Traffic(flops=ADAM.flops * flop, read=state + states, written=states, functions=ADAM.functions)
    parts = (
        ("gradient_unscale", Traffic(flop, gradient, state), 1.0),
        ("gradient_norm", Traffic(2 * flop, state), gradient_clipping),
        ("gradient_clip", Traffic(flop, state, state), gradient_clipping),
        ("optimizer_update", updated, 1.0),
        ("weight_copy", Traffic(0 * flop, state, weight), full_precision_copies),
        ("gradient_reset", Traffic(0 * flop, written=gradient), kept_gradient_fraction),
    )
    sides, used = (device_updated_parameters, 1.0, 0.0, 1.0), 1.0 * (optimizer_bytes_per_parameter > 0)
    kernels = tuple(
        operator(name, "element_wise", "update", sides, work * device_updated_parameters, count=used * calls)
        for name, work, calls in parts
    )
    return kernels + update_scaling_operators + optimizer_products


@records()
def optimizer_durations(optimizer_operators, kernel_rates):
    """The time of each kernel of the optimizer step by the roofline model.

    Source: Williams et al., CACM 52(4), 2009; the equations of the page `roofline/kernels`.
    """
    return kernel_rates[0].durations(optimizer_operators)
