"""Two times of a mixture: as recipes run it, and as a first run on real data."""

from typing import Any

import pytest

import amped
from amped.configuring.scenario import read_scenario
from amped.estimation.estimation import estimated
from amped.estimation.manners import IMBALANCE, IMBALANCE_OF_A_FIRST_RUN, other_runs, road

ASKED: dict[str, Any] = {
    "model": "DeepSeek V3", "system": "GB300 NVL72", "software": "Megatron-Bridge", "number_of_accelerators": 256, "data_parallel_degree": 256,
    "expert_parallel_degree": 32, "tensor_parallel_degree": 1, "pipeline_parallel_degree": 1, "precision": "mxfp8", "zero_stage": 1, "activation_recomputation": "full",
}  # fmt: skip


def runs(**more: Any) -> dict[str, Any]:
    return {run.name: run for run in other_runs(estimated(read_scenario("minimal", ASKED | more)))}


def test_a_mixture_has_the_time_of_its_recipe_and_of_a_first_run() -> None:
    e, found = amped.estimate("minimal", **ASKED), runs()
    assert set(found) == {"recipe", "first_run"}
    assert found["recipe"].software == "Megatron-Bridge 26.08 recipe"
    assert (
        found["recipe"].step_time == amped.estimate("minimal", **ASKED, manner="recipe")["step_time"] < e["step_time"]
    )
    first = amped.estimate("minimal", **ASKED, **{IMBALANCE: IMBALANCE_OF_A_FIRST_RUN})
    assert found["first_run"].step_time == first["step_time"] > e["step_time"]
    assert {"dispatcher=hybridep", "expert_imbalance_factor=1"} <= {*found["recipe"].switches}


def test_the_recipe_is_that_of_the_release_that_is_typed_or_of_the_nearest_with_a_notice() -> None:
    older, between = (runs(software=f"Megatron-Bridge {release}")["recipe"] for release in ("25.11", "26.07"))
    assert (older.software, older.notice) == ("Megatron-Bridge 25.11 recipe", "")
    assert between.software == "Megatron-Bridge 26.06 recipe"
    assert "release 26.06" in between.notice


def test_as_recipes_run_it_the_other_time_is_the_plain_one() -> None:
    found = runs(manner="recipe")
    assert found["plain"].step_time == amped.estimate("minimal", **ASKED)["step_time"]
    assert found["first_run"].step_time == runs()["first_run"].step_time


def test_who_says_how_unequal_experts_are_gets_no_first_run_and_a_dense_network_gets_neither() -> None:
    assert set(runs(expert_imbalance_factor=1.2)) == {"recipe"}
    assert runs(model="Llama 3 8B", expert_parallel_degree=1) == {}
    assert "first_run" not in runs(software="MaxText", expert_capacity_factor=1)


@pytest.mark.thorough
def test_the_road_to_the_recipe_never_loses_and_ends_near_its_time() -> None:
    e = estimated(read_scenario("minimal", ASKED))
    steps = road(e)
    times = [e["step_time"], *(step.step_time for step in steps)]
    assert times == sorted(times, reverse=True)
    assert all(step.gain_fraction > 0 for step in steps)
    assert times[-1] <= 1.01 * runs()["recipe"].step_time
    assert not {"expert_imbalance_factor"} & {s.partition("=")[0] for step in steps for s in step.settings}
    assert road(estimated(read_scenario("minimal", ASKED | {"manner": "recipe"}))) == ()
