"""The loop with runs of one's own: a log without software or sharding, calibrated to, and then estimated with the same words."""

import json

import pytest

from tests.helpers.calibration import written
from tests.helpers.cli import amped

LOGGED = {"model": "Llama 3 8B", "gpu": "H100 SXM", "gbs": 256, "mbs": 1, "seq_len": 8192}
RUNS = [LOGGED | {"run": f"{gpus} by {tp}", "gpus": gpus, "tp": tp} for gpus, tp in ((64, 1), (32, 1), (64, 2))]
SECRET = 0.70


def estimated(folder, run, *more):
    """The estimate of the words of a run."""
    names = {"gpu": "accelerator", "seq_len": "seq"}
    options = [o for name, value in run.items() if name != "run" for o in (f"--{names.get(name, name)}", value)]
    done = amped("estimate", *options, *more, "--json", folder=folder)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def times(tmp_path_factory):
    """What machines with a clock that amped does not know would have measured."""
    folder = tmp_path_factory.mktemp("secret")
    return [estimated(folder, run, "--set", f"training_clock_fraction={SECRET}")["step_time"] for run in RUNS]


@pytest.fixture(scope="module")
def done(times, tmp_path_factory):
    """What `calibrate` printed, and the folder it ran in."""
    folder = tmp_path_factory.mktemp("calibrated")
    written(folder / "log.csv", [run | {"step_time": f"{time:.4g}"} for run, time in zip(RUNS, times, strict=True)])
    result = amped("calibrate", "--table", "log.csv", "-o", "mine/kernels.json", folder=folder)
    assert result.returncode == 0, result.stderr
    return result.stdout, folder


def test_estimates_with_the_table_are_what_was_measured(done, times):
    _, folder = done
    for run, time in zip(RUNS, times, strict=True):
        assert estimated(folder, run)["step_time"] < 0.95 * time
        assert estimated(folder, run, "--lookup-tables", "mine")["step_time"] == pytest.approx(time, rel=0.01)


def test_it_ends_with_each_run_before_and_after_and_as_measured(done):
    printed, _ = done
    head, *lines = [line for line in printed.splitlines() if line.startswith(("step of run", "64 by", "32 by"))]
    assert head.split("  ") != [head]
    assert all(word in head for word in ("measured", "before", "after", "without it"))
    assert [line[:7] for line in lines] == [run["run"] for run in RUNS]
    assert max(map(len, printed.splitlines())) <= 100


def test_the_band_is_that_of_one_s_own_runs_and_no_narrower_elsewhere(done):
    printed, folder = done
    row = json.loads((folder / "mine/kernels.json").read_text("utf-8"))["rows"]["H100 SXM"]
    assert [run["id"] for run in row["own_runs"]] == [run["run"] for run in RUNS]
    own = estimated(folder, RUNS[0], "--lookup-tables", "mine")
    assert (own["validated_class"], own["number_of_validated_runs"]) == ("your own runs", 3)
    assert own["beyond_validated_runs"] == ""
    assert own["step_time_error_fraction"] < estimated(folder, RUNS[0])["step_time_error_fraction"]
    # Three runs without an error do not say that there is none: measurements scatter by 3 %.
    assert own["step_time_error_fraction"] > 1.6 * 0.03
    assert f"± {own['step_time_error_fraction']:.1%}".replace("%", " %") in printed
    mixture = RUNS[0] | {"model": "Mixtral 8x7B", "seq_len": 4096}
    elsewhere = estimated(folder, mixture, "--lookup-tables", "mine")
    assert "no network like this one" in elsewhere["beyond_validated_runs"]
    assert elsewhere["step_time_error_fraction"] >= estimated(folder, mixture)["step_time_error_fraction"]


def test_validate_knows_which_runs_were_fitted_to(done):
    _, folder = done
    found = amped("validate", "--table", "log.csv", "--lookup-tables", "mine", "--json", folder=folder)
    assert json.loads(found.stdout)["summary"]["by_fit"]["coefficients_fitted_on"]["compared"] == 3


def test_the_table_is_sound(done):
    _, folder = done
    checked = amped("check-tables", "mine", folder=folder)
    assert checked.returncode == 0, checked.stdout + checked.stderr
