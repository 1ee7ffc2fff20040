"""What a person at a terminal gets, from the first command on."""

import json
import os
import re
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from amped.cli.app import app
from amped.configuring.config import shipped_configs
from amped.estimation.estimation import RESULTS
from amped.estimation.parts import STEP_PARTS
from tests.helpers.places import ROOT

GOLDEN_MAT_DIMS = """19660800000  12288  12288
6553600000  128  196608
6553600000  2048  12288
6553600000  12288  12288
6553600000  12288  49152
6553600000  49152  12288
"""


@pytest.fixture
def amped(tmp_path, monkeypatch):
    """Runs a verb in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def invoke(*arguments):
        return CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False)

    return invoke


@pytest.mark.parametrize("config", shipped_configs())
def test_every_shipped_config_is_estimable(amped, config):
    done = amped("estimate", "--config", config, "--json")
    assert done.exit_code == 0
    results = json.loads(done.stdout)
    assert set(RESULTS) | {"energy", "cost"} <= set(results)
    assert results.pop("not_modeled") == []
    assert isinstance(results.pop("notices", []), list)
    assert all(isinstance(value, int | float | bool | str) for value in results.values())
    assert sum(results[part] for part in STEP_PARTS) == pytest.approx(results["step_time"], rel=1e-9)


def test_without_a_config_the_shipped_one_is_estimated_and_files_are_written_where_asked(amped, tmp_path):
    done = amped("estimate")
    assert done.exit_code == 0
    assert "GPT-3 175B" in done.stdout
    assert "TRAINING" in done.stdout
    assert not (tmp_path / "output_files").exists()
    assert "training time" in amped("estimate", "--full", "--save").stdout
    names = sorted(path.name[20:] for path in (tmp_path / "output_files").iterdir())
    assert names == ["config_summary.txt", "training_time_breakdown.txt"]


def test_json_is_alone_on_stdout_and_writes_nothing(amped, tmp_path):
    done = amped("estimate", "--json")
    json.loads(done.stdout)
    assert list(tmp_path.iterdir()) == []


def test_every_file_of_a_run_is_written_where_it_is_asked(amped, tmp_path):
    amped("estimate", "--gemm", "--compute-graph", "--plot", "--output-dir", tmp_path / "here")
    names = {path.name[20:] for path in (tmp_path / "here").iterdir()}
    assert names == {"config_summary.txt", "training_time_breakdown.txt", "gemm_breakdown.txt", "compute_graph.txt",
                     "compute_graph.dot", "compute_graph.json", "step_time.png"}  # fmt: skip
    assert not (tmp_path / "output_files").exists()


def test_ampeds_own_spellings_work(amped, tmp_path):
    amped("estimate", "--GEMM", "--compute_graph", "--output-dir", tmp_path)
    assert {"gemm_breakdown.txt", "compute_graph.txt"} <= {path.name[20:] for path in tmp_path.iterdir()}


def test_the_breakdown_file_adds_up(amped, tmp_path):
    amped("estimate", "--output-dir", tmp_path)
    text = next(tmp_path.glob("*training_time_breakdown.txt")).read_text()
    rows = [line.split() for line in text.splitlines() if line.rstrip().endswith("%") and " s " in line]
    shares = [float(row[-2]) for row in rows]
    assert sum(shares) == pytest.approx(100, abs=0.5)
    assert "Total training time" in text


def test_json_says_what_the_numbers_lean_on_and_whose_memory_it_is(amped):
    results = json.loads(amped("estimate", "--json").stdout)
    assert results["kernel_efficiencies"] == "A100 SXM 80GB"
    assert "gradient_precision" in results["defaults_leaned_on"].split(", ")
    assert results["fullest_stage"] == "first"
    closed = json.loads(amped("estimate", "--json", "--set", "performance_model=amped").stdout)
    assert "kernel_efficiencies" not in closed


def test_mat_dims_reproduces_deepflows_golden(amped, tmp_path):
    done = amped(
        "mat-dims", "--set", "batch_size=3200000", "--set", "data_parallel_degree=1", "--set",
        "number_of_accelerators=1", "--set", "tensor_parallel_degree=1", "--set", "pipeline_parallel_degree=1",
    )  # fmt: skip
    assert done.stdout == GOLDEN_MAT_DIMS
    assert next((tmp_path / "output_files").glob("*_mat_dims.txt")).read_text() == GOLDEN_MAT_DIMS


def test_explain_shows_value_formula_source_and_origin(amped):
    text = amped("explain", "number_of_steps").stdout
    for part in ("number_of_steps", "[calculated]", "Source:", "[given]", "[table row]", "batch_size = 1,536"):
        assert part in text


def test_explain_says_the_file_and_folds_what_is_inside_a_chapter(amped):
    folded = amped("explain", "layer_exposures", "--depth", "1").stdout
    assert re.search(r"theory/layer/waits\.py:\d+", folded)
    assert re.search(r"\d more inside layer: --inside", folded)
    whole = amped("explain", "layer_exposures", "--depth", "1", "--inside").stdout
    assert "--inside" not in whole
    assert json.loads(amped("explain", "step_time", "--json").stdout)["file"].startswith("theory/step/totals.py:")


def test_explain_tells_why_an_alternative_was_chosen(amped):
    text = amped("explain", "number_of_microbatches_per_minibatch").stdout
    assert "microbatch_size given" in text
    text = amped("explain", "matrix_precision").stdout
    assert "bf16_peak_flop_rate given" in text


@pytest.mark.parametrize("what", ["accelerators", "models", "systems", "kernel-efficiencies", "parameters", "configs"])
def test_everything_to_choose_from_can_be_listed(amped, what):
    done = amped("list", what, "--json")
    names = [line["name"] for line in json.loads(done.stdout)]
    assert len(names) == len(set(names)) > 5
    assert names[-1] in amped("list", what, "--filter", names[-1]).stdout


def test_the_summary_fits_eighty_columns(tmp_path):
    environment = {**os.environ, "COLUMNS": "80", "NO_COLOR": "1", "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run([sys.executable, "-m", "amped", "estimate"], cwd=tmp_path, env=environment,
                          capture_output=True, text=True, check=True)  # fmt: skip
    assert "\x1b" not in done.stdout
    assert max(len(line) for line in done.stdout.splitlines() if not line.startswith("written")) <= 100


def test_a_config_is_named_with_or_without_the_option(amped):
    told = [json.loads(amped("estimate", *named, "--json").stdout) for named in (("minimal",), ("--config", "minimal"))]
    assert told[0] == told[1]
    assert told[0]["number_of_accelerators"] == 64
    twice = CliRunner().invoke(app, ["estimate", "minimal", "--config", "mixtral-8x7b"])
    assert "'minimal' and --config 'mixtral-8x7b' are two configs" in str(twice.exception)


def test_from_any_folder_a_file_is_estimated_by_its_path(amped):
    path = ROOT / "configs" / "minimal.json"
    done = amped("estimate", "--config", path, "--json")
    assert json.loads(done.stdout)["number_of_accelerators"] == 64


def test_what_does_not_fit_says_what_would(amped):
    done = amped("estimate", "--set", "activation_recomputation=none", "--set", "microbatch_size=4", "--json")
    results = json.loads(done.stdout)
    assert done.exit_code == 0
    assert results["fits_in_memory"] is False
    name, value = results["smallest_change_that_fits"].split(" and ")[0].split(" = ")
    changes = [f"{part.split(' = ')[0]}={part.split(' = ')[1]}"
               for part in results["smallest_change_that_fits"].split(" and ")]  # fmt: skip
    kept = {"activation_recomputation": "none", "microbatch_size": "4"} | dict(c.split("=") for c in changes)
    settings = [part for name, value in kept.items() for part in ("--set", f"{name}={value}")]
    assert json.loads(amped("estimate", *settings, "--json").stdout)["fits_in_memory"] is True
    assert name
    assert value


def test_user_formulas_change_the_result(amped, tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(
        "from amped.quantity import quantity\n\n"
        '@quantity("s")\n'
        "def optimizer_time__operators(weight_bytes, memory_bandwidth):\n"
        '    """Half as long. Source: mine."""\n'
        "    return weight_bytes / memory_bandwidth\n"
    )
    own = json.loads(amped("estimate", "--json").stdout)["optimizer_time"]
    mine = json.loads(amped("estimate", "--json", "--formulas", path).stdout)["optimizer_time"]
    assert 0 < mine < own
