"""What is kept of a block of candidates: counts, the best of each group, the fronts.

It takes array operations, no loops.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce
from itertools import groupby, repeat
from operator import and_, itemgetter
from typing import Any

import numpy as np

from amped.base.errors import EvaluationError
from amped.base.record import dataclass
from amped.engine.evaluate import Array, Mask, Results
from amped.exploration.all_candidates import FEASIBLE, FITS, Column
from amped.exploration.constraints import Wish
from amped.exploration.grouping import Cells, Places
from amped.exploration.histogram import counted
from amped.exploration.objectives import Objective
from amped.exploration.results import NEARLY, Finding, Ranked, Ranking, merged, smallest_of
from amped.exploration.search_space import WITH_HEADROOM, wholes_of

MEMORY, AVAILABLE = "memory_per_accelerator_bytes", "available_memory_bytes"
OF_MEMORY = {MEMORY, WITH_HEADROOM}
# With one of these objectives, candidates within the error band of an estimate count as equally good.
TIMES = ("training_time", "step_time")


@dataclass(frozen=True)
class Wanted:
    """What is kept of the candidates, and how they are ranked.

    Attributes:
        rules: the rules that a feasible candidate keeps.
        dividing: the other rules; a tuple that breaks one is not a candidate.
        told: the columns of a kept row.
        front: the two objectives of a Pareto front, or none.
    """

    top: int
    objective: Objective
    front: tuple[Objective, ...]
    wishes: tuple[Wish, ...]
    rules: tuple[str, ...]
    dividing: tuple[str, ...]
    told: tuple[str, ...]


class Block:
    """One block, with the joint axis last: the masks of its cells, and the cells as rows."""

    def __init__(self, results: Results, wanted: Wanted, cells: Cells, first: int) -> None:
        """Takes the results of a block whose first joint row has the number `first`."""
        self.results, self.wanted, self.cells, self.first = results, wanted, cells, first
        self.shape = (*results.shape[1:], results.shape[0])
        self.size = int(np.prod(self.shape, dtype=np.int64))
        self.rows = slice(first, first + self.shape[-1])
        self.objective = self._values(wanted.objective)
        self.removed: dict[str, int] = {}
        self.valid = keeps = self._all(results.spread(name) > 0 for name in wanted.dividing)
        for name in wanted.rules:
            keeps = self._lose(name, self.valid, results.spread(name) > 0) & keeps
        self._check(keeps)
        fits = self._lose(FITS, keeps, results.spread(FITS) > 0) & keeps
        fulfilled = [(wish, self._lose(wish.written, fits, wish.holds(self._value))) for wish in wanted.wishes]
        self.feasible: Mask = np.broadcast_to(self._all(mask for _, mask in fulfilled) & fits, self.shape)
        self.unfit: Mask = np.broadcast_to(keeps, self.shape) & ~self.feasible
        of_others = (mask for wish, mask in fulfilled if not OF_MEMORY & {*wish.quantities})
        self.too_large: Mask = self.unfit & self._all(of_others)

    def added_to(self, known: Finding) -> Finding:
        """The finding of this block and of those before it, whose candidates are known."""
        wanted, objective, memory = self.wanted, self.objective, self._whole(MEMORY)
        best, feasible = self._best_of_groups(known.best), self._count(self.feasible)
        smallest = min(smallest_of(known.best), smallest_of(best))
        finding = Finding(
            top=wanted.top,
            candidates=self._count(self.valid),
            feasible=feasible,
            removed=self.removed,
            best=best,
            unfit=self._best(self.unfit & (objective <= _bound(known.unfit, wanted.top)), objective, memory).get(0, ()),
            near=self._front(known.near, self.too_large & (objective < smallest), objective, memory),
            lacking=() if known.feasible or feasible else self._lacking(known.lacking),
            simple=self._simple(known.simple, smallest) if wanted.objective.name in TIMES else (),
            front=self._front(known.front, self.feasible, *map(self._values, wanted.front)) if wanted.front else (),
            histogram=counted(wanted.objective.sign * objective[self.feasible]),
        )
        return merged(known, finding)

    def _best_of_groups(self, known: Mapping[str, Ranking]) -> dict[str, Ranking]:
        """For each group, the best few of the feasible cells that may stand among its known candidates."""
        names = self.cells.groups
        bounds = np.array([_bound(known.get(name, ()), self.wanted.top) for name in names])
        group = self.cells.group(self.rows, self.shape) if len(names) > 1 else None
        good = self.feasible & (self.objective <= bounds[0 if group is None else group])
        best = self._best(good, self.objective, self._whole(MEMORY), group)
        return {names[number]: ranking for number, ranking in best.items()}

    def _best(self, good: Mask, value: Array, tie: Array, group: Places | None = None) -> dict[int, Ranking]:
        """The best few of the good cells, by a value and where it ties by another: by group, or under the number 0."""
        cells = np.flatnonzero(good)
        if not len(cells):
            return {}
        x, y = value.reshape(-1)[cells], tie.reshape(-1)[cells]
        numbers = np.zeros_like(cells) if group is None else group.reshape(-1)[cells]
        order = _first_of_each(numbers, x, y, cells, self.wanted.top)
        ranked = zip(numbers[order].tolist(), self._ranked(cells[order], x[order], y[order]), strict=True)
        return {number: tuple(row for _, row in pairs) for number, pairs in groupby(ranked, itemgetter(0))}

    def _front(self, known: Ranking, good: Mask, one: Array, other: Array) -> Ranking:
        """The front of two values of the good cells, without cells for which a known candidate is as good in both."""
        cells = np.flatnonzero(good)
        if not len(cells):
            return ()
        x, y = one.reshape(-1)[cells], other.reshape(-1)[cells]
        if known:
            front = np.array([ranked[:2] for ranked in known])
            place = np.searchsorted(front[:, 0], x, side="right") - 1
            better = (place < 0) | (front[place, 1] > y)
            cells, x, y = cells[better], x[better], y[better]
        order = np.lexsort((cells, y, x))
        least = np.minimum.accumulate(np.concatenate([[np.inf], y[order]]))
        order = order[y[order] < least[:-1]]
        return self._ranked(cells[order], x[order], y[order])

    def _simple(self, known: Ranking, smallest: float) -> Ranking:
        """The front of simplicity and speed of the cells that are nearly as fast as the best candidate."""
        mechanisms = np.add.outer(self.cells.mechanisms_beside, self.cells.mechanisms[self.rows]).reshape(self.shape)
        fast = self.feasible & (self.objective <= NEARLY * smallest)
        return self._front(known, fast, mechanisms, self.objective)

    def _lacking(self, known: Ranking) -> Ranking:
        """The best few of the cells that only lack memory, ranked by the missing memory."""
        limits = [
            w.value for w in self.wanted.wishes if w.name == MEMORY and w.comparison in ("<", "<=") and not w.other
        ]
        limit = np.minimum(self._whole(AVAILABLE), min(map(float, limits), default=np.inf))
        missing = np.maximum(self._whole(MEMORY) - limit, 0.0)
        few = self.too_large & (missing <= _bound(known, self.wanted.top))
        return self._best(few, missing, self.objective).get(0, ())

    def every(self) -> dict[str, Column]:
        """Every candidate with its swept values, its results, and whether it fits and is feasible.

        The joint axis runs fastest.
        """
        beside, row = np.divmod(np.arange(self.size), self.shape[-1])
        columns = self.cells.columns(row + self.first, beside)
        columns |= {whole: columns[one] * columns[other] for whole, (one, other) in wholes_of(columns).items()}
        columns |= {name: self._whole(name).reshape(-1) for name in self.wanted.told if name not in columns}
        columns |= {FITS: columns[FITS] > 0, FEASIBLE: self.feasible.reshape(-1)}
        valid = np.broadcast_to(self.valid, self.shape).reshape(-1)
        return columns if valid.all() else {name: column[valid] for name, column in columns.items()}

    def _ranked(self, cells: Places, x: Array, y: Array) -> Ranking:
        """The cells as rows, ranked by two values.

        The cells are numbered along the joint rows, and for each row its open cells.
        """
        beside, row = np.divmod(cells, self.shape[-1])
        row += self.first
        columns = self.cells.columns(row, beside)
        places = np.unravel_index(cells, self.shape)  # the whole block as one row would be a copy of it
        columns |= {name: self._whole(name)[places] for name in self.wanted.told if name not in columns}
        number, case = row * self.cells.beside + beside, self.cells.case[row]
        values = zip(*(column.tolist() for column in columns.values()), strict=True)
        rows = (dict(zip(columns, of_row, strict=True)) for of_row in values)
        part = repeat(self.cells.part)
        return tuple(map(Ranked, x.tolist(), y.tolist(), part, number.tolist(), case.tolist(), rows))

    def _value(self, name: str) -> Any:
        """The values of a quantity, or the text of a choice."""
        return self.results.plan.choices.get(name) or self.results.spread(name)

    def _values(self, objective: Objective) -> Array:
        """The objective of each cell, with a sign that makes it smaller for better candidates."""
        return np.broadcast_to(objective.sign * self.results.spread(objective.name), self.shape)

    def _whole(self, name: str) -> Array:
        """A result of each cell, in the shape of the block."""
        return np.broadcast_to(self.results.spread(name), self.shape)

    def _count(self, mask: Mask) -> int:
        """The number of cells that a mask selects."""
        return int(np.count_nonzero(mask)) * (self.size // mask.size)

    def _all(self, masks: Iterable[Mask]) -> Mask:
        return reduce(and_, masks, np.ones((1,) * len(self.shape), dtype=bool))

    def _lose(self, name: str, among: Mask, holds: Mask) -> Mask:
        """Counts the cells of `among` that do not hold, under a name."""
        if not holds.all() and (broken := self._count(among & ~holds)):
            self.removed[name] = broken
        return holds

    def _check(self, keeps: Mask) -> None:
        """Refuses results that are not finite numbers, for cells that keep every rule.

        Raises:
            EvaluationError: with the first result at fault.
        """
        for name in self.wanted.told:
            data, _ = self.results.cells[name]
            if np.isfinite(data).all():
                continue
            values = self.results.spread(name)
            wrong = keeps & ~np.isfinite(values)
            if wrong.any():
                value = np.broadcast_to(values, wrong.shape)[wrong].flat[0]
                raise EvaluationError(f"'{name}' came out as {value} for {self._count(wrong)} mappings that keep every rule",
                                      "`amped explain` one of them to see which input leads there")  # fmt: skip


def _bound(known: Ranking, top: int) -> float:
    """The largest value with which a candidate may stand in a ranking of known ones."""
    return known[-1].objective if len(known) == top else np.inf


def _first_of_each(group: Places, values: Array, memory: Array, cells: Places, top: int) -> Places:
    """The places of the best few of each group, in order."""
    if len(values) > top and not group.any():
        least = np.partition(values, top - 1)[top - 1]
        few = np.flatnonzero(values <= least)
        return few[np.lexsort((cells[few], memory[few], values[few]))[:top]]
    order = np.lexsort((cells, memory, values, group))
    sorted_group = group[order]
    starts = np.flatnonzero(np.concatenate([[True], sorted_group[1:] != sorted_group[:-1]]))
    place = np.arange(len(order)) - np.repeat(starts, np.diff(starts, append=len(order)))
    return order[place < top]
