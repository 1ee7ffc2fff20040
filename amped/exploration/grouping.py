"""The cells of a part, their swept values, and their groups: each combination of some swept values has its own best."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from amped.base.errors import ConfigError
from amped.base.record import dataclass
from amped.engine.axes import distinct
from amped.engine.evaluate import Columns
from amped.exploration.all_candidates import Column
from amped.exploration.results import ALL
from amped.exploration.simplicity import mechanisms_of_axes, mechanisms_of_rows

Places = NDArray[np.intp]


@dataclass(frozen=True)
class OfCases:
    """A column that is constant within each case: the value of each case, and the case of each row."""

    values: Column
    case: Places

    def __getitem__(self, rows: Places | slice) -> Column:
        return self.values[self.case[rows]]


class Cells:
    """The cells of a part: for each joint row, one cell for each combination of the open axes.

    Attributes:
        groups: the names of the groups; the index of a cell's group is the sum of two indices, its row's and its open
            cell's.
    """

    def __init__(
        self, part: int, case: Places, rows: Mapping[str, Any], more: Columns, axes: Columns, each: Sequence[str]
    ) -> None:
        """Takes the case of each joint row, the columns of joint rows that are shown and more of them, and the open axes.

        `each` has names of columns or of open axes; their values make the groups.

        Raises:
            ConfigError: for groups by a name that is not swept.
        """
        columns = {**more, **rows}
        unknown = [name for name in each if name not in columns and name not in axes]
        if unknown:
            raise ConfigError(f"--each {unknown[0]} is not swept", f"swept are {', '.join([*columns, *axes])}")
        self.part, self.case, self.rows, self.axes = part, case, rows, axes
        self.mechanisms, self.mechanisms_beside = mechanisms_of_rows(columns, len(case)), mechanisms_of_axes(axes)
        self.grid = [len(axis) for axis in axes.values()]
        self.beside = math.prod(self.grid)
        of_rows, of_axes = ([name for name in each if (name in columns) is in_rows] for in_rows in (True, False))
        row_values, self.of_rows = _distinct([columns[name] for name in of_rows], len(case))
        open_cells = self._open(np.arange(self.beside))
        open_values, of_open = _distinct([open_cells[name] for name in of_axes], self.beside)
        self.of_open = of_open * len(row_values)
        values = (
            dict(zip((*of_rows, *of_axes), (*row, *cell), strict=True)) for cell in open_values for row in row_values
        )
        self.groups = [json.dumps([value[name] for name in each]) if each else ALL for value in values]

    def _open(self, places: Places) -> dict[str, Column]:
        """The values of the open axes in some open cells."""
        where = np.unravel_index(places, self.grid) if self.grid else ()
        return {name: axis[at] for (name, axis), at in zip(self.axes.items(), where, strict=True)}

    def columns(self, rows: Places, places: Places) -> dict[str, Column]:
        """The swept values of cells, each given by its joint row and its place among the open cells."""
        return {name: column[rows] for name, column in self.rows.items()} | self._open(places)

    def group(self, rows: slice, shape: tuple[int, ...]) -> Places:
        """The group of each cell of some joint rows; the rows are the last axis."""
        return self.of_open.reshape(*shape[:-1], 1) + self.of_rows[rows]


def _distinct(columns: list[Any], size: int) -> tuple[list[tuple[Any, ...]], Places]:
    """The distinct combinations of a few columns, and the combination of each row."""
    if not columns:
        return [()], np.zeros(size, dtype=np.intp)
    levels, codes = [], []
    for column in columns:
        values, code = np.unique(column.values if isinstance(column, OfCases) else column, return_inverse=True)
        levels.append(values.tolist())
        codes.append(code[column.case] if isinstance(column, OfCases) else code)
    widths = [*map(len, levels)]
    code = np.ravel_multi_index(codes, widths)
    first, which = distinct(code, math.prod(widths))
    places = zip(*np.unravel_index(code[first], widths), strict=True)
    return [tuple(v[p] for v, p in zip(levels, place, strict=True)) for place in places], which.astype(np.intp)
