"""The equations of the fit to all rows, on times that are linear in two numbers."""

import numpy as np
import pytest

from amped.calibration.fitting import NOISE
from amped.calibration.step_fit import cost, linear_fit, robust, weights
from amped.calibration.step_numbers import Drawn, Key, drawn, fitted_key, number
from amped.tables.table_files import KERNELS, SOFTWARE
from amped.tables.tables import Tables

TABLES = Tables()
CLOCK, TRAFFIC = "training_clock_fraction", "streaming_traffic_factor"
# The second number is drawn to the first one, and the first to 0.5.
PAIR = Drawn(np.array([[0.0, 0.0], [1.0, 0.0]]), np.array([0.5, 0.0]), np.full(2, 0.1), np.zeros(2), np.ones(2))
START = np.array([0.5, 0.5])


def test_repeats_of_a_configuration_weigh_as_one_row():
    assert weights(["a", "a", "b", "a"], [True, True, True, False]).tolist() == [0.5, 0.5, 1.0, 0.0]


def test_the_loss_is_a_square_near_zero_and_a_line_far_away():
    assert robust(np.array([1e-6])) == pytest.approx(1e-6, rel=1e-3)
    far = robust(np.array([100.0**2, 200.0**2]))
    assert far[1] - far[0] == pytest.approx(200, rel=1e-3)


def test_the_cost_by_hand():
    """An error of the noise times sqrt(3) costs 2 (sqrt(1 + 3) - 1) = 2, a distance of two widths costs 4."""
    errors, weight = np.array([NOISE * 3**0.5, 0.0]), np.array([0.5, 1.0])
    assert cost(errors, weight, np.array([2.0])) == pytest.approx(0.5 * 2 + 4)


def test_distances_are_from_what_a_number_is_drawn_to():
    assert PAIR.parents(np.array([0.6, 0.9])).tolist() == [0.5, 0.6]
    assert PAIR.distances(np.array([0.6, 0.9])) == pytest.approx([1.0, 3.0])


def test_without_steps_each_number_is_what_it_is_drawn_to():
    """The first is drawn to 0.5, the second to the first; in the middle of its bounds each stays there."""
    assert PAIR.without_steps() == pytest.approx([0.5, 0.5])
    assert PAIR.distances(PAIR.without_steps()) == pytest.approx([0.0, 0.0])


