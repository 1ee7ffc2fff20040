"""What was found in some parts of a space, small and plain, and how two findings become one.

Merging is associative and does not mind the order: whoever evaluates which parts, and when, the answer is the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, NamedTuple

# Names to numbers, booleans, rows and choices.
Row = dict[str, Any]
ALL = ""
RANKINGS = ("unfit", "near", "lacking", "simple", "front")
# How much slower than the best a candidate may be to be looked at as a tie; the band of an estimate is narrower, or cut here.
NEARLY = 1.5


class Ranked(NamedTuple):
    """A candidate, as it is ranked: by the objective, the memory, and its place, which no other has.

    Attributes:
        objective: smaller where it is better; of a Pareto front the first of its two, and `memory` the other.
        part, cell: its place in the space.
        case: its case in the family of its part.
        row: what is told of it.
    """

    objective: float
    memory: float
    part: int
    cell: int
    case: int
    row: Row


Ranking = tuple[Ranked, ...]


@dataclass(frozen=True)
class Found:
    """What was found in some parts.

    Attributes:
        top: how many of the best are kept.
        candidates: mappings whose degrees multiply and divide, times the swept values.
        feasible: those that keep every rule and wish, and fit in memory.
        removed: for each rule, wish and fits_in_memory how many candidates break it.
        best: the best feasible candidates of each group, the best first; one group `ALL` unless more are asked for.
        unfit: the best of those that keep every rule of the mapping but do not fit or break a wish.
        near: of those that only lack memory and would beat every feasible one, those than which none is as good and as small.
        lacking: where none is feasible, those of `unfit` that only lack memory and lack least of it; their `objective` is
            what is missing, in bytes.
        simple: of the feasible candidates that are nearly as fast as the best those than which none is as simple and as
            fast; their `objective` is the number of mechanisms that they use, their `memory` the true objective.
        front: the feasible candidates than which none is as good in both objectives.
        histogram: how many feasible candidates lie in each bin of the objective, by `histogram.py`.
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
        """The same as plain data for JSON, which loses no bit of a float."""
        return dict(vars(self))

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Found:
        """What JSON made of it."""
        lists = {name: _ranked(plain[name]) for name in RANKINGS}
        best = {group: _ranked(ranked) for group, ranked in plain["best"].items()}
        histogram = {int(place): count for place, count in plain["histogram"].items()}
        return cls(
            plain["top"], plain["candidates"], plain["feasible"], plain["removed"], best, **lists, histogram=histogram
        )


def merged(one: Found, other: Found) -> Found:
    """What was found in the parts of both."""
    best = {**one.best, **{g: best_of([*one.best.get(g, ()), *own], one.top) for g, own in other.best.items()}}
    return Found(
        one.top,
        one.candidates + other.candidates,
        one.feasible + other.feasible,
        _added(one.removed, other.removed),
        best,
        best_of([*one.unfit, *other.unfit], one.top),
        better_than(best, front_of([*one.near, *other.near])),
        () if one.feasible or other.feasible else best_of([*one.lacking, *other.lacking], one.top),
        nearly_as_good(best, front_of([*one.simple, *other.simple])),
        front_of([*one.front, *other.front]),
        _added(one.histogram, other.histogram),
    )


def all_of(parts: Mapping[int, Found], top: int) -> Found:
    """What was found in several parts, in their order."""
    return reduce(merged, (parts[number] for number in sorted(parts)), Found(top))


def best_of(ranked: Iterable[Ranked], top: int) -> Ranking:
    """The best few; ties go to the smaller memory, then to the earlier candidate."""
    return tuple(sorted(ranked)[:top])


def front_of(ranked: Iterable[Ranked]) -> Ranking:
    """Those than which no other is as good in objective and memory, one of each pair of values."""
    front: list[Ranked] = []
    for each in sorted(ranked):
        if not front or each.memory < front[-1].memory:
            front.append(each)
    return tuple(front)


def better_than(best: Mapping[str, Ranking], ranked: Iterable[Ranked]) -> Ranking:
    """Those that beat the best of every group."""
    least = min((kept[0].objective for kept in best.values() if kept), default=float("inf"))
    return tuple(each for each in ranked if each.objective < least)


def nearly_as_good(best: Mapping[str, Ranking], simple: Iterable[Ranked]) -> Ranking:
    """Those of the simple candidates that are nearly as good as the best of all."""
    least = min((kept[0].objective for kept in best.values() if kept), default=float("inf"))
    return tuple(each for each in simple if each.memory <= NEARLY * least)


def _added(one: Mapping[Any, int], other: Mapping[Any, int]) -> dict[Any, int]:
    return {name: one.get(name, 0) + other.get(name, 0) for name in sorted({*one, *other})}


def _ranked(plain: Iterable[Any]) -> Ranking:
    return tuple(Ranked(*each) for each in plain)
