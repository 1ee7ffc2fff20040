"""Winners as configs: an estimate of the file has every number of the row, whatever was searched, swept or overridden."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import amped
from amped.base.errors import AmpedError
from amped.configuring.config_schema import structure_problems
from amped.configuring.scenario import read_scenario
from amped.configuring.values import read_value
from amped.exploration.answer import explored
from amped.exploration.candidate_config import as_written, names_of_winners, save_best
from amped.exploration.request import Options
from amped.theory.language.catalogue import catalogue
from tests.helpers.cli import amped as command
from tests.helpers.cli import verb
from tests.helpers.explore import SMALL

MINE = """
from amped.theory.language.quantity import quantity

@quantity("s")
def optimizer_time__operators(weight_bytes):
    "A billionth of a second for each byte. Source: me."
    return 1e-9 * weight_bytes
"""
TABLE = {"table": "accelerator_specifications", "rows": {"Mine": {"extends": "H100 SXM", "memory_bandwidth": "4 TB/s",
                                                                  "sources": ["none"]}}}  # fmt: skip
# Config, overrides, sweeps, options. Degrees and policies are held where a space is large: what is no topic of a case. Winners
# of each are rows of what it searches all the same.
SPACES = {
    "default": ("default", {}, {}, Options(4)),
    "every placement": ("mixtral-8x7b", {"activation_recomputation": "full", "context_parallel_degree": 1, "zero_stage": 1}, {}, Options(3, "full")),
    "degrees only": (SMALL, {}, {}, Options(6, "degrees")),
    "rows and choices": ("default", {"number_of_accelerators": 64, "layers": 24},
                         {"system": ["Selene", "DGX H100"], "performance_model": ["operators", "amped"]}, Options(30, "degrees")),
    "models": ("llama-3-70b", {"pipeline_parallel_degree": 8, "activation_recomputation": "full"}, {"model": ["Llama 3 70B", "Llama 3 8B"]}, Options(4)),
    "accelerators of a row": (SMALL, {"system": "DGX H100"}, {"accelerator": ["H100 SXM", "H200 SXM"]}, Options(4)),
    "hardware": (SMALL, {}, {"memory_bandwidth": ["2 TB/s", 1 / 3 * 1e13], "inter_node_latency": ["3.3 us", "7 us"]}, Options(8)),
    "machines": ("default", {}, {"number_of_accelerators": [256, 512], "scale_up_domain_size": [4, 8]}, Options(12)),
    "AMPeD's own style": ("amped-style", {}, {"memory_bandwidth": ["2 TB/s"]}, Options(3)),
    "kernel efficiencies": ("megatron-145.6B", {"kernel_efficiencies": "Hopper", "pipeline_parallel_degree": 8, "context_parallel_degree": 1,
                                               "activation_recomputation": "full"}, {}, Options(3)),
    "optical network": ("optical-glam-1.2T", {"pipeline_parallel_degree": 4, "context_parallel_degree": 1, "zero_stage": 1,
                                              "activation_recomputation": "full"}, {}, Options(3)),
    "held by an alias": ("minimal", {"tensor_parallel_degree": 2, "global_batch_size": 512}, {"zero_stage": [1, 3]}, Options(3)),
    "precisions": (SMALL, {"weight_precision": 16, "gradient_precision": "4 B"}, {"batch_size": [16, 32]}, Options(5)),
    "another objective": (SMALL, {}, {"sequence_parallel": [True, False]}, Options(5, objective="memory_per_accelerator_bytes")),
}  # fmt: skip


@pytest.mark.thorough
@pytest.mark.parametrize("name", SPACES)
def test_an_estimate_of_a_winner_is_its_row_to_the_last_digit(name: str, tmp_path: Path) -> None:
    config, overrides, vary, options = SPACES[name]
    asked = read_scenario(config, overrides)
    found = explored(asked, options, vary)
    written = save_best(asked, found, tmp_path / "winners")
    assert [path.name for path in written] == names_of_winners(len(found.best))
    assert found.feasible > 0
    assert len(written) == options.top
    for path, row in zip(written, found.best, strict=True):
        told = amped.estimate(path).to_dict()
        assert told["step_time"] == row["step_time"]
        assert {n: v for n, v in row.items() if n in told and told[n] != v} == {}
        assert structure_problems(json.loads(path.read_text("utf-8"))) == []


def test_the_winners_of_the_command_are_those_it_ranks(tmp_path: Path) -> None:
    (tmp_path / "small.json").write_text(json.dumps(SMALL), "utf-8")
    done = command(
        "explore", "-c", "small.json", "--top", 3, "--format", "json", "--save-best", "winners", folder=tmp_path
    )
    best = json.loads(done.stdout)["best"]
    assert "run one: amped estimate --config winners/best-01.json" in done.stderr
    for rank, row in enumerate(best, 1):
        told = command("estimate", "--config", f"winners/best-{rank:02}.json", "--json", folder=tmp_path)
        assert json.loads(told.stdout)["step_time"] == row["step_time"]


def test_own_formulas_and_tables_are_named_beside_the_config(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "mine.json").write_text(json.dumps(TABLE))
    more = ("--lookup-tables", "tables", "--formulas", "mine.py")
    done = command("explore", *more, "--accelerator", "Mine", "--gpus", 64, "--set", "layers=12", "--top", 1,
                   "--save-best", "winners", "--format", "json", folder=tmp_path)  # fmt: skip
    assert f"--config winners/best-01.json {' '.join(more)}" in done.stderr
    told = command("estimate", "--config", "winners/best-01.json", *more, "--json", folder=tmp_path)
    assert json.loads(told.stdout)["step_time"] == json.loads(done.stdout)["best"][0]["step_time"]


def test_a_winner_holds_what_was_set_and_swept_and_no_column_of_a_row(tmp_path: Path) -> None:
    asked = read_scenario("default", {"memory_bandwidth": "3 TB/s"})
    path = save_best(asked, explored(asked, Options(1)), tmp_path)[0]
    sections = json.loads(path.read_text("utf-8"))
    assert sections["accelerator_architecture_parameters"]["parameters"] == {"memory_bandwidth": {"value": "3 TB/s"}}
    assert sections["neural_network_training_parameters"]["lookup_config"]["lookup_table_row"] == "GPT-3 175B"
    assert "layers" not in path.read_text("utf-8")
    assert "number 1 of" in sections["description"]


def test_winners_of_another_exploration_are_not_mixed_in(tmp_path: Path) -> None:
    (tmp_path / "best-07.json").write_text("mine")
    with pytest.raises(AmpedError, match="not overwritten"):
        verb("explore", "--save-best", tmp_path)
    (tmp_path / "file").write_text("mine")
    with pytest.raises(AmpedError, match="not a folder"):
        verb("explore", "--save-best", tmp_path / "file")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["best-07.json", "file"]


def test_where_nothing_is_feasible_nothing_is_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Tries many mappings: tests/cli/test_cli.py.
    monkeypatch.setattr("amped.exploration.answer.smallest_change", lambda _: "less")
    (tmp_path / "small.json").write_text(json.dumps(SMALL), "utf-8")
    done = command(
        "explore", "-c", "small.json", "--set", "memory_capacity=1 MB", "--space", "degrees", "--save-best", "winners",
        folder=tmp_path,
    )  # fmt: skip
    assert done.returncode == 2
    assert "no candidate is feasible" in done.stderr
    assert "candidates" in done.stdout
    assert not (tmp_path / "winners").exists()


def test_names_sort_as_the_ranks_do() -> None:
    assert names_of_winners(2) == ["best-01.json", "best-02.json"]
    names = names_of_winners(1200)
    assert names == sorted(names)
    assert names[0] == "best-0001.json"


NUMBERS = sorted(
    n for n, q in catalogue().items() if q.mark.kind == "parameter" and q.mark.unit not in ("choice", "boolean")
)


@settings(deadline=None)  # what is read first loads units and tables
@given(st.sampled_from(NUMBERS), st.floats(1e-12, 1e18))
def test_any_value_is_written_so_that_it_is_read_as_itself(name: str, value: float) -> None:
    quantity = catalogue()[name]
    try:
        value = float(read_value(quantity, f"{value!r} {quantity.mark.unit if quantity.mark.unit != '1' else ''}"))
    except AmpedError:
        return  # out of its bounds
    assert read_value(quantity, json.loads(json.dumps(as_written(quantity, value, value)))) == value
