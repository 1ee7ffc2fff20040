"""Tables of numbers that are fitted to steps: one line for each number, under the name of its row."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

from amped.calibration.step_table import Behind
from amped.calibration.written import as_written
from amped.report import human
from amped.report.tables import Part


def under_their_rows(numbers: Sequence[Behind], cells: Callable[[Behind], Sequence[str]]) -> Iterator[Sequence[Part]]:
    """The lines of a table: the name of each row of a lookup table, then the cells of each number of that row."""
    for row, numbers_of_row in groupby(numbers, lambda number: number.row):
        yield [(row, "bold")]
        yield from map(cells, numbers_of_row)


def span_without_a_source(number: Behind) -> str:
    """The range of a number over the fits that each lack one of its sources; empty without such fits."""
    ends = (min(number.without_source.values()), max(number.without_source.values())) if number.without_source else ()
    return " to ".join(dict.fromkeys(with_unit(number.column, end) for end in ends))


def with_unit(column: str, value: float) -> str:
    """A value of a column with three digits and its unit."""
    size, _, unit = str(as_written(column, value)).partition(" ")
    return human.scaled(value, "s", 3) if unit == "us" else f"{float(size):.3g} {unit}".rstrip()
