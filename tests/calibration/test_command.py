"""`amped calibrate`: coefficients of a machine found again, written as a row that amped then uses; refusals."""

import json
import sys

import numpy as np
import pytest

from amped import __version__
from amped.base.errors import ConfigError
from amped.calibration.calibrate import calibrated, calibrated_all, chosen
from amped.calibration.coefficients import BY_NAME, MOST_OF_AN_ACCELERATOR
from amped.calibration.fitting import Task, fitted
from amped.calibration.observations import observed
from amped.library import estimate
from amped.tables.table_files import KERNELS
from amped.tables.tables import Tables
from amped.validation.measurements import read_measurements
from amped.validation.residuals import residuals
from tests.helpers.calibration import MACHINE, RUNS, measured, tables_with, written
from tests.helpers.cli import amped, verb

TRUTH = {"gemm_sustained_fraction": 0.64, "attention_backward_efficiency": 0.4}
ROWS = "lookup_tables/kernel_efficiencies.json"


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """The runs of a machine whose coefficients are `TRUTH`, measured within 1 %."""
    return measured(tmp_path_factory.mktemp("runs"), 0.01, **TRUTH)


@pytest.fixture(scope="module")
def done(runs, tmp_path_factory):
    """What the command printed, and the folder it ran in."""
    folder = tmp_path_factory.mktemp("done")
    result = amped("calibrate", "--table", runs, "--accelerator", MACHINE.lower(), "--json", folder=folder)
    assert result.returncode == 0, result.stderr
    return result, folder


@pytest.fixture(scope="module")
def told(done):
    return json.loads(done[0].stdout)["accelerators"][0]


@pytest.fixture(scope="module")
def row(done):
    """The row as written, before it is layered."""
    return json.loads((done[1] / ROWS).read_text("utf-8"))["rows"][MACHINE]


def rates_of(tables):
    """What a machine's kernels reach, which is what coefficients are for, and a network's step that was not fitted to."""
    unseen = estimate("minimal", accelerator=MACHINE, lookup_tables=tables)
    (found,) = unseen.results.records("kernel_rates")
    products = sum(d.time for d in unseen.results.records("layer_durations") if d.kind == "contraction")
    return products, found.attention.backward_rate, unseen["step_time"]


def test_the_machine_is_found_again(done, tmp_path):
    shipped, fitted_ones, truth = map(rates_of, (None, done[1] / "lookup_tables", tables_with(tmp_path, **TRUTH)))
    off = [abs(found / true - 1) for found, true in zip(fitted_ones, truth, strict=True)]
    before = [abs(was / true - 1) for was, true in zip(shipped, truth, strict=True)]
    assert min(before[:2]) > 0.15
    assert off[0] < 0.02
    assert off[1] < before[1] / 3  # a step shows forward and backward together only
    assert off[2] < 0.02 < 0.08 < before[2]


def test_errors_before_after_and_of_networks_left_out_are_told(told):
    assert told["mean_absolute_error_fraction_before"] > 0.08
    assert told["mean_absolute_error_fraction"] < 0.015
    ratio = told["mean_absolute_error_fraction_of_networks_left_out"] / told["mean_absolute_error_fraction"]
    assert told["times_the_fitted_error"] == pytest.approx(ratio)
    assert 0.9 < ratio < 1.5
    assert told["networks"] == 4
    assert told["rows"] == [run["id"] for run in RUNS]
    assert [line for line in told["warnings"] if "does not hold" in line] == []


@pytest.mark.thorough
def test_networks_left_out_are_predicted_by_fits_that_have_not_seen_them(runs, told):
    """By hand: four fits, each to the rows of three networks and no others, and the errors of the fourth."""
    every, bases = zip(*(observed(m) for m in read_measurements(runs)), strict=True)
    coefficients, _ = chosen(every, bases[0].fitted)
    start = np.array(list(told["before"].values()))
    sizes = []
    for network in dict.fromkeys(o.group for o in every):
        kept, held = ([o for o in every if (o.group == network) == is_held] for is_held in (False, True))
        found = fitted(Task(coefficients, start, kept, np.ones((1, len(kept)))))[0]
        values = {c.name: np.array([v]) for c, v in zip(coefficients, found, strict=True)}
        sizes += [abs(o.times(values)[0] / o.measured_time - 1) for o in held]
    assert len(sizes) == len(RUNS)
    assert np.mean(sizes) == pytest.approx(told["mean_absolute_error_fraction_of_networks_left_out"], rel=0.01)


