"""`amped explore` on the command line: its output is plain, machine-readable and never overwritten."""

import csv
import json
import math
import subprocess
import sys
from pathlib import Path

import pytest

from amped.exploration.search_space import PARTS
from tests.helpers.cli import amped
from tests.helpers.explore import JOINT, KEYS_OF_JSON, SMALL, explored


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.json"
    path.write_text(json.dumps(SMALL), "utf-8")
    return path


def command(*arguments: object, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = amped("explore", "--space", "degrees", *arguments, folder=Path.cwd())
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done


def test_redirected_json_is_json_and_nothing_else(small: Path) -> None:
    done = command("--config", small, "--format", "json", "--top", 4)
    told = json.loads(done.stdout)
    assert told["best"] == explored().best[:4]
    assert (told["candidates"], told["feasible"]) == (explored().candidates, explored().feasible)


def test_redirected_csv_is_csv_and_nothing_else(small: Path) -> None:
    rows = list(csv.DictReader(command("--config", small, "--format", "csv", "--top", 4).stdout.splitlines()))
    assert [float(row["training_time"]) for row in rows] == [row["training_time"] for row in explored().best[:4]]
    assert set(rows[0]) == set(explored().best[0])


def test_a_redirected_table_is_plain(small: Path) -> None:
    done = command("--config", small, "--top", 4, "--vary", "memory_bandwidth=1e12,2e12")
    assert "\x1b" not in done.stdout + done.stderr
    assert f"{2 * explored().candidates:,} candidates" in done.stdout
    assert len([line for line in done.stdout.splitlines() if line.strip()[:2].strip().isdigit()]) >= 4


def test_the_number_of_accelerators_is_an_option(small: Path) -> None:
    told = json.loads(command("--config", small, "--gpus", 8, "--format", "json", "--top", 1).stdout)
    assert math.prod(told["best"][0][name] for name in PARTS) == 8


def test_a_switch_is_swept_as_it_is_set(small: Path) -> None:
    told = json.loads(command("--config", small, "--vary", "sequence_parallel=true,false", "--format", "json").stdout)
    assert told["candidates"] == 2 * explored().candidates


def test_an_output_file_is_written_once(small: Path, tmp_path: Path) -> None:
    output = tmp_path / "ranking.csv"
    assert command("--config", small, "--format", "csv", "--output", output).stdout == ""
    written = output.read_text("utf-8")
    assert written.startswith(",".join(JOINT))
    refused = command("--config", small, "--format", "json", "--output", output, code=2)
    assert "not overwritten" in refused.stderr
    assert output.read_text("utf-8") == written


def test_an_empty_space_is_an_error_that_says_why() -> None:
    # Eight experts never divide by an expert degree of three.
    done = command("--config", "mixtral-8x7b", "--set", "expert_parallel_degree=3", code=2)
    assert "no mapping is possible" in done.stderr
    assert "--ep 3 does not divide 128 accelerators and 8 experts: take --ep 2 or 4" in done.stderr


@pytest.mark.parametrize("wrong", ["a=1", "batch_size=1:2:0", "tensor_parallel_degree=3", "batch_size"])
def test_a_wrong_sweep_is_the_users_mistake(small: Path, wrong: str) -> None:
    assert command("--config", small, "--vary", wrong, code=2).stderr.startswith("amped: ")


def test_rows_wishes_objectives_and_fronts_are_options(small: Path) -> None:
    done = command("--config", small, "--vary", "system=DGX A100,DGX H100", "--each", "system", "--format", "json",
                   "--where", "tensor_parallel_degree <= 8",
                   "-s", "memory_capacity=1 PB", "--objective", "memory", "--pareto", "step_time,memory")  # fmt: skip
    told = json.loads(done.stdout)
    assert list(told) == [*KEYS_OF_JSON, "front"]
    assert len(told["front"]) > 1
    memory = [row["memory_per_accelerator_bytes"] for row in told["best"]]
    assert memory == sorted(memory)
    assert {row["system"] for row in told["best"]} <= {"DGX A100", "DGX H100"}
    assert all(row["tensor_parallel_degree"] <= 8 for row in [*told["best"], *told["front"]])
    assert told["removed"]["tensor_parallel_degree <= 8"] > 0


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--where", "step_tme < 3"), "did you mean 'step_time'"),
        (("--where", "step_time < 1 s", "--where", "step_time > 2 s"), "contradict"),
        (("--objective", "speed"), "no quantity 'speed' to rank by"),
        (("--pareto", "step_time"), "not two quantities"),
        (("--each", "system"), "is not swept"),
        (("--vary", "system=DGX A1000"), "has no row"),
        (("--tp", 3), "no mapping is possible"),
        (("--tp", 2, "--vary", "tensor_parallel_degree=1,2"), "swept and given one value"),
    ],
)
def test_what_cannot_be_asked_is_told_with_exit_code_2(small: Path, arguments: tuple[object, ...], told: str) -> None:
    assert told in command("--config", small, *arguments, code=2).stderr


def test_the_default_space_is_searched_unless_another_is_named(small: Path) -> None:
    line = [sys.executable, "-m", "amped", "explore", "--config", str(small), "--format", "json"]
    told = json.loads(subprocess.run(line, capture_output=True, text=True, check=True).stdout)
    assert {"activation_recomputation", "zero_stage", "sequence_parallel"} <= told["best"][0].keys()
    assert told["candidates"] > explored().candidates


def test_a_front_by_short_names_is_drawn(small: Path, tmp_path: Path) -> None:
    done = command("--config", small, "--plot", "pareto", "--pareto", "step_time,memory", "--output-dir", str(tmp_path))
    assert done.returncode == 0
    assert len(list(tmp_path.glob("*_explore_pareto.png"))) == 1
