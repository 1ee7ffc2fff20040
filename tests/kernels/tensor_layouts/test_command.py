"""`amped layouts`: measure, choose, run; and what it says when that cannot be done."""

import importlib.util
import json

import pytest

from amped.kernels.tensor_layouts.plan import read_plan
from tests.helpers.cli import apart, refused, verb
from tests.helpers.tensor_layouts import random_table

needs_torch = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="torch is not installed (pip install 'amped[torch]')"
)


@needs_torch
def test_a_small_layer_is_measured_chosen_for_and_run(tmp_path, capsys):
    times, plan = tmp_path / "times.jsonl", tmp_path / "plan.json"
    verb("layouts", "bench", "-b", 2, "-l", 8, "--heads", 2, "--hidden", 8, "--ffn", 32, "--budget", 0, "-o", times)
    assert "worst/best" in capsys.readouterr().out
    written = times.read_text("utf-8")
    verb("layouts", "bench", "-b", 2, "-l", 8, "--heads", 2, "--hidden", 8, "--ffn", 32, "-o", times, "--resume")
    assert times.read_text("utf-8") == written
    capsys.readouterr()
    verb("layouts", "select", times, "-o", plan)
    assert "above the sum of each operator's best" in capsys.readouterr().out
    verb("layouts", "run", plan, "--budget", 0.1, "--no-compile", "--json")
    runs = json.loads(capsys.readouterr().out)["runs"]
    assert [run["name"] for run in runs][-1] == "the plan"
    timed = [run for run in runs if run["forward"] is not None]
    assert len(timed) == 4
    assert all(run["error"] < 1e-4 and min(run["forward"], run["backward"]) > 0 for run in timed)
    verb("layouts", "run", plan, "--budget", 0.1, "--no-compile", "--dtype", "fp32")
    assert "the plan's sum of operators is" in capsys.readouterr().out
    verb("data-movement", "--plan", plan)
    assert "MUE %" in capsys.readouterr().out


def test_a_choice_needs_no_torch_and_paths_are_compared(tmp_path, capsys):
    times = random_table(0).write(tmp_path / "times.jsonl")
    verb("layouts", "select", times, "--json")
    exact = json.loads(capsys.readouterr().out)
    verb("layouts", "select", times, "--json", "--batch", 64)
    path = json.loads(capsys.readouterr().out)
    assert exact["predicted_us"] <= path["predicted_us"]
    assert (path["dimensions"]["batch"], path["measured"]["dimensions"]["batch"]) == (64, 2)


@needs_torch
def test_published_times_stand_beside_the_published_sizes():
    from amped.layers.published import encoder_times

    assert list(encoder_times(**vars(read_plan("b8-l512").dimensions)).values()) == [9.14, 8.4, 7.6, 6.71]
    assert list(encoder_times(**vars(read_plan("b96-l128").dimensions)).values()) == [18.43, None, 16.19, 15.42]
    assert encoder_times(**vars(random_table(0).dimensions)) == {}


@pytest.mark.parametrize("verb_name", ["bench", "select", "run"])
def test_each_verb_has_help_with_an_example(verb_name, capsys):
    assert verb("layouts", verb_name, "--help") == 0
    assert "Example:" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["bench", "--heads", "15"], "--heads 8 or 16"),
        (["select", "nothing.jsonl"], "nothing.jsonl"),
        pytest.param(["run", "b8-l521"], "did you mean 'b8-l512'", marks=needs_torch),
    ],
)
def test_mistakes_are_told(arguments, told):
    code, written = refused("layouts", *arguments)
    assert (code, "Traceback" in written) == (2, False)
    assert told in written


def test_a_missing_torch_is_told_with_the_extra(tmp_path):
    hidden = "import sys; sys.modules['torch'] = None"
    done = apart("layouts", "bench", "-l", "8", folder=tmp_path, before=hidden)
    assert done.returncode == 2
    assert "amped[torch]" in done.stderr
