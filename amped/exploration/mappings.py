"""The valid mappings of a family, as columns: the degrees multiply to the machine, and all that must divide divides.

Divisibility is checked first; the formulas of the rules say which tuples keep them.

A unit is one case with a few ways to split the degrees inside the fast domain. A chunk is several units in a row, so
that the space is never in memory as a whole. Each step multiplies the rows by one more variable and drops those that
break a rule.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from functools import cached_property
from math import prod

import numpy as np
from numpy.typing import NDArray

from amped.engine.axes import JointAxis
from amped.engine.evaluate import Array, Columns, Mask, Results, run
from amped.engine.resolve import Plan, plan
from amped.estimation.placement import FILLED, PLACED, fillings
from amped.exploration.beside import most_values, values_beside
from amped.exploration.cases import CASE, Family
from amped.exploration.factorizations import column_of_divisors, fullest, splits
from amped.exploration.one_case import Case
from amped.exploration.search_space import BATCH, CHUNKS, MICROBATCH
from amped.exploration.sweep_axes import BESIDE, MICROBATCHES, SEARCHED, Swept
from amped.theory.language.catalogue import Catalogue

# The number of rows of a chunk, before micro-batches and rules.
CHUNK_ROWS = 32_768
# The number of a case, and some ways to split its fast domain, one in each row.
Unit = tuple[int, Array | None]
# A rule that constrains one of these says that degrees multiply or divide. A tuple that breaks it is not a candidate.
DIVIDES = frozenset((*SEARCHED, *BESIDE, BATCH, CHUNKS))


class Sieve:
    """The rules of a family about divisibility; each is checked as soon as the columns that it needs are known."""

    def __init__(self, catalogue: Catalogue, family: Family, axes: Columns) -> None:
        self.catalogue, self.family, self.axes = catalogue, family, axes
        self.needs = _needs(plan(catalogue, catalogue.constraints, family.sources), family, {*family.joint, *axes})
        self.early = tuple(
            name for name, needed in self.needs.items()
            if catalogue[name].mark.constrains in DIVIDES and not needed & axes.keys()
        )  # fmt: skip
        self.dropped = Counter[str]()
        self._plans: dict[tuple[str, ...], Plan] = {}

    def keeps(self, columns: Columns, before: Collection[str]) -> Mask:
        """Which rows keep the rules that can be checked now, and could not be checked with the columns before."""
        possible = [name for name in self.early if self.needs[name] <= {*columns}]
        ready = tuple(name for name in possible if not (before and self.needs[name] <= {*before}))
        keeps = np.ones(len(columns[CASE]), dtype=bool)
        if not ready or not len(keeps):
            return keeps
        results = self.results(ready, columns)
        for name in ready:
            holds = np.broadcast_to(results.spread(name) > 0, keeps.shape)
            self.drop(name, ~holds)
            keeps &= holds
        return keeps

    def drop(self, name: str, rows: Mask) -> None:
        """Counts the rows that a rule drops, for the message about an empty space."""
        if rows.any():
            self.dropped[name] += int(np.count_nonzero(rows))

    def kept_values(self, columns: Columns, name: str) -> Array:
        """The values of an axis for which at least one row keeps the rules that depend on no other axis."""
        values = self.axes[name]
        rules = tuple(
            n for n, needed in self.needs.items() if name in needed and not (needed & self.axes.keys()) - {name}
        )
        if not rules:
            return values
        results = self.results(rules, columns, {name: values})
        keeps = np.logical_and.reduce([results.whole(rule) > 0 for rule in rules])
        return np.compress(keeps.any(axis=0), values)

    def results(self, names: tuple[str, ...], columns: Columns, axes: Columns | None = None) -> Results:
        """The values of some quantities for each row and, if there is one, along an open axis."""
        if names not in self._plans:
            self._plans[names] = plan(self.catalogue, names, self.family.sources)
        joint = JointAxis(columns, tied=self.family.tied)
        return run(self._plans[names], self.family.sources.given, joint, axes, frozenset(names))


class Mappings:
    """The mappings of one family, chunk by chunk."""

    def __init__(self, sieve: Sieve, sweeps: Swept) -> None:
        self.sieve, self.family, self.sweeps = sieve, sieve.family, sweeps

    @cached_property
    def chunks(self) -> list[list[Unit]]:
        """The units of each chunk: cases, with ways to split their fast domain unless formulas place the degrees."""
        chunks: list[list[Unit]] = []
        rows = CHUNK_ROWS
        for unit, most in self._units():
            if rows >= CHUNK_ROWS:
                rows = 0
                chunks.append([])
            chunks[-1].append(unit)
            rows += most
        return chunks

    def columns(self, chunk: int) -> Columns:
        """The mappings of a chunk, by column."""
        units, family = self.chunks[chunk], self.family
        of_units = [self._degrees(family.cases[case], inner) for case, inner in units]
        degrees = dict(zip(family.degrees, np.ascontiguousarray(np.concatenate(of_units, axis=1)), strict=True))
        degrees[CASE] = np.repeat([float(case) for case, _ in units], [degrees.shape[1] for degrees in of_units])
        columns = self._sifted(degrees, ())
        batches = [np.array(case.batches, dtype=np.float64) for case in family.cases]
        columns = self._times(columns, BATCH, columns[CASE].astype(np.intp), batches)
        for name in sorted(family.beside, key=CHUNKS.__eq__):  # chunks last
            columns = self._times(columns, name, *self._values(name, columns))
        columns = self._filled(columns)
        shares, which = np.unique(columns[BATCH] / columns["data_parallel_degree"], return_inverse=True)
        return self._counted(self._times(columns, MICROBATCH, which, self._sizes(shares)))

    def _values(self, name: str, columns: Columns) -> tuple[NDArray[np.intp], list[Array]]:
        """For one more variable: which list of values each row takes, and the lists."""
        case = columns[CASE].astype(np.intp)
        if listed := self.family.beside[name]:
            return np.zeros_like(case), [np.array(listed, dtype=np.float64)]
        return values_beside(name, self.family.cases, case, columns, self.sweeps.space.every_placement)

    def _units(self) -> Iterator[tuple[Unit, int]]:
        """Each unit, with the largest number of its rows before any rule is checked."""
        kinds = len(self.family.kinds)
        for number, case in enumerate(self.family.cases):
            beside = self._beside(case)
            if not self.family.every:
                yield (number, None), len(splits(case.accelerators, kinds)) * beside
                continue
            for inside in fullest(case.accelerators, case.domain):
                inner, outer = splits(inside, kinds), splits(case.accelerators // inside, kinds)
                step = max(1, CHUNK_ROWS // (len(outer) * beside))
                for start in range(0, len(inner), step):
                    ways = inner[start : start + step]
                    yield (number, ways), len(ways) * len(outer) * beside

    def _beside(self, case: Case) -> int:
        """With how many values of other variables each placement of the degrees is tried."""
        listed = prod(len(values) for values in self.family.beside.values() if values)
        return len(case.batches) * listed * prod(most_values(name, case) for name in case.searched)

    def _degrees(self, case: Case, inner: Array | None) -> Array:
        """All degrees of one unit: a row for each name, a column for each mapping."""
        family, kinds = self.family, len(self.family.kinds)
        if inner is None:
            degrees = splits(case.accelerators, kinds).T
        else:
            outer = splits(case.accelerators // int(np.prod(inner[0])), kinds)
            inside, across = np.repeat(inner, len(outer), axis=0).T, np.tile(outer, (len(inner), 1)).T
            degrees = np.concatenate([np.stack([inside, across], axis=1).reshape(2 * kinds, -1), inside * across])
        tried = {**case.token_degrees, **({"pipeline": (family.stages,)} if family.stages else {})}
        for place, kind in enumerate(family.kinds, -kinds):
            if kind in tried:
                degrees = degrees[:, np.isin(degrees[place], tried[kind])]
        return degrees

    def _filled(self, columns: Columns) -> Columns:
        """Each row with each number of filled places in the fast domain that leads to another placement."""
        if not self.family.fills:
            return columns
        cases = [np.array(fillings(case.accelerators, case.domain), np.float64) for case in self.family.cases]
        grown = self._times(columns, FILLED, columns[CASE].astype(np.intp), cases)
        inside = self.sieve.results(PLACED, grown)
        placements = np.stack([*(grown[name] for name in columns), *(inside.whole(name) for name in PLACED)])
        return of_rows(grown, np.sort(np.unique(placements, axis=1, return_index=True)[1]))

    def _times(self, columns: Columns, name: str, which: NDArray[np.intp], values: list[Array]) -> Columns:
        """Each row with each value of one more variable, from its own list; rows that break a rule are dropped."""
        lengths = np.array([*map(len, values)], dtype=np.intp)
        counts = lengths[which]
        rows = np.repeat(np.arange(len(which)), counts)
        place = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        starts = np.cumsum(lengths) - lengths
        grown = of_rows(columns, rows)
        grown[name] = np.concatenate([*values, np.empty(0)])[starts[which][rows] + place]
        return self._sifted(grown, tuple(columns))

    def _sifted(self, columns: Columns, before: tuple[str, ...]) -> Columns:
        keeps = self.sieve.keeps(columns, before)
        for name, values in self.sweeps.listed.items():
            if name in columns and name not in before:
                holds = np.isin(columns[name], values)
                self.sieve.drop(f"{name} = {', '.join(f'{v:g}' for v in values)}", keeps & ~holds)
                keeps = keeps & holds
        return columns if keeps.all() else of_rows(columns, keeps)

    def _sizes(self, shares: Array) -> list[Array]:
        """The micro-batch sizes that divide each share of the batch."""
        unlimited = MICROBATCH in self.sweeps.listed or MICROBATCHES in self.sweeps.listed
        largest = float("inf") if unlimited else self.sweeps.space.largest_microbatch
        return [column_of_divisors(int(share), largest) if share == int(share) else np.empty(0) for share in shares]

    def _counted(self, columns: Columns) -> Columns:
        """The rows whose number of micro-batches is listed, if it is."""
        if MICROBATCHES not in self.sweeps.listed:
            return columns
        number = columns[BATCH] / columns["data_parallel_degree"] / columns[MICROBATCH]
        return of_rows(columns, np.isin(number, self.sweeps.listed[MICROBATCHES]))


def of_rows(columns: Columns, rows: slice | Mask | NDArray[np.intp]) -> dict[str, Array]:
    """Some rows of the columns."""
    return {name: column[rows] for name, column in columns.items()}


def _needs(rules: Plan, family: Family, variables: set[str]) -> dict[str, set[str]]:
    """For each rule, the variables that it depends on."""
    needs = {leaf: {CASE} if leaf in family.tied else {leaf} & variables for leaf in rules.leaves}
    for name, formula in rules.by_name.items():
        needs[name] = set().union(*(needs[argument] for argument in formula.arguments))
    return {name: needs[name] for name in rules.targets}
