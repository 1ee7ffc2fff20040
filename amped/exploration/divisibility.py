"""Divisibility before anything else: which tuples keep the rules, asked of the rules' own formulas."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from amped.engine.axes import JointAxis
from amped.engine.evaluate import Array, run
from amped.engine.resolve import Plan, plan
from amped.exploration.cases import CASE, Family
from amped.exploration.search_space import BATCH, CHUNKS
from amped.exploration.sweep_axes import BESIDE, SEARCHED
from amped.theory.catalogue import Catalogue

# Rules on these say that degrees multiply and that things divide: what breaks one is no candidate.
DIVIDES = frozenset((*SEARCHED, *BESIDE, BATCH, CHUNKS))


class Sieve:
    """The rules of a family that say what divides, each asked as soon as its variables are there."""

    def __init__(self, catalogue: Catalogue, family: Family, axes: Mapping[str, Array], beside: Iterable[str]) -> None:
        self.catalogue, self.family, self.axes = catalogue, family, axes
        self.needs = _needs(
            plan(catalogue, catalogue.constraints, family.sources), family, {*family.joint, *beside, *axes}
        )
        self.early = tuple(
            name for name, needed in self.needs.items()
            if catalogue[name].mark.constrains in DIVIDES and not needed & axes.keys()
        )  # fmt: skip
        self.dropped = Counter[str]()
        self._plans: dict[tuple[str, ...], Plan] = {}

    def late(self) -> tuple[str, ...]:
        """The rules that are left for the evaluation."""
        return tuple(name for name in self.needs if name not in self.early)

    def keeps(self, columns: Mapping[str, Array], before: Iterable[str]) -> NDArray[np.bool_]:
        """Which rows keep the rules that can be asked now and could not with the columns there were before."""
        held, known = set(before), columns.keys() | {CASE}
        ready = tuple(n for n in self.early if self.needs[n] <= known and not (held and self.needs[n] <= held | {CASE}))
        keeps = np.ones(len(columns[CASE]), dtype=bool)
        if not ready or not len(keeps):
            return keeps
        results = run(self._plan(ready), self.family.sources.given, JointAxis(columns, tied=self.family.tied), {},
                      frozenset(ready))  # fmt: skip
        for name in ready:
            holds = np.broadcast_to(results.spread(name) > 0, keeps.shape)
            self.drop(name, ~holds)
            keeps &= holds
        return keeps

    def drop(self, name: str, rows: NDArray[np.bool_]) -> None:
        """Counts rows that something drops, to tell why a space is empty."""
        if rows.any():
            self.dropped[name] += int(np.count_nonzero(rows))

    def kept_values(self, columns: Mapping[str, Array], name: str) -> Array:
        """The values of an axis with which some row keeps the rules that depend on that axis alone."""
        values = self.axes[name]
        rules = tuple(
            n for n, needed in self.needs.items() if name in needed and not (needed & self.axes.keys()) - {name}
        )
        if not rules:
            return values
        joint = JointAxis(columns, tied=self.family.tied)
        results = run(self._plan(rules), self.family.sources.given, joint, {name: values}, frozenset(rules))
        keeps = np.logical_and.reduce([results.whole(rule) > 0 for rule in rules])
        kept: Array = values[keeps.any(axis=0)]
        return kept

    def _plan(self, rules: tuple[str, ...]) -> Plan:
        if rules not in self._plans:
            self._plans[rules] = plan(self.catalogue, rules, self.family.sources)
        return self._plans[rules]


def _needs(rules: Plan, family: Family, variables: set[str]) -> dict[str, set[str]]:
    """For each rule, the variables that it follows from."""
    needs: dict[str, set[str]] = {}
    for leaf in rules.leaves:
        needs[leaf] = {CASE} if leaf in family.tied else {leaf} & variables
    for name, formula in rules.by_name.items():
        needs[name] = set().union(*(needs[argument] for argument in formula.arguments))
    return {name: needs[name] for name in rules.targets}
