"""The accelerator's datasheet: clocks, units, peak rates by precision, memory, power and price."""

from amped.theory.language.quantity import ACCELERATOR, quantity


@quantity("flop/s", category=ACCELERATOR)
def fp16_peak_flop_rate(
    flops_per_multiply_accumulate, frequency, number_of_cores, functional_units_per_core, mac_per_cycle_per_unit
):
    """The peak rate of fp16 matrix products, from the clock and the units. Source: AMPeD, computation time."""
    units = number_of_cores * functional_units_per_core
    return flops_per_multiply_accumulate * frequency * units * mac_per_cycle_per_unit


@quantity("flop/s", category=ACCELERATOR)
def vector_flop_rate(matrix_peak_flop_rate, vector_to_matrix_fraction):
    """The peak rate of the vector units, computed from the matrix peak rate if the accelerator's row does not give it.

    Source: A100 and H100 whitepapers.
    """
    return matrix_peak_flop_rate * vector_to_matrix_fraction
