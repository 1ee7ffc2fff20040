"""What is kept of a block of candidates: counts, the best of each group, the fronts.

It takes array operations, no loops.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import reduce
from operator import and_

import numpy as np

from amped.base.errors import EvaluationError
from amped.base.record import dataclass
from amped.engine.evaluate import Array, Mask, Results
from amped.exploration.all_candidates import FEASIBLE, FITS, Column, Keep
from amped.exploration.constraints import Wish
from amped.exploration.grouping import Cells, Places
from amped.exploration.histogram import BINS, counted
from amped.exploration.objectives import Objective
from amped.exploration.results import (
    NEARLY,
    Found,
    Ranked,
    Ranking,
    best_of,
    better_than,
    front_of,
    nearly_as_good,
)
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


class Keeper:
    """What is kept of one part so far. At first, every candidate is good enough."""

    def __init__(self, wanted: Wanted, cells: Cells, keep: Keep | None) -> None:
        self.wanted, self.cells, self.keep = wanted, cells, keep
        self.candidates = self.feasible = 0
        self.removed = Counter[str]()
        self.best: dict[int, Ranking] = {}
        self.unfit: Ranking = ()
        self.near: Ranking = ()
        self.lacking: Ranking = ()
        self.simple: Ranking = ()
        self.front: Ranking = ()
        self.counts = np.zeros(BINS, dtype=np.int64)
        self.bounds = np.full(len(cells.groups), np.inf)
        self.least = np.inf

    def take(self, results: Results, first: int) -> None:
        """Adds a block, whose first joint row has the number `first`."""
        block, wanted = Block(results, self.wanted, self.cells, first), self.wanted
        self.candidates += block.candidates
        self.removed.update(block.removed)
        self.feasible += block.count(block.feasible)
        self.counts += counted(wanted.objective.sign * block.objective[block.feasible])
        self._keep_best(block)
        bound = self.unfit[-1].objective if len(self.unfit) == wanted.top else np.inf
        unfit = block.best(block.unfit & (block.objective <= bound), None)
        self.unfit = best_of([*self.unfit, *(ranked for _, ranked in unfit)], wanted.top)
        near = block.too_large & (block.objective < self.least)
        if near.any():
            self.near = block.fronted(self.near, np.flatnonzero(near), block.objective, block.whole(MEMORY))
        if wanted.front:
            cells = np.flatnonzero(block.feasible)
            self.front = block.fronted(self.front, cells, *(block.values(each) for each in wanted.front))
        if not self.feasible:
            bound = self.lacking[-1].objective if len(self.lacking) == wanted.top else np.inf
            self.lacking = best_of([*self.lacking, *block.lacking(bound)], wanted.top)
        elif wanted.objective.name in TIMES:
            cells = np.flatnonzero(block.feasible & (block.objective <= NEARLY * self.least))
            self.simple = block.fronted(self.simple, cells, block.mechanisms(cells), block.objective)
        if self.keep is not None:
            self.keep.take(block.every())

    def _keep_best(self, block: Block) -> None:
        group = block.group() if len(self.bounds) > 1 else None
        touched: dict[int, list[Ranked]] = {}
        for which, ranked in block.best(
            block.feasible & (block.objective <= self.bounds[0 if group is None else group]), group
        ):
            touched.setdefault(which, [*self.best.get(which, ())]).append(ranked)
        for which, known in touched.items():
            kept = self.best[which] = best_of(known, self.wanted.top)
            self.least = min(self.least, kept[0].objective)
            if len(kept) == self.wanted.top:
                self.bounds[which] = kept[-1].objective

    def found(self) -> Found:
        """The finding of the part."""
        best = {self.cells.groups[group]: self.best[group] for group in sorted(self.best)}
        histogram = {place: int(self.counts[place]) for place in np.flatnonzero(self.counts).tolist()}
        return Found(self.wanted.top, self.candidates, self.feasible, dict(self.removed), best, self.unfit,
                     better_than(best, self.near), () if self.feasible else self.lacking,
                     nearly_as_good(best, self.simple), self.front, histogram)  # fmt: skip


class Block:
    """One block, with the joint axis last: the masks of its cells, and the cells as rows."""

    def __init__(self, results: Results, wanted: Wanted, cells: Cells, first: int) -> None:
        self.results, self.wanted, self.cells, self.first = results, wanted, cells, first
        self.shape = (*results.shape[1:], results.shape[0])
        self.size = int(np.prod(self.shape, dtype=np.int64))
        self.objective = self.values(wanted.objective)
        self.removed: dict[str, int] = {}
        valid = self.valid = self._all(results.spread(name) > 0 for name in wanted.dividing)
        self.candidates = self.count(valid)
        keeps = valid
        for name in wanted.rules:
            keeps = self._lose(name, valid, results.spread(name) > 0) & keeps
        self._check(keeps)
        fits = self._lose(FITS, keeps, results.spread(FITS) > 0) & keeps
        held = [(wish, self._lose(wish.written, fits, self._fulfilled(wish))) for wish in wanted.wishes]
        self.feasible: Mask = np.broadcast_to(self._all(mask for _, mask in held) & fits, self.shape)
        self.unfit: Mask = np.broadcast_to(keeps, self.shape) & ~self.feasible
        of_others = (mask for wish, mask in held if not OF_MEMORY & {*wish.quantities})
        self.too_large: Mask = self.unfit & self._all(of_others)

    def group(self) -> Places:
        """The group of each cell."""
        return self.cells.group(slice(self.first, self.first + self.shape[-1]), self.shape)

    def best(self, good: Mask, group: Places | None) -> Iterable[tuple[int, Ranked]]:
        """The best few of the good cells, for each group, each with its group."""
        cells = np.flatnonzero(good)
        if not len(cells):
            return ()
        values, memory = self.objective.reshape(-1)[cells], self.flat(MEMORY)[cells]
        own = np.zeros(len(cells), dtype=np.intp) if group is None else group.reshape(-1)[cells]
        order = _first_of_each(own, values, memory, cells, self.wanted.top)
        return zip(own[order].tolist(), self._ranked(cells[order], values[order], memory[order]), strict=True)

    def fronted(self, front: Ranking, cells: Places, one: Array, other: Array) -> Ranking:
        """A front of two values, extended by some cells of this block; at equal values, known candidates stay.

        The array of the first value has an entry for each of the cells, or for all cells of the block.
        """
        x, y = one if one.shape == cells.shape else one.reshape(-1)[cells], other.reshape(-1)[cells]
        if front:
            known = np.array([each[:2] for each in front])
            place = np.searchsorted(known[:, 0], x, side="right") - 1
            better = (place < 0) | (known[place, 1] > y)
            cells, x, y = cells[better], x[better], y[better]
        order = np.lexsort((cells, y, x))
        least = np.minimum.accumulate(np.concatenate([[np.inf], y[order]]))
        order = order[y[order] < least[:-1]]
        return front_of([*front, *self._ranked(cells[order], x[order], y[order])])

    def mechanisms(self, cells: Places) -> Array:
        """The number of mechanisms that each cell uses."""
        beside, row = np.divmod(cells, self.shape[-1])
        found: Array = self.cells.mechanisms_beside[beside] + self.cells.mechanisms[row + self.first]
        return found

    def lacking(self, most: float) -> Iterable[Ranked]:
        """The best few of the cells that only lack memory, ranked by the missing memory, which is at most `most`."""
        limits = [
            w.value for w in self.wanted.wishes if w.name == MEMORY and w.comparison in ("<", "<=") and not w.other
        ]
        limit = np.minimum(self.whole(AVAILABLE), min(map(float, limits), default=np.inf))
        missing = np.maximum(self.whole(MEMORY) - limit, 0.0).reshape(-1)
        cells = np.flatnonzero(self.too_large.reshape(-1) & (missing <= most))
        order = np.lexsort((cells, self.objective.reshape(-1)[cells], missing[cells]))[: self.wanted.top]
        yield from self._ranked(cells[order], missing[cells[order]], self.objective.reshape(-1)[cells[order]])

    def every(self) -> dict[str, Column]:
        """Every candidate; the joint axis runs fastest.

        It has the swept values, the results, whether it fits and is feasible.
        """
        beside, row = np.divmod(np.arange(self.size), self.shape[-1])
        found = self.cells.columns(row + self.first, beside)
        found |= {whole: found[one] * found[other] for whole, (one, other) in wholes_of(found).items()}
        found |= {name: self.flat(name) for name in self.wanted.told if name not in found}
        found |= {FITS: found[FITS] > 0, FEASIBLE: self.feasible.reshape(-1)}
        valid = np.broadcast_to(self.valid, self.shape).reshape(-1)
        return found if valid.all() else {name: column[valid] for name, column in found.items()}

    def _ranked(self, cells: Places, x: Array, y: Array) -> Iterable[Ranked]:
        """The cells as rows, ranked by two values.

        The cells are numbered along the joint rows, and for each row its open cells.
        """
        if not len(cells):
            return
        beside, row = np.divmod(cells, self.shape[-1])
        row += self.first
        swept = self.cells.columns(row, beside)
        places = np.unravel_index(cells, self.shape)
        told = {name: self._at(name, places) for name in self.wanted.told if name not in swept}
        columns = swept | told
        number, case = row * self.cells.beside + beside, self.cells.case[row]
        rows = (
            dict(zip(columns, values, strict=True))
            for values in zip(*(c.tolist() for c in columns.values()), strict=True)
        )
        found = zip(x.tolist(), y.tolist(), number.tolist(), case.tolist(), rows, strict=True)
        yield from (Ranked(one, other, self.cells.part, *rest) for one, other, *rest in found)

    def _at(self, name: str, places: Sequence[Places]) -> Array:
        """A result of a few cells. The whole block as one row would be a copy of it."""
        own = self.results.spread(name)
        one = np.zeros_like(places[-1])
        found: Array = own[tuple(place if length > 1 else one for place, length in zip(places, own.shape, strict=True))]
        return found

    def _fulfilled(self, wish: Wish) -> Mask:
        if isinstance(wish.value, str):
            return np.full((1,) * len(self.shape), wish.chosen(self.results.plan.choices[wish.name]))
        return wish.holds(self.results.spread)

    def values(self, objective: Objective) -> Array:
        """The objective of each cell, with a sign that makes it smaller for better candidates."""
        return np.broadcast_to(objective.sign * self.results.spread(objective.name), self.shape)

    def whole(self, name: str) -> Array:
        """A result of each cell, in the shape of the block."""
        return np.broadcast_to(self.results.spread(name), self.shape)

    def flat(self, name: str) -> Array:
        """A result of each cell, as one row."""
        return self.whole(name).reshape(-1)

    def count(self, mask: Mask) -> int:
        """The number of cells that a mask selects."""
        return int(np.count_nonzero(mask)) * (self.size // mask.size)

    def _all(self, masks: Iterable[Mask]) -> Mask:
        return reduce(and_, masks, np.ones((1,) * len(self.shape), dtype=bool))

    def _lose(self, name: str, among: Mask, holds: Mask) -> Mask:
        """Counts the cells of `among` that do not hold, under a name."""
        if not holds.all():
            broken = self.count(among & ~holds)
            if broken:
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
            own = self.results.spread(name)
            wrong = keeps & ~np.isfinite(own)
            if wrong.any():
                value = np.broadcast_to(own, wrong.shape)[wrong].flat[0]
                raise EvaluationError(f"'{name}' came out as {value} for {self.count(wrong)} mappings that keep every rule",
                                      "`amped explain` one of them to see which input leads there")  # fmt: skip


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
