"""The joint axis: tuples of values that must divide or multiply, one row for each valid combination.

A quantity that depends on a few of the joint variables is computed once for each distinct combination of those and
gathered when it meets others. Which variables it depends on is a bit mask; mask 0 is a quantity of none of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Index = NDArray[np.intp]
# Above this share of distinct rows, finding them costs more than it saves.
WORTHWHILE = 0.5


class JointAxis:
    """N valid tuples of a few variables, and the distinct combinations of any subset of them."""

    def __init__(self, columns: Mapping[str, NDArray[np.float64]]) -> None:
        """Takes one column of N values for each joint variable."""
        self.columns = {name: np.asarray(column, dtype=np.float64) for name, column in columns.items()}
        self.size = len(next(iter(self.columns.values()))) if self.columns else 1
        self.masks = {name: 1 << position for position, name in enumerate(self.columns)}
        self.full = (1 << len(self.columns)) - 1
        self._codes: dict[int, tuple[Index, int]] = {}
        self._settled: dict[int, int] = {0: 0, self.full: self.full}
        # For each settled mask: first row of each distinct combination, and each row's combination (None: every row).
        self._distinct: dict[int, tuple[Index | None, Index | None]] = {self.full: (None, None)}
        self._between: dict[tuple[int, int], Index] = {}

    def settled(self, mask: int) -> int:
        """The mask to compute with: `mask`, or the full one where telling rows apart would save little."""
        if mask not in self._settled:
            rows, inverse = self._find(mask)
            saves = len(rows) <= WORTHWHILE * self.size
            self._settled[mask] = mask if saves else self.full
            if saves:
                self._distinct[mask] = (rows, inverse)
        return self._settled[mask]

    def length(self, mask: int) -> int:
        """Rows of a quantity with this mask."""
        rows = self._distinct[mask][0] if mask else None
        return 1 if not mask else self.size if rows is None else len(rows)

    def column(self, name: str) -> tuple[NDArray[np.float64], int]:
        """The values of one joint variable, each distinct one once where that saves work, and their mask."""
        mask = self.settled(self.masks[name])
        rows = self._distinct[mask][0]
        return (self.columns[name] if rows is None else self.columns[name][rows]), mask

    def gathered(self, data: Any, held: int, wanted: int) -> Any:
        """An array with mask `held`, spread over the rows of mask `wanted` (which contains it)."""
        if held in (0, wanted):
            return data
        return data[self.index(held, wanted)]

    def index(self, held: int, wanted: int) -> Index:
        """For each row of `wanted`, the row of `held` that belongs to it."""
        key = (held, wanted)
        if key not in self._between:
            inverse, rows = self._distinct[held][1], self._distinct[wanted][0]
            each: Index = np.arange(self.size) if inverse is None else inverse
            self._between[key] = each if rows is None else each[rows]
        return self._between[key]

    def _find(self, mask: int) -> tuple[Index, Index]:
        """First row of each distinct combination, and for each of the N rows which combination it is."""
        code, space = self._code(mask)
        if space <= 8 * self.size + 1024:  # count through the space of codes: cheaper than sorting
            seen = np.full(space, -1, dtype=np.intp)
            seen[code[::-1]] = np.arange(self.size - 1, -1, -1)
            present = np.flatnonzero(seen >= 0)
            number = np.empty(space, dtype=np.intp)
            number[present] = np.arange(len(present))
            return seen[present], number[code]
        _, rows, inverse = np.unique(code, return_index=True, return_inverse=True)
        return rows, inverse

    def _code(self, mask: int) -> tuple[Index, int]:
        """One integer for each of the N rows, equal where the variables of the mask are, and how many there can be."""
        if mask not in self._codes:
            low = mask & -mask
            if mask == low:
                column = self.columns[next(n for n, m in self.masks.items() if m == low)]
                levels, inverse = np.unique(column, return_inverse=True)
                self._codes[mask] = (inverse, len(levels))
            else:
                (one, width), (rest, space) = self._code(low), self._code(mask ^ low)
                if width * space > 2**40:  # renumber before the codes outgrow their integers
                    levels, rest = np.unique(rest, return_inverse=True)
                    space = len(levels)
                self._codes[mask] = (rest * width + one, width * space)
        return self._codes[mask]
