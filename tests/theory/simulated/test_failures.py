"""Trainings that fail at random, run from failure to failure, against the equations of Young and Daly."""

import numpy as np
import pytest

from amped.theory.step.failures import (
    best_checkpoint_interval_time,
    best_checkpoint_interval_time__young,
    interruption_factor,
)

FAILURES, MONTH, HOUR, MINUTE = 100_000, 30 * 86400.0, 3600.0, 60.0
# Time between failures, of a checkpoint, of its flush beside the training, and of a restart: from rare to hopeless.
RUNS = {
    "64 accelerators": (MONTH, 2 * MINUTE, 0.0, 17 * MINUTE),
    "16,384 accelerators": (3 * HOUR, 3.0, 0.0, 15 * MINUTE),
    "16,384 accelerators, asynchronous": (3 * HOUR, 0.01, 30.0, 15 * MINUTE),
    "slow storage": (HOUR, 10 * MINUTE, 0.0, 20 * MINUTE),
    "131,072 accelerators": (23 * MINUTE, 20.0, 0.0, 15 * MINUTE),
}


def advanced_share(between, checkpoint, flush, restart, interval, lives):
    """The share of all time that advances the training: of each life, the checkpoints that were flushed before its end."""
    trained = np.maximum(lives * between - restart - flush, 0.0)
    return (trained // (interval + checkpoint)).sum() * interval / (lives.sum() * between)


@pytest.fixture(scope="module")
def lives():
    """The times between failures, in units of their mean."""
    return np.random.default_rng(49).exponential(size=FAILURES)


@pytest.mark.parametrize("run", RUNS)
def test_the_time_of_100_000_failures_is_that_of_the_equation_within_2_percent(run, lives):
    between, checkpoint, flush, restart = RUNS[run]
    best = float(np.maximum(best_checkpoint_interval_time(checkpoint, between), flush))
    for interval in (best / 2, best, best * 2):
        told = 1 / interruption_factor(checkpoint, interval, flush, restart, between)
        assert told == pytest.approx(advanced_share(*RUNS[run], interval, lives), rel=0.02)


@pytest.mark.parametrize("run", RUNS)
def test_no_other_interval_loses_2_percent_less_than_that_of_daly(run, lives):
    between, checkpoint, flush, _ = RUNS[run]
    best = float(np.maximum(best_checkpoint_interval_time(checkpoint, between), flush))
    others = (advanced_share(*RUNS[run], best * factor, lives) for factor in np.geomspace(0.1, 10, 41))
    assert advanced_share(*RUNS[run], best, lives) > 0.98 * max(others)


def test_the_first_order_is_as_good_while_a_checkpoint_is_short_and_worse_when_it_is_long(lives):
    for run, most in (("64 accelerators", 0.02), ("16,384 accelerators", 0.02), ("slow storage", 0.1)):
        between, checkpoint, *_ = RUNS[run]
        intervals = (
            best(checkpoint, between) for best in (best_checkpoint_interval_time__young, best_checkpoint_interval_time)
        )
        young, daly = (advanced_share(*RUNS[run], float(interval), lives) for interval in intervals)
        assert young == pytest.approx(daly, rel=most)
    assert young < daly  # slow storage: ten minutes of each hour


def test_a_checkpoint_that_takes_longer_than_two_failures_is_worth_one_in_the_time_between_failures():
    assert best_checkpoint_interval_time(3 * HOUR, HOUR) == HOUR


def test_a_checkpoint_without_bytes_is_always_made_and_a_failure_loses_its_restart_alone(lives):
    """A training that changes no weight has nothing to write."""
    told = 1 / interruption_factor(np.array([0.0]), np.array([0.0]), np.array([0.0]), 10 * MINUTE, 3 * HOUR)
    assert told == pytest.approx(advanced_share(3 * HOUR, 0.0, 0.0, 10 * MINUTE, 1e-3, lives), rel=0.02)
