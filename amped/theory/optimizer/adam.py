"""Adam: the moments that it keeps for each parameter, in the precision of moments or in 8 bits."""

from amped.theory.language.quantity import family, quantity


@family(
    named=("optimizer_states_per_parameter__adam", "optimizer_states_per_parameter__adam_8bit"),
    NAME=("adam", "adam_8bit"),
)
@quantity("count", choice="optimizer", value="NAME")
def optimizer_states_per_parameter__NAME(adam_moments_per_parameter, full_precision_copies):
    """The number of values that Adam keeps for a parameter: its moments and, if any, a copy in full precision.

    Source: arXiv 1910.02054, section 3.1; arXiv 2110.02861, section 2 (moments of 8 bits).
    """
    return adam_moments_per_parameter + full_precision_copies
