"""Switches that a stack has, chosen together with the mapping (`--manner tuned`)."""

import json
from itertools import product
from pathlib import Path

import pytest

import amped
from amped.base.errors import AmpedError
from amped.configuring.scenario import asked_again
from amped.drafting.chooser import completed
from amped.drafting.improvements import improvements
from amped.drafting.switches import MOST_TOGETHER
from amped.estimation.estimation import estimated
from amped.estimation.manners import in_recipe, road, values_of
from amped.tables.recipes import BY_FORCE
from tests.helpers.cli import amped as run
from tests.helpers.marks import further

SMALL: dict[str, object] = {"model": "Qwen3 30B-A3B", "system": "DGX H100", "number_of_accelerators": 16}


@pytest.mark.thorough
def test_what_is_chosen_together_is_no_slower_than_each_alone() -> None:
    plain, recipe, tuned = (amped.estimate(**SMALL, manner=manner) for manner in ("plain", "recipe", "tuned"))
    assert tuned["fits_in_memory"]
    assert tuned["step_time"] < 0.95 * min(plain["step_time"], recipe["step_time"])
    assert tuned["expert_imbalance_factor"] == plain["expert_imbalance_factor"]
    assert any(
        notice.startswith("switches of Megatron-Bridge: dispatcher=") for notice in tuned.scenario.sources.notices
    )


@pytest.mark.thorough
def test_a_switch_that_is_given_stays() -> None:
    tuned = amped.estimate(**SMALL, manner="tuned", dispatcher="alltoall", deduplicated_dispatch=False)
    assert tuned.choices["dispatcher"] == "alltoall"


@pytest.mark.thorough
def test_software_without_recipes_keeps_its_own_switches() -> None:
    asked = {**SMALL, "software": "nanotron", "number_of_accelerators": 8}
    plain, tuned = amped.estimate(**asked), amped.estimate(**asked, manner="tuned")
    assert tuned["step_time"] == plain["step_time"]
    assert "no recipes of it are known" in tuned.scenario.sources.notices[0]


@pytest.mark.thorough
@pytest.mark.parametrize("system", ["DGX H100", "DGX B200"])
@pytest.mark.parametrize("model", ["Qwen3 30B-A3B", further("Mixtral 8x7B")])
def test_it_is_the_best_of_all_that_it_says_it_tried(model: str, system: str) -> None:
    """Brute force: each combination on each of the first two mappings is estimated by itself, from the values that a user would type."""
    asked: dict[str, object] = {"model": model, "system": system, "number_of_accelerators": 16}
    tuned, plain = amped.estimate(**asked, manner="tuned"), completed(asked)
    on = {name: v for name, v in (in_recipe(estimated(plain)) or {}).items() if name not in BY_FORCE}
    off = values_of(estimated(plain), on)
    assert 1 <= len(on) <= MOST_TOGETHER
    assert f"all {2 ** len(on)} combinations tried, on " in tuned.scenario.sources.notices[0]
    estimates = [
        estimated(asked_again(mapping.question, dict(zip(on, values, strict=True))))
        for mapping in (plain, completed({**asked, **on}))
        for values in product(*zip(off.values(), on.values(), strict=True))
    ]
    best = min(e["step_time"] for e in estimates if e["keeps_memory_headroom"])
    assert tuned["keeps_memory_headroom"]
    assert tuned["step_time"] <= best * 1.001  # a switch that gains less than a thousandth stays off


@pytest.mark.thorough
@pytest.mark.parametrize("system", [further("DGX H100"), "DGX B200"])
def test_no_other_mapping_is_faster_with_any_combination(system: str) -> None:
    """Brute force over both: a mapping is chosen for each combination of switches."""
    asked: dict[str, object] = {"model": "Qwen3 30B-A3B", "system": system, "number_of_accelerators": 16}
    tuned, plain = amped.estimate(**asked, manner="tuned"), estimated(completed(asked))
    on = {name: v for name, v in (in_recipe(plain) or {}).items() if name not in BY_FORCE}
    off = values_of(plain, on)
    for values in product(*zip(off.values(), on.values(), strict=True)):
        e = estimated(completed({**asked, **dict(zip(on, values, strict=True))}))
        assert tuned["step_time"] <= 1.001 * e["step_time"] or not e["keeps_memory_headroom"]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("model", "system", "number"),
    [("Qwen3 30B-A3B", "DGX H100", 16), ("Mixtral 8x7B", "DGX B200", 16), further("Qwen3 235B-A22B", "DGX H100", 256)],
)
def test_what_is_offered_as_faster_is_faster_when_it_is_typed(model: str, system: str, number: int) -> None:
    """Single switches of `amped why`, each alone, and the parts of its road to the recipe, one after another."""
    e = amped.estimate(model=model, system=system, number_of_accelerators=number)
    for offered in improvements(e.scenario, e):
        typed = estimated(asked_again(e.scenario.question, {offered.name: offered.value}))
        assert typed["step_time"] < e["step_time"], offered
    together: dict[str, object] = {}
    before = e["step_time"]
    for step in road(e):
        together |= dict(setting.split("=") for setting in step.settings)
        typed = estimated(asked_again(e.scenario.question, together))
        assert typed["step_time"] < before, step
        before = typed["step_time"]


@pytest.mark.on_request
def test_a_recommendation_with_chosen_switches_needs_no_more_accelerators(tmp_path: Path) -> None:
    asked = ("recommend", "--model", "Qwen3 30B-A3B", "--system", "DGX H100", "--deadline", "900 days")
    plain, tuned = (
        json.loads(run(*asked, "--manner", m, "--json", folder=tmp_path).stdout)[0]["best"] for m in ("plain", "tuned")
    )
    assert tuned["number_of_accelerators"] <= plain["number_of_accelerators"]
    assert tuned["training_time"] <= plain["training_time"]
    same = amped.estimate(**{**SMALL, "number_of_accelerators": tuned["number_of_accelerators"]}, manner="tuned")
    assert tuned["training_time"] == pytest.approx(same["training_time"])


@pytest.mark.thorough
def test_forced_balance_is_never_among_the_switches() -> None:
    tuned = amped.estimate(**SMALL, manner="tuned")
    assert not {*BY_FORCE} & {name for name in BY_FORCE if f"{name}=" in tuned.scenario.sources.notices[0]}


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("model", "system", "number", "precision"),
    [
        further("DeepSeek V3", "GB200 NVL72", 256, "mxfp8"),
        further("Qwen3 235B-A22B", "DGX H100", 256, "fp8"),
        ("Mixtral 8x7B", "DGX B200", 64, "bf16"),
    ],
)
def test_it_is_at_least_as_fast_as_the_recipe_at_its_own_balance(
    model: str, system: str, number: int, precision: str
) -> None:
    asked = {"model": model, "system": system, "number_of_accelerators": number, "precision": precision}
    recipe, tuned = (amped.estimate(**asked, manner=m, expert_imbalance_factor=1) for m in ("recipe", "tuned"))
    assert tuned["step_time"] <= 1.001 * recipe["step_time"]


@pytest.mark.thorough
def test_a_config_with_a_mapping_has_none_to_choose(tmp_path: Path) -> None:
    with pytest.raises(AmpedError, match="tuned is for estimate, explore, why, tune and recommend"):
        amped.estimate("mixtral-8x7b", manner="tuned")
    done = run(
        "estimate",
        "--model",
        "Qwen3 30B-A3B",
        "--system",
        "DGX H100",
        "--gpus",
        16,
        "--manner",
        "tuned",
        folder=tmp_path,
    )
    assert done.returncode == 0
    assert "switches of Megatron-Bridge" in done.stdout
