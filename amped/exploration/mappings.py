"""The valid mappings of a family, as columns: degrees that multiply to the machine, and what divides.

A unit is what one case places across domains in one way, or in a few ways inside the fast domain; a chunk is a run of
units, so that the space is never held whole. Each step multiplies the rows by one more variable and drops those that
break a rule.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from math import gcd, prod

import numpy as np
from numpy.typing import NDArray

from amped.engine.evaluate import Array
from amped.exploration.cases import CASE, Case, Family
from amped.exploration.divisibility import Sieve
from amped.exploration.factorizations import sizes, splits
from amped.exploration.search_space import BATCH, CHUNKS, MICROBATCH, PLACED, Space
from amped.exploration.sweep_axes import MICROBATCHES, Swept

Columns = dict[str, Array]
# Rows that one chunk starts from, before the micro-batches and the rules.
CHUNK_ROWS = 32_768
# A case, and the ways to split its fast domain: a row each.
Unit = tuple[Case, Array | None]


class Mappings:
    """The mappings of one family, chunk by chunk."""

    def __init__(self, family: Family, sweeps: Swept, space: Space, sieve: Sieve) -> None:
        self.family, self.sweeps, self.space, self.sieve = family, sweeps, space, sieve

    def chunks(self) -> Iterator[tuple[int, int]]:
        """The first unit of each chunk and the one behind its last."""
        first, rows = 0, 0
        for number, unit in enumerate(self.units):
            rows += self._most_rows(unit)
            if rows >= CHUNK_ROWS:
                yield first, number + 1
                first, rows = number + 1, 0
        if rows:
            yield first, len(self.units)

    def columns(self, first: int, stop: int) -> Columns:
        """The mappings of the units from `first` to `stop`."""
        units = self.units[first:stop]
        found = [self._degrees(case, inner) for case, inner in units]
        number = {id(case): float(place) for place, case in enumerate(self.family.cases)}
        table = np.concatenate(found, axis=1)
        columns = dict(zip(self.family.degrees, np.ascontiguousarray(table), strict=True))
        cases = [np.full(each.shape[1], number[id(case)]) for each, (case, _) in zip(found, units, strict=True)]
        columns[CASE] = np.concatenate(cases)
        columns = self._sifted(columns, ())
        batches = [np.array(case.batches, dtype=np.float64) for case in self.family.cases]
        columns = self._times(columns, BATCH, columns[CASE].astype(np.intp), batches)
        chunks = {CHUNKS: self.family.chunks} if self.family.chunks else {}
        for name, values in (self.sweeps.beside | chunks).items():
            alike = np.zeros(len(columns[CASE]), dtype=np.intp)
            columns = self._times(columns, name, alike, [np.array(values, dtype=np.float64)])
        shares, which = np.unique(columns[BATCH] / columns["data_parallel_degree"], return_inverse=True)
        return self._counted(self._times(columns, MICROBATCH, which, self._sizes(shares)))

    @cached_property
    def units(self) -> list[Unit]:
        """Each case with some ways to split its fast domain; where formulas place the degrees, each case."""
        return [unit for case in self.family.cases for unit in self._units(case)]

    def _units(self, case: Case) -> Iterator[Unit]:
        if not self.family.every:
            yield case, None
            return
        kinds, domain = len(self.family.kinds), gcd(case.accelerators, case.domain)
        inner, outer = splits(domain, kinds), splits(case.accelerators // domain, kinds)
        step = max(1, CHUNK_ROWS // (len(outer) * self._beside(case)))
        yield from ((case, inner[start : start + step]) for start in range(0, len(inner), step))

    def _most_rows(self, unit: Unit) -> int:
        """Rows of a unit before any rule is asked."""
        case, inner = unit
        inside = 1 if inner is None else int(np.prod(inner[0]))
        ways = len(splits(case.accelerators // inside, len(self.family.kinds))) * (1 if inner is None else len(inner))
        return ways * self._beside(case)

    def _beside(self, case: Case) -> int:
        """Values that each way to place the degrees is tried with."""
        chunks = len(self.family.chunks) or 1
        return len(case.batches) * chunks * prod(len(values) for values in self.sweeps.beside.values())

    def _degrees(self, case: Case, inner: Array | None) -> Array:
        """All degrees of one unit: a row for each name, a column for each mapping."""
        kinds = len(self.family.kinds)
        if inner is None:
            found = splits(case.accelerators, kinds).T
        else:
            outer = splits(case.accelerators // int(np.prod(inner[0])), kinds)
            inside, across = np.repeat(inner, len(outer), axis=0).T, np.tile(outer, (len(inner), 1)).T
            found = np.concatenate([np.stack([inside, across], axis=1).reshape(2 * kinds, -1), inside * across])
        if kinds == len(PLACED):
            found = found[:, np.isin(found[-1], case.context_degrees)]
        return found

    def _times(self, columns: Columns, name: str, which: NDArray[np.intp], values: list[Array]) -> Columns:
        """Each row with each value of one more variable, of the list which it has, less what breaks a rule."""
        lengths = np.array([len(each) for each in values], dtype=np.intp)
        counts = lengths[which]
        rows = np.repeat(np.arange(len(which)), counts)
        place = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        starts = np.cumsum(lengths) - lengths
        grown = {known: column[rows] for known, column in columns.items()}
        grown[name] = np.concatenate([*values, np.empty(0)])[starts[which][rows] + place]
        return self._sifted(grown, tuple(columns))

    def _sifted(self, columns: Columns, before: tuple[str, ...]) -> Columns:
        keeps = self.sieve.keeps(columns, before)
        for name, values in self.sweeps.listed.items():
            if name in columns and name not in before:
                holds = np.isin(columns[name], values)
                self.sieve.drop(f"{name} = {', '.join(f'{v:g}' for v in values)}", keeps & ~holds)
                keeps = keeps & holds
        return columns if keeps.all() else {name: column[keeps] for name, column in columns.items()}

    def _sizes(self, shares: Array) -> list[Array]:
        """The micro-batches that divide each share of the batch, or of them those listed."""
        unlimited = MICROBATCH in self.sweeps.listed or MICROBATCHES in self.sweeps.listed
        largest = float("inf") if unlimited else self.space.largest_microbatch
        return [sizes(int(share), largest) if share == int(share) else np.empty(0) for share in shares]

    def _counted(self, columns: Columns) -> Columns:
        """The rows whose number of micro-batches is one of those listed."""
        if MICROBATCHES not in self.sweeps.listed:
            return columns
        number = columns[BATCH] / columns["data_parallel_degree"] / columns[MICROBATCH]
        keeps = np.isin(number, self.sweeps.listed[MICROBATCHES])
        return {name: column[keeps] for name, column in columns.items()}


def of_rows(columns: Mapping[str, Array], rows: slice) -> Columns:
    """Some rows of columns."""
    return {name: column[rows] for name, column in columns.items()}
