"""The answer of an exploration: counts, the best candidates with all results, and what prevents better ones."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from typing import Any

import numpy as np

from amped.base.errors import AmpedError
from amped.base.record import dataclass
from amped.configuring.scenario import Scenario, asked_again
from amped.engine.axes import JointAxis
from amped.engine.evaluate import run
from amped.engine.resolve import plan
from amped.estimation.estimation import MAPPING_ECHO, OPTIONAL_RESULTS, RESULTS, estimated
from amped.estimation.remedies import smallest_change
from amped.exploration.all_candidates import FEASIBLE, FITS
from amped.exploration.asked_space import searched
from amped.exploration.best_of_block import AVAILABLE
from amped.exploration.cases import CASE
from amped.exploration.constraints import Wish
from amped.exploration.histogram import bins
from amped.exploration.request import Options
from amped.exploration.results import ALL, NEARLY, Found, Ranked, Row
from amped.exploration.running import ALONE, Run, found_in
from amped.exploration.search import COLUMNS, Branch, Search
from amped.exploration.search_space import HEADROOM, HEADROOM_BYTES, WHERE_NOTHING_FITS, WITH_HEADROOM, wholes_of

GIGABYTE = 1e9
NO_HEADROOM = {HEADROOM: 0.0, HEADROOM_BYTES: 0.0}


@dataclass(frozen=True)
class Exploration:
    """The result of an exploration.

    Attributes:
        candidates: the number of mappings whose degrees multiply and divide as they must, times the swept values. For
            each, step and training time with their parts, throughput, utilization and memory were computed.
        feasible: the number of candidates that keep every rule and wish, and fit in memory.
        removed: for each rule, how many candidates break it; for fits_in_memory, how many keep every rule and do not
            fit; for each wish, how many of those that fit break it.
        elapsed_time: the seconds that the exploration took.
        best: the best feasible candidates, with every swept parameter and result by name. If there is none, the
            candidates that lack the least memory, with `missing_memory_bytes`; if they lack no memory, the best of the
            others.
        swept: the names of the columns that were swept.
        units: the canonical units of these columns.
        groups: the best candidates of each group, by the group's values as JSON, if the user asked for groups.
        front: the Pareto front, if the user asked for one.
        nearest: the candidate that would beat the best one and lacks the least memory for it, or else that only breaks
            a wish; if none is feasible, the candidate that lacks the least memory.
        objective: the quantity that ranks.
        more: whether more of the objective is better.
        histogram: the bins of the objective: where each begins and ends, and how many feasible candidates it has.
        simple: candidates that are nearly as fast as the best, and for which no other is as simple and as fast; the
            simplest first, each with `number_of_mechanisms`.
        held: what was not searched, in words.
        lacks_headroom: whether no candidate leaves the headroom free, so that those that fit without it are ranked.
    """

    candidates: int
    feasible: int
    removed: dict[str, int]
    elapsed_time: float
    best: list[Row]
    swept: tuple[str, ...]
    units: dict[str, str]
    groups: dict[str, list[Row]] = field(default_factory=dict)
    front: list[Row] = field(default_factory=list)
    nearest: Row | None = None
    objective: str = "training_time"
    more: bool = False
    wishes: tuple[str, ...] = ()
    histogram: list[tuple[float, float, int]] = field(default_factory=list)
    simple: list[Row] = field(default_factory=list)
    held: str = ""
    lacks_headroom: bool = False
    search: Search | None = field(default=None, repr=False, compare=False)

    @cached_property
    def needs(self) -> str:
        """What the nearest candidate would need, in words; it is computed when somebody asks for it."""
        return what_it_needs(self.search, self.nearest) if self.search and self.nearest else ""

    @cached_property
    def error_fraction(self) -> float:
        """The error band of the best candidate, at most the one in which ties are searched; zero if it is unknown."""
        if self.search is None or not self.simple:
            return 0.0
        asked = asked_again(self.search.scenario.question, settings(self.search, self.best[0]))
        band = estimated(asked).error_band
        return min(band.error_fraction, NEARLY - 1) if band is not None and math.isfinite(band.error_fraction) else 0.0

    @cached_property
    def ties(self) -> list[Row]:
        """Simpler candidates that are as fast as the best one within its error band, the simplest first."""
        most = self.best[0][self.objective] * (1 + self.error_fraction) if self.simple else 0.0
        return [row for row in self.simple if row[self.objective] <= most and row != self.simple[-1]]

    @property
    def columns(self) -> list[str]:
        """The names of a row of `best`."""
        return list(dict.fromkeys(n for row in self.best for n in row)) or [*self.swept, *COLUMNS]

    def to_dict(self) -> dict[str, Any]:
        """The exploration as plain data."""
        told = {"candidates": self.candidates, "feasible": self.feasible, "removed": self.removed,
                "elapsed_time": self.elapsed_time, "best": self.best, "ties": self.ties, "held": self.held,
                "lacks_headroom": self.lacks_headroom}  # fmt: skip
        fronted = self.search is not None and bool(self.search.front)
        return told | ({"front": self.front} if fronted else {})


def explored(
    scenario: Scenario, options: Options, vary: Mapping[str, Sequence[object]] | None = None, run: Run = ALONE
) -> Exploration:
    """Evaluates every valid mapping of the scenario, part by part.

    If nothing leaves the headroom free, the same is searched without headroom. If nothing fits in memory, a larger space
    is searched, with offload and recomputation of single modules.

    Args:
        scenario: the config; its degrees, its micro-batch and the names of the space are searched, all else is kept.
        options: what is searched, and how it is ranked.
        vary: further swept names, in addition to the lists of the config.
        run: what evaluates the parts, what is kept of them, and what shows the progress.

    Raises:
        ConfigError: for an impossible sweep, or if the degrees of no mapping multiply and divide as they must.
        EvaluationError: for a result that is not a finite number.
    """
    started = time.perf_counter()
    search = searched(scenario, options, vary)
    if run.keep is not None:
        run.keep.start(kinds_of_every(search))
    found = found_in(search, run)
    if found.feasible or not found.lacking or run.keep is not None:
        return answer(search, found, started)
    wider, bare = WHERE_NOTHING_FITS.get(options.space), asked_again(scenario.question, NO_HEADROOM)
    spaces = (options.space, wider) if wider else (options.space,)
    asked = [(one, space) for space in spaces for one in ((scenario, bare) if search.has_headroom else (scenario,))]
    for one, space in asked[1:]:
        more = searched(one, replace(options, space=space), vary)
        found_there = found_in(more, replace(run, findings=None))
        if found_there.feasible:
            return replace(answer(more, found_there, started), lacks_headroom=one is bare)
    return answer(search, found, started)


def kinds_of_every(search: Search) -> dict[str, type]:
    """The columns that a search writes for every candidate: swept values, results, whether it fits and is feasible."""
    outer = {name: value for branch in search.branches for name, value in branch.family.cases[0].outer.items()}
    kinds: dict[str, type] = {name: type(outer.get(name, 0.0)) for name in search.swept}
    kinds |= dict.fromkeys(wholes_of(kinds), float)
    kinds |= {name: float for branch in search.branches for name in branch.wanted.told if name not in kinds}
    return kinds | {FITS: bool, FEASIBLE: bool}


def answer(search: Search, found: Found, started: float) -> Exploration:
    """The result of all parts of a search, with all results for the rows that are shown."""
    groups = {group: list(found.best[group]) for group in sorted(found.best, key=_in_order)}
    best = groups.pop(ALL, None)
    if best is None:
        best = sorted(each for ranked in groups.values() for each in ranked)[: found.top]
    better = [each for each in found.unfit[:1] if not best or each.objective < best[0].objective]
    nearest = [*found.lacking[:1], *found.near[-1:], *better][:1]
    told = best or list(found.lacking or found.unfit)
    ranked = [*told, *found.front, *found.simple, *nearest, *(each for own in groups.values() for each in own)]
    rows = _completed(search, ranked)
    missing = [] if best else [{"missing_memory_bytes": each.objective} for each in found.lacking]
    simple = [rows[e.part, e.cell] | {"number_of_mechanisms": int(e.objective)} for e in found.simple]

    def of(ranked: Iterable[Ranked]) -> list[Row]:
        return [rows[each.part, each.cell] for each in ranked]

    units = {n: search.catalogue[n].mark.unit for n in search.swept if n in search.catalogue}
    return Exploration(
        found.candidates, found.feasible, dict(found.removed), time.perf_counter() - started,
        [row | more for row, more in zip(of(told), missing or [{}] * len(told), strict=True)],
        search.swept, units, {group: of(ranked) for group, ranked in groups.items()}, of(found.front),
        next(iter(of(nearest)), None), search.objective.name, search.objective.sign < 0,
        tuple(wish.written for wish in search.wishes), bins(found.histogram), simple, _held(search), search=search,
    )  # fmt: skip


def _held(search: Search) -> str:
    """What was not searched, in words: what the space leaves out, and what the user set."""
    own = [*search.sweeps.held, *sorted(name for name in search.sweeps.settled if name not in search.sweeps.beside)]
    return f"{search.space.held}; set: {', '.join(own)}" if own else search.space.held


def _in_order(group: str) -> list[tuple[bool, Any]]:
    """The key that sorts groups by their values, numbers before texts."""
    return [(isinstance(value, str), value) for value in json.loads(group or "[]")]


def _completed(search: Search, ranked: Sequence[Ranked]) -> dict[tuple[int, int], Row]:
    """For each part and cell, the row with all results. The rows of a branch are computed together."""
    branch_of = {part.number: part.branch for part in search.parts}
    rows: dict[tuple[int, int], Row] = {}
    for number, branch in enumerate(search.branches):
        own = [each for each in ranked if branch_of[each.part] == number]
        if own:
            rows |= zip([(each.part, each.cell) for each in own], _results(search, branch, own), strict=True)
    return rows


def _results(search: Search, branch: Branch, ranked: Sequence[Ranked]) -> Iterator[Row]:
    family, known = branch.family, search.catalogue
    names = (*family.joint, *search.sweeps.axes)
    columns = {name: np.array([each.row[name] for each in ranked]) for name in names if name in ranked[0].row}
    columns |= {whole: columns[one] * columns[other] for whole, (one, other) in wholes_of(columns).items()}
    columns[CASE] = np.array([float(each.case) for each in ranked])
    own = [o.name for o in (search.objective, *search.front)]
    own += [name for wish in search.wishes for name in (wish.name, *wish.quantities) if not known[name].is_selector]
    wanted = dict.fromkeys((*COLUMNS, *RESULTS, *MAPPING_ECHO, *own))
    given = {n: v for n, v in family.sources.given.items() if n in columns or n not in names}
    chosen = plan(known, wanted, replace(family.sources, given=given), OPTIONAL_RESULTS)
    results = run(chosen, given, JointAxis(columns, tied=family.tied), keep=frozenset(chosen.targets))
    found = {name: results.whole(name) for name in chosen.targets}
    told = [(column > 0 if known[name].mark.unit == "boolean" else column).tolist() for name, column in found.items()]
    for each, *values in zip(ranked, *told, strict=True):
        yield each.row | dict(zip(found, values, strict=True))


def what_it_needs(search: Search, row: Row) -> str:
    """What the candidate of a row would need, in words."""
    return "; ".join([*_memory(search, row), *(_broken(w, row) for w in search.wishes if not _fulfilled(w, row))])


def settings(search: Search, row: Row) -> dict[str, object]:
    """The settings of a config that give the candidate of a row."""
    return {name: row[name] for name in search.swept if name in row}


def _memory(search: Search, row: Row) -> Iterator[str]:
    if row["fits_in_memory"]:
        return
    try:
        e = estimated(asked_again(search.scenario.question, settings(search, row)))
    except AmpedError:  # a mapping that no config can describe
        yield "needs more memory"
        return
    lacking = e["memory_per_accelerator_bytes"] - e["available_memory_bytes"]
    told = f"{lacking / GIGABYTE:.3g} GB more memory for each accelerator" if lacking > 0 else "more memory on the host"
    yield f"It needs {told}, or {smallest_change(e)}"


def _fulfilled(wish: Wish, row: Row) -> bool:
    if isinstance(wish.value, str):
        return wish.chosen(str(row.get(wish.name, wish.value)))
    return bool(wish.holds(row.__getitem__))


def _broken(wish: Wish, row: Row) -> str:
    if wish.name == WITH_HEADROOM:
        needed, there = (row[name] / GIGABYTE for name in (WITH_HEADROOM, AVAILABLE))
        return f"It needs {needed:.1f} GB with the headroom (--headroom), and {there:.1f} GB are there"
    told = (f"its {n} is {v if isinstance(v := row[n], str) else f'{v:.6g}'}" for n in wish.quantities or (wish.name,))
    return f"{', '.join(told)}, and {wish.written} was asked for"
