"""What is kept of a block of candidates: counts, the best of each group, the front; a few arrays, no loop over candidates."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from amped.base.errors import EvaluationError
from amped.engine.evaluate import Array, Results
from amped.exploration.all_candidates import Column, Keep, every_row
from amped.exploration.constraints import Wish
from amped.exploration.grouping import Groups
from amped.exploration.histogram import BINS, counted
from amped.exploration.objectives import Objective
from amped.exploration.results import Found, Ranked, best_of, better_than, front_of

Mask = NDArray[np.bool_]
Cells = NDArray[np.intp]
MEMORY, FITS = "memory_per_accelerator_bytes", "fits_in_memory"


@dataclass(frozen=True)
class Wanted:
    """What is kept, and by what.

    Attributes:
        rules: that a mapping must keep; `dividing` those whose breaking makes it no candidate.
        told: columns of a kept row.
        front: the two objectives of a Pareto front, or none.
    """

    top: int
    objective: Objective
    front: tuple[Objective, ...]
    wishes: tuple[Wish, ...]
    rules: tuple[str, ...]
    dividing: frozenset[str]
    told: tuple[str, ...]


@dataclass
class Keeper:
    """What was kept so far of one part."""

    wanted: Wanted
    part: int
    groups: Groups
    columns_of: Callable[[Cells, Cells], dict[str, Column]]
    candidates: int = 0
    feasible: int = 0
    removed: dict[str, int] = field(default_factory=dict)
    unfit: list[Ranked] = field(default_factory=list)
    near: tuple[Ranked, ...] = ()
    front: tuple[Ranked, ...] = ()
    keep: Keep | None = None

    def __post_init__(self) -> None:
        """Nothing is kept yet: any time is good enough."""
        self.best: dict[int, list[Ranked]] = {}
        self.counts = np.zeros(BINS, dtype=np.int64)
        self.bounds = np.full(len(self.groups.names), np.inf)
        self.least = np.inf

    def take(self, results: Results, first: int) -> None:
        """Takes in a block whose joint rows are counted from `first`."""
        block = Block(results, self.wanted)
        self.candidates += block.candidates
        for name, count in block.removed.items():
            self.removed[name] = self.removed.get(name, 0) + count
        self.feasible += block.count(block.feasible)
        objective = block.values(self.wanted.objective)
        self.counts += counted(self.wanted.objective.sign * objective[block.feasible])
        self._keep_best(block, objective, first)
        self._keep_unfit(block, objective, first)
        self._keep_near(block, objective, first)
        if self.wanted.front:
            one, other = (block.values(each) for each in self.wanted.front)
            self.front = self._fronted(self.front, block, block.feasible, one, other, first)
        if self.keep is not None:
            self.keep.take(self._every(block, first))

    def found(self) -> Found:
        """The finding of the part."""
        names = self.groups.names
        best = {names[group]: tuple(ranked) for group, ranked in sorted(self.best.items())}
        histogram = {place: int(self.counts[place]) for place in np.flatnonzero(self.counts).tolist()}
        return Found(self.wanted.top, self.candidates, self.feasible, self.removed, best, tuple(self.unfit),
                     better_than(best, self.near), self.front, histogram)  # fmt: skip

    def _keep_best(self, block: Block, objective: Array, first: int) -> None:
        group = self._group(block, first) if len(self.bounds) > 1 else None
        good = block.feasible & (objective <= self.bounds[0 if group is None else group])
        cells = np.flatnonzero(good)
        if not len(cells):
            return
        values, memory = objective.reshape(-1)[cells], block.flat(MEMORY)[cells]
        own = np.zeros(len(cells), dtype=np.intp) if group is None else group.reshape(-1)[cells]
        order = _first_of_each(own, values, memory, cells, self.wanted.top)
        touched = set()
        for ranked, which in zip(self._ranked(block, cells[order], values[order], memory[order], first), own[order],
                                 strict=True):  # fmt: skip
            self.best.setdefault(int(which), []).append(ranked)
            touched.add(int(which))
        for which in touched:
            kept = list(best_of(self.best[which], self.wanted.top))
            self.best[which] = kept
            self.least = min(self.least, kept[0].key[0])
            if len(kept) == self.wanted.top:
                self.bounds[which] = kept[-1].key[0]

    def _keep_unfit(self, block: Block, objective: Array, first: int) -> None:
        bound = self.unfit[-1].key[0] if len(self.unfit) == self.wanted.top else np.inf
        cells = np.flatnonzero(block.unfit & (objective <= bound))
        if not len(cells):
            return
        values, memory = objective.reshape(-1)[cells], block.flat(MEMORY)[cells]
        order = _first_of_each(np.zeros(len(cells), dtype=np.intp), values, memory, cells, self.wanted.top)
        ranked = self._ranked(block, cells[order], values[order], memory[order], first)
        self.unfit = list(best_of([*self.unfit, *ranked], self.wanted.top))

    def _keep_near(self, block: Block, objective: Array, first: int) -> None:
        good = block.too_large & (objective < self.least)
        if good.any():
            memory = np.broadcast_to(block.results.spread(MEMORY), block.shape)
            self.near = self._fronted(self.near, block, good, objective, memory, first)

    def _fronted(
        self, front: tuple[Ranked, ...], block: Block, among: Mask, one: Array, other: Array, first: int
    ) -> tuple[Ranked, ...]:
        """A front of two values with the cells of a block: what a known one is as good as goes first."""
        cells = np.flatnonzero(among)
        x, y = one.reshape(-1)[cells], other.reshape(-1)[cells]
        if front:
            known = np.array([each.key[:2] for each in front])
            place = np.searchsorted(known[:, 0], x, side="right") - 1
            better = (place < 0) | (known[place, 1] > y)
            cells, x, y = cells[better], x[better], y[better]
        order = np.lexsort((cells, y, x))
        least = np.minimum.accumulate(np.concatenate([[np.inf], y[order]]))
        order = order[y[order] < least[:-1]]
        return front_of([*front, *self._ranked(block, cells[order], x[order], y[order], first)])

    def _group(self, block: Block, first: int) -> NDArray[np.intp]:
        """The group of each cell, the joint axis last."""
        rows = self.groups.of_rows[first : first + block.shape[-1]]
        return self.groups.of_cells.reshape(*block.shape[:-1], 1) + rows

    def _every(self, block: Block, first: int) -> dict[str, Column]:
        """Every candidate of the block, the joint axis running fastest."""
        cells = np.arange(block.size)
        swept = self.columns_of(cells % block.shape[-1] + first, cells // block.shape[-1])
        swept.pop("case")
        return every_row(swept, block, self.wanted.told)

    def _ranked(self, block: Block, cells: Cells, x: Array, y: Array, first: int) -> Iterator[Ranked]:
        """The cells as rows with keys; a cell's number counts joint rows, and within them open cells."""
        if not len(cells):
            return
        row = cells % block.shape[-1]
        number = (row + first) * (block.size // block.shape[-1]) + cells // block.shape[-1]
        told = {name: block.flat(name)[cells].tolist() for name in self.wanted.told}
        columns = self.columns_of(row + first, cells // block.shape[-1])
        swept = zip(*(column.tolist() for column in columns.values()), strict=True)
        for place, values in enumerate(swept):
            own = dict(zip(columns, values, strict=True))
            case = int(own.pop("case"))
            filled = own | {name: column[place] for name, column in told.items() if name not in own}
            yield Ranked((float(x[place]), float(y[place]), self.part, int(number[place])), case, filled)


class Block:
    """The masks of one block, the joint axis last."""

    def __init__(self, results: Results, wanted: Wanted) -> None:
        self.results = results
        self.shape = (*results.shape[1:], results.shape[0])
        self.size = int(np.prod(self.shape, dtype=np.int64))
        self.removed: dict[str, int] = {}
        dividing = [results.spread(name) > 0 for name in wanted.rules if name in wanted.dividing]
        valid = self.valid = self._all(dividing)
        self.candidates = self.count(valid)
        keeps = valid
        for name in wanted.rules:
            if name not in wanted.dividing:
                keeps = self._lose(name, valid, results.spread(name) > 0) & keeps
        self._check(wanted, keeps)
        fits = self._lose(FITS, keeps, results.spread(FITS) > 0) & keeps
        held = [(wish, self._lose(wish.written, fits, self._fulfilled(wish))) for wish in wanted.wishes]
        wished = self._all([mask for _, mask in held])
        self.feasible: Mask = np.broadcast_to(wished & fits, self.shape)
        self.unfit: Mask = np.broadcast_to(keeps, self.shape) & ~self.feasible
        self.too_large: Mask = self.unfit & self._all([mask for wish, mask in held if MEMORY not in wish.quantities])

    def _fulfilled(self, wish: Wish) -> Mask:
        if isinstance(wish.value, str):
            return np.full((1,) * len(self.shape), wish.chosen(self.results.plan.choices[wish.name]))
        return wish.holds(self.results.spread)

    def values(self, objective: Objective) -> Array:
        """The objective, smaller where it is better."""
        return np.broadcast_to(objective.sign * self.results.spread(objective.name), self.shape)

    def flat(self, name: str) -> Array:
        """A result of each cell in a row."""
        return np.broadcast_to(self.results.spread(name), self.shape).reshape(-1)

    def count(self, mask: Mask) -> int:
        """How many cells a mask has."""
        return int(np.count_nonzero(mask)) * (self.size // mask.size)

    def _all(self, masks: list[Mask]) -> Mask:
        every: Mask = np.ones((1,) * len(self.shape), dtype=bool)
        for mask in masks:
            every = every & mask
        return every

    def _lose(self, name: str, among: Mask, holds: Mask) -> Mask:
        """Counts those among others that a mask removes."""
        if not holds.all():
            broken = self.count(among & ~holds)
            if broken:
                self.removed[name] = broken
        return holds

    def _check(self, wanted: Wanted, keeps: Mask) -> None:
        """Refuses results that are no numbers where every rule is kept.

        Raises:
            EvaluationError: names the first result at fault.
        """
        for name in wanted.told:
            data, _ = self.results.cells[name]
            if np.isfinite(data).all():
                continue
            own = self.results.spread(name)
            wrong = keeps & ~np.isfinite(own)
            if wrong.any():
                value = np.broadcast_to(own, wrong.shape)[wrong].flat[0]
                raise EvaluationError(f"'{name}' came out as {value} for {self.count(wrong)} mappings that keep every rule",
                                      "`amped explain` one of them to see which input leads there")  # fmt: skip


def _first_of_each(group: Cells, values: Array, memory: Array, cells: Cells, top: int) -> Cells:
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
