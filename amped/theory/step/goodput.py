"""Goodput: the time that checkpoints and failures take from a training; none where failures are not given."""

import numpy as np

from amped.theory.language.quantity import SYSTEM, quantity

FAILING = ("accelerator_mean_time_between_failures", "checkpoint_time", "restart_time")


@quantity("s")
def time_between_failures(accelerator_mean_time_between_failures, number_of_accelerators):
    """The mean time between failures of any accelerator of the run. Each failure stops the training.

    Source: definition, for independent failures.
    """
    return accelerator_mean_time_between_failures / number_of_accelerators


@quantity("s", category=SYSTEM)
def checkpoint_interval_time(checkpoint_time, time_between_failures):
    """The time of training between two checkpoints. Unless given, it is the interval with the least loss of time.

    Source: Young, CACM 17(9), 1974, eq. 6.
    """
    return np.sqrt(2 * checkpoint_time * time_between_failures)


@quantity("1", when_given=FAILING)
def goodput_fraction__failing(checkpoint_time, checkpoint_interval_time, restart_time, time_between_failures):
    """The share of the time that advances the training, without checkpoints, restarts and lost work.

    A failure loses half an interval between checkpoints on average.

    Source: Daly, Future Generation Computer Systems 22(3), 2006, section 2 (first order).
    """
    lost = (checkpoint_interval_time / 2 + restart_time) / time_between_failures
    return 1 / (1 + checkpoint_time / checkpoint_interval_time + lost)
