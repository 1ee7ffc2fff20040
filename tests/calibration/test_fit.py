"""Fits on a toy: two coefficients that a time depends on in a known way, and one that it does not depend on."""

import numpy as np
import pytest

from amped.calibration.calibrate import chosen
from amped.calibration.coefficients import BY_NAME, FITTABLE, MOST_OF_AN_ACCELERATOR
from amped.calibration.fitting import NOISE, Task, fitted
from amped.calibration.observations import Observation
from amped.tables.table_files import KERNELS
from amped.tables.tables import Tables
from amped.theory.language.catalogue import catalogue
from amped.theory.language.quantity import ACCELERATOR

RATE, STREAM, IDLE = "gemm_sustained_fraction", "memory_bandwidth_efficiency", "collective_overhead_time"
START = {RATE: 0.7, STREAM: 0.85, IDLE: 8e-6}


def run(number, work, traffic, measured, group="one"):
    """work / rate + traffic / bandwidth, by hand."""
    return Observation(
        f"run {number}", group, measured, START, lambda v: work / v[RATE] + traffic / v[STREAM] + 0 * v[RATE]
    )


def machine(rate, stream, scatter=(), runs=24):
    """Runs of a machine: a quarter to three quarters of the time is work; each fourth is of one network."""
    factors = scatter if len(scatter) else np.ones(runs)
    made = []
    for i, factor in enumerate(factors):
        work, traffic = 1 + i % 5, 1 + i % 3
        made.append(run(i, work, traffic, (work / rate + traffic / stream) * factor, f"network {i % 4}"))
    return made


def task(observations, names=(RATE, STREAM), weights=None):
    whole = np.ones((1, len(observations)))
    start = np.array([START[name] for name in names])
    return Task([BY_NAME[name] for name in names], start, observations, whole if weights is None else weights)


def cost(t, values):
    """What a fit makes small, written from its definition: Huber's loss of errors, and distances from the start."""
    size = np.abs(t.errors((np.array([values]) - t.start) / t.doubts))[0] / NOISE
    loss = sum(e * e if e <= 2 else 2 * (2 * e - 2) for e in size)
    return loss + sum(((values - t.start) / t.doubts) ** 2)


def test_many_observations_are_believed_and_few_are_drawn_to_the_table():
    few, many = (fitted(task(machine(0.6, 0.9, runs=runs)))[0] for runs in (4, 480))
    assert many == pytest.approx([0.6, 0.9], rel=0.005)
    assert 0.61 < few[0] < START[RATE]


def test_with_noise_it_is_found_as_well_as_the_noise_allows():
    scatter = np.random.default_rng(1).normal(1, 0.03, 200)
    found = fitted(task(machine(0.6, 0.9, scatter)))[0]
    assert found == pytest.approx([0.6, 0.9], rel=0.03)


def test_nothing_nearby_is_better():
    """A fit is the bottom of what it makes small; looked for in a grid around it."""
    t = task(machine(0.55, 0.8, np.random.default_rng(2).normal(1, 0.05, 24)))
    found = fitted(t)[0]
    nearby = [found + np.array([a, b]) for a in (-0.004, 0, 0.004) for b in (-0.004, 0, 0.004)]
    assert min(cost(t, values) for values in nearby) == pytest.approx(cost(t, found), rel=1e-3)


def test_what_no_observation_tells_stays_to_the_last_bit():
    found = fitted(task(machine(0.6, 0.9), (RATE, STREAM, IDLE)))[0]
    assert found[2] == START[IDLE]


def test_bounds_hold_and_the_other_coefficients_make_the_best_of_it():
    t = task(machine(0.1, 0.9), (RATE, STREAM))
    found = fitted(t)[0]
    assert found[0] == pytest.approx(BY_NAME[RATE].lowest)
    nearby = [np.array([found[0], found[1] + step]) for step in (-0.002, 0.002) if 0.6 <= found[1] + step <= 0.97]
    assert nearby
    assert min(cost(t, values) for values in nearby) >= cost(t, found) * (1 - 1e-4)


def test_an_outlier_does_not_take_the_others_along():
    scatter = np.ones(24)
    scatter[3] = 3.0
    wild = fitted(task(machine(0.6, 0.9, scatter)))[0]
    assert wild == pytest.approx([0.6, 0.9], rel=0.03)


