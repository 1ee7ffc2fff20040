"""Rows of other tools' tables, by their columns, and the place of a damaged one."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from amped.base.errors import FileError, Problem, quoted

Cells = Mapping[str, Any]
# What to do about a line that is cut or contradicts itself.
WRITE_AGAIN = "write the line again, or take it out"


def heads_of(text: str) -> set[str]:
    """The columns that the first line of a text names."""
    return {*text.partition("\n")[0].strip().split(",")}


def rows_of_text(text: str, path: Path) -> tuple[list[str], Iterator[tuple[str, Cells]]]:
    """The names of the columns of a CSV table, and its rows: the place of each (for messages) and its cells by column.

    Raises:
        FileError: while rows are taken, for a line with too few or too many cells.
    """
    reader = csv.reader(text.splitlines(keepends=True))
    heads = next(reader)

    def rows() -> Iterator[tuple[str, Cells]]:
        for cells in filter(None, reader):
            place = f"line {reader.line_num}"
            with placed(place, path, WRITE_AGAIN):
                if len(cells) != len(heads):
                    raise ValueError(f"has {len(cells)} of {len(heads)} columns")
            yield place, dict(zip(heads, cells, strict=True))

    return heads, rows()


@contextmanager
def placed(place: str, path: Path, advice: str = "correct it, or take it out") -> Iterator[None]:
    """Adds the place of a row to what is wrong with the row, and says what to do.

    Raises:
        FileError: where a ValueError is raised inside.
    """
    try:
        yield
    except ValueError as error:
        raise FileError(Problem(str(error), place, advice), file=str(path)) from None


def positive(cells: Cells, column: str) -> float:
    """The number of a cell, which must be above 0.

    Raises:
        ValueError: if the cell is missing or is no number above 0.
    """
    try:
        value = float(cells.get(column, ""))
    except (TypeError, ValueError):
        value = 0.0
    if not 0 < value < float("inf"):
        raise ValueError(f"column '{column}': {quoted(str(cells.get(column)))} is no number above 0")
    return value
