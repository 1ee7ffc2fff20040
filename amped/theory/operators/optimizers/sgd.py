"""SGD with momentum: the moments that it keeps for each parameter."""

from amped.theory.quantity import quantity


@quantity("count", choice="optimizer", value="sgd")
def optimizer_states_per_parameter__sgd(sgd_moments_per_parameter, full_precision_copies):
    """Numbers that SGD keeps for a parameter: its momentum, and the weight's copy in full precision if there is one.

    Source: PyTorch, torch.optim.SGD (momentum_buffer); arXiv 1710.03740, section 3.1 (copy of the weight).
    """
    return sgd_moments_per_parameter + full_precision_copies
