"""`amped calibrate --all` and `amped validate --leave-out`: two clocks found again, and left out."""

import json
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from amped.base.errors import ConfigError
from amped.base.files import shipped_text
from amped.calibration import rewrite
from amped.calibration.all_rows import GROUPS_OF_A_NUMBER, fitted_to_all, is_moved, overlaid
from amped.calibration.leave_out import refits, without_each
from amped.calibration.listing import counts
from amped.calibration.step_table import as_csv, behind, read_csv, shipped_numbers
from amped.configuring.values import read_value
from amped.estimation.validated import Left, validated
from amped.tables.table_files import KERNELS, SOFTWARE
from amped.tables.tables import Tables
from amped.theory.language.catalogue import catalogue
from amped.validation.residuals import residuals
from amped.validation.table import read_table
from tests.helpers.all_rows import CLOCK, MACHINES, RUNS, TRUTH, measured_by_truth
from tests.helpers.cli import amped, verb


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return measured_by_truth(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def found(runs):
    return fitted_to_all(runs)


def value(found, row):
    return next(v for n, v in zip(found.numbers, found.values, strict=True) if n.key.row == row)


def pull(drawn, values):
    """Half the slope of the sum of squared distances by each number, by hand."""
    return (np.eye(len(values)) - drawn.shares).T @ (drawn.distances(values) / drawn.widths)


def test_both_clocks_are_found_again_at_once(found):
    assert {(n.key.table, n.key.column) for n in found.numbers} == {(KERNELS, CLOCK)}
    for row, truth in TRUTH.items():
        assert value(found, row) == pytest.approx(truth, rel=0.02)
    worst = [max(abs(r.aligned_error) for r in rows) for rows in (found.before, found.after)]
    assert worst[0] > 0.07
    assert worst[1] < 0.025


def test_a_step_as_a_function_of_numbers_is_what_amped_predicts_with_these_numbers(found, runs):
    values = found.values + 0.02
    with overlaid(None, found.numbers, values) as folder:
        told = [r.aligned_error for r in residuals(runs, folder) if r.of_time]
    assert np.expm1(found.frozen.errors(values[None])[0]) == pytest.approx(np.array(told), rel=1e-9)
    _, slopes = found.frozen.linearized(found.values[None])
    near = found.frozen.errors(found.values + 1e-4 * np.eye(2)) - found.frozen.errors(found.values[None])
    assert slopes[0] == pytest.approx(near.T / 1e-4, rel=0.05)


def test_an_accelerator_left_out_gets_the_number_that_its_kin_draw_it_to(found):
    """Nothing but distances depends on it, so that their sum of squares has no slope there."""
    without = refits(found, Left.ACCELERATOR)
    hopper, ampere = ([n.key.row for n in found.numbers].index(row) for row in TRUTH)
    assert set(without) == {(source, name) for name, source in MACHINES.items()}
    for name, own in (("H100 SXM", hopper), ("A100 SXM 80GB", ampere)):
        numbers = without[MACHINES[name], name]
        assert pull(found.frozen.drawn, numbers)[own] == pytest.approx(0, abs=0.5)
        assert abs(pull(found.frozen.drawn, found.values)[own]) > 5
        assert numbers[1 - own] == pytest.approx(found.values[1 - own], rel=0.02)


def test_what_is_behind_a_number_survives_its_file(found):
    numbers = behind(found, refits(found, Left.SOURCE))
    assert [(n.rows, n.groups, n.sources) for n in numbers] == [
        (12, 12, (MACHINES["A100 SXM 80GB" if n.row == "Ampere" else "H100 SXM"],)) for n in numbers
    ]
    assert all(n.error_fraction < 0.015 < 0.03 < n.error_fraction_without for n in numbers)
    assert is_moved(found.frozen, found.values).sum(axis=0).tolist() == [12, 12]
    again = read_csv(as_csv(numbers))
    assert [(n.row, n.column, n.sources) for n in again] == [(n.row, n.column, n.sources) for n in numbers]
    assert [n.fitted for n in again] == pytest.approx(found.values, rel=1e-3)


@pytest.mark.thorough
def test_the_command_writes_rows_that_amped_then_uses(runs, tmp_path):
    done = amped("calibrate", "--all", "--table", runs, "-o", tmp_path / "own.json", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert max(map(len, done.stdout.splitlines())) <= 100
    assert "at most one number for 8 of them (3)" in done.stdout
    assert amped("check-tables", tmp_path / "own.json", folder=tmp_path).returncode == 0
    row = Tables((tmp_path / "own.json",)).row(KERNELS, "H100 SXM")
    assert float(row.columns[CLOCK]) == pytest.approx(TRUTH["Hopper"], rel=0.02)
    assert CLOCK in row.fitted
    assert len(read_csv((tmp_path / "own.csv").read_text("utf-8"))) == 2


@pytest.mark.thorough
def test_the_command_that_leaves_out_tells_errors_of_what_was_not_seen(runs, tmp_path):
    done = amped("validate", "--leave-out", "source", "--table", runs, "--json", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    sizes = [told[name]["all"]["mean_absolute_error_fraction"] for name in ("errors_of_the_fit", "errors")]
    assert sizes[0] < 0.01 < 0.05 < sizes[1]
    assert told["errors_without_steps"]["all"]["mean_absolute_error_fraction"] > 0.05
    assert [each["without"] for each in told["left_out"]] == [*MACHINES.values()]
    assert {*told["bands"]} == {"source, accelerator"}  # each source has an accelerator of its own
    assert told["errors"]["all"]["rows"] == len(RUNS)


def test_all_excludes_one_accelerator_and_existing_files_stay(runs, tmp_path):
    with pytest.raises(ConfigError, match="exclude one another"):
        verb("calibrate", "--all", "--accelerator", "H100 SXM", "--table", runs, "--dry-run")
    (tmp_path / "own.csv").write_text("mine", "utf-8")
    with pytest.raises(ConfigError, match="exists and is not overwritten"):
        verb("calibrate", "--all", "--table", runs, "-o", tmp_path / "own.json")


# --- the tables of a checkout, written again ------------------------------------------------------------------------------


def test_without_each_source_its_rows_are_predicted_with_the_number_of_kin(found, runs):
    """All numbers of a source move by what its fit lacks, and the shift of each row says by how much its time does."""
    without = without_each(found)
    row = found.after[0]
    values = without.refitted[Left.SOURCE][row.measurement.source,]
    with overlaid(None, found.numbers, values) as folder:
        told = next(r.aligned_error for r in residuals(runs, folder) if r.measurement.id == row.measurement.id)
    run = next(r for r in without.runs() if r.id == row.measurement.id)
    assert run.without_source == pytest.approx(told, rel=1e-5)
    assert without.rows(Left.SOURCE)[0].aligned_error == pytest.approx(told, rel=1e-5)


@pytest.mark.parametrize(
    ("before", "fitted", "after"), [(0.83, 0.83084, 0.8308), ("36 ms", 0.0355678, "35.57 ms"), (2, 2.0, 2)]
)
def test_a_cell_keeps_its_unit(before, fitted, after):
    column = "host_time_per_step" if isinstance(before, str) else CLOCK
    number = replace(shipped_numbers()[0], column=column, fitted=fitted)
    assert rewrite.cell(before, number) == after


def test_what_a_row_was_fitted_on_is_counted_again_and_other_words_stay():
    number = replace(shipped_numbers()[0], column="b", rows=7, without_source={"Two": 1.0, "One": 1.0})
    before = (
        rewrite.HEAD.format("2026-01-01") + "a 5 rows; b 6 rows of One; c: two rows of memory (one of each; by hand)"
    )
    again = rewrite.fitted_on(before, [replace(number, column="a", rows=5), number])
    assert (
        again.partition("those that tell: ")[2]
        == "a 5 rows; b 7 rows of One, Two; c: two rows of memory (one of each; by hand)"
    )
    assert rewrite.fitted_on(again, [replace(number, column="a", rows=5), number]) == again


def test_only_the_fitted_cells_of_a_table_change():
    shipped = [replace(n, fitted=n.value) for n in shipped_numbers()]
    for table in (KERNELS, SOFTWARE):
        text = shipped_text("lookup_tables", f"{table}.json")
        again = rewrite.with_values(text, [n for n in shipped if n.table == table])
        changed = [one for one, other in zip(text.splitlines(), again.splitlines(), strict=True) if one != other]
        assert all('"fitted_on"' in line for line in changed)


@pytest.mark.parametrize(
    "asked",
    [
        (),
        ("--all", "--dry-run"),
        ("--all", "--table", "x.csv"),
        ("--all", "-o", "x.json"),
        ("--all", "--lookup-tables", "x"),
    ],
)
def test_writing_is_for_the_fit_to_all_rows_of_amped_alone(asked):
    with pytest.raises(ConfigError, match=r"exclude one another|needs --all"):
        verb("calibrate", "--write", *asked)


def test_an_installed_amped_is_not_written_to(monkeypatch, tmp_path):
    monkeypatch.setattr(rewrite, "shipped_folder", lambda _: tmp_path / "lookup_tables")
    with pytest.raises(ConfigError, match="checkout"):
        rewrite.tables_folder()


# --- the table that comes with amped ----------------------------------------------------------------------------------


def configurations():
    """The different configurations of training steps of high and medium confidence that are predicted."""
    known = {run.id for run in validated() if run.confidence != "low"}
    named = [(row.texts["id"], row.texts.get("group") or row.texts["id"]) for row in read_table(None, catalogue())]
    return {group for name, group in named if name in known}


def test_there_is_at_most_one_number_for_eight_configurations():
    assert 0 < len(shipped_numbers()) * GROUPS_OF_A_NUMBER <= len(configurations())
    of_row = Counter((n.table, n.row) for n in shipped_numbers())
    assert max(number for (table, _), number in of_row.items() if table == KERNELS) <= 3


def test_its_numbers_are_those_of_the_tables():
    """If this fails, make the table anew, as docs/calibration.md says."""
    tables, known = Tables(), catalogue()
    named = {(c.table, c.row, column) for c in counts(tables) for column in c.fitted}
    for n in shipped_numbers():
        assert (n.table, n.row, n.column) in named
        row = tables.row(n.table, n.row)
        assert n.value == pytest.approx(read_value(known[n.column], row.columns[n.column]), rel=1e-3), (n.row, n.column)


def test_its_sources_are_those_of_the_measurements():
    sources = {row.texts.get("source") for row in read_table(None, catalogue())}
    assert {source for n in shipped_numbers() for source in n.sources} <= sources
    assert all(n.rows >= n.groups > 0 and n.sources for n in shipped_numbers())
