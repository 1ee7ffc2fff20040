"""The choice of layouts as a problem: tables of times over variables, and the rows that a solution may use."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import permutations
from operator import itemgetter

from amped.base.errors import ConfigError, Problem
from amped.kernels.layouts.spec import LAYERS, Operator
from amped.kernels.layouts.table import Table
from amped.kernels.layouts.variables import rows_of, variables_of

Choice = tuple[str, ...]


class InfeasibleError(ConfigError):
    """There are no layouts for which all operators have rows."""


@dataclass(frozen=True)
class Relation:
    """The rows of an operator: the time (µs) for each choice of its variables."""

    name: str
    variables: tuple[str, ...]
    times: Mapping[Choice, float] = field(repr=False)

    def restricted(self, domains: Mapping[str, set[str]]) -> Relation:
        """The relation with only the rows whose layouts are all in the domains."""
        allowed = [domains.get(name) for name in self.variables]
        kept = {
            choice: time for choice, time in self.times.items()
            if all(among is None or layout in among for layout, among in zip(choice, allowed, strict=True))
        }  # fmt: skip
        return Relation(self.name, self.variables, kept)

    def seen_on(self, names: tuple[str, ...]) -> set[Choice]:
        """The choices of some of its variables that its rows have."""
        places = [self.variables.index(name) for name in names]
        return {tuple(choice[place] for place in places) for choice in self.times}


def relations(table: Table, operators: Iterable[Operator]) -> list[Relation]:
    """The rows of each operator.

    Raises:
        InfeasibleError: with every operator that has no row.
    """
    found = []
    for operator in operators:
        rows = table.times(operator.name)
        found.append(
            Relation(operator.name, variables_of(operator), {c: float(row["time_us"]) for c, row in rows.items()})
        )
    empty = [relation.name for relation in found if not relation.times]
    if empty:
        raise InfeasibleError([Problem(f"the table has no row of {name}") for name in empty], "measure it anew")
    return found


def consistent(given: Iterable[Relation], bound: Mapping[str, str] | None = None) -> list[Relation]:
    """The relations without rows that agree with no row of a neighbor (arc consistency), until nothing changes.

    Args:
        given: the relations.
        bound: the layouts that are already chosen.

    Raises:
        InfeasibleError: with the operator that has no row left, and the operator that it disagrees with.
    """
    domains = {name: {layout} for name, layout in (bound or {}).items()}
    found = [relation.restricted(domains) for relation in given]
    for relation in found:
        if not relation.times:
            told = ", ".join(f"{name} as {bound[name]}" for name in relation.variables if bound and name in bound)
            raise InfeasibleError(f"{relation.name} has no row with {told}", "measure more layouts, or choose others")
    meetings = _meetings(tuple(relation.variables for relation in found))
    waiting = dict.fromkeys(meetings)  # an ordered set: each pair once
    while waiting:
        one, other = next(iter(waiting))
        del waiting[one, other]
        kept = _agreeing(found[one], found[other], meetings[one, other])
        if len(kept.times) < len(found[one].times):
            found[one] = kept
            waiting |= dict.fromkeys(pair for pair in meetings if pair[1] == one)
    return found


@dataclass(frozen=True)
class _Meeting:
    """The variables that two relations share, and functions that take their layouts from a row of either."""

    shared: tuple[str, ...]
    of_one: Callable[[Choice], str | Choice]
    of_other: Callable[[Choice], str | Choice]


@cache
def _meetings(variables: tuple[tuple[str, ...], ...]) -> dict[tuple[int, int], _Meeting]:
    """All pairs of relations that share variables; the relations are given by their variables."""
    found = {}
    for (one, first), (other, second) in permutations(enumerate(variables), 2):
        if shared := tuple(name for name in first if name in second):
            pickers = (itemgetter(*map(each.index, shared)) for each in (first, second))
            found[one, other] = _Meeting(shared, *pickers)
    return found


def _agreeing(relation: Relation, other: Relation, meeting: _Meeting) -> Relation:
    """The relation with only the rows whose shared layouts occur in some row of another relation."""
    known = set(map(meeting.of_other, other.times))
    kept = {choice: time for choice, time in relation.times.items() if meeting.of_one(choice) in known}
    if not kept:
        told = f"{relation.name} has no row that agrees with {other.name} on {', '.join(meeting.shared)}"
        raise InfeasibleError(told, f"measure more layouts of {relation.name} or {other.name}")
    return Relation(relation.name, relation.variables, kept)


def usable_rows(attention: str) -> dict[str, set[Choice]]:
    """The rows of each operator that a whole layer may use; other rows need not be measured."""
    every = [Relation(o.name, variables_of(o), dict.fromkeys(rows_of(o), 0.0)) for o in LAYERS[attention]]
    return {relation.name: set(relation.times) for relation in consistent(every)}


def layouts_seen(given: Sequence[Relation]) -> dict[str, list[str]]:
    """The layouts of each variable that occur in rows."""
    names = dict.fromkeys(name for relation in given for name in relation.variables)
    return {name: sorted({c[0] for r in given if name in r.variables for c in r.seen_on((name,))}) for name in names}


def lower_bound(given: Iterable[Relation]) -> float:
    """The sum of every operator's fastest row (µs), even if these rows do not fit together."""
    return sum(min(relation.times.values()) for relation in given)


def time_of(given: Iterable[Relation], layouts: Mapping[str, str]) -> float:
    """The predicted time (µs) of a choice: the sum over all operators; infinite if one cannot run."""
    chosen = (r.times.get(tuple(layouts[name] for name in r.variables), float("inf")) for r in given)
    return sum(chosen)
