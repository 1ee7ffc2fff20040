"""`amped validate` over the table that comes with amped: every row modeled, nothing worse than it was."""

import json
import math

import pytest

from amped.report import plots
from amped.report.scatter import scatter_plot
from amped.validation.accuracy import By, accuracy, by_confidence, groups, of_memory, of_time, summary
from amped.validation.columns import read_table
from amped.validation.measurements import COMPARED, MEMORY, PEAK_MEMORY
from tests.helpers.cli import amped
from tests.helpers.validation import ENTRY, rows_of, shipped

# What the errors of each source may be at most, confidence high or medium: a step back is a fault. Lower it with progress.
AT_MOST = {
    "Narayanan2021": 0.025, "Korthikanti2022": 0.035, "llm-foundry": 0.045, "NeMo-24.07": 0.04, "NeMo-AutoModel": 0.055,
    "Megatron-README-H100": 0.07, "vTrain": 0.055, "torchtitan": 0.02, "Megatron-CI-golden": 0.055, "Substation": 0.06,
    "Megatron-CI-moe-layer": 0.02,
}  # fmt: skip


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    """What `amped validate --json` prints."""
    done = amped("validate", "--json", folder=tmp_path_factory.mktemp("json"))
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout, parse_constant=lambda word: pytest.fail(f"{word} is no number"))


def test_every_row_is_modeled_and_every_number_finite(printed):
    assert list(printed) == ["rows", "summary"]
    assert all(list(entry) == ENTRY for entry in printed["rows"])
    numbers = [entry[name] for entry in printed["rows"] for name in ("measured", "predicted")]
    assert all(math.isfinite(number) and number > 0 for number in numbers)
    assert len({entry["id"] for entry in printed["rows"]}) == 72
    assert (printed["summary"]["rows"], printed["summary"]["missed"]) == (72, 0)


def test_each_measured_column_is_one_entry_in_si_units(printed):
    expected = []
    for row in read_table():
        columns = [(name, *COMPARED[name]) for name in COMPARED if row.numbers.get(COMPARED[name][0])][:1]
        memory = [(MEMORY, *PEAK_MEMORY)] if row.numbers.get(PEAK_MEMORY[0]) else []
        expected += [(row.text("id"), name, row.numbers[c] * size) for name, c, size in (*columns, *memory)]
    assert [(e["id"], e["quantity"], e["measured"]) for e in printed["rows"]] == expected


def test_errors_are_predicted_over_measured(printed):
    for entry in printed["rows"]:
        assert entry["error_fraction"] == pytest.approx(entry["predicted"] / entry["measured"] - 1, abs=1e-12)


def test_the_summary_follows_from_the_rows(printed):
    grade = {name: m.confidence for name, m in rows_of(shipped()).items()}
    trusted = [
        # A rate that is a tenth too high says a time that is an eleventh too short.
        abs(e["error_fraction"] if e["quantity"] == "step_time" else e["measured"] / e["predicted"] - 1)
        for e in printed["rows"]
        if e["quantity"] != MEMORY and grade[e["id"]] != "low"
    ]
    told = printed["summary"]["step_time"]["high_and_medium_confidence"]
    assert told["compared"] == len(trusted) == 61
    assert told["mean_absolute_error_fraction"] == pytest.approx(sum(trusted) / 61)
    assert told["largest_absolute_error_fraction"] == pytest.approx(max(trusted))
    middle = sorted(trusted)[30]
    assert told["median_absolute_error_fraction"] == pytest.approx(middle)
    assert printed["summary"]["step_time"]["low_confidence"]["compared"] == 11


def test_a_rate_that_is_too_low_is_a_time_that_is_too_long():
    rates = [r for r in shipped() if r.quantity == "model_flop_rate_per_accelerator"]
    assert rates
    for r in rates:
        measured, predicted = r.times
        assert r.aligned_error == pytest.approx(predicted / measured - 1)
        assert (r.error > 0) == (r.aligned_error < 0)
        # The convention of the source cancels: operations of a step are those that the prediction counts.
        assert measured * r.measured == pytest.approx(predicted * r.predicted)


def test_runs_that_ran_and_are_predicted_not_to_fit_say_so(printed):
    told = [e for e in printed["rows"] if not e["fits_in_memory"]]
    assert all(e["reason"] == "ran, and is predicted not to fit in memory" for e in told)
    assert {e["reason"] for e in printed["rows"] if e["fits_in_memory"]} == {""}
    assert printed["summary"]["fits_in_memory"]["of_these_predicted_not_to_fit"] == len({e["id"] for e in told})


def test_no_source_is_worse_than_it_was():
    found = {name: accuracy(of_time(rows)) for name, grade, rows in groups(shipped(), By.SOURCE) if "low" not in grade}
    assert found.keys() == AT_MOST.keys()
    worse = {name: a.mean_absolute_error_fraction for name, a in found.items()
             if a.mean_absolute_error_fraction > AT_MOST[name]}  # fmt: skip
    assert worse == {}


def test_overall_errors_are_no_worse_than_they_were():
    trusted, low = by_confidence(shipped()).values()
    assert accuracy(of_time(trusted)).mean_absolute_error_fraction < 0.04
    assert accuracy(of_time(low)).mean_absolute_error_fraction < 0.07
    assert accuracy(of_memory(shipped())).mean_absolute_error_fraction < 0.06


@pytest.mark.parametrize("by", list(By))
def test_groups_hold_each_row_once_and_low_confidence_apart(by):
    found = list(groups(shipped(), by))
    assert sum(len(rows) for _, _, rows in found) == len(shipped())
    for _, grade, rows in found:
        assert {r.trusted for r in rows} == {grade == "high_and_medium_confidence"}
    assert len({(name, grade) for name, grade, _ in found}) == len(found)
    assert [g[by.value] for g in summary(shipped(), by)[f"by_{by.value}"]] == [name for name, _, _ in found]


def test_tables_fit_the_page_and_name_every_row(tmp_path):
    done = amped("validate", "--by", "model", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert max(map(len, done.stdout.splitlines())) <= 100
    trusted, low = done.stdout.split("Low confidence\n")
    for name, m in rows_of(shipped()).items():
        assert name in (low if m.confidence == "low" else trusted)
    assert "step time, by model" in low
    assert list(tmp_path.iterdir()) == []


def test_the_plot_has_a_point_for_each_row_and_lines_of_equal_error(monkeypatch):
    drawn = []
    monkeypatch.setattr(plots, "image", lambda figure, _: drawn.append(figure) or b"")
    scatter_plot(shipped())
    times, errors, memory, _ = drawn[0].axes
    points = [line for line in times.lines if line.get_marker() not in ("None", "")]
    assert len(points) == 72
    assert len([p for p in points if p.get_fillstyle() == "none"]) == 11
    assert (times.get_xscale(), times.get_yscale(), errors.get_xscale()) == ("log", "log", "log")
    slopes = {round(float(line.get_ydata()[0] / line.get_xdata()[0]), 3) for line in times.lines if line not in points}
    assert slopes == {0.75, 0.9, 1.0, 1.1, 1.25}
    assert len([line for line in memory.lines if line.get_marker() not in ("None", "")]) == 13
    assert len({(p.get_color(), p.get_marker()) for p in points}) == len(
        {m.source for m in rows_of(shipped()).values()}
    )
