"""Adafactor: the second moment of a matrix is kept as the means of its rows and columns, and no first moment."""

from amped.theory.language.quantity import quantity, records
from amped.theory.nouns.kernel_work import Traffic, operator


@quantity("count", choice="optimizer", value="adafactor")
def optimizer_states_per_parameter__adafactor(full_precision_copies):
    """The number of values that Adafactor keeps for a parameter: none besides a copy in full precision, if any.

    Source: arXiv 1804.04235, algorithm 4 without a first moment. Differs: the means of rows and columns, less than 1 %
    of a matrix with sides of 200, and the whole second moments of vectors count nothing.
    """
    return 1.0 * full_precision_copies


@records(choice="optimizer", value="adafactor")
def update_scaling_operators__adafactor(device_updated_parameters, optimizer_state_precision, entry_costs):
    """The kernels of Adafactor besides the update of the weights; each runs by itself.

    They square the gradients, take the means of rows and of columns, multiply out the inverse roots of the means,
    multiply the gradients by them, and clip the update by its norm.

    Source: arXiv 1804.04235, algorithm 4; huggingface/transformers, optimization.py (Adafactor.step).
    """
    parameters, flop, state = device_updated_parameters, entry_costs[0].flop, optimizer_state_precision
    parts = (
        ("squares", Traffic(2 * flop, state, state)),
        ("row_and_column_means", Traffic(2 * flop, 2 * state)),
        ("factored_roots", Traffic(flop, 0.0, state, functions=1.0)),
        ("scaled_gradients", Traffic(flop, 2 * state, state)),
        ("update_norms", Traffic(2 * flop, state)),
        ("clipped_updates", Traffic(2 * flop, state, state)),
    )
    sides = (parameters, 1.0, 0.0, 1.0)
    return tuple(operator(name, "element_wise", "update", sides, work * parameters) for name, work in parts)
