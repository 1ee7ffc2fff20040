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
    """A column whose value is the same in all rows of a case.

    Attributes:
        values: the value of each case.
        case: the number of the case of each row.
    """

    values: Column
    case: Places

    def __getitem__(self, rows: Places | slice) -> Column:
        return self.values[self.case[rows]]


class Cells:
    """The cells of a part: for each joint row, one cell for each combination of the open axes.

    Attributes:
        groups: the names of the groups. The index of a cell's group is the sum of an index of its joint row and an index
            of its place on the open axes.
    """

    def __init__(
        self, part: int, case: Places, rows: Mapping[str, Any], more: Columns, axes: Columns, each: Sequence[str]
    ) -> None:
        """Finds the groups of all cells.

        Args:
            part: the number of the part.
            case: the number of the case of each joint row.
            rows: the columns of joint rows that are shown, by name.
            more: further columns of joint rows, which may only make groups.
            axes: the values of the open axes, by name.
            each: the names of columns or of open axes whose values make the groups.

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
        row_names, axis_names = ([name for name in each if (name in columns) is in_rows] for in_rows in (True, False))
        row_values, self.index_of_row = _distinct([columns[name] for name in row_names], len(case))
        axis_columns = self._axis_values(np.arange(self.beside))
        axis_values, index = _distinct([axis_columns[name] for name in axis_names], self.beside)
        self.index_of_place = index * len(row_values)
        names = (*row_names, *axis_names)
        values = (dict(zip(names, (*row, *cell), strict=True)) for cell in axis_values for row in row_values)
        self.groups = [json.dumps([value[name] for name in each]) if each else ALL for value in values]

    def _axis_values(self, places: Places) -> dict[str, Column]:
        """The values of each open axis at some places, by name; a place counts the combinations of open axes."""
        where = np.unravel_index(places, self.grid) if self.grid else ()
        return {name: axis[at] for (name, axis), at in zip(self.axes.items(), where, strict=True)}

    def columns(self, rows: Places, places: Places) -> dict[str, Column]:
        """The swept values of some cells, by name. A cell is given by its joint row and its place on the open axes."""
        return {name: column[rows] for name, column in self.rows.items()} | self._axis_values(places)

    def group(self, rows: slice, shape: tuple[int, ...]) -> Places:
        """The index of the group of each cell of some joint rows, in the shape of a block; the rows are its last axis."""
        return self.index_of_place.reshape(*shape[:-1], 1) + self.index_of_row[rows]


def _distinct(columns: list[Any], size: int) -> tuple[list[tuple[Any, ...]], Places]:
    """The distinct combinations of the values of some columns, and for each row the number of its combination.

    Args:
        columns: the columns, each of numbers or texts, or of `OfCases`.
        size: the number of rows.
    """
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
    combinations = zip(*np.unravel_index(code[first], widths), strict=True)
    values_of = [tuple(v[p] for v, p in zip(levels, places, strict=True)) for places in combinations]
    return values_of, which.astype(np.intp)
