"""Logs that are tables: the CSV that TensorBoard and Weights & Biases export, with a column for the step's number.

A column is found by the name under which a framework logs its steps; without one, the clock beside each line is read. A line whose
cell is blank tells of something else.
"""

from __future__ import annotations

import csv
from array import array
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import NamedTuple

from amped.base.errors import FileError, Problem
from amped.base.files import shipped_json
from amped.base.record import dataclass

# What stands between the name of a run and that of a metric in the head of a chart.
BETWEEN = " - "
SEVERAL = "it has the steps of several runs"


@dataclass(frozen=True)
class Export:
    """What a tool's tables look like.

    Attributes:
        name: the tool.
        steps: the heads of a column with the step's number.
        paces: the heads of columns that say how long a step takes, the surest first, each with what its cells are.
        memories: the heads of columns with the memory that an accelerator reserves, each with the bytes of its unit.
    """

    name: str
    steps: tuple[str, ...]
    paces: Mapping[str, str]
    memories: Mapping[str, float]


class Columns(NamedTuple):
    """The columns of a table that are read: the tool, what a pace is, and the places; `memory` is -1 if there is none."""

    tool: str
    measure: str
    step: int
    pace: int
    memory: int
    memory_unit: float
    number: int


class Read(NamedTuple):
    """The steps of a table: their numbers, values and lines, the most memory, and the line in which it is cut (0 if it is not)."""

    numbers: array[int]
    values: array[float]
    lines: array[int]
    memory_bytes: float
    cut: int


@cache
def exports() -> tuple[Export, ...]:
    """The tables that are read."""
    rows = shipped_json("interop.logs", "columns.json")
    return tuple(Export(r["name"], tuple(r["steps"]), r["paces"], r.get("memories", {})) for r in rows)


def columns_of(first_line: str) -> Columns | None:
    """The columns of a table with this first line; None if it is no table of steps.

    Raises:
        FileError: if several columns tell of steps, so that the table is of several runs.
    """
    try:
        heads = [head.strip().lstrip("\ufeff") for head in next(csv.reader([first_line]), [])]
    except csv.Error:
        return None
    metrics = [head.rpartition(BETWEEN)[2] for head in heads]
    for export in exports():
        step = next((heads.index(name) for name in export.steps if name in heads), None)
        pace = next((name for name in export.paces if name in metrics), None)
        if step is None or pace is None:
            continue
        if metrics.count(pace) > 1:
            runs = ", ".join(head for head, metric in zip(heads, metrics, strict=True) if metric == pace)
            raise FileError(Problem(f"{SEVERAL}: {runs}", "line 1", "export the chart of one run"))
        memory = next((name for name in export.memories if name in metrics), None)
        return Columns(
            export.name, export.paces[pace], step, metrics.index(pace), metrics.index(memory) if memory else -1,
            export.memories[memory] if memory else 1.0, len(heads),
        )  # fmt: skip
    return None


def steps_of_table(lines: Iterator[str], columns: Columns) -> Read:
    """The steps of a table whose first line is read.

    Raises:
        FileError: with the line, if a line cannot be read; the last one may be cut.
    """
    numbers, values, places = array("q"), array("d"), array("q")
    memory, bad = 0.0, 0
    reader = csv.reader(lines)
    for line, cells in enumerate(reader, 2):
        if bad:
            problem = Problem(f"the step of {columns.tool} in it is damaged", f"line {bad}", "export the table again")
            raise FileError(problem)
        if not cells:
            continue
        try:
            step, value, held = _cells(cells, columns)
        except ValueError:
            bad = line
            continue
        memory = max(memory, held * columns.memory_unit)
        if step is not None and value is not None:
            numbers.append(step)
            values.append(value)
            places.append(line)
    return Read(numbers, values, places, memory, bad)


def _cells(cells: Sequence[str], columns: Columns) -> tuple[int | None, float | None, float]:
    """The number of the step, the pace and the memory of a line; None for what is blank.

    Raises:
        ValueError: for a line with another number of cells than the first, or a cell that is no number.
    """
    if len(cells) != columns.number:
        raise ValueError
    step, pace = cells[columns.step].strip(), cells[columns.pace].strip()
    memory = cells[columns.memory].strip() if columns.memory >= 0 else ""
    number = float(step) if step else None
    return (
        None if number is None else int(number),
        float(pace) if pace else None,
        float(memory) if memory else 0.0,
    )
