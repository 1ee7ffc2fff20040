"""The joint axis: tuples of values that must divide or multiply, one row for each valid combination.

A quantity that depends on a few of the joint variables is computed once for each distinct combination of those and
gathered when it meets others. Which variables it depends on is a bit mask; mask 0 is a quantity of none of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Index = NDArray[np.integer[Any]]
# Names with a value for each value 0, 1, 2 … of a column, and that column.
Tied = Mapping[str, tuple[str, NDArray[np.float64]]]
# Above this share of distinct rows, telling them apart costs more than it saves.
WORTHWHILE = 0.5
# Rows looked at before all are, and the share of them that must not differ for a closer look.
SAMPLE, OFTEN = 2048, 0.985
# A variable that changes at no more than this share of the rows is steady.
SELDOM = 0.2


class JointAxis:
    """N valid tuples of a few variables, and the distinct combinations of any subset of them.

    Variables that stay the same over many successive rows are looked at once for each such run of rows.
    """

    def __init__(
        self,
        columns: Mapping[str, NDArray[np.float64]],
        worthwhile: float = WORTHWHILE,
        tied: Tied | None = None,
    ) -> None:
        """Takes one column of N values for each joint variable, and the largest share of rows worth telling apart.

        `tied` are names with a value for each value 0, 1, 2 … of a column.
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
        # For each settled mask: a row of each distinct combination, and each row's (each run's) combination (None: every row).
        self._distinct: dict[int, tuple[Index | None, Index | None]] = {self.full: (None, None)}
        self._between: dict[tuple[int, int], Index] = {}

    def _followers(self, tied: Tied) -> dict[str, tuple[str, NDArray[np.float64]]]:
        """The tied names, each behind a column that tells no more rows apart than its values do.

        Names that differ alike share a column, which is added to the others.
        """
        found, alike = {}, dict[tuple[str, bytes], str]()
        for name, (leader, values) in tied.items():
            levels, which = np.unique(values, return_inverse=True)
            follower = alike.setdefault((leader, which.tobytes()), f"{leader} {len(alike)}")
            if follower not in self.columns:
                self.columns[follower] = which[self.columns[leader].astype(np.intp)].astype(np.float64)
            found[name] = follower, levels
        return found

    def settled(self, mask: int) -> int:
        """The mask to compute with: `mask`, or the full one where telling rows apart would save little."""
        if mask not in self._settled:
            self._settled[mask] = self.full
            if self._may_save(mask):
                rows, inverse = self._find(mask)
                if len(rows) <= self.worthwhile * self.size:
                    self._settled[mask], self._distinct[mask] = mask, (rows, inverse)
        return self._settled[mask]

    def length(self, mask: int) -> int:
        """Rows of a quantity with this mask."""
        rows = self._distinct[mask][0] if mask else None
        return 1 if not mask else self.size if rows is None else len(rows)

    def column(self, name: str) -> tuple[NDArray[np.float64], int]:
        """The values of one joint variable, each distinct one once where that saves work, and their mask."""
        if name in self.tied:
            leader, values = self.tied[name]
            places, mask = self.column(leader)
            return values[places.astype(np.intp)], mask
        mask = self.settled(self.masks[name])
        rows = self._distinct[mask][0]
        return (self.columns[name] if rows is None else self.columns[name][rows]), mask

    def index(self, held: int, wanted: int) -> Index:
        """For each row of `wanted`, the row of `held` that belongs to it."""
        key = (held, wanted)
        if key not in self._between:
            inverse, rows = self._distinct[held][1], self._distinct[wanted][0]
            each: Index = np.arange(self.size) if inverse is None else inverse
            steady = inverse is not None and not held & ~self._steady
            if rows is None:
                self._between[key] = np.repeat(each, self._lengths) if steady else each
            else:
                self._between[key] = each[self._run_of(rows) if steady else rows]
        return self._between[key]

    def _run_of(self, rows: Index) -> Index:
        """The run that each row lies in."""
        return np.searchsorted(self._starts, rows, side="right") - 1

    def _runs(self) -> tuple[int, Index]:
        """The mask of the variables that change seldom, and the rows at which one of them does."""
        changes = np.zeros(self.size, dtype=bool)
        changes[:1], steady = True, 0
        for name, column in self.columns.items():
            own = column[1:] != column[:-1]
            if np.count_nonzero(own) <= SELDOM * self.size:
                changes[1:] |= own
                steady |= self.masks[name]
        return steady, np.flatnonzero(changes)

    def _may_save(self, mask: int) -> bool:
        """Whether rows spread over the axis repeat one another; where they do not, few would, and finding them is not worth it."""
        if self.size <= SAMPLE or not mask & ~self._steady:
            return True
        few = np.arange(0, self.size, self.size // SAMPLE)
        run = self._run_of(few)
        code: tuple[Index, int] = np.zeros(len(few), dtype=np.int64), 1
        for variable in (m for m in self.masks.values() if m & mask):
            levels, number = self._code(variable)
            code = _combined(code, (levels[run if variable & self._steady else few], number))
        return len(distinct(*code)[0]) < OFTEN * len(few)

    def _find(self, mask: int) -> tuple[Index, Index]:
        """A row of each distinct combination, and for each of the N rows (each run, of steady variables) which it is."""
        rows, inverse = distinct(*self._code(mask))
        return (rows if mask & ~self._steady else self._starts[rows]), inverse

    def _code(self, mask: int) -> tuple[Index, int]:
        """One integer for each row (each run, of steady variables alone), equal where the variables of the mask are.

        With it, how many there can be.
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
    """The codes of two sets of variables as one code."""
    (first, space), (second, width) = one, other
    if width * space > 2**40:  # renumber before the codes outgrow their integers
        levels, first = np.unique(first, return_inverse=True)
        space = len(levels)
    fitting: Index = first.astype(np.int32 if width * space < 2**31 else np.int64, copy=False)
    return fitting * fitting.dtype.type(width) + second, width * space


def gathered(joint: JointAxis | JointBlock, data: Any, held: int, wanted: int) -> Any:
    """An array with mask `held`, spread over the rows of mask `wanted` (which contains it).

    The rows are there, so nothing is clipped, which is twice as fast as to check.
    """
    return data if held in (0, wanted) else data.take(joint.index(held, wanted), axis=-1, mode="clip")


def distinct(code: Index, space: int) -> tuple[Index, Index]:
    """The place of one of each code, and for each which it is; counted through the space of codes where that is small."""
    if space > 8 * len(code) + 1024:
        _, rows, inverse = np.unique(code, return_index=True, return_inverse=True)
        return rows, inverse
    seen = np.full(space, -1, dtype=np.int32)
    seen[code] = np.arange(len(code), dtype=np.int32)
    present = np.flatnonzero(seen >= 0)
    number = np.empty(space, dtype=np.intp)
    number[present] = np.arange(len(present))
    return seen[present], number[code]


def _levels(column: NDArray[np.float64]) -> tuple[Index, int]:
    """The number of each value among the distinct ones, and how many there are; whole numbers need no sorting."""
    largest = int(column.max(initial=0.0))
    whole: Index = column.astype(np.intp) if 0 <= largest <= 8 * len(column) + 1024 else np.empty(0, dtype=np.intp)
    is_whole = len(whole) and column.min() >= 0 and np.array_equal(whole, column)
    rows, number = distinct(whole, largest + 1) if is_whole else np.unique(column, return_inverse=True)
    return number.astype(np.int32), len(rows)


class JointBlock:
    """Some successive rows of a joint axis: what depends on few variables stays as it is, the rest are those rows."""

    def __init__(self, whole: JointAxis, start: int, stop: int) -> None:
        self.whole, self.rows = whole, slice(start, min(stop, whole.size))
        self.size, self.full, self.settled = self.rows.stop - start, whole.full, whole.settled

    def length(self, mask: int) -> int:
        """Rows of a quantity with this mask."""
        return self.size if mask == self.full else self.whole.length(mask)

    def index(self, held: int, wanted: int) -> Index:
        """For each row of `wanted`, the row of `held` that belongs to it."""
        index = self.whole.index(held, wanted)
        return index[self.rows] if wanted == self.full else index
