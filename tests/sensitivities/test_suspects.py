"""What would have to be different for a measured step: known faults are found, and the estimate itself has none."""

import json
from pathlib import Path
from typing import Any

import pytest

from amped.configuring.scenario import Scenario, asked_again
from amped.drafting.asking import Asking
from amped.estimation.estimation import Estimation, estimated
from amped.report.suspecting import suspected
from amped.sensitivities.suspects import Suspect, suspects
from amped.theory.language.catalogue import catalogue
from tests.helpers.cli import amped as command
from tests.helpers.places import ROOT

SHARDED = {"tensor_parallel_degree": 1, "pipeline_parallel_degree": 1, "zero_stage": 3, "microbatch_size": 1,
           "overlap_data_communication": True, "activation_recomputation": "none"}  # fmt: skip
SMALL = {"model": "Llama 3 8B", "system": "DGX A100", "number_of_accelerators": 64, "batch_size": 64, "context": 2048}
# Healthy set-ups, each with one fault; with its fault each reaches an MFU of 33 to 36 %.
FAULTS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "prefetch off": (SMALL | SHARDED, {"prefetched_sharding_fraction": 0}),
    "unfused attention": (
        {"model": "Llama 3 70B", "system": "DGX H100", "number_of_accelerators": 64, "context": 4096, "tensor_parallel_degree": 8},
        {"flash_attention": False},
    ),
    "full recomputation": (
        {"model": "GPT-3 175B", "system": "DGX H100", "number_of_accelerators": 128, "matrix_precision": "fp8"},
        {"activation_recomputation": "full"},
    ),
    "wrong dispatcher": (
        {"model": "Qwen3 30B-A3B", "system": "DGX H100", "number_of_accelerators": 256, "expert_parallel_degree": 8, "dispatcher": "hybridep"},
        {"dispatcher": "allgather"},
    ),
    "slow link": (SMALL | SHARDED | {"number_of_accelerators": 256, "batch_size": 256, "context": 4096}, {"inter_node_efficiency": 0.2}),
}  # fmt: skip


def asked(values: dict[str, Any]) -> tuple[Scenario, Estimation]:
    scenario = Asking(None, values).completed()
    return scenario, estimated(scenario)


def found(values: dict[str, Any], measured_mfu: float) -> list[Suspect]:
    scenario, e = asked(values)
    return suspects(scenario, e, e["step_time"] * e["model_flops_utilization"] / measured_mfu)


@pytest.mark.thorough
@pytest.mark.parametrize("name", FAULTS)
def test_a_known_fault_is_among_the_first_three_of_an_mfu_of_35_percent(name: str) -> None:
    values, fault = FAULTS[name]
    scenario, e = asked(values)
    with_fault = estimated(asked_again(scenario.question, fault))
    assert with_fault["model_flops_utilization"] == pytest.approx(0.35, abs=0.02)
    assert e["model_flops_utilization"] > 0.37
    first = suspects(scenario, e, e["step_time"] * e["model_flops_utilization"] / 0.35)[:3]
    ((changed, value),) = fault.items()
    matching = [suspect for suspect in first if suspect.name == changed]
    assert matching
    if isinstance(value, float):
        assert matching[0].value == pytest.approx(value, rel=0.15)  # an amount is found, too
    else:
        assert matching[0].value == value


def test_an_amount_meets_the_measured_step_and_a_step_with_it_takes_as_long() -> None:
    scenario, e = asked(SMALL | SHARDED)
    (suspect,) = (s for s in suspects(scenario, e, 1.3 * e["step_time"]) if s.name == "host_time_per_step")
    assert suspect.explained == pytest.approx(1)
    again = estimated(asked_again(scenario.question, {suspect.name: suspect.value}))
    assert again["step_time"] == pytest.approx(1.3 * e["step_time"], rel=5e-3)
    waited = e["host_time_per_step"] + 0.3 * e["step_time"]  # nothing runs beside this wait
    assert suspect.value == pytest.approx(waited, rel=1e-2)


def test_a_step_as_estimated_has_no_suspects_and_a_faster_one_no_faults() -> None:
    scenario, e = asked(SMALL | SHARDED)
    assert suspects(scenario, e, e["step_time"]) == []
    for suspect in suspects(scenario, e, 0.9 * e["step_time"]):
        assert suspect.step_time < e["step_time"]


def test_suspects_are_ranked_and_every_one_is_a_parameter_that_can_be_set() -> None:
    ranked = found(SMALL | SHARDED, 0.3)
    assert [s.surprise for s in ranked] == sorted(s.surprise for s in ranked)
    rows = json.loads((ROOT / "amped" / "sensitivities" / "suspects.json").read_text())
    names = {row["name"] for row in (*rows["switches"], *rows["amounts"])}
    assert not {name for name in names if name not in catalogue() or catalogue()[name].category is None}


def test_the_screen_says_what_would_be_wrong_and_how_to_see_it() -> None:
    from rich.console import Console

    scenario, e = asked(SMALL | SHARDED)
    measured = 1.4 * e["step_time"]
    with (console := Console(width=80)).capture() as text:
        console.print(suspected(e, measured, suspects(scenario, e, measured)[:2]))
    said = " ".join(text.get().split())
    assert "40 % longer than the estimate" in said
    assert [place for place in "123" if f"{place}. " in said] == ["1", "2"]
    assert said.count("shown by ") == 2
    assert max(map(len, text.get().splitlines())) <= 80


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--measured", "6.4 s", "--measured-mfu", "35%"], "are measures of one step"),
        (["--measured-mfu", "350%"], "above 0 and at most 1"),
        (["--measured", "0 s"], "above 0"),
        (["--measured", "9 GB"], "is not a unit of time"),
    ],
)
def test_what_is_no_measure_is_refused(words: list[str], told: str, tmp_path: Path) -> None:
    refused = command("why", "minimal", *words, folder=tmp_path)
    assert told in refused.stderr
