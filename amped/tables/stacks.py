"""A software stack that no row describes: the middle of all known stacks, which the row `default` stands for.

Each rate is the mean of those of the known stacks, and each switch is what most of them do. The row has none of its own, so that it
follows the others.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from amped.base.units import parse
from amped.tables.recipes import is_recipe
from amped.tables.table_files import SOFTWARE
from amped.tables.tables import Row, Tables
from amped.theory.language.catalogue import catalogue

# The row that stands for a stack that nobody knows, and the one whose columns are the defaults of all parameters.
UNKNOWN_STACK, ALL_FUSED = "default", "all fused"
# Rows that are no stacks that train networks, that give a stack another name, or that are known by a paper alone.
NO_STACKS = (ALL_FUSED, "Megatron-Core layers", "Primus", "DeepSeek HAI-LLM")
# The units of rates, which have a mean; all else is a switch, a choice or a count.
OF_RATES = ("1", "s")


def middle(tables: Tables, row: Row) -> Row:
    """A row for an unknown stack, or one that extends it, with the middle of the known stacks where it says nothing itself."""
    if not _is_unknown(row):
        return row
    columns = _middle_columns(tuple(_stacks(tables)), tables.row(SOFTWARE, ALL_FUSED))
    return replace(row, columns={**columns, **row.columns}, inherited=frozenset(columns.keys() - row.columns.keys()))


def _stacks(tables: Tables) -> Iterator[Row]:
    """The rows of all known stacks."""
    rows = (tables.row(SOFTWARE, name) for name in tables.names(SOFTWARE) if name not in NO_STACKS)
    yield from (row for row in rows if not _is_unknown(row) and not is_recipe(row))


def _is_unknown(row: Row) -> bool:
    """Whether a row is that of an unknown stack, or extends it."""
    return row.table == SOFTWARE and UNKNOWN_STACK in (row.name, *row.ancestors)


def _middle_columns(stacks: tuple[Row, ...], fused: Row) -> dict[str, object]:
    """For each column about how well a stack does, the mean of the stacks' rates, or what most of them have."""
    known = catalogue()
    columns: dict[str, object] = {}
    for column, default in fused.columns.items():
        if column in known:
            cells = [row.columns.get(column, default) for row in stacks]
            mark = known[column].mark
            is_rate = mark.unit in OF_RATES
            columns[column] = statistics.fmean(parse(cell, mark.unit) for cell in cells) if is_rate else _most(cells)
    return columns


def _most(cells: list[object]) -> object:
    """The cell that occurs most often; of equally frequent ones the first."""
    return Counter(cells).most_common(1)[0][0]
