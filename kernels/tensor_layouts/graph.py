"""The choice of layouts as a problem: tables of times over variables, and the rows that a solution may use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import permutations

from amped.base.errors import ConfigError, Problem
from amped.kernels.tensor_layouts.spec import LAYERS, Layouts, Operator
from amped.kernels.tensor_layouts.table import Table
from amped.kernels.tensor_layouts.variables import Choice, rows_of, variables_of


class InfeasibleError(ConfigError):
    """There are no layouts for which all operators have rows."""


@dataclass(frozen=True)
class Relation:
    """The rows of an operator.

    Attributes:
        variables: the names of the variables that its time depends on.
        times: the time (µs) for each choice of a layout for all these variables.
    """

    name: str
    variables: tuple[str, ...]
    times: Mapping[Choice, float] = field(repr=False)

    def on(self, choice: Choice, names: Sequence[str]) -> Choice:
        """The layouts that a choice has for some of the variables."""
        return tuple(choice[self.variables.index(name)] for name in names)

    def seen_on(self, names: Sequence[str]) -> set[Choice]:
        """All different layouts that the rows have for some of the variables."""
        return {self.on(choice, names) for choice in self.times}


def relations(table: Table, operators: Iterable[Operator]) -> list[Relation]:
    """The relation of each operator, from the rows of a table.

    Raises:
        InfeasibleError: with every operator that has no row.
    """
    rows = [
        Relation(o.name, variables_of(o), {c: float(row["time_us"]) for c, row in table.times(o.name).items()})
        for o in operators
    ]
    empty = [relation.name for relation in rows if not relation.times]
    if empty:
        raise InfeasibleError([Problem(f"the table has no row of {name}", advice="measure it anew") for name in empty])
    return rows


def consistent(given: Iterable[Relation]) -> list[Relation]:
    """The relations without rows that no solution can use (arc consistency).

    A row is removed if no row of another relation agrees with it on their shared variables, until nothing changes.

    Raises:
        InfeasibleError: with the operator that has no row left, and the operator that it disagrees with.
    """
    usable = list(given)
    pairs = [(one, other) for one, other in permutations(range(len(usable)), 2) if _shared(usable[one], usable[other])]
    waiting = dict.fromkeys(pairs)  # an ordered set: each pair once
    while waiting:
        one, other = next(iter(waiting))
        del waiting[one, other]
        agreeing = _agreeing(usable[one], usable[other])
        if len(agreeing.times) < len(usable[one].times):
            usable[one] = agreeing
            waiting |= dict.fromkeys(pair for pair in pairs if pair[1] == one)
    return usable


def _shared(relation: Relation, other: Relation) -> list[str]:
    """The names of the variables that two relations share."""
    return [name for name in relation.variables if name in other.variables]


def _agreeing(relation: Relation, other: Relation) -> Relation:
    """The first relation, with only those rows whose shared layouts occur in a row of the other relation.

    Raises:
        InfeasibleError: if no row is left.
    """
    shared = _shared(relation, other)
    choices = other.seen_on(shared)
    times = {choice: time for choice, time in relation.times.items() if relation.on(choice, shared) in choices}
    if not times:
        what = f"{relation.name} has no row that agrees with {other.name} on {', '.join(shared)}"
        raise InfeasibleError(what, f"measure more layouts of {relation.name} or {other.name}")
    return replace(relation, times=times)


def usable_rows(attention: str) -> dict[str, set[Choice]]:
    """The choices of each operator, by its name, that some plan of a whole layer can use."""
    all_rows = [Relation(o.name, variables_of(o), dict.fromkeys(rows_of(o), 0.0)) for o in LAYERS[attention]]
    return {relation.name: set(relation.times) for relation in consistent(all_rows)}


def layouts_seen(given: Sequence[Relation]) -> dict[str, list[str]]:
    """The layouts of each variable, by its name, that occur in rows."""
    names = dict.fromkeys(name for relation in given for name in relation.variables)
    return {name: sorted({c[0] for r in given if name in r.variables for c in r.seen_on((name,))}) for name in names}


def lower_bound(given: Iterable[Relation]) -> float:
    """The sum of the times (µs) of each operator's fastest row, even if these rows do not fit together."""
    return sum(min(relation.times.values()) for relation in given)


def time_of(given: Iterable[Relation], layouts: Layouts) -> float:
    """The predicted time (µs) of these layouts: the sum over all operators; infinite if one of them cannot run."""
    chosen = (r.times.get(tuple(layouts[name] for name in r.variables), float("inf")) for r in given)
    return sum(chosen)
