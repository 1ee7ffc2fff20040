"""Exploring lists of values: each value is explored, and `--vary` is read as it is written."""

import json

import pytest

from amped.base.errors import ConfigError
from amped.exploration.sweep_syntax import parse_vary
from tests.helpers.explore import (
    EVERYTHING,
    SAME,
    SMALL,
    explore,
    explored,
    unequal_rows,
)

# --- sweeps ----------------------------------------------------------------------------------------------------------


def test_a_sweep_of_the_batch_explores_each_size() -> None:
    found = explore(SMALL, vary={"batch_size": [16, 48]}, top=EVERYTHING)
    alone = [explore(SMALL, batch_size=size, top=EVERYTHING) for size in (16, 48)]
    assert found.candidates == sum(each.candidates for each in alone)
    assert {row["batch_size"] for row in found.best} == {16.0, 48.0}
    assert found.best[0]["training_time"] == min(each.best[0]["training_time"] for each in alone)
    assert unequal_rows(found.best[::3]) == []


def test_a_sweep_of_an_open_axis_multiplies_the_candidates() -> None:
    found = explore(SMALL, vary={"memory_bandwidth": [1e12, 2e12]}, top=EVERYTHING)
    assert found.candidates == 2 * explored().candidates
    assert {row["memory_bandwidth"] for row in found.best} == {1e12, 2e12}
    assert unequal_rows(found.best[::3], "memory_bandwidth") == []


@pytest.mark.thorough
def test_two_open_axes_and_the_batch_are_swept_together() -> None:
    swept = {"memory_bandwidth": [1e12, 2e12], "context": [512, 1024, 2048], "batch_size": [16, 32]}
    found = explore(SMALL, vary=swept, top=EVERYTHING)
    per_batch = [explore(SMALL, batch_size=size).candidates for size in (16, 32)]
    assert found.candidates == 6 * sum(per_batch)
    assert unequal_rows(found.best[:: len(found.best) // 50], "memory_bandwidth", "context") == []


def test_a_list_in_the_config_is_a_sweep() -> None:
    listed = json.loads(json.dumps(SMALL))
    listed["neural_network_training_parameters"]["parameters"]["batch_size"] = {"value": [16, 48]}
    listed["accelerator_architecture_parameters"]["parameters"]["memory_bandwidth"] = {"value": ["1 TB/s", "2 TB/s"]}
    found = explore(listed, top=EVERYTHING)
    swept = {"batch_size": [16, 48], "memory_bandwidth": ["1 TB/s", "2 TB/s"]}
    assert found.best == explore(SMALL, vary=swept, top=EVERYTHING).best


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("frequency", [0.7e9, 1.41e9]), ("samples", [1000, 2000]), ("number_of_steps", [100, 200]),
        ("number_of_network_cards_per_node", [1, 8]), ("mac_per_cycle_per_unit", [128, 256]),
    ],
)  # fmt: skip
def test_a_swept_value_takes_the_place_of_what_it_determines(name: str, values: list[float]) -> None:
    found = explore(SMALL, vary={name: values}, top=EVERYTHING)
    for value in values:
        best = next(row for row in found.best if row[name] == value)
        alone = explore(SMALL, **{name: value}, top=1).best[0]
        assert {key: best[key] for key in SAME} == {key: alone[key] for key in SAME}


def test_a_swept_name_may_be_one_of_the_other_spellings() -> None:
    assert explore(SMALL, vary={"global_batch_size": [16]}).best == explore(SMALL, batch_size=16).best


# --- --vary ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("1,2,5", [1.0, 2.0, 5.0]),
        ("7", [7.0]),
        ("2:10:4", [2.0, 6.0, 10.0]),
        ("2:11:4", [2.0, 6.0, 10.0]),
        ("512:4096:x2", [512.0, 1024.0, 2048.0, 4096.0]),
        ("0.1:0.3:0.1", [0.1, 0.2, pytest.approx(0.3)]),
        ("1:2:1:TB/s", ["1.0 TB/s", "2.0 TB/s"]),
        ("1,2:TB/s", ["1 TB/s", "2 TB/s"]),
        ("1 TB/s, 2 TB/s", ["1 TB/s", "2 TB/s"]),
    ],
)
def test_the_values_of_a_sweep_are_read(text: str, values: list[object]) -> None:
    assert parse_vary([f"name={text}"]) == {"name": values}


@pytest.mark.parametrize(
    "text",
    ["name", "=1,2", "name=", "a=2:1:1", "a=1:2:0", "a=1:2:-1", "a=1:2:x1", "a=1:2:x0.5", "a=0:2:x2", "a=1:inf:1",
     "a=nan:2:1", "a=1:2:nan", "a=one:2:1", "a=1:1e9:1"],
)  # fmt: skip
def test_a_sweep_that_leads_nowhere_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="--vary"):
        parse_vary([text])


def test_a_name_that_is_given_again_has_the_further_values_too() -> None:
    assert parse_vary(["a=1", "b=5", "a=2,3"]) == {"a": [1.0, 2.0, 3.0], "b": [5.0]}


def test_a_value_that_is_given_twice_is_refused() -> None:
    with pytest.raises(ConfigError, match="a value twice"):
        parse_vary(["a=1", "a=2,1"])


def test_a_comma_in_quotes_separates_nothing() -> None:
    assert parse_vary(['software="my stack, compiled",Megatron-Core']) == {
        "software": ["my stack, compiled", "Megatron-Core"]
    }


def test_the_name_of_a_row_is_one_value_with_all_its_commas() -> None:
    rows = {"torchtitan, compiled", "PyTorch FSDP2, compiled", "torchtitan"}
    texts = ["software=torchtitan, compiled,torchtitan,PyTorch FSDP2, compiled"]
    assert parse_vary(texts, lambda name, text: name == "software" and text in rows) == {
        "software": ["torchtitan, compiled", "torchtitan", "PyTorch FSDP2, compiled"]
    }
