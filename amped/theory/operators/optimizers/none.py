"""No optimizer: nothing is kept beside weights and gradients."""

from amped.theory.quantity import quantity


@quantity("count", choice="optimizer", value="none")
def optimizer_states_per_parameter__none():
    """Numbers that the optimizer keeps for a parameter: there is no optimizer. Source: definition."""
    return 0
