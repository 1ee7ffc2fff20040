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
        top: how many of the best candidates (of each group) are kept.
        objective: what ranks the candidates.
        wishes: what a feasible candidate fulfills.
        rules: the rules that a feasible candidate keeps.
        dividing: the rules about divisibility; a tuple of degrees that breaks one of them is not a candidate.
        columns: the names of the results that are kept with a candidate.
        front: the two objectives of a Pareto front, or none.
    """

    top: int
    objective: Objective
    front: tuple[Objective, ...]
    wishes: tuple[Wish, ...]
    rules: tuple[str, ...]
    dividing: tuple[str, ...]
    columns: tuple[str, ...]


class Block:
    """One block, with the joint axis last: the masks of its cells, and the cells as rows."""

    def __init__(self, results: Results, wanted: Wanted, cells: Cells, first: int) -> None:
        """Computes which cells are valid, feasible, unfit or too large for memory.

        Args:
            results: the results of the block.
            wanted: the rules, the wishes, and what is kept.
            cells: the cells of the part.
            first: the number of the block's first joint row in the part.
        """
        self.results, self.wanted, self.cells, self.first = results, wanted, cells, first
        self.shape = (*results.shape[1:], results.shape[0])
        self.size = int(np.prod(self.shape, dtype=np.int64))
        self.rows = slice(first, first + self.shape[-1])
        self.objective = self._values(wanted.objective)
        self.removed: dict[str, int] = {}
        self.valid = keeps = self._all(results.spread(name) > 0 for name in wanted.dividing)
        for name in wanted.rules:
            keeps = self._with_broken_counted(name, self.valid, results.spread(name) > 0) & keeps
        self._refuse_infinite(keeps)
        fits = self._with_broken_counted(FITS, keeps, results.spread(FITS) > 0) & keeps
        fulfilled = [
            (wish, self._with_broken_counted(wish.written, fits, wish.holds(self._value))) for wish in wanted.wishes
        ]
        self.feasible: Mask = np.broadcast_to(self._all(mask for _, mask in fulfilled) & fits, self.shape)
        self.unfit: Mask = np.broadcast_to(keeps, self.shape) & ~self.feasible
        other_wishes = (mask for wish, mask in fulfilled if not OF_MEMORY & {*wish.quantities})
        self.too_large: Mask = self.unfit & self._all(other_wishes)

    def added_to(self, earlier: Finding) -> Finding:
        """The finding of this block and of all earlier blocks, whose finding is `earlier`."""
        wanted, objective, memory = self.wanted, self.objective, self._whole(MEMORY)
        best, feasible = self._best_of_groups(earlier.best), self._count(self.feasible)
        smallest = min(smallest_of(earlier.best), smallest_of(best))
        finding = Finding(
            top=wanted.top,
            candidates=self._count(self.valid),
            feasible=feasible,
            removed=self.removed,
            best=best,
            unfit=self._best(
                self.unfit & (objective <= _worst_objective(earlier.unfit, wanted.top)), objective, memory
            ).get(0, ()),
            near=self._front(earlier.near, self.too_large & (objective < smallest), objective, memory),
            lacking=() if earlier.feasible or feasible else self._lacking(earlier.lacking),
            simple=self._simple(earlier.simple, smallest) if wanted.objective.name in TIMES else (),
            front=self._front(earlier.front, self.feasible, *map(self._values, wanted.front)) if wanted.front else (),
            histogram=counted(wanted.objective.sign * objective[self.feasible]),
        )
        return merged(earlier, finding)

    def _best_of_groups(self, earlier: Mapping[str, Ranking]) -> dict[str, Ranking]:
        """The best `top` feasible cells of each group, by the name of the group.

        Cells that are worse than all candidates of a full ranking of earlier blocks are left out.

        Args:
            earlier: the best candidates of earlier blocks, by group.
        """
        names = self.cells.groups
        bounds = np.array([_worst_objective(earlier.get(name, ()), self.wanted.top) for name in names])
        group = self.cells.group(self.rows, self.shape) if len(names) > 1 else None
        good = self.feasible & (self.objective <= bounds[0 if group is None else group])
        best = self._best(good, self.objective, self._whole(MEMORY), group)
        return {names[number]: ranking for number, ranking in best.items()}

    def _best(self, good: Mask, value: Array, tie: Array, group: Places | None = None) -> dict[int, Ranking]:
        """The best `top` cells of each group, by the number of the group.

        Args:
            good: the cells that are ranked.
            value: what ranks a cell; smaller is better.
            tie: what ranks cells with equal values.
            group: the number of the group of each cell; None: all cells are in group 0.
        """
        cells = np.flatnonzero(good)
        if not len(cells):
            return {}
        ranked_values, tie_values = value.reshape(-1)[cells], tie.reshape(-1)[cells]
        numbers = np.zeros_like(cells) if group is None else group.reshape(-1)[cells]
        order = _best_of_each(numbers, ranked_values, tie_values, cells, self.wanted.top)
        ranked = zip(
            numbers[order].tolist(), self._ranked(cells[order], ranked_values[order], tie_values[order]), strict=True
        )
        return {number: tuple(row for _, row in pairs) for number, pairs in groupby(ranked, itemgetter(0))}

    def _front(self, earlier: Ranking, good: Mask, first: Array, second: Array) -> Ranking:
        """The Pareto front of two values of some cells.

        Cells are left out if an earlier candidate is as good in both values.

        Args:
            earlier: the front of earlier blocks.
            good: the cells that may be on the front.
            first: the first value of each cell; smaller is better.
            second: the second value of each cell; smaller is better.
        """
        cells = np.flatnonzero(good)
        if not len(cells):
            return ()
        first_values, second_values = first.reshape(-1)[cells], second.reshape(-1)[cells]
        if earlier:
            front = np.array([ranked[:2] for ranked in earlier])
            place = np.searchsorted(front[:, 0], first_values, side="right") - 1
            is_better = (place < 0) | (front[place, 1] > second_values)
            cells, first_values, second_values = cells[is_better], first_values[is_better], second_values[is_better]
        order = np.lexsort((cells, second_values, first_values))
        smallest_before = np.minimum.accumulate(np.concatenate([[np.inf], second_values[order]]))
        order = order[second_values[order] < smallest_before[:-1]]
        return self._ranked(cells[order], first_values[order], second_values[order])

    def _simple(self, earlier: Ranking, smallest: float) -> Ranking:
        """The Pareto front of simplicity and speed of the cells that are nearly as fast as the best candidate.

        Args:
            earlier: the front of earlier blocks.
            smallest: the objective of the best candidate.
        """
        mechanisms = np.add.outer(self.cells.mechanisms_beside, self.cells.mechanisms[self.rows]).reshape(self.shape)
        fast = self.feasible & (self.objective <= NEARLY * smallest)
        return self._front(earlier, fast, mechanisms, self.objective)

    def _lacking(self, earlier: Ranking) -> Ranking:
        """The `top` cells that lack the least memory, of those that only lack memory.

        Args:
            earlier: these candidates of earlier blocks.
        """
        asked_limits = [
            wish.value
            for wish in self.wanted.wishes
            if wish.name == MEMORY and wish.comparison in ("<", "<=") and not wish.other
        ]
        limit = np.minimum(self._whole(AVAILABLE), min(map(float, asked_limits), default=np.inf))
        missing = np.maximum(self._whole(MEMORY) - limit, 0.0)
        lacking = self.too_large & (missing <= _worst_objective(earlier, self.wanted.top))
        return self._best(lacking, missing, self.objective).get(0, ())

    def candidates(self) -> dict[str, Column]:
        """All candidates by column: swept values, results, and whether a candidate fits in memory and is feasible.

        The joint axis runs fastest.
        """
        beside, row = np.divmod(np.arange(self.size), self.shape[-1])
        columns = self.cells.columns(row + self.first, beside)
        columns |= {whole: columns[one] * columns[other] for whole, (one, other) in wholes_of(columns).items()}
        columns |= {name: self._whole(name).reshape(-1) for name in self.wanted.columns if name not in columns}
        columns |= {FITS: columns[FITS] > 0, FEASIBLE: self.feasible.reshape(-1)}
        valid = np.broadcast_to(self.valid, self.shape).reshape(-1)
        return columns if valid.all() else {name: column[valid] for name, column in columns.items()}

    def _ranked(self, cells: Places, first_values: Array, second_values: Array) -> Ranking:
        """The candidates of some cells, in the given order.

        Args:
            cells: the places of the cells in the block.
            first_values: the first value that ranks each cell.
            second_values: the second value that ranks each cell.
        """
        beside, row = np.divmod(cells, self.shape[-1])
        row += self.first
        columns = self.cells.columns(row, beside)
        places = np.unravel_index(cells, self.shape)  # the whole block as one row would be a copy of it
        columns |= {name: self._whole(name)[places] for name in self.wanted.columns if name not in columns}
        number, case = row * self.cells.beside + beside, self.cells.case[row]
        values = zip(*(column.tolist() for column in columns.values()), strict=True)
        rows = (dict(zip(columns, of_row, strict=True)) for of_row in values)
        part = repeat(self.cells.part)
        return tuple(
            map(Ranked, first_values.tolist(), second_values.tolist(), part, number.tolist(), case.tolist(), rows)
        )

    def _value(self, name: str) -> Any:
        """The values of a quantity in each cell, or the text of a choice."""
        return self.results.plan.choices.get(name) or self.results.spread(name)

    def _values(self, objective: Objective) -> Array:
        """The values of an objective in each cell, with the sign that makes them smaller for better candidates."""
        return np.broadcast_to(objective.sign * self.results.spread(objective.name), self.shape)

    def _whole(self, name: str) -> Array:
        """The values of a result in each cell, in the shape of the block."""
        return np.broadcast_to(self.results.spread(name), self.shape)

    def _count(self, mask: Mask) -> int:
        """The number of cells that a mask selects."""
        return int(np.count_nonzero(mask)) * (self.size // mask.size)

    def _all(self, masks: Iterable[Mask]) -> Mask:
        """The cells that all masks select; every cell without masks."""
        return reduce(and_, masks, np.ones((1,) * len(self.shape), dtype=bool))

    def _with_broken_counted(self, name: str, among: Mask, holds: Mask) -> Mask:
        """The mask `holds` of a rule or wish. The cells of `among` that break it are counted under its name."""
        if not holds.all() and (broken := self._count(among & ~holds)):
            self.removed[name] = broken
        return holds

    def _refuse_infinite(self, keeps: Mask) -> None:
        """Refuses results that are not finite numbers.

        Args:
            keeps: the cells that keep every rule; only their results are checked.

        Raises:
            EvaluationError: with the first result that is not finite.
        """
        for name in self.wanted.columns:
            data, _ = self.results.cells[name]
            if np.isfinite(data).all():
                continue
            values = self.results.spread(name)
            wrong = keeps & ~np.isfinite(values)
            if wrong.any():
                value = np.broadcast_to(values, wrong.shape)[wrong].flat[0]
                raise EvaluationError(f"'{name}' came out as {value} for {self._count(wrong)} mappings that keep every rule",
                                      "`amped explain` one of them to see which input leads there")  # fmt: skip


def _worst_objective(ranking: Ranking, top: int) -> float:
    """The largest objective with which a candidate may still join a ranking of at most `top` candidates."""
    return ranking[-1].objective if len(ranking) == top else np.inf


def _best_of_each(group: Places, values: Array, memory: Array, cells: Places, top: int) -> Places:
    """The places of the best `top` candidates of each group, in order of group and rank.

    Args:
        group: the number of each candidate's group.
        values: what ranks first.
        memory: what ranks candidates with equal values.
        cells: what ranks candidates with equal values and equal memory.
        top: how many are kept of each group.
    """
    if len(values) > top and not group.any():
        least = np.partition(values, top - 1)[top - 1]
        places = np.flatnonzero(values <= least)
        return places[np.lexsort((cells[places], memory[places], values[places]))[:top]]
    order = np.lexsort((cells, memory, values, group))
    sorted_group = group[order]
    starts = np.flatnonzero(np.concatenate([[True], sorted_group[1:] != sorted_group[:-1]]))
    place = np.arange(len(order)) - np.repeat(starts, np.diff(starts, append=len(order)))
    return order[place < top]
