"""The answer of an exploration: counts, the best with every result, and what stood in the way of better ones."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from amped.base.errors import ConfigError
from amped.configuring.scenario import Scenario
from amped.engine.axes import JointAxis
from amped.engine.evaluate import run
from amped.engine.resolve import plan
from amped.estimation.estimation import MAPPING_ECHO, OPTIONAL_RESULTS, RESULTS
from amped.exploration.all_candidates import FEASIBLE, FITS, whole_of
from amped.exploration.divisibility import CASE
from amped.exploration.histogram import bins
from amped.exploration.infeasibility import what_it_needs
from amped.exploration.request import Options, Request
from amped.exploration.results import ALL, Found, Ranked, Row
from amped.exploration.running import ALONE, Run, found_in
from amped.exploration.search import COLUMNS, Search

# Candidates above which it is asked whether that is meant.
MOST = 20_000_000_000


@dataclass(frozen=True)
class Exploration:
    """What an exploration found.

    Attributes:
        candidates: mappings whose degrees multiply and divide, times the swept values; of each, step and training time
            with their parts, throughput, utilization and memory were computed.
        feasible: those that keep every rule and wish, and fit in memory.
        removed: for each rule how many candidates break it; under fits_in_memory how many keep every rule and do not fit;
            under each wish how many of those that fit break it.
        elapsed_time: seconds.
        best: the best feasible candidates, every swept parameter and result by name; if there is none, the best others.
        swept: names of the columns that were swept, `units` their canonical units.
        groups: the best of each group, where groups were asked for, by the group's values as JSON.
        front: the Pareto front, where one was asked for.
        nearest: what would beat the best and lacks least memory for it, or else only breaks a wish.
        objective: what was ranked by; `more` whether more of it is better.
        histogram: how the feasible candidates lie by the objective: where each bin begins and ends, and how many it has.
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
    search: Search | None = field(default=None, repr=False, compare=False)

    @cached_property
    def needs(self) -> str:
        """What the nearest would need, in words: sought when it is asked for."""
        return what_it_needs(self.search, self.nearest) if self.search and self.nearest else ""

    @property
    def columns(self) -> list[str]:
        """The names of a row of `best`."""
        return list(dict.fromkeys(n for row in self.best for n in row)) or [*self.swept, *COLUMNS]

    def to_dict(self) -> dict[str, Any]:
        """The same as plain data."""
        told = {"candidates": self.candidates, "feasible": self.feasible, "removed": self.removed,
                "elapsed_time": self.elapsed_time, "best": self.best}  # fmt: skip
        fronted = self.search is not None and bool(self.search.front)
        return told | ({"front": self.front} if fronted else {})


def explored(
    scenario: Scenario, options: Options, vary: Mapping[str, Sequence[object]] | None = None, run: Run = ALONE
) -> Exploration:
    """Evaluates every valid mapping of the scenario, part by part.

    Args:
        scenario: the config; its degrees and micro-batch are searched, with what the space has; all else is kept.
        options: what is searched, and how it is ranked.
        vary: further swept names, over the lists of the config.
        run: who evaluates the parts, what is kept of them, and who is told.

    Raises:
        ConfigError: for a sweep that cannot be, or if no mapping multiplies and divides.
        EvaluationError: for a result that is no number.
    """
    started = time.perf_counter()
    search = searched(scenario, options, vary)
    if run.keep is not None:
        run.keep.start(kinds_of_every(search))
    return answer(search, found_in(search, run), started)


def searched(scenario: Scenario, options: Options, vary: Mapping[str, Sequence[object]] | None = None) -> Search:
    """The space to explore; arguments as of `explored`.

    Raises:
        ConfigError: for a sweep that cannot be, an empty space, or one that takes very long where that is not meant.
    """
    search = Search(Request(scenario.question, _as_tuples(vary or {}), options))
    if search.candidates > MOST and not options.yes:
        raise ConfigError(_too_many(search), "--yes explores them all the same; fewer values or --set make it smaller")
    return search


def kinds_of_every(search: Search) -> dict[str, type]:
    """The columns that a search hands out: swept values, results, and whether all is kept."""
    kinds: dict[str, type] = {}
    for family in search.families:
        kinds |= dict.fromkeys(family.told, float) | {n: type(v) for n, v in family.cases[0].outer.items()}
    kinds |= dict.fromkeys((*search.sweeps.beside, *(n for axes in search.axes for n in axes)), float)
    kinds |= {whole: float for name in kinds if (whole := whole_of(name))}
    results = (name for chosen in search.plans for name in chosen.targets)
    kinds |= {n: float for n in results if n not in kinds and not search.catalogue[n].mark.constrains}
    return kinds | {FITS: bool, FEASIBLE: bool}


