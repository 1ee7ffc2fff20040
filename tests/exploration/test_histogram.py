"""The histogram of the feasible candidates: no bin is lost, whoever adds, and the plot has the bins' numbers."""

import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import amped
from amped.base.errors import ConfigError
from amped.configuring.scenario import read_scenario
from amped.exploration.histogram import bins, counted
from amped.exploration.request import Options, Request
from amped.exploration.results import merged
from amped.exploration.search import Search
from amped.report.axes_values import title
from amped.report.exploring_plots import distribution
from tests.helpers.cli import verb
from tests.helpers.explore import EVERYTHING, SMALL, explore

NUMBERS = st.floats(-1e300, 1e300, allow_subnormal=False)
# Bins are a sixteenth of an octave wide, so that none is wider than this share of its values.
WIDEST = 1 / 16


@given(st.lists(NUMBERS, min_size=1, max_size=40))
@example([0.0, -0.0])
def test_each_value_lies_in_the_bin_that_counts_it_and_bins_are_narrow(values: list[float]) -> None:
    found = bins(counted(np.array(values)))
    assert sum(count for _, _, count in found) == len(values)
    for low, high, count in found:
        assert count == sum(low <= v < high if v > 0 or (v == 0 and low == 0) else low < v <= high for v in values)
        smallest = min(abs(low), abs(high))
        assert smallest < sys.float_info.min or high - low <= WIDEST * smallest
    assert [low for low, _, _ in found] == sorted(low for low, _, _ in found)


@pytest.mark.parametrize("objective", ["step_time", "model_flops_utilization"])
def test_the_histogram_is_that_of_every_feasible_candidate(objective: str) -> None:
    found = explore(SMALL, objective=objective, top=EVERYTHING, memory_capacity="1 PB")
    values = [row[objective] for row in found.best]
    assert len(values) == found.feasible == sum(count for _, _, count in found.histogram)
    assert found.histogram == [
        (low, high, sum(low <= v < high for v in values)) for low, high, _ in found.histogram if low < high
    ]


def test_parts_add_up_to_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = explore(SMALL).histogram
    monkeypatch.setattr("amped.exploration.search.PART_CELLS", 16)
    search = Search(Request(read_scenario(SMALL).question, {}, Options(10, "degrees")))
    one, *others = [search.evaluate(part) for part in search.parts]
    assert len(others) > 3
    for other in reversed(others):
        one = merged(other, one)
    assert bins(one.histogram) == whole


def test_the_plot_has_a_bar_for_each_bin_and_a_line_at_the_best() -> None:
    found = explore(SMALL, memory_capacity="1 PB", objective="step_time")
    best = found.best[0]["step_time"]
    panel = distribution(found.histogram, "step_time", best, "a title").axes[0]
    assert [bar.get_height() for bar in panel.patches] == [count for _, _, count in found.histogram]
    assert sum(bar.get_height() for bar in panel.patches) == found.feasible
    first, line = panel.patches[0].get_x(), panel.get_lines()[0].get_xdata()[0]
    assert first <= line < first + panel.patches[0].get_width()
    with pytest.raises(ConfigError, match="nothing to plot"):
        distribution([], "step_time", best, "")


def test_the_command_draws_it(tmp_path: Path) -> None:
    verb("explore", "-c", "minimal", "--space", "degrees", "--plot", "histogram", "--output-dir", tmp_path)
    assert [path.suffix for path in tmp_path.glob("*explore_histogram*")] == [".png"]


def test_the_title_of_a_sweep_tells_what_is_swept_and_not_that_it_is_one_machine() -> None:
    asked = read_scenario("default")
    assert title(asked, {}) == asked.description
    vary = {
        "number_of_accelerators": (128.0, 256.0),
        "system": ("DGX A100", "DGX H100"),
        "frequency": tuple(range(1, 9)),
    }
    told = title(asked, vary)
    assert told.startswith("number of accelerators 128, 256; system DGX A100, DGX H100; frequency 1")
    assert " … " in told
    assert "all else as in: " in told
    found = amped.explore(SMALL, vary={"system": ["DGX A100", "DGX H100"]}, zero_stage=0)
    assert found.search is not None
    assert found.search.sweeps.by_user == {"system": ("DGX A100", "DGX H100")}
