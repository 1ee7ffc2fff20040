"""Lion: one momentum for each parameter, of which the update takes the sign."""

from amped.theory.language.quantity import quantity


@quantity("count", choice="optimizer", value="lion")
def optimizer_states_per_parameter__lion(full_precision_copies):
    """The number of values that Lion keeps for a parameter: a momentum and, if any, a copy in full precision.

    Source: arXiv 2302.06675, algorithm 2.
    """
    return 1 + full_precision_copies