def test_fits_that_go_together_are_those_that_go_alone():
    observations = machine(0.6, 0.9, np.random.default_rng(3).normal(1, 0.04, 24))
    weights = np.ones((5, 24))
    for fold in range(4):
        weights[fold + 1, fold::4] = 0
    together = fitted(task(observations, weights=weights))
    for row, values in zip(weights, together, strict=True):
        assert values == pytest.approx(fitted(task(observations, weights=row[None]))[0], rel=1e-3)
    assert len({tuple(values) for values in together}) == 5


def test_a_fit_left_without_an_observation_has_not_seen_it():
    observations = machine(0.6, 0.9)
    weights = np.ones((1, 24))
    weights[0, 0] = 0
    seen = fitted(task(observations, weights=weights))
    observations[0] = run(0, 1, 1, 1e6, "network 0")
    assert np.array_equal(fitted(task(observations, weights=weights)), seen)


def test_the_same_comes_out_every_time():
    scatter = np.random.default_rng(4).normal(1, 0.05, 24)
    assert fitted(task(machine(0.6, 0.9, scatter))).tobytes() == fitted(task(machine(0.6, 0.9, scatter))).tobytes()


# --- which coefficients -----------------------------------------------------------------------------------------------


def test_what_no_time_depends_on_is_not_chosen():
    names, unseen = chosen(machine(0.6, 0.9))
    assert [c.name for c in names] == [RATE, STREAM]
    assert unseen == (IDLE,)


def test_a_number_needs_two_rows_and_the_most_telling_comes_first():
    few = [run(i, 5, 1, 8.0) for i in range(8)]
    names, unseen = chosen(few[:3])
    assert [c.name for c in names] == [RATE]
    assert STREAM in unseen
    assert chosen(few[:1])[0] == []


def test_no_more_are_chosen_than_may_be_fitted():
    start = {c.name: (c.lowest + c.highest) / 2 for c in FITTABLE}

    def times(values):
        return sum(1 + 0.2 * (values[c.name] - start[c.name]) / c.doubt for c in FITTABLE)

    many = [Observation(str(i), "one", 13.0, start, times) for i in range(2000)]
    assert len(FITTABLE) > MOST_OF_AN_ACCELERATOR
    assert len(chosen(many)[0]) == MOST_OF_AN_ACCELERATOR


@pytest.mark.parametrize("coefficient", FITTABLE, ids=lambda c: c.name)
def test_a_coefficient_is_a_column_with_bounds_and_a_reason(coefficient):
    mark = catalogue()[coefficient.name].mark
    assert (mark.kind, mark.category) == ("parameter", ACCELERATOR)
    assert coefficient.lowest < coefficient.highest
    assert 0 < coefficient.doubt < coefficient.highest - coefficient.lowest
    assert mark.above is None or coefficient.lowest > mark.above
    assert mark.at_most is None or coefficient.highest <= mark.at_most
    assert "Source:" in coefficient.reason
    rows = [Tables().row(KERNELS, name) for name in Tables().names(KERNELS) if name != "TPE constants"]
    assert all(coefficient.name in row.columns for row in rows)


def test_a_table_s_own_value_is_within_the_bounds_of_its_fit():
    known = BY_NAME["kernel_overhead_time"]
    assert known.within(20e-6) == (0.0, 20e-6)  # the constants of a paper
    assert known.within(2e-6) == (0.0, 10e-6)


def test_a_value_that_was_fitted_to_steps_before_says_nothing_about_itself():
    """Else a network that is left out would be seen through the table; only the bounds are kept."""
    (before, other), _ = chosen(machine(0.6, 0.9), [RATE])
    assert before.doubt == BY_NAME[RATE].highest - BY_NAME[RATE].lowest > 5 * BY_NAME[RATE].doubt
    assert other == BY_NAME[STREAM]
    few = [Observation(str(i), "one", 1 / 0.6, {RATE: START[RATE]}, lambda v: 1 / v[RATE]) for i in range(3)]
    start, all_of_them = np.array([START[RATE]]), np.ones((1, 3))
    drawn, free = (fitted(Task([c], start, few, all_of_them))[0, 0] for c in (BY_NAME[RATE], before))
    assert 0.6 < free < drawn < START[RATE]
    assert free == pytest.approx(0.6, rel=0.005)
