"""The verbs around the estimate: each has an example that runs, and does what it says."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from amped.cli.app import app
from amped.estimation.comparison import EXPERIMENT
from tests.helpers.cli import printed
from tests.helpers.config import LLAMA_CONFIG
from tests.helpers.places import ROOT
from tests.helpers.validation import estimated_once

VERBS = {command.name: command.callback for command in app.registered_commands}
# What never ends by itself: `tests/web` and `tests/agents` start and end it.
ENDLESS = {"app", "mcp"}
# What an example needs to be there.
PREPARED = {"merge": [["explore", "--space", "degrees", "--shard", shard] for shard in ("1/2", "2/2")]}


@pytest.fixture
def amped(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return printed


@pytest.mark.thorough
@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb not in ENDLESS])
def test_the_example_of_every_verb_runs(amped, verb):
    example = re.split(r"Example: ", VERBS[verb].__doc__)[1]
    words = shlex.split(" ".join(example.split("\n\n")[0].split()).partition(" > ")[0])
    assert words[:2] == ["amped", verb]
    Path("config.json").write_text(json.dumps(LLAMA_CONFIG))
    for command in PREPARED.get(verb, ()):
        amped(*command)
    with estimated_once():  # of the measurements that `validate` and `calibrate` compare with
        assert amped(*words[1:])


def test_compare_tells_an_experiment_from_a_mapping(amped):
    same = json.loads(amped("compare", "default", "default", "--json"))
    assert same["inputs"] == []
    found = json.loads(amped("compare", "default", "llama-3-70b", "--json"))
    kinds = {difference["name"]: difference["kind"] for difference in found["inputs"]}
    assert kinds["batch_size"] == "experiment"
    assert kinds["virtual_pipeline_stages"] == "mapping"
    assert kinds["frequency"] == "accelerator"
    assert {name for name, kind in kinds.items() if kind == "experiment"} <= set(EXPERIMENT)
    told = " ".join(amped("compare", "default", "llama-3-70b").split())
    assert re.search(r"Not the same experiment: [a-z_, ]*batch_size[a-z_, ]* differ", told)
    step = next(d for d in found["results"] if d["name"] == "step_time")
    assert step["one"] > step["other"] > 0


def test_compare_tells_where_the_time_of_a_step_goes(amped):
    told = amped("compare", "electrical-glam-1.2T", "optical-glam-1.2T")
    pace = re.search(r"A step of B is ([\d.]+) times as fast as one of A", told)
    found = json.loads(amped("compare", "electrical-glam-1.2T", "optical-glam-1.2T", "--json"))["results"]
    results = {d["name"]: d for d in found}
    step = results["step_time"]
    assert float(pace[1]) == pytest.approx(step["one"] / step["other"], rel=1e-2)
    parts = re.findall(r"^(\w+_time) .* ([-+][\d.]+ \w+|0)$", told.split("part of a step")[1].split("\n\n")[0], re.M)
    assert parts[0][0] == "exposed_data_communication_time"  # what changes most is told first
    assert parts[0][1].startswith("-")
    assert {name for name, change in parts if change != "0"} == {
        name for name, _ in parts if results[name]["one"] != results[name]["other"]
    }
    backwards = amped("compare", "optical-glam-1.2T", "electrical-glam-1.2T")
    assert f"A step of B is {pace[1]} times as long as one of A" in backwards


def test_compare_changes_one_config_by_set(amped):
    by_set = json.loads(amped("compare", "default", "--set", "network_kind=optical_circuit_switched", "--json"))
    changed = {d["name"]: (d["one"], d["other"]) for d in by_set["inputs"]}
    assert changed["network_kind"] == ("electrical", "optical_circuit_switched")
    assert "A step takes as long in both." in amped("compare", "default", "--set", "tensor_parallel_degree=8")


@pytest.mark.thorough
@pytest.mark.parametrize("form", ["png", "svg"])
def test_scenario_summary_draws_each_config_and_all_together(amped, tmp_path, form):
    amped(
        "scenario-summary",
        "default",
        "--config",
        "mixtral-8x7b",
        "--format",
        form,
        "--output-dir",
        tmp_path,
    )
    drawn = sorted(path for path in tmp_path.iterdir())
    assert [path.name[20:] for path in drawn] == [
        f"scenario_comparison.{form}", f"scenario_summary_default.{form}", f"scenario_summary_mixtral-8x7b.{form}",
    ]  # fmt: skip
    start = {"png": b"\x89PNG", "svg": b"<?xml"}[form]
    assert all(path.read_bytes().startswith(start) for path in drawn)
    if form == "svg":
        texts = drawn[0].read_text()
        assert "time of one step (s)" in texts or "<path" in texts


def test_show_has_units_of_bare_numbers(amped):
    assert "32 bit" in " ".join(amped("show", "NeMo AutoModel").split())


def test_a_measurement_is_shown_by_its_id(amped):
    shown = amped("show", "mlp50-08")
    assert "MLPerf-Training-v5.0" in shown
    assert json.loads(amped("show", "mlp50-08", "--json"))["tensor_parallel_degree"] == "4"
    assert "mlp50-08" in amped("list", "measurements", "--filter", "mlp50")


def test_show_has_values_sources_and_doubts(amped):
    text = amped("show", "TPU v5p")
    for part in ("TPU v5p", "1.751 GHz", "unverified", "sources", "Google Cloud TPU documentation"):
        assert part in text
    assert json.loads(amped("show", "h100", "--json"))[0]["name"] == "H100 SXM"


def test_the_schema_and_the_glossary_are_printed(amped):
    assert json.loads(amped("schema"))["title"] == "amped config"
    assert "| `step_time` | s | calculated |" in amped("parameters", "--markdown")
    assert "### step_time" in amped("parameters", "--equations")
    told = {entry["name"]: entry for entry in json.loads(amped("parameters", "--json"))}
    assert (told["step_time"]["unit"], told["step_time"]["default"]) == ("s", "calculated")
    assert "ring" in told["context_parallel_kind"]["choices"]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("module", "flags", "told"),
    [
        ("main", ["--config", "minimal", "--GEMM", "--compute_graph"], "training time"),
        ("optimization", ["--config", "minimal"], "candidates"),
        ("mat_dims", ["--config", "minimal"], "  "),
        ("scenario_summary", ["--config", "minimal"], "written to"),
    ],
)
def test_ampeds_entry_points_take_its_flags(tmp_path, module, flags, told):
    command = [sys.executable, "-m", f"amped.{module}", *flags]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert told in done.stdout
    assert len(ROOT.joinpath("amped", "entry_points", f"{module}.py").read_text().splitlines()) <= 6


def test_every_verb_is_in_a_group_with_a_short_summary() -> None:
    from amped.cli.app import VERB_GROUPS

    told = {name: summary for verbs in VERB_GROUPS.values() for name, summary in verbs.items()}
    assert told.keys() >= set(VERBS)
    assert [name for name, summary in told.items() if not 8 < len(summary) <= 45] == []
    shown = printed("--help")
    assert [name for name, summary in told.items() if summary not in shown] == []


def test_amped_alone_shows_questions_whose_commands_are_commands(tmp_path) -> None:
    done = subprocess.run([sys.executable, "-m", "amped"], cwd=tmp_path, capture_output=True, text=True, check=True)
    commands = [line.strip() for line in done.stdout.splitlines() if line.startswith("  amped ")]
    assert len(commands) == 5
    assert [command for command in commands if command.split()[1] not in {*VERBS, "list"}] == []
