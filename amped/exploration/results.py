"""The finding of some parts of a space, as small plain data; and how two findings become one.

Merging is associative and commutative: the answer does not depend on who evaluates which part, and when.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from functools import reduce
from itertools import chain
from typing import Any, NamedTuple

from amped.base.record import dataclass

# A row of a candidate: its numbers, booleans, table rows and choices by name.
Row = dict[str, Any]
ALL = ""
RANKINGS = ("unfit", "near", "lacking", "simple", "front")
# How much slower than the best one a candidate may be to count as a tie; the error band is cut to this.
NEARLY = 1.5


class Ranked(NamedTuple):
    """A candidate with the values that rank it: its objective, its memory, and its place, which is unique.

    Attributes:
        objective, memory: both are smaller for better candidates. On a Pareto front, they are its two objectives.
        part, cell: the candidate's place in the space.
        case: the number of its case in its family.
        row: the values that are shown for it.
    """

    objective: float
    memory: float
    part: int
    cell: int
    case: int
    row: Row


Ranking = tuple[Ranked, ...]


@dataclass(frozen=True)
class Finding:
    """The finding of some parts.

    Attributes:
        top: how many of the best candidates are kept.
        candidates: the number of mappings whose degrees multiply and divide as they must, times the swept values.
        feasible: the number of candidates that keep every rule and wish, and fit in memory.
        removed: for each rule, each wish and fits_in_memory, how many candidates break it.
        best: the best feasible candidates of each group, in order of rank; without groups, there is one group `ALL`.
        unfit: the best of the candidates that keep every rule of the mapping, but do not fit or break a wish.
        near: the Pareto front of objective and memory of those that only lack memory and would beat every feasible one.
        lacking: if none is feasible, those that only lack memory, and lack the least of it; their `objective` is the
            missing memory in bytes.
        simple: the Pareto front of simplicity and speed of those that are nearly as fast as the best; their `objective`
            is the number of mechanisms that they use, and their `memory` is the true objective.
        front: the feasible candidates for which no other is as good in both objectives.
        histogram: how many feasible candidates lie in each bin of the objective (`histogram.py`).
    """

    top: int
    candidates: int = 0
    feasible: int = 0
    removed: Mapping[str, int] = field(default_factory=dict)
    best: Mapping[str, Ranking] = field(default_factory=dict)
    unfit: Ranking = ()
    near: Ranking = ()
    lacking: Ranking = ()
    simple: Ranking = ()
    front: Ranking = ()
    histogram: Mapping[int, int] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """The finding as plain data for JSON, which keeps all bits of a float."""
        return dict(vars(self))

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Finding:
        """The finding from the plain data that JSON gives."""
        rankings = {name: _ranked(plain[name]) for name in RANKINGS}
        best = {group: _ranked(rows) for group, rows in plain["best"].items()}
        histogram = {int(place): count for place, count in plain["histogram"].items()}
        return cls(**{**plain, **rankings, "best": best, "histogram": histogram})


def merged(one: Finding, other: Finding) -> Finding:
    """The finding of the parts of both."""
    top, feasible = one.top, one.feasible + other.feasible
    best = {**one.best, **{g: best_of(top, one.best.get(g, ()), ranking) for g, ranking in other.best.items()}}
    smallest = smallest_of(best)
    return Finding(
        top=top,
        candidates=one.candidates + other.candidates,
        feasible=feasible,
        removed=_added(one.removed, other.removed),
        best=best,
        unfit=best_of(top, one.unfit, other.unfit),
        near=tuple(ranked for ranked in front_of(one.near, other.near) if ranked.objective < smallest),
        lacking=() if feasible else best_of(top, one.lacking, other.lacking),
        simple=tuple(r for r in front_of(one.simple, other.simple) if r.memory <= NEARLY * smallest),
        front=front_of(one.front, other.front),
        histogram=_added(one.histogram, other.histogram),
    )


def all_of(parts: Mapping[int, Finding], top: int) -> Finding:
    """The finding of several parts, merged in order."""
    return reduce(merged, (parts[number] for number in sorted(parts)), Finding(top))


def best_of(top: int, *rankings: Ranking) -> Ranking:
    """The best few candidates of all rankings; ties go to the smaller memory, then to the earlier candidate."""
    return tuple(sorted(chain(*rankings))[:top])


def front_of(*rankings: Ranking) -> Ranking:
    """The candidates for which no other is as good in objective and memory; one of each pair of values."""
    front: list[Ranked] = []
    for ranked in sorted(chain(*rankings)):
        if not front or ranked.memory < front[-1].memory:
            front.append(ranked)
    return tuple(front)


def smallest_of(best: Mapping[str, Ranking]) -> float:
    """The objective of the best candidate of all groups; without candidates, infinity."""
    return min((ranking[0].objective for ranking in best.values()), default=float("inf"))


def _added(one: Mapping[Any, int], other: Mapping[Any, int]) -> dict[Any, int]:
    return {name: one.get(name, 0) + other.get(name, 0) for name in sorted({*one, *other})}


def _ranked(plain: Iterable[Any]) -> Ranking:
    return tuple(Ranked(*values) for values in plain)
