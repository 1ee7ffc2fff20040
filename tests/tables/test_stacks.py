"""Software that no row describes: what its name says, else the middle of all known stacks."""

import statistics

import pytest

import amped
from amped.configuring.scenario import read_scenario
from amped.tables.recipes import is_recipe
from amped.tables.stacks import ALL_FUSED, NO_STACKS, UNKNOWN_STACK, middle
from amped.tables.table_files import SOFTWARE
from amped.tables.tables import Tables
from amped.theory.language.quantity import MAPPING
from tests.helpers.tables import layered

TABLES = Tables()
ROWS = [TABLES.row(SOFTWARE, name) for name in TABLES.names(SOFTWARE) if name not in NO_STACKS]
STACKS = [row for row in ROWS if UNKNOWN_STACK not in (row.name, *row.ancestors) and not is_recipe(row)]
FUSED = TABLES.row(SOFTWARE, ALL_FUSED).columns
MIDDLE = middle(TABLES, TABLES.row(SOFTWARE, UNKNOWN_STACK)).columns


def test_a_rate_of_an_unknown_stack_is_the_mean_of_the_known_ones():
    column = "streaming_traffic_factor"
    assert column not in TABLES.row(SOFTWARE, UNKNOWN_STACK).columns
    assert MIDDLE[column] == pytest.approx(statistics.fmean(row.columns.get(column, 1) for row in STACKS))
    assert MIDDLE["host_time_per_step"] == pytest.approx(0.0136, rel=0.2)  # seconds, of cells in ms


@pytest.mark.parametrize("column", ["weight_gradient_accumulation", "fused_cross_entropy", "expert_weighting"])
def test_a_switch_is_what_most_do(column):
    cells = [row.columns.get(column, FUSED[column]) for row in STACKS]
    assert MIDDLE[column] == max(cells, key=cells.count)


def test_it_follows_the_rows(tmp_path):
    """A stack of the user's own counts, too."""
    slow = {"extends": "PyTorch", "streaming_traffic_factor": 4}
    tables = layered(tmp_path, {SOFTWARE: {"Slow": slow}})
    assert (
        middle(tables, tables.row(SOFTWARE, UNKNOWN_STACK)).columns["streaming_traffic_factor"]
        > MIDDLE["streaming_traffic_factor"]
    )


def test_it_is_slower_than_the_best_and_an_estimate_uses_it():
    unknown, best = (amped.estimate("default", software=name)["step_time"] for name in (UNKNOWN_STACK, ALL_FUSED))
    assert unknown > best


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("FSDP1", "torchtitan"),
        ("PyTorch 2.1", "PyTorch"),
        ("DeepSpeed ZeRO-3", "Megatron-DeepSpeed"),
        ("Megatron", "Megatron-Core"),
        ("Hugging Face Accelerate", "PyTorch"),
        ("Megatron-DeepSpeed fork", "Megatron-DeepSpeed"),
        ("Levanter (JAX)", "MaxText"),
    ],
)
def test_words_of_a_name_count_and_that_is_told(name, row):
    sources = read_scenario("default", {"software": name}).sources
    assert sources.rows[MAPPING].name == row
    assert f"'{name}' is read as the row '{row}'" in " ".join(sources.notices)


@pytest.mark.parametrize("name", ["Composer FSPD", "Megatron-Brige", "Axolotl"])
def test_a_typing_error_and_a_name_without_known_words_are_no_stack(name):
    assert TABLES.meant(SOFTWARE, name) == name
