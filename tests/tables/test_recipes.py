"""Software as recipes run it: which row is taken, and which values of it hold for a network, a precision and a machine."""

from dataclasses import replace
from typing import Any

import pytest

import amped
from amped.base.errors import ConfigError
from amped.tables.recipes import (
    MACHINES,
    PLAIN,
    RECIPE,
    Circumstances,
    as_recipes_have_it,
    in_manner,
    is_recipe,
    machine,
    networks,
    notice_of_another_release,
    notice_of_the_nearest_release,
)
from amped.tables.table_files import SOFTWARE
from amped.tables.tables import user_tables

TABLES = user_tables()
RACK = Circumstances(networks=networks(128, 0, 0), layers=48, adapters=False, precision="mxfp8", machine="GB200")
MIXTURE: dict[str, Any] = {"model": "Mixtral 8x7B", "system": "DGX H100", "expert_parallel_degree": 8}


@pytest.mark.parametrize(
    ("typed", "row"),
    [
        ("Megatron-Bridge", "Megatron-Bridge 26.08 recipe"),
        ("Megatron-Bridge 26.06", "Megatron-Bridge 26.06 recipe"),
        ("megatron bridge 26.04", "Megatron-Bridge 26.04 recipe"),
        ("Megatron-Bridge 26.04.01", "Megatron-Bridge 26.04 recipe"),
        ("Megatron-Bridge 26.05", "Megatron-Bridge 26.04 recipe"),
        ("Megatron-Bridge 25.10", "Megatron-Bridge 25.09 recipe"),
        ("Megatron-Bridge 26.07", "Megatron-Bridge 26.06 recipe"),
        ("Megatron-Bridge 30.01", "Megatron-Bridge 26.08 recipe"),
        ("Megatron-Bridge 25.11 recipe", "Megatron-Bridge 25.11 recipe"),
    ],
)
def test_the_recipe_of_the_nearest_release_is_taken_and_of_the_newest_if_none_is_typed(typed: str, row: str) -> None:
    assert in_manner(TABLES, typed, RECIPE) == row
    assert in_manner(TABLES, typed, PLAIN) == "Megatron-Bridge"


def test_software_without_recipes_is_refused_with_those_that_have_some() -> None:
    with pytest.raises(ConfigError, match=r"(?s)no recipes of 'nanotron' are known.*Megatron-Bridge"):
        in_manner(TABLES, "nanotron", RECIPE)


def test_a_later_record_stands_above_an_earlier_one_and_holds_only_where_its_conditions_do() -> None:
    row = TABLES.row(SOFTWARE, "Megatron-Bridge 26.06 recipe")
    columns = as_recipes_have_it(row, RACK).columns
    in_bf16 = as_recipes_have_it(row, replace(RACK, precision="bf16")).columns
    on_hopper = as_recipes_have_it(row, replace(RACK, machine="Hopper")).columns
    dense = as_recipes_have_it(row, replace(RACK, networks=networks(0, 0, 0), layers=126)).columns
    assert (columns["cuda_graph_scope"], columns["attention_format"]) == ("step", "fp8")
    assert in_bf16["cuda_graph_scope"] == "router"
    assert "attention_format" not in in_bf16
    assert on_hopper.get("cuda_graph_scope") == row.columns.get("cuda_graph_scope") == dense.get("cuda_graph_scope")
    assert on_hopper["dispatcher"] == "hybridep"


@pytest.mark.parametrize(
    ("place", "precision", "switches"),
    [
        ("GB200", "mxfp8", ("step", True, None)),
        ("GB300", "mxfp8", ("step", True, "fp8")),
        ("GB300", "fp4", ("step", None, None)),
        ("GB300", "fp8", (None, None, None)),
        ("Hopper", "fp8", (None, None, None)),
    ],
)
def test_a_mixture_with_latent_attention_runs_as_the_code_of_its_recipe_says(
    place: str, precision: str, switches: tuple[str | bool | None, ...]
) -> None:
    # Megatron-Bridge, deepseek_workload_base_configs.py at 0426418: graphs, overlap of exchanges, attention in fp8.
    row = TABLES.row(SOFTWARE, "Megatron-Bridge 26.06 recipe")
    latent = replace(RACK, networks=networks(256, 512, 0), layers=61, precision=precision, machine=place)
    columns = as_recipes_have_it(row, latent).columns
    names = ("cuda_graph_scope", "overlap_expert_communication", "attention_format")
    assert tuple(columns.get(name) for name in names) == switches
    assert columns["dispatcher"] == "hybridep"