def _too_many(search: Search) -> str:
    """The size of a space, and the time it would take by that of a piece of it."""
    started, part = time.perf_counter(), search.sample()
    search.evaluate(part)
    hours = search.candidates / part.candidates * (time.perf_counter() - started) / 3600
    return f"the space has {search.candidates:,} candidates, which take about {hours:,.1f} hours on one core"


def _as_tuples(vary: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(values) if isinstance(values, list) else values for name, values in vary.items()}


def answer(search: Search, found: Found, started: float) -> Exploration:
    """What was found in all parts of a search, with every result of the rows that are told."""
    groups = {group: list(found.best[group]) for group in sorted(found.best, key=_in_order)}
    best = groups.pop(ALL, None)
    if best is None:
        best = sorted((each for ranked in groups.values() for each in ranked), key=lambda each: each.key)[: found.top]
    better = [each for each in found.unfit[:1] if not best or each.key[0] < best[0].key[0]]
    nearest = [*found.near[-1:], *better][:1]
    told = best or list(found.unfit)
    rows = iter(_completed(search, [*told, *found.front, *nearest, *(r for ranked in groups.values() for r in ranked)]))
    filled = [[next(rows) for _ in each] for each in (told, found.front, nearest)]
    axes = [name for axes in search.axes for name in axes]
    own = [name for family in search.families for name in (*family.told, *family.cases[0].outer)]
    names = (*own, *search.sweeps.beside, *axes)
    units = {n: search.catalogue[n].mark.unit for n in names if n in search.catalogue}
    return Exploration(
        found.candidates, found.feasible, dict(found.removed), time.perf_counter() - started, filled[0],
        tuple(dict.fromkeys(names)), units, {group: [next(rows) for _ in ranked] for group, ranked in groups.items()},
        filled[1], filled[2][0] if nearest else None, search.objective.name, search.objective.sign < 0,
        tuple(wish.written for wish in search.wishes), bins(found.histogram), search,
    )  # fmt: skip


def _in_order(group: str) -> list[tuple[bool, Any]]:
    """Groups by the values of their names, numbers before texts."""
    return [(isinstance(value, str), value) for value in json.loads(group or "[]")]


def _completed(search: Search, ranked: Sequence[Ranked]) -> list[Row]:
    """The rows with every result, computed for all of a family at once by the same formulas."""
    family_of = {part.number: part.family for part in search.parts}
    rows: list[Row] = [{} for _ in ranked]
    for number in range(len(search.families)):
        places = [place for place, each in enumerate(ranked) if family_of[each.key[2]] == number]
        for place, row in zip(places, _results(search, number, [ranked[place] for place in places]), strict=True):
            rows[place] = row
    return rows


def _results(search: Search, number: int, ranked: Sequence[Ranked]) -> Iterable[Row]:
    if not ranked:
        return
    family, known = search.families[number], search.catalogue
    names = (*family.joint, *search.sweeps.beside, *search.sweeps.axes)
    swept = [n for n in names if n in ranked[0].row]
    columns = {name: np.array([each.row[name] for each in ranked]) for name in swept}
    columns |= _wholes(columns)
    columns[CASE] = np.array([float(each.case) for each in ranked])
    own = (
        search.objective.name,
        *(o.name for o in search.front),
        *(n for w in search.wishes for n in (w.name, *w.quantities)),
    )
    wanted = dict.fromkeys((*COLUMNS, *RESULTS, *MAPPING_ECHO, *(n for n in own if not known[n].is_selector)))
    given = {n: v for n, v in family.sources.given.items() if n in columns or n not in names}
    chosen = plan(known, wanted, replace(family.sources, given=given), OPTIONAL_RESULTS)
    results = run(chosen, given, JointAxis(columns, tied=family.tied), keep=frozenset(chosen.targets))
    truths = {name for name in chosen.targets if known[name].mark.unit == "boolean"}
    found = {n: results.whole(n) for n in chosen.targets}
    told = [(column > 0 if name in truths else column).tolist() for name, column in found.items()]
    for each, *values in zip(ranked, *told, strict=True):
        yield each.row | dict(zip(found, values, strict=True))


def _wholes(columns: Mapping[str, Any]) -> dict[str, Any]:
    """Whole degrees beside their parts, where the mapping has them."""
    parts = [name for name in columns if name.startswith("intra_node_") and f"inter{name[5:]}" in columns]
    return {name[11:]: columns[name] * columns[f"inter{name[5:]}"] for name in parts}