def test_the_row_says_what_it_was_fitted_on(row, told, runs):
    assert row["fitted"] == list(told["fitted"])
    assert len(row["fitted"]) <= MOST_OF_AN_ACCELERATOR
    assert row["extends"] == MACHINE
    (source,) = row["sources"]
    for part in (f"amped {__version__}", "16 rows of runs.csv", RUNS[0]["id"], "before", "after", "left out"):
        assert part in source
    assert str(runs.parent) not in source
    assert all(name in row["notes"] for name in row["fitted"])


def test_every_number_is_within_its_bounds(told):
    for name, value in told["fitted"].items():
        assert BY_NAME[name].lowest <= value <= BY_NAME[name].highest


@pytest.mark.thorough
def test_the_same_bytes_come_out_every_time(runs, done, tmp_path):
    again = amped("calibrate", "--table", runs, "--accelerator", MACHINE, "--json", folder=tmp_path)
    assert again.stdout == done[0].stdout
    assert (tmp_path / ROWS).read_bytes() == (done[1] / ROWS).read_bytes()


def test_progress_goes_to_stderr_and_the_file_is_named(done):
    assert "step 1: mean error" in done[0].stderr
    assert f"written to {ROWS}" in done[0].stderr


def test_tables_with_the_row_are_sound_and_keep_what_was_not_fitted(done, row):
    checked = amped("check-tables", "lookup_tables", folder=done[1])
    assert checked.returncode == 0, checked.stderr
    layered, shipped = Tables((done[1] / "lookup_tables",)).row(KERNELS, MACHINE), Tables().row(KERNELS, MACHINE)
    assert set(layered.fitted) == {*row["fitted"], *shipped.fitted}
    assert set(layered.sources) > set(shipped.sources)
    assert not set(layered.unverified) & set(layered.fitted)
    kept = {c: v for c, v in shipped.columns.items() if c in BY_NAME and c not in row["fitted"]}
    assert kept == {c: layered.columns[c] for c in kept}


def test_amped_uses_the_row_in_that_folder_and_wherever_it_is_named(done, runs, monkeypatch, told):
    mean = [abs(r.error) for r in residuals(runs, done[1] / "lookup_tables") if r.of_time]
    assert np.mean(mean) == pytest.approx(told["mean_absolute_error_fraction"], rel=1e-6)
    shipped = estimate("minimal", accelerator=MACHINE)["gemm_sustained_fraction"]
    other = estimate(
        "minimal", accelerator="H100 SXM", lookup_tables=done[1] / "lookup_tables", kernel_efficiencies=MACHINE
    )
    monkeypatch.chdir(done[1])
    used = estimate("minimal", accelerator=MACHINE)
    assert used["gemm_sustained_fraction"] == told["fitted"]["gemm_sustained_fraction"] != shipped
    assert other["gemm_sustained_fraction"] == used["gemm_sustained_fraction"]
    assert used.error_band.alike == "your own runs"
    assert "fitted" in amped("show", MACHINE, folder=done[1]).stdout


@pytest.mark.thorough
def test_the_table_fits_the_page(tmp_path, tmp_path_factory):
    two_networks = measured(tmp_path_factory.mktemp("few"), 0.01, RUNS[:8], **TRUTH)
    printed = amped("calibrate", "--table", two_networks, "--dry-run", folder=tmp_path)
    assert max(map(len, printed.stdout.splitlines())) <= 100
    assert "leaving one network out" in printed.stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.thorough
def test_a_fit_at_its_bound_and_far_from_what_was_known_says_so(tmp_path):
    slow = measured(tmp_path, runs=RUNS[:8], gemm_sustained_fraction=0.2)
    printed = amped("calibrate", "--table", slow, "--dry-run", folder=tmp_path).stdout
    assert "warning: held by its bound: gemm_sustained_fraction" in printed
    assert "warning: moved by more than 2 standard deviations" in printed


@pytest.mark.thorough
def test_one_network_tells_nothing_of_others(tmp_path):
    few = [run for run in RUNS if run["network"] == "a"]
    found = calibrated(measured(tmp_path, runs=few, **TRUTH), MACHINE)
    assert (found.sizes, found.error_left_out, found.loss) == (1, None, None)
    assert len(found.values) <= 2


