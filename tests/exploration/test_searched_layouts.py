"""Pipelines whose stages are unlike are searched with the layout that an estimate takes, and each row says which."""

import random
from pathlib import Path

import pytest

import amped
from amped.configuring.scenario import read_scenario
from amped.exploration.candidate_config import save_best
from amped.exploration.searched_layouts import MOST_SEARCHED_CHUNKS, MOST_SEARCHED_STAGES
from tests.helpers.explore import EVERYTHING, Row
from tests.helpers.formulas import sectioned
from tests.helpers.mixture import NETWORK, network, question

ALIKE = {"number_of_experts", "experts_per_token", "expert_feedforward_dimension", "number_of_MoE_layers"}
# Six dense layers: alike, but four stages do not divide them.
DENSE = sectioned({name: value for name, value in NETWORK.items() if name not in ALIKE} | {"batch_size": 16})
MACHINE = {"system": "DGX A100", "number_of_accelerators": 16}


def again(config: object, row: Row, swept: tuple[str, ...], **machine: object) -> amped.Estimate:
    return amped.estimate(config, **(machine | {name: row[name] for name in swept if name in row}))  # type: ignore[arg-type]


@pytest.mark.thorough
def test_layers_that_do_not_divide_are_laid_out_and_those_that_do_need_no_layout() -> None:
    found = amped.explore(DENSE, **MACHINE, top=EVERYTHING)
    stages = {row["pipeline_parallel_degree"] for row in found.best}
    assert stages == {1.0, 2.0, 4.0, 8.0}
    for row in found.best:
        places = row["pipeline_parallel_degree"] * row["virtual_pipeline_stages"]
        assert ("pipeline_layout" in row) == (6 % places != 0)
        assert row["pipeline_parallel_degree"] <= MOST_SEARCHED_STAGES
        assert places <= MOST_SEARCHED_CHUNKS


@pytest.mark.thorough
def test_where_stages_divide_like_layers_the_best_of_few_layouts_is_nearly_that_of_many() -> None:
    """Two stages have three layers each, in two chunks: only which chunk has two of them is open."""
    held = {**MACHINE, "pipeline_parallel_degree": 2, "virtual_pipeline_stages": 2}
    found = amped.explore(DENSE, **held, activation_recomputation="none", flash_attention=True)
    names = [name for name in found.swept if name != "pipeline_layout"]
    for row in found.best[:: len(found.best) - 1]:
        best = amped.estimate(DENSE, **(held | {name: row[name] for name in names}))  # compares many layouts
        assert row["pipeline_layout"]
        assert row["step_time"] <= 1.02 * best["step_time"]


@pytest.mark.thorough
def test_rows_with_a_layout_are_bit_for_bit_the_estimate_that_they_say() -> None:
    for config, machine in ((DENSE, MACHINE), (network(), question("DGX H100"))):
        found = amped.explore(config, **machine, top=EVERYTHING)
        laid = [row for row in found.best if "pipeline_layout" in row]
        for row in random.Random(3).sample(laid, 8):
            e = again(config, row, found.swept, **machine)
            assert {name: row[name] for name in ("step_time", "memory_per_accelerator_bytes")} == {
                name: e[name] for name in ("step_time", "memory_per_accelerator_bytes")
            }


@pytest.mark.thorough
def test_a_winner_with_a_layout_is_saved_as_a_config_that_runs(tmp_path: Path) -> None:
    asked = read_scenario(network(), question("DGX H100"))
    found = amped.explore(network(), **question("DGX H100"), top=1)
    assert found.best[0]["pipeline_layout"]
    (path,) = save_best(asked, found, tmp_path / "winners")
    assert amped.estimate(path)["step_time"] == found.best[0]["step_time"]


def test_a_layout_that_is_given_is_held() -> None:
    found = amped.explore(DENSE, **MACHINE, pipeline_layout="2,1,1,2", top=EVERYTHING)
    assert {row["pipeline_parallel_degree"] for row in found.best} == {4.0}
    row = found.best[0]
    assert again(DENSE, row, found.swept, **MACHINE)["step_time"] == row["step_time"]


IN_LETTERS = "Et*3|(t*2|)*27(t|)*3tL"
V3 = {"model": "DeepSeek V3", "system": "DGX H100", "number_of_accelerators": 512, "batch_size": 4096}


@pytest.mark.thorough
def test_a_layout_in_letters_is_searched_with_each_number_of_stages_that_divides_its_chunks() -> None:
    found = amped.explore(
        **V3, expert_parallel_degree=8, tensor_parallel_degree=1, pipeline_layout=IN_LETTERS, top=EVERYTHING
    )
    sizes = {(row["pipeline_parallel_degree"], row["virtual_pipeline_stages"]) for row in found.best}
    assert {(8.0, 4.0), (16.0, 2.0)} <= sizes <= {(2.0**n, 2.0 ** (5 - n)) for n in range(6)}


def test_a_named_model_with_a_layout_in_letters_gets_its_chunks() -> None:
    e = amped.estimate(**V3, pipeline_parallel_degree=8, pipeline_layout=IN_LETTERS)
    assert e["virtual_pipeline_stages"] == 4


@pytest.mark.parametrize(
    ("stages", "told"),
    [
        (6, "lists 32 chunks, and pipeline_parallel_degree must divide them and 512 accelerators"),
        (64, "it lists 32 chunks"),
    ],
)
def test_a_layout_in_letters_that_no_pipeline_has_is_refused(stages: int, told: str) -> None:
    with pytest.raises(amped.AmpedError, match=told):
        amped.estimate(**V3, pipeline_parallel_degree=stages, pipeline_layout=IN_LETTERS)


@pytest.mark.thorough
@pytest.mark.parametrize("other", ["4*13,3,4,2", "4*15,1", "6,4*10,3,4,2,3*2"])
def test_the_layout_of_a_named_model_suits_the_degrees_that_are_given(other: str) -> None:
    """The last one is best with a tensor degree of 8: it was taken, and the step was a quarter longer."""
    held = {
        "pipeline_parallel_degree": 16,
        "expert_parallel_degree": 8,
        "virtual_pipeline_stages": 1,
        "tensor_parallel_degree": 1,
    }
    own, given = (amped.estimate(**V3, **held, **each)["step_time"] for each in ({}, {"pipeline_layout": other}))
    assert own <= 1.001 * given
