"""Adam: the moments that it keeps for each parameter."""

from amped.theory.quantity import parameter, quantity


@parameter("count", at_least=0)
def adam_moments_per_parameter():
    """Moments Adam keeps for a parameter, beside its copy in full precision. Source: arXiv 1412.6980."""
    return 2


@quantity("count", choice="optimizer", value="adam")
def optimizer_states_per_parameter__adam(adam_moments_per_parameter, full_precision_copies):
    """Numbers that the optimizer keeps for a parameter. Source: arXiv 1910.02054, section 3.1."""
    return adam_moments_per_parameter + full_precision_copies
