"""Failures: how often they stop a training, what each one costs, and how often a checkpoint is worth its time."""

import numpy as np

from amped.theory.language.quantity import SYSTEM, quantity


@quantity("s")
def time_between_failures(accelerator_mean_time_between_failures, number_of_accelerators):
    """The mean time between failures of any accelerator of the run. Each failure stops the training.

    Source: definition, for independent failures.
    """
    return accelerator_mean_time_between_failures / number_of_accelerators


@quantity("s", category=SYSTEM)
def restart_time(failure_detection_time, relaunch_time, checkpoint_read_time):
    """The time from a failure until the training runs again from its last checkpoint. Source: definition."""
    return failure_detection_time + relaunch_time + checkpoint_read_time


@quantity("s")
def best_checkpoint_interval_time(checkpoint_time, time_between_failures):
    """The time of training between two checkpoints with the least loss of time.

    Source: Daly, Future Generation Computer Systems 22(3), 2006, eq. 37 (the higher order).
    """
    ratio = checkpoint_time / (2 * time_between_failures)
    longer = np.sqrt(2 * checkpoint_time * time_between_failures) * (1 + np.sqrt(ratio) / 3 + ratio / 9)
    return np.where(ratio < 1, longer - checkpoint_time, time_between_failures)


@quantity("s", choice="checkpoint_interval_law", value="young")
def best_checkpoint_interval_time__young(checkpoint_time, time_between_failures):
    """The time of training between two checkpoints with the least loss of time, where failures are rare.

    Source: Young, CACM 17(9), 1974, eq. 6 (the first order).
    """
    return np.sqrt(2 * checkpoint_time * time_between_failures)


@quantity("s", category=SYSTEM)
def checkpoint_interval_time(best_checkpoint_interval_time, checkpoint_flush_time):
    """The time of training between two checkpoints: the best, and long enough to write one. Source: definition."""
    return np.maximum(best_checkpoint_interval_time, checkpoint_flush_time)


@quantity("1")
def interruption_factor(
    checkpoint_time, checkpoint_interval_time, checkpoint_flush_time, restart_time, time_between_failures
):
    """The time with checkpoints and failures, as a multiple of the time in which the training advances.

    A failure loses the work since the last checkpoint that can be read. It may also come during a checkpoint or a
    restart. Checkpoints that take no time are made all the time, so that a failure costs its restart alone.

    Source: Daly, Future Generation Computer Systems 22(3), 2006, section 3 (exact for independent failures). Differs:
    the work during the flush of a checkpoint is done again, too, and counts as restart.
    """
    is_made = checkpoint_interval_time > 0
    interval = np.where(is_made, checkpoint_interval_time, time_between_failures)
    lost = np.expm1((interval + checkpoint_time) / time_between_failures) * (time_between_failures / interval)
    again = np.exp((restart_time + checkpoint_flush_time) / time_between_failures)
    return again * np.where(is_made, lost, 1.0)