def test_machines_are_told_apart_by_their_capability_and_by_the_size_of_a_fast_domain() -> None:
    assert [machine(*of) for of in ((9.0, 8), (10.0, 8), (10.0, 72), (10.3, 8), (10.3, 72), (0, 256), (8.0, 8))] == [
        "Hopper", "B200", "GB200", "B300", "GB300", "other", "other",
    ]  # fmt: skip


def test_the_conditions_of_recipes_are_words_that_amped_knows() -> None:
    rows = [row for name in TABLES.names(SOFTWARE) if is_recipe(row := TABLES.row(SOFTWARE, name))]
    records = [recipe for row in rows for recipe in row.columns["recipes"]]
    assert {word for recipe in records for word in recipe.get("machines", "").split()} <= {*MACHINES, "other"}
    precisions = {word for recipe in records for word in recipe.get("precisions", "").split()}
    assert precisions <= {"bf16", "fp16", "fp8", "mxfp8", "fp4"}


def test_the_recipes_of_another_release_are_told() -> None:
    row = TABLES.row(SOFTWARE, "Megatron-Bridge 26.06 recipe")
    assert "26.06" in notice_of_another_release("Megatron-Bridge 26.07", row)
    assert not any(notice_of_another_release(n, row) for n in ("Megatron-Bridge", "Megatron-Bridge 26.06.01"))
    notices = amped.estimate("minimal", **MIXTURE, software="Megatron-Bridge 26.07", manner="recipe").notices
    assert any("'Megatron-Bridge 26.07' are not known: those of release 26.06" in notice for notice in notices)


def test_every_value_of_a_recipe_is_a_parameter_that_amped_has() -> None:
    from amped.theory.language.catalogue import catalogue

    recipes = [row for name in TABLES.names(SOFTWARE) if is_recipe(row := TABLES.row(SOFTWARE, name))]
    names = {name for row in recipes for recipe in row.columns["recipes"] for name in recipe["values"]}
    assert recipes
    assert names <= {*catalogue().public}


def test_what_a_person_gives_stands_above_a_recipe() -> None:
    recipe = amped.estimate("minimal", **MIXTURE, software="Megatron-Bridge", manner="recipe")
    given = amped.estimate(
        "minimal", **MIXTURE, software="Megatron-Bridge", manner="recipe", deduplicated_dispatch=False
    )
    plain = amped.estimate("minimal", **MIXTURE, software="Megatron-Bridge")
    assert recipe["deduplicated_dispatch"] == 1
    assert given["deduplicated_dispatch"] == plain["deduplicated_dispatch"] == 0
    assert (
        amped.estimate("minimal", **MIXTURE, software="Megatron-Bridge", manner="plain")["step_time"]
        == plain["step_time"]
    )


def test_a_word_that_is_no_manner_is_told_with_both() -> None:
    with pytest.raises(ConfigError, match=r"(?s)'quick' is no manner.*plain or recipe"):
        amped.estimate("minimal", **MIXTURE, software="Megatron-Bridge", manner="quick")


def test_dense_networks_run_as_recipes_have_it_at_the_same_time() -> None:
    dense = {"model": "Llama 3 8B", "system": "DGX H100", "software": "Megatron-Bridge"}
    one, other = (amped.estimate("minimal", **dense, manner=manner)["step_time"] for manner in (PLAIN, RECIPE))
    assert one == other


def test_plain_software_of_a_release_tells_the_nearest_recipes() -> None:
    told = {
        name: notice_of_the_nearest_release(TABLES, name, TABLES.row(SOFTWARE, TABLES.meant(SOFTWARE, name)))
        for name in ("Megatron-Bridge 26.01", "Megatron-Bridge 26.06", "Megatron-Bridge", "MaxText 0.3", "nanotron 0.4")
    }
    assert told.pop("Megatron-Bridge 26.01") == "; recipes are known of release 26.02, the nearest"
    assert not any(told.values())
