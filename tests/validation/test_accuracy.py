"""The errors of many rows in a few numbers, by hand on a toy table."""

from itertools import count
from types import SimpleNamespace

import numpy as np
import pytest

from amped.validation.accuracy import By, accuracy, groups, rank_correlation
from amped.validation.residuals import Residual
from tests.helpers.validation import shipped

NAMES = map(str, count())


def row(measured, predicted, model="a", quantity="step_time", confidence="high"):
    """A run of a toy: 8 accelerators, 16 sequences of 128 tokens."""
    m = SimpleNamespace(id=f"{model}{measured}", group=next(NAMES), source="toys", confidence=confidence, network=model,
                        out_of_memory=False, fitted=False, settings={"accelerator": "toy"})  # fmt: skip
    tokens = 16 * 128 / 8
    return Residual(m, quantity, measured, predicted, True, None, predicted, tokens, reason="" if predicted else "why")


def test_errors_by_hand():
    # errors +10 %, -10 %, +20 %, 0, and one that could not be modeled
    rows = [row(10.0, 11.0), row(10.0, 9.0), row(10.0, 12.0), row(10.0, 10.0), row(10.0, None)]
    found = accuracy(rows)
    assert (found.compared, found.missed) == (4, 1)
    assert found.mean_absolute_error_fraction == pytest.approx(0.1)
    assert found.median_absolute_error_fraction == pytest.approx(0.1)
    assert found.largest_absolute_error_fraction == pytest.approx(0.2)
    assert found.mean_signed_error_fraction == pytest.approx(0.05)
    # sizes in order 0, 0.1, 0.1, 0.2: rank 0.9 * 3 = 2.7 lies between the last two
    assert found.percentile_90_absolute_error_fraction == pytest.approx(0.1 + 0.7 * 0.1)


def test_repeats_of_a_configuration_weigh_as_one_row():
    """Errors of +10 % and +30 % in one group are +20 %; beside a row that is exact, the mean is 10 %."""
    rows = [row(10.0, 11.0), row(10.0, 13.0), row(10.0, 10.0)]
    rows[1].measurement.group = rows[0].measurement.group
    found = accuracy(rows)
    assert (found.compared, found.groups) == (3, 2)
    assert found.mean_absolute_error_fraction == pytest.approx(0.1)
    assert found.largest_absolute_error_fraction == pytest.approx(0.2)


def test_nothing_has_no_error_and_misses_are_counted_all_the_same():
    found = accuracy([row(1.0, None)])
    assert (found.compared, found.missed, found.mean_absolute_error_fraction) == (0, 1, None)


def test_a_rate_twice_as_high_is_half_the_time():
    rate = row(100.0, 200.0, quantity="tokens_per_second_per_accelerator")
    assert (rate.error, rate.aligned_error) == (1.0, -0.5)


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        ([10, 20, 30, 40], 1.0),
        ([9, 7, 5, 3], -1.0),
        ([1, 100, 10, 1000], 0.8),  # 1 - 6 * (0 + 1 + 1 + 0) / (4 * 15)
        ([5, 5, 5, 5], None),
    ],
)
def test_ranks_by_hand(other, expected):
    assert rank_correlation(np.array([1.0, 2.0, 3.0, 4.0]), np.array(other, float)) == (
        expected if expected is None else pytest.approx(expected)
    )


def test_ties_share_their_mean_rank():
    # ranks 1.5, 1.5, 3 against 1, 2, 3: covariance 0.5 * (-0.5 * -1 + -0.5 * 0 + 1 * 1) = 0.75
    found = rank_correlation(np.array([1.0, 1.0, 2.0]), np.array([1.0, 2.0, 3.0]))
    assert found == pytest.approx(0.75 / (np.sqrt(0.75) * 1.0))


def test_ranks_are_within_a_network_and_weighted_by_its_rows():
    right = [row(t, t, "a") for t in (1.0, 2.0, 3.0)]
    wrong = [row(t, 100 - t, "b") for t in (10.0, 20.0, 30.0, 40.0, 50.0, 60.0)]
    lone = [row(1.0, 50.0, "c"), row(2.0, 5.0, "c")]
    assert accuracy([*right, *wrong, *lone]).rank_correlation == pytest.approx((3 * 1 - 6 * 1) / 9)
    assert accuracy(lone).rank_correlation is None


def test_repeats_of_a_run_have_one_rank():
    rows = [row(t, t, "a") for t in (1.0, 2.0, 3.0)]
    again = [row(t, t, "a") for t in (2.9, 3.1)]
    for each in again:
        each.measurement.group = rows[-1].measurement.group
    wrong = [row(4.0, 0.5, "a")]
    # rates in order of time: 1, 2, the three repeats, and the wrong one; predicted: the wrong one first
    told = rank_correlation(np.array([4.0, 3.0, 2.0, 1.0]), np.array([3.0, 2.0, 1.0, 4.0]))
    assert accuracy([*rows, *again, *wrong]).rank_correlation == pytest.approx(told)


@pytest.mark.thorough
def test_a_network_is_one_however_sources_spell_it():
    ranked = accuracy(
        [
            r
            for r in shipped()
            if r.of_time and r.measurement.network.casefold().startswith(("llama3_8b", "llama-3.1-8b"))
        ]
    )
    apart = {r.measurement.network for r in shipped() if "8b" in r.measurement.network.casefold()}
    assert len(apart) > 1
    assert ranked.rank_correlation > 0.9


@pytest.mark.thorough
def test_the_order_of_rows_changes_nothing():
    forward, backward = (accuracy([r for r in rows if r.of_time]) for rows in (shipped(), shipped()[::-1]))
    assert vars(forward) == pytest.approx(vars(backward))
    assert {n for n, _, _ in groups(shipped(), By.MODEL)} == {n for n, _, _ in groups(shipped()[::-1], By.MODEL)}