def test_what_is_known_badly_or_not_modeled_is_left_out_and_told(tmp_path):
    rows = [run | {"measured_step_time": 1.0 + i} for i, run in enumerate(RUNS[:6])]
    rows[0] |= {"confidence": "low"}
    rows[1] |= {"attention_heads": 3, "tensor_parallel_degree": 8}
    rows[2] |= {"measured_step_time": "", "measured_memory_bytes": 60e9}
    found = calibrated(written(tmp_path / "runs.csv", rows), MACHINE)
    assert found.used == tuple(run["id"] for run in RUNS[3:6])
    assert found.left_out.keys() == {run["id"] for run in RUNS[:3]}
    assert "confidence low" in found.left_out[RUNS[0]["id"]]
    assert found.left_out[RUNS[2]["id"]] == "no time was measured"


@pytest.mark.thorough
def test_all_accelerators_of_a_table_at_once(tmp_path):
    rows = [run | {"id": f"{run['id']} {machine}", "accelerator": machine, "measured_step_time": 5.0}
            for machine in (MACHINE, "H100 SXM") for run in RUNS[:4]]  # fmt: skip
    rows += [RUNS[0] | {"id": "alone", "accelerator": "A100 SXM 80GB", "measured_step_time": 5.0}]
    lines = []
    found = calibrated_all(written(tmp_path / "runs.csv", rows), tell=lines.append)
    assert [c.accelerator.name for c in found] == [MACHINE, "H100 SXM"]
    assert any("A100 SXM 80GB" in line for line in lines)


# --- refusals ---------------------------------------------------------------------------------------------------------


def refused(folder, *arguments):
    result = amped("calibrate", *arguments, folder=folder)
    assert (result.returncode, result.stdout) == (2, "")
    assert "Traceback" not in result.stderr
    return result.stderr


def test_an_unknown_accelerator_and_the_nearest(runs, tmp_path):
    assert "did you mean 'H200'" in refused(tmp_path, "--table", runs, "--accelerator", "H2000")


def test_no_row_of_it_and_what_there_is(runs, tmp_path):
    told = refused(tmp_path, "--table", runs, "--accelerator", "A100 SXM 80GB")
    assert "no row of" in told
    assert f"it has rows of {MACHINE}" in told
    assert list(tmp_path.iterdir()) == []


def test_too_few_rows_for_any_number(tmp_path):
    table = measured(tmp_path, runs=RUNS[:1])
    with pytest.raises(ConfigError, match=r"tell no coefficient\n.*needs 2 rows"):
        calibrated(table, MACHINE)


def test_an_existing_file_is_kept_and_nothing_is_fitted_first(runs, done):
    before = (done[1] / ROWS).read_bytes()
    told = refused(done[1], "--table", runs)
    assert "exists and is not overwritten" in told
    assert "step 1" not in told
    assert (done[1] / ROWS).read_bytes() == before


def test_a_folder_as_output_takes_the_file_s_own_name(runs, done):
    assert "lookup_tables/kernel_efficiencies.json exists" in refused(done[1], "--table", runs, "-o", "lookup_tables")


def test_a_file_in_the_way_of_the_folder_is_told_before_anything_is_fitted(runs, tmp_path):
    (tmp_path / "taken").write_text("", "utf-8")
    told = refused(tmp_path, "--table", runs, "-o", "taken/rows.json")
    assert "is a file, not a folder" in told
    assert "step 1" not in told


def test_without_scipy_the_extra_is_named(monkeypatch, runs):
    monkeypatch.setitem(sys.modules, "scipy.optimize", None)
    with pytest.raises(ConfigError, match=r"(?s)scipy.*pip install 'amped\[fit\]'"):
        verb("calibrate", "--table", runs, "--dry-run")


def test_a_table_that_is_not_there(tmp_path):
    assert "no such file" in refused(tmp_path, "--table", "none.csv", "--accelerator", MACHINE)


def test_the_truth_of_these_tests_is_used_by_amped(tmp_path, capsys):
    """The helper's folder changes what is predicted; else nothing here would be found again."""
    assert verb("coefficients", "--json", "--lookup-tables", tables_with(tmp_path, **TRUTH)) is None
    listed = {c["name"]: c for c in json.loads(capsys.readouterr().out)["coefficients"]}
    assert listed["gemm_sustained_fraction"]["values"][MACHINE] == TRUTH["gemm_sustained_fraction"]
