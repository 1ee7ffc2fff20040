"""Adam: the moments that it keeps for each parameter."""

from amped.theory.language.quantity import quantity


@quantity("count", choice="optimizer", value="adam")
def optimizer_states_per_parameter__adam(adam_moments_per_parameter, full_precision_copies):
    """The number of values that Adam keeps for a parameter: its moments and, if any, a copy in full precision.

    Source: arXiv 1910.02054, section 3.1.
    """
    return adam_moments_per_parameter + full_precision_copies
