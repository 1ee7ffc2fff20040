"""Rows of other tools' tables, by their columns, and the place of a damaged one."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from amped.base.errors import FileError, Problem, quoted

Cells = Mapping[str, Any]


def rows_of_text(text: str, path: Path) -> tuple[list[str], Iterator[tuple[str, Cells]]]:
    """The columns of a CSV table, and its rows, of which each has its place.

    Raises:
        FileError: while rows are taken, for a line with too few or too many cells.
    """
    reader = csv.reader(text.splitlines(keepends=True))
    heads = next(reader)
    numbered = ((f"line {reader.line_num}", own) for own in reader if own)
    return heads, ((place, _cells(heads, own, place, path)) for place, own in numbered)


def _cells(heads: Sequence[str], own: Sequence[str], place: str, path: Path) -> Cells:
    """The cells of a line by the names of their columns.

    Raises:
        FileError: for a line with too few or too many.
    """
    if len(own) != len(heads):
        what = f"has {len(own)} of {len(heads)} columns"
        raise FileError(Problem(what, place, "write the line again, or take it out"), file=str(path))
    return dict(zip(heads, own, strict=True))


@contextmanager
def placed(place: str, path: Path) -> Iterator[None]:
    """Gives a wrong cell of a row its place.

    Raises:
        FileError: where a ValueError is raised inside.
    """
    try:
        yield
    except ValueError as error:
        raise FileError(Problem(str(error), place, "correct it, or take it out"), file=str(path)) from None


def positive(cells: Cells, column: str) -> float:
    """The number of a cell.

    Raises:
        ValueError: if it is no number above 0.
    """
    try:
        value = float(cells.get(column, ""))
    except (TypeError, ValueError):
        value = 0.0
    if not 0 < value < float("inf"):
        raise ValueError(f"column '{column}': {quoted(str(cells.get(column)))} is no number above 0")
    return value
