"""SGD with momentum: the moments that it keeps for each parameter."""

from amped.theory.language.quantity import quantity


@quantity("count", choice="optimizer", value="sgd")
def optimizer_states_per_parameter__sgd(sgd_moments_per_parameter, full_precision_copies):
    """The number of values that SGD keeps for a parameter: its momentum and, if any, a copy in full precision.

    Source: PyTorch, torch.optim.SGD (momentum_buffer); arXiv 1710.03740, section 3.1 (copy of the weight).
    """
    return sgd_moments_per_parameter + full_precision_copies
