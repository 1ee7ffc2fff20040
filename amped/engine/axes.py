"""The joint axis: tuples of values that must divide or multiply, one row for each valid combination.

A quantity that depends on a few of the joint variables is computed once for each distinct combination of their values,
and gathered where it meets other quantities. A bit mask says on which variables it depends; mask 0 is for none of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Index = NDArray[np.integer[Any]]
# Tied names: such a name has one value for each value 0, 1, 2 … of a column. With it, that column.
Tied = Mapping[str, tuple[str, NDArray[np.float64]]]
# If the share of distinct rows is above this, finding equal rows costs more than it saves.
WORTHWHILE = 0.5
# How many rows are looked at first. If more than this share of them differ, the other rows are not looked at.
SAMPLE, OFTEN = 2048, 0.985
# A variable that changes at no more than this share of the rows is called steady.
SELDOM = 0.2


class JointAxis:
    """N valid tuples of a few variables, and the distinct combinations of any subset of these variables.

    A variable that keeps its value over many successive rows is looked at once for each such run of rows.
    """

    def __init__(
        self,
        columns: Mapping[str, NDArray[np.float64]],
        worthwhile: float = WORTHWHILE,
        tied: Tied | None = None,
    ) -> None:
        """Builds the axis from its columns.

        Args:
            columns: the N values of each joint variable, by name.
            worthwhile: the largest share of distinct rows with which finding equal rows saves work.
            tied: names that have one value for each value 0, 1, 2 … of a column.
        """
        self.worthwhile = worthwhile
        self.columns = {name: np.asarray(column, dtype=np.float64) for name, column in columns.items()}
        self.tied = self._followers(tied or {})
        self.size = len(next(iter(self.columns.values()))) if self.columns else 1
        self.masks = {name: 1 << position for position, name in enumerate(self.columns)}
        self.full = (1 << len(self.columns)) - 1
        self._steady, self._starts = self._runs()
        self._lengths = np.diff(self._starts, append=self.size)
        self._codes: dict[int, tuple[Index, int]] = {}
        self._settled: dict[int, int] = {0: 0, self.full: self.full}
        # For each settled mask: one row of each distinct combination, and for each row (of steady variables: each run
        # of rows) the number of its combination. None stands for every row.
        self._distinct: dict[int, tuple[Index | None, Index | None]] = {self.full: (None, None)}
        self._between: dict[tuple[int, int], Index] = {}

    def _followers(self, tied: Tied) -> dict[str, tuple[str, NDArray[np.float64]]]:
        """For each tied name: a column that differs only where the name's values differ, and the values by that column.

        Names that differ in the same rows share a column. It is added to the columns of the axis.
        """
        followers, alike = {}, dict[tuple[str, bytes], str]()
        for name, (leader, values) in tied.items():
            levels, which = np.unique(values, return_inverse=True)
            follower = alike.setdefault((leader, which.tobytes()), f"{leader} {len(alike)}")
            if follower not in self.columns:
                self.columns[follower] = which[self.columns[leader].astype(np.intp)].astype(np.float64)
            followers[name] = follower, levels
        return followers

    def settled(self, mask: int) -> int:
        """The mask to compute with: `mask`, or the full mask if finding equal rows would save little."""
        if mask not in self._settled:
            self._settled[mask] = self.full
            if self.worthwhile and self._may_save(mask):
                rows, inverse = self._find(mask)
                if len(rows) <= self.worthwhile * self.size:
                    self._settled[mask], self._distinct[mask] = mask, (rows, inverse)
        return self._settled[mask]

    def length(self, mask: int) -> int:
        """The number of rows of a quantity with this mask."""
        rows = self._distinct[mask][0] if mask else None
        return 1 if not mask else self.size if rows is None else len(rows)

    def column(self, name: str) -> tuple[NDArray[np.float64], int]:
        """The values of one joint variable and their mask; each distinct value once if that saves work."""
        if name in self.tied:
            leader, values = self.tied[name]
            places, mask = self.column(leader)
            return values[places.astype(np.intp)], mask
        mask = self.settled(self.masks[name])
        rows = self._distinct[mask][0]
        return (self.columns[name] if rows is None else self.columns[name][rows]), mask

    def index(self, held: int, mask: int) -> Index:
        """For each row of a quantity with mask `mask`, the row that belongs to it in a quantity with mask `held`."""
        key = (held, mask)
        if key not in self._between:
            rows = self._distinct[mask][0]
            self._between[key] = self.places(held, np.arange(self.size) if rows is None else rows)
        return self._between[key]

    def places(self, held: int, rows: Index) -> Index:
        """For each of some rows of the axis, the row that belongs to it in a quantity with mask `held`."""
        inverse = self._distinct[held][1]
        if inverse is None:
            return rows
        return inverse[rows if held & ~self._steady else self._run_of(rows)].astype(np.intp)

    def _run_of(self, rows: Index) -> Index:
        """For each row, the number of the run of rows (with the same steady values) that contains it."""
        return np.searchsorted(self._starts, rows, side="right") - 1

    def _runs(self) -> tuple[int, Index]:
        """The mask of the variables that change seldom, and the rows at which one of them does."""
        changes = np.zeros(self.size, dtype=bool)
        changes[:1], steady = True, 0
        for name, column in self.columns.items():
            differs = column[1:] != column[:-1]
            if np.count_nonzero(differs) <= SELDOM * self.size:
                changes[1:] |= differs
                steady |= self.masks[name]
        return steady, np.flatnonzero(changes)

    def _may_save(self, mask: int) -> bool:
        """Whether finding equal rows may be worth it, because a sample spread over the axis has enough of them."""
        if self.size <= SAMPLE or not mask & ~self._steady:
            return True
        sample = np.arange(0, self.size, self.size // SAMPLE)
        run = self._run_of(sample)
        code: tuple[Index, int] = np.zeros(len(sample), dtype=np.int64), 1
        for variable in (m for m in self.masks.values() if m & mask):
            levels, number = self._code(variable)
            code = _combined(code, (levels[run if variable & self._steady else sample], number))
        return len(distinct(*code)[0]) < OFTEN * len(sample)

    def _find(self, mask: int) -> tuple[Index, Index]:
        """One row of each distinct combination of the mask's variables; and for each row, the number of its combination.

        If all variables are steady, the second result has a number for each run of rows.
        """
        rows, inverse = distinct(*self._code(mask))
        return (rows if mask & ~self._steady else self._starts[rows]), inverse

    def _code(self, mask: int) -> tuple[Index, int]:
        """One integer for each row (if all variables are steady: each run), equal where the mask's variables are equal.

        The second result is how many different integers there can be.
        """
        if mask not in self._codes:
            low, steady = mask & -mask, mask & self._steady
            if mask == low:
                column = self.columns[next(n for n, m in self.masks.items() if m == low)]
                self._codes[mask] = _levels(column[self._starts] if steady else column)
            elif steady and mask != steady:
                code, space = self._code(steady)
                self._codes[mask] = _combined((np.repeat(code, self._lengths), space), self._code(mask ^ steady))
            else:
                self._codes[mask] = _combined(self._code(mask ^ low), self._code(low))
        return self._codes[mask]


def _combined(one: tuple[Index, int], other: tuple[Index, int]) -> tuple[Index, int]:
    """One code for two sets of variables, from the code of each.

    A code is an integer for each row, and the number of different integers that are possible.
    """
    (first, space), (second, width) = one, other
    if width * space > 2**40:  # renumber before the codes become too large for their integers
        levels, first = np.unique(first, return_inverse=True)
        space = len(levels)
    fitting: Index = first.astype(np.min_scalar_type(width * space))
    fitting *= fitting.dtype.type(width)
    fitting += second.astype(fitting.dtype, copy=False)
    return fitting, width * space


def distinct(code: Index, space: int) -> tuple[Index, Index]:
    """The place of one example of each distinct code; and for each code, its number among the distinct ones.

    Codes are integers from 0 to `space` - 1. Numbers have the smallest type that holds them. Few possible codes are counted,
    not sorted.
    """
    if space > 8 * len(code) + 1024:
        _, rows, inverse = np.unique(code, return_index=True, return_inverse=True)
        return rows, inverse.astype(np.min_scalar_type(len(rows)))
    seen = np.full(space, -1, dtype=np.int32)
    seen[code] = np.arange(len(code), dtype=np.int32)
    present = np.flatnonzero(seen >= 0)
    number = np.empty(space, dtype=np.min_scalar_type(len(present)))
    number[present] = np.arange(len(present))
    return seen[present], number[code]


def _levels(column: NDArray[np.float64]) -> tuple[Index, int]:
    """For each value, its number among the distinct values; and the number of distinct values.

    Whole numbers are counted, not sorted.
    """
    largest = int(column.max(initial=0.0))
    whole: Index = column.astype(np.intp) if 0 <= largest <= 8 * len(column) + 1024 else np.empty(0, dtype=np.intp)
    is_whole = len(whole) and column.min() >= 0 and np.array_equal(whole, column)
    rows, number = distinct(whole, largest + 1) if is_whole else np.unique(column, return_inverse=True)
    return number.astype(np.min_scalar_type(len(rows)), copy=False), len(rows)


class JointBlock:
    """Some successive rows of a joint axis: only cells that depend on the full axis are cut to these rows."""

    def __init__(self, whole: JointAxis, start: int, stop: int) -> None:
        self.whole, self.rows = whole, slice(start, min(stop, whole.size))
        self.size, self.full, self.settled = self.rows.stop - start, whole.full, whole.settled
        self._between: dict[int, Index] = {}

    def length(self, mask: int) -> int:
        """The number of rows of a quantity with this mask."""
        return self.size if mask == self.full else self.whole.length(mask)

    def index(self, held: int, mask: int) -> Index:
        """For each row of a quantity with mask `mask`, the row that belongs to it in a quantity with mask `held`."""
        if mask != self.full:
            return self.whole.index(held, mask)
        if held not in self._between:
            self._between[held] = self.whole.places(held, np.arange(self.rows.start, self.rows.stop))
        return self._between[held]
