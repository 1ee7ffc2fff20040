"""SGD with momentum: the moments that it keeps for each parameter."""

from amped.theory.quantity import quantity


@quantity("count", choice="optimizer", value="sgd")
def optimizer_states_per_parameter__sgd(sgd_moments_per_parameter, full_precision_copies):
    """Numbers that the optimizer keeps for a parameter. Source: arXiv 1710.03740."""
    return sgd_moments_per_parameter + full_precision_copies
