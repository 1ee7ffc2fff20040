"""Which group each candidate is in: each combination of the values of some swept names has its own best."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from amped.engine.axes import distinct
from amped.engine.evaluate import Array
from amped.exploration.results import ALL


@dataclass(frozen=True)
class OfCases:
    """A column of which all rows of a case have the same value: the value of each case, and the case of each row."""

    values: NDArray[Any]
    case: NDArray[np.intp]

    def __getitem__(self, rows: NDArray[np.intp]) -> NDArray[Any]:
        return self.values[self.case[rows]]


@dataclass
class Groups:
    """Which group each cell is in: one number for each joint row and one for each cell of the open axes."""

    names: list[str]
    of_rows: NDArray[np.intp]
    of_cells: NDArray[np.intp]

    @classmethod
    def of(cls, rows: Mapping[str, Any], axes: Mapping[str, Array], each: tuple[str, ...], size: int) -> Groups:
        """The groups of a part: `rows` are the columns of joint rows by name, texts too."""
        own = [name for name in each if name in rows]
        kinds, of_rows = _distinct([rows[name] for name in own], size)
        other = [name for name in each if name not in rows]
        grids = np.meshgrid(*axes.values(), indexing="ij") if axes else []
        grid = {name: g.reshape(-1) for name, g in zip(axes, grids, strict=True)}
        cells = int(np.prod([len(axis) for axis in axes.values()], dtype=np.int64))
        more, of_cells = _distinct([grid[name] for name in other], cells)
        names = []
        for cell in more:
            for row in kinds:
                values = dict(zip((*own, *other), (*row, *cell), strict=True))
                names.append(json.dumps([values[name] for name in each]) if each else ALL)
        return cls(names, of_rows, of_cells * len(kinds))


def _distinct(columns: list[Any], size: int) -> tuple[list[tuple[Any, ...]], NDArray[np.intp]]:
    """The distinct combinations of a few columns, and which each row has."""
    codes, levels = np.zeros(size, dtype=np.intp), []
    for column in columns:
        few = column.values if isinstance(column, OfCases) else column
        values, own = np.unique(few, return_inverse=True)
        levels.append(values.tolist())
        codes = codes * len(values) + (own[column.case] if isinstance(column, OfCases) else own)
    first, which = distinct(codes, math.prod(map(len, levels)))
    kinds = []
    for code in codes[first].tolist():
        kind = []
        for values in reversed(levels):
            code, place = divmod(code, len(values))
            kind.append(values[place])
        kinds.append(tuple(reversed(kind)))
    return kinds, which.astype(np.intp)
