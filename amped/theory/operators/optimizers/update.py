"""The optimizer step in mixed precision: what any optimizer does around the update of its states."""

from amped.theory.quantity import quantity, records
from amped.theory.records import Operator

# Of one parameter's update: a root, and the quotients by it and by the bias. Source: arXiv 1412.6980, algorithm 1.
UPDATE_FUNCTIONS = 3


@quantity("count")
def full_precision_copies(weight_precision, optimizer_state_precision):
    """Copies of a weight that the optimizer keeps: one, unless the weight itself is as precise as its states.

    Source: arXiv 1710.03740, section 3.1.
    """
    return 1.0 * (weight_precision < optimizer_state_precision)


@records()
def optimizer_operators(
    device_updated_parameters, gradient_precision, optimizer_state_precision, weight_precision,
    optimizer_states_per_parameter, full_precision_copies, flops_per_elementary_operation, gradient_clipping,
):  # fmt: skip
    """An optimizer step in mixed precision: scale undone, norm, clipping, update of the states, weights copied, reset.

    Source: Megatron-LM, Float16OptimizerWithFloat16Params; arXiv 1710.03740. Adam takes about 15 operations a parameter;
    a weight without a copy in full precision is updated itself.
    """
    p, g, s, w = device_updated_parameters, gradient_precision, optimizer_state_precision, weight_precision
    flop, none = flops_per_elementary_operation, 0.0 * gradient_precision
    states = optimizer_states_per_parameter * s + (1 - full_precision_copies) * w
    parts = (
        ("gradient_unscale", 1, g, s, 1.0),
        ("gradient_norm", 2, s, none, gradient_clipping),
        ("gradient_clip", 1, s, s, gradient_clipping),
        ("optimizer_update", 15, s + states, states, 1.0),
        ("weight_copy", 0, s, w, full_precision_copies),
        ("gradient_reset", 0, none, g, 1.0),
    )
    used, functions = 1.0 * (optimizer_states_per_parameter > 0), {"optimizer_update": UPDATE_FUNCTIONS}
    return tuple(
        Operator(
            name,
            "element_wise",
            "update",
            p,
            1.0,
            0.0,
            1.0,
            flops * p * flop,
            p * read,
            p * written,
            0.0 * p * g,
            1.0,
            used * calls,
            functions=functions.get(name, 0.0) * p,
        )
        for name, flops, read, written, calls in parts
    )
