"""Goodput: the share of the days that trains, after checkpoints, failures, evaluations, slow accelerators and waits."""

import numpy as np

from amped.theory.language.quantity import quantity


@quantity("1")
def evaluation_fraction(batches_per_evaluation, steps_between_evaluations, gradient_layer_fraction):
    """The time of evaluations, as a share of the time of all steps. A batch of one costs the forward pass of a step.

    Source: definition; a backward pass has twice the products of a forward pass (arXiv 2001.08361, section 2.1).
    """
    return batches_per_evaluation / steps_between_evaluations / (1 + 2 * gradient_layer_fraction)


@quantity("1")
def straggler_fraction(accelerator_time_deviation, number_of_accelerators):
    """What a step takes longer because all wait for the slowest of n accelerators: at most this share.

    The times of accelerators are normal around their mean, and the slowest of n is σ·√(2·ln n) above it at most.

    Source: Boucheron, Lugosi, Massart, Concentration Inequalities, 2013, theorem 2.5 (maximal inequality).
    """
    return accelerator_time_deviation * np.sqrt(2 * np.log(number_of_accelerators))


@quantity("1")
def goodput_fraction(interruption_factor, evaluation_fraction, straggler_fraction, data_stall_fraction):
    """The share of the days that trains: without checkpoints, restarts, lost work, evaluations and waits.

    Source: arXiv 2402.15627, section 6.3 (steps × their time / total time).
    """
    return 1 / (interruption_factor * (1 + evaluation_fraction + straggler_fraction + data_stall_fraction))