def toy(rows, first, second=None):
    """Errors at the start and their slopes: rows tell the first number, the last ones the second one, if it is given."""
    slopes = np.zeros((rows, 2))
    slopes[:, 0] = -1.0
    errors = np.full(rows, first - 0.5)
    if second is not None:
        slopes[rows // 2 :] = [0.0, -1.0]
        errors[rows // 2 :] = second - 0.5
    return errors, slopes


def test_many_rows_are_believed_and_what_no_row_tells_becomes_its_parent():
    found = linear_fit(*toy(500, 0.8), np.ones(500), PAIR, START)
    assert found == pytest.approx([0.8, found[0]], abs=0.005)
    few = linear_fit(*toy(1, 0.8), np.ones(1), PAIR, START)
    assert 0.5 < few[0] < 0.78


def test_a_number_that_is_told_pulls_the_one_that_it_is_drawn_to():
    errors, slopes = toy(100, 0.5, 0.9)
    found = linear_fit(errors[50:], slopes[50:], np.ones(50), PAIR, START)
    assert 0.55 < found[0] < found[1] < 0.9


def test_rows_left_out_are_not_seen():
    errors, slopes = toy(40, 0.6)
    errors[20:] = 1e6
    weight = np.repeat([1.0, 0.0], 20)
    assert np.array_equal(linear_fit(errors, slopes, weight, PAIR, START),
                          linear_fit(errors[:20], slopes[:20], weight[:20], PAIR, START))  # fmt: skip


def test_bounds_hold_and_an_outlier_does_not_take_the_number_along():
    assert linear_fit(*toy(100, 7.0), np.ones(100), PAIR, START)[0] == 1.0
    errors, slopes = toy(100, 0.7)
    errors[3] = 5.0
    assert linear_fit(errors, slopes, np.ones(100), PAIR, START)[0] == pytest.approx(0.7, abs=0.01)


def test_nothing_nearby_costs_less():
    errors, slopes = toy(30, 0.7, 0.55)
    errors = errors + np.random.default_rng(1).normal(0, 0.05, 30)
    found = linear_fit(errors, slopes, np.ones(30), PAIR, START)

    def costs(values):
        return cost(errors + slopes @ (values - START), np.ones(30), PAIR.distances(values))

    nearby = [found + np.array([a, b]) for a in (-0.003, 0, 0.003) for b in (-0.003, 0, 0.003)]
    assert min(map(costs, nearby)) == pytest.approx(costs(found), rel=1e-5)


# --- which numbers, and what they are drawn to ------------------------------------------------------------------------


def parent_of(table, row, column, *beside):
    numbers = [number(TABLES, Key(table, name, column)) for name in (row, *beside)]
    found = drawn(TABLES, numbers)
    return found.shares[0].tolist(), float(found.constants[0]), numbers


def test_an_accelerator_is_drawn_to_its_nearest_kin():
    """GB200 to B200 and GB300 to B300, whose clock is their generation's."""
    shares, constant, _ = parent_of(KERNELS, "GB200", CLOCK, "Blackwell", "Hopper")
    assert (shares, constant) == ([0.0, 1.0, 0.0], 0.0)
    shares, constant, _ = parent_of(KERNELS, "GB300", CLOCK, "Blackwell", "GB200")
    assert (shares, constant) == ([0.0, 1.0, 0.0], 0.0)
    shares, constant, _ = parent_of(KERNELS, "GB200", CLOCK)
    assert (shares, constant) == ([0.0], float(TABLES.row(KERNELS, "Blackwell").columns[CLOCK]))


def test_a_share_of_fp8_is_drawn_to_what_it_is_on_the_kin_for_the_same_share_of_bf16():
    shares, constant, _ = parent_of(KERNELS, "Hopper", "fp8_gemm_sustained_fraction", "Blackwell")
    rows = [TABLES.row(KERNELS, name).columns["gemm_sustained_fraction"] for name in ("Hopper", "Blackwell")]
    assert (shares, constant) == ([0.0, pytest.approx(rows[0] / rows[1])], 0.0)


def test_without_kin_of_its_vendor_a_number_is_drawn_to_the_mean_of_the_nearest_of_each_other():
    shares, constant, numbers = parent_of(KERNELS, "Trainium 1", "gemm_sustained_fraction", "TPU")
    vendors = 5  # NVIDIA, AMD, Google, Intel, Huawei
    assert shares == [0.0, pytest.approx(1 / vendors)]
    assert 0.4 < numbers[1].value / vendors + constant < 0.9


def test_numbers_that_are_only_drawn_to_one_another_stay_in_the_middle_of_their_bounds():
    pair = Drawn(np.array([[0.0, 1.0], [1.0, 0.0]]), np.zeros(2), np.full(2, 0.1), np.full(2, 0.4), np.ones(2))
    assert pair.without_steps() == pytest.approx([0.7, 0.7])


def test_a_row_that_stands_alone_is_drawn_to_the_mean_of_its_kin_in_no_doubt():
    rows = [TABLES.row(SOFTWARE, name) for name in TABLES.names(SOFTWARE)]
    roots = [r for r in rows if not r.ancestors and TRAFFIC in r.columns and TRAFFIC not in r.unverified]
    kin = [r.columns[TRAFFIC] for r in roots if r.name != "PyTorch"]
    _, constant, _ = parent_of(SOFTWARE, "PyTorch", TRAFFIC)
    assert constant == pytest.approx(sum(kin) / len(kin))
    assert len(kin) >= 2


def test_a_number_belongs_to_the_row_that_writes_it():
    assert fitted_key(TABLES, TABLES.row(KERNELS, "B300"), CLOCK) == Key(KERNELS, "Blackwell", CLOCK)
    assert fitted_key(TABLES, TABLES.row(KERNELS, "H20"), CLOCK) is None  # its own value, which nobody fitted
    assert fitted_key(TABLES, TABLES.row(KERNELS, "H100 SXM"), "gemm_ramp_depth") is None
