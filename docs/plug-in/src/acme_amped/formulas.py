"""Formulas of Acme's: each argument is a quantity of amped's, and each result can be asked for by its name."""

from amped.quantity import quantity


@quantity("1")
def tokens_per_parameter(tokens_to_train, number_of_parameters):
    """The tokens that each parameter sees in the whole training. Source: arXiv 2203.15556, table 3."""
    return tokens_to_train / number_of_parameters
