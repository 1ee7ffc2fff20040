"""A sweep is one table: a row for each value with its best mapping, as text, JSON and CSV, by `explore` and `compare`."""

import csv
import json
from pathlib import Path

import pytest

from tests.helpers.cli import amped as command
from tests.helpers.cli import printed

SWEEP = ("--model", "Llama 3 8B", "--gpus", 16, "--vary", "system=DGX A100,DGX H100,TPU v7 pod", "--space", "quick")


@pytest.fixture(scope="module")
def table() -> str:
    return printed("explore", *SWEEP)


@pytest.fixture(scope="module")
def rows() -> dict[str, dict[str, object]]:
    told = json.loads(printed("explore", *SWEEP, "--json"))
    assert told["candidates"] == sum(row["candidates"] for row in told["best"])
    return {row["system"]: row for row in told["best"]}


def test_there_is_a_row_for_each_value_in_the_order_in_which_they_are_written(table: str, rows) -> None:
    names = ["DGX A100", "DGX H100", "TPU v7 pod"]  # a wide table has two parts, each with a line for each name
    lines = [line for line in table.splitlines() if line.startswith(tuple(f"{name} " for name in names))]
    assert [line.split("  ")[0] for line in lines] == [*names, *names][: len(lines)]
    assert list(rows) == names
    for name, row in rows.items():
        told = " ".join(line for line in lines if line.startswith(f"{name} "))
        assert f"{row['training_time'] / 31557600:.3f}" in told
        if isinstance(row["cost"], float):
            assert row["cost_low"] < row["cost"] < row["cost_high"]


def test_each_row_is_what_an_estimate_of_its_value_says(rows) -> None:
    alone = json.loads(printed("estimate", "--model", "Llama 3 8B", "--gpus", 16, "--system", "DGX H100", "--json"))
    assert {name: rows["DGX H100"][name] for name in ("step_time", "cost", "batch_size", "tokens_to_train")} == {
        name: alone[name] for name in ("step_time", "cost", "batch_size", "tokens_to_train")
    }


def test_what_nobody_gave_is_chosen_for_each_value(table: str) -> None:
    assert "Megatron-Bridge" in table  # on NVIDIA
    assert "MaxText" in table  # on Google's
    assert "Llama 3 8B, 16 accelerators, bf16, batch of" in table


def test_on_one_list_the_cheapest_of_those_with_a_price_is_named() -> None:
    lines = {
        row["system"]: row for row in json.loads(printed("compare", *SWEEP[:-2], "--cloud", "lambda", "--json"))["best"]
    }
    least = min(("DGX A100", "DGX H100"), key=lambda name: lines[name]["cost"])
    assert f"cheapest of the 2 with a price: {least} (" in printed("compare", *SWEEP[:-2], "--cloud", "lambda")


def test_prices_are_named_and_so_is_where_none_is_known(table: str, rows) -> None:
    assert "cheapest" not in table
    assert "costs are not compared" in table
    assert "price of H100 SXM: 2.95" in table
    assert "nebius on-demand price" in table
    assert "TPU v7 Ironwood: no price known; give it: --set accelerator_price" in table
    assert rows["TPU v7 pod"]["cost"] == "unknown: accelerator_price not given"


def test_csv_has_a_line_for_each_value() -> None:
    lines = list(csv.DictReader(printed("compare", *SWEEP[:-2], "--csv").splitlines()))
    assert [line["system"] for line in lines] == ["DGX A100", "DGX H100", "TPU v7 pod"]
    assert all(float(line["training_time"]) > 0 for line in lines)


@pytest.mark.thorough
def test_a_value_that_does_not_fit_has_a_row_that_says_so() -> None:
    told = printed("compare", "--model", "Llama 3 70B", "--vary", "gpus=8,64", "--set", "optimizer_offload=0")
    assert "DOES NOT FIT" in told
    assert "8: does not fit in memory; it would with" in told


def test_compare_takes_rows_by_name_whatever_stands_in_them() -> None:
    names = ("DGX H100", "MI300X platform (8x with NDR/RoCE 400)")
    told = json.loads(printed("compare", *names, "--model", "Llama 3 8B", "--gpus", 16, "--json"))
    assert [row["system"] for row in told["best"]] == [*names]


def test_precision_is_swept_by_the_names_of_its_option() -> None:
    told = json.loads(
        printed("compare", "--model", "Llama 3 8B", "--gpus", 16, "--vary", "precision=bf16,mxfp8", "--json")
    )
    first, second = told["best"]
    assert (first["matrix_precision"], second["matrix_precision"]) == ("bf16", "fp8")
    assert second["fp8_scaling"] == "blocks"
    assert second["step_time"] < first["step_time"]


def test_the_grid_gives_two_more_columns() -> None:
    told = printed("compare", *SWEEP[:-2], "--set", "electricity_price=0.08", "--set", "carbon_intensity=400")
    assert "electricity" in told
    assert "CO2" in told


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("explore", "--system", "DGX H100", "--vary", "system=DGX A100,DGX H100"), "swept and given one value"),
        (("explore", "--model", "Llama 3 8B", "--vary", "system=DGX H1000,DGX H100"), "has no row"),
        (("compare",), "nothing to compare with"),
        (("compare", "--model", "Llama 3 8B"), "nothing to compare with"),
        (("compare", "default", "llama-3-70b", "--csv"), "not compared as CSV"),
        (("compare", "--model", "Llama 3 8B", "--vary", "mbs=1:100:1"), "more than 24"),
    ],
)
def test_what_cannot_be_swept_is_told(arguments: tuple[object, ...], told: str, tmp_path: Path) -> None:
    done = command(*arguments, folder=tmp_path)
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)
    assert told in done.stderr
