"""Adam: the moments that it keeps for each parameter."""

from amped.theory.quantity import quantity


@quantity("count", choice="optimizer", value="adam")
def optimizer_states_per_parameter__adam(adam_moments_per_parameter, full_precision_copies):
    """Numbers that Adam keeps for a parameter: its moments, and the weight's copy in full precision if there is one.

    Source: arXiv 1910.02054, section 3.1.
    """
    return adam_moments_per_parameter + full_precision_copies
