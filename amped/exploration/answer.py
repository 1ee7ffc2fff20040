"""The answer of an exploration: counts, the best candidates with all results, and what prevents better ones."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from itertools import chain, islice, product
from typing import Any

import numpy as np

from amped.base.errors import AmpedError
from amped.base.record import dataclass
from amped.configuring.scenario import Scenario, asked_again
from amped.engine.axes import JointAxis
from amped.engine.evaluate import run
from amped.engine.resolve import plan
from amped.estimation.estimation import MAPPING_ECHO, OPTIONAL_RESULTS, RESULTS, Estimation, estimated
from amped.estimation.remedies import smallest_change
from amped.exploration.all_candidates import FEASIBLE, FITS
from amped.exploration.asked_space import searched
from amped.exploration.best_of_block import AVAILABLE
from amped.exploration.cases import CASE
from amped.exploration.constraints import Wish
from amped.exploration.histogram import bins
from amped.exploration.request import Options
from amped.exploration.results import ALL, NEARLY, Finding, Ranked, Row, best_of
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
    groups: dict[str, list[Row]]
    front: list[Row]
    nearest: Row | None
    objective: str
    more: bool
    wishes: tuple[str, ...]
    histogram: list[tuple[float, float, int]]
    simple: list[Row]
    held: str
    search: Search = field(repr=False, compare=False)
    lacks_headroom: bool = False

    @cached_property
    def needs(self) -> str:
        """What the nearest candidate would need, in words; it is computed when somebody asks for it."""
        return what_it_needs(self.search, self.nearest) if self.nearest else ""

    @cached_property
    def error_fraction(self) -> float:
        """The error band of the best candidate, at most the one in which ties are searched; zero if it is unknown."""
        if not self.simple:
            return 0.0
        band = _estimated(self.search, self.best[0]).error_band
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
        names = ["candidates", "feasible", "removed", "elapsed_time", "best", "ties", "held", "lacks_headroom"]
        names += ["front"] if self.search.front else []
        return {name: getattr(self, name) for name in names}


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
    finding = found_in(search, run)
    if finding.feasible or not finding.lacking or run.keep is not None:
        return answer(search, finding, started)
    spaces = filter(None, (options.space, WHERE_NOTHING_FITS.get(options.space)))
    scenarios = [scenario, *([asked_again(scenario.question, NO_HEADROOM)] if search.has_headroom else [])]
    for space, other in islice(product(spaces, scenarios), 1, None):
        wider = searched(other, replace(options, space=space), vary)
        there = found_in(wider, replace(run, findings=None))
        if there.feasible:
            return replace(answer(wider, there, started), lacks_headroom=other is not scenario)
    return answer(search, finding, started)


def kinds_of_every(search: Search) -> dict[str, type]:
    """The columns that a search writes for every candidate: swept values, results, whether it fits and is feasible."""
    outer = {name: value for branch in search.branches for name, value in branch.family.cases[0].outer.items()}
    kinds: dict[str, type] = {name: type(outer.get(name, 0.0)) for name in search.swept}
    kinds |= dict.fromkeys(wholes_of(kinds), float)
    kinds |= {name: float for branch in search.branches for name in branch.wanted.told if name not in kinds}
    return kinds | {FITS: bool, FEASIBLE: bool}


def answer(search: Search, finding: Finding, started: float) -> Exploration:
    """The result of all parts of a search, with all results for the rows that are shown."""
    best = best_of(finding.top, *finding.best.values())
    groups = {group: finding.best[group] for group in sorted({*finding.best} - {ALL}, key=_in_order)}
    better = [ranked for ranked in finding.unfit[:1] if not best or ranked.objective < best[0].objective]
    nearest = [*finding.lacking[:1], *finding.near[-1:], *better][:1]
    shown = chain(best or finding.lacking or finding.unfit, finding.front, finding.simple, nearest, *groups.values())
    rows = _completed(search, [*shown])

    def of(ranking: Iterable[Ranked], name: str = "", kind: type = float) -> list[Row]:
        """The rows of a ranking, with their first value as a further column if that has a name."""
        return [rows[r.part, r.cell] | ({name: kind(r.objective)} if name else {}) for r in ranking]

    return Exploration(
        candidates=finding.candidates,
        feasible=finding.feasible,
        removed=dict(finding.removed),
        elapsed_time=time.perf_counter() - started,
        best=of(best) or of(finding.lacking, "missing_memory_bytes") or of(finding.unfit),
        swept=search.swept,
        units={name: search.catalogue[name].mark.unit for name in search.swept if name in search.catalogue},
        groups={group: of(ranking) for group, ranking in groups.items()},
        front=of(finding.front),
        nearest=next(iter(of(nearest)), None),
        objective=search.objective.name,
        more=search.objective.sign < 0,
        wishes=tuple(wish.written for wish in search.wishes),
        histogram=bins(finding.histogram),
        simple=of(finding.simple, "number_of_mechanisms", int),
        held=_held(search),
        search=search,
    )


def _held(search: Search) -> str:
    """What was not searched, in words: what the space leaves out, and what the user set."""
    names = [*search.sweeps.held, *sorted(search.sweeps.settled - search.sweeps.beside.keys())]
    return f"{search.space.held}; set: {', '.join(names)}" if names else search.space.held


def _in_order(group: str) -> list[tuple[bool, Any]]:
    """The key that sorts groups by their values, numbers before texts."""
    return [(isinstance(value, str), value) for value in json.loads(group)]


def _completed(search: Search, ranking: Sequence[Ranked]) -> dict[tuple[int, int], Row]:
    """For each part and cell, the row with all results. The rows of a branch are computed together."""
    branch_of = {part.number: part.branch for part in search.parts}
    rows: dict[tuple[int, int], Row] = {}
    for number, branch in enumerate(search.branches):
        of_branch = [ranked for ranked in ranking if branch_of[ranked.part] == number]
        if of_branch:
            rows |= _results(search, branch, of_branch)
    return rows


def _results(search: Search, branch: Branch, ranking: Sequence[Ranked]) -> Iterator[tuple[tuple[int, int], Row]]:
    """For each candidate of a branch, its part and cell, and its row with all results."""
    family, catalogue = branch.family, search.catalogue
    names = (*family.joint, *search.sweeps.axes)
    columns = {name: np.array([ranked.row[name] for ranked in ranking]) for name in names if name in ranking[0].row}
    columns |= {whole: columns[one] * columns[other] for whole, (one, other) in wholes_of(columns).items()}
    columns[CASE] = np.array([float(ranked.case) for ranked in ranking])
    of_user = [objective.name for objective in search.objectives]
    of_user += [n for wish in search.wishes for n in (wish.name, *wish.quantities) if not catalogue[n].is_selector]
    given = {n: v for n, v in family.sources.given.items() if n in columns or n not in names}
    wanted = dict.fromkeys((*COLUMNS, *RESULTS, *MAPPING_ECHO, *of_user))
    chosen = plan(catalogue, wanted, replace(family.sources, given=given), OPTIONAL_RESULTS)
    results = run(chosen, given, JointAxis(columns, tied=family.tied), keep=frozenset(chosen.targets))
    values_of = {name: results.whole(name) for name in chosen.targets}
    shown = [
        (column > 0 if catalogue[name].mark.unit == "boolean" else column).tolist()
        for name, column in values_of.items()
    ]
    for ranked, *values in zip(ranking, *shown, strict=True):
        yield (ranked.part, ranked.cell), ranked.row | dict(zip(values_of, values, strict=True))


def what_it_needs(search: Search, row: Row) -> str:
    """What the candidate of a row would need, in words."""
    values = {**search.branches[0].plan.choices, **row}  # choices that are not swept are alike in all branches
    broken = (_broken(wish, values) for wish in search.wishes if not wish.holds(values.__getitem__))
    return "; ".join([*_memory(search, row), *broken])


def settings(search: Search, row: Row) -> dict[str, object]:
    """The settings of a config that give the candidate of a row."""
    return {name: row[name] for name in search.swept if name in row}


def _estimated(search: Search, row: Row) -> Estimation:
    """The estimate of the candidate of a row."""
    return estimated(asked_again(search.scenario.question, settings(search, row)))


def _memory(search: Search, row: Row) -> Iterator[str]:
    """How much more memory a candidate that does not fit would need, and the smallest change with which it fits."""
    if row["fits_in_memory"]:
        return
    try:
        e = _estimated(search, row)
    except AmpedError:  # a mapping that no config can describe
        yield "needs more memory"
        return
    lacking = e["memory_per_accelerator_bytes"] - e["available_memory_bytes"]
    need = f"{lacking / GIGABYTE:.3g} GB more memory for each accelerator" if lacking > 0 else "more memory on the host"
    yield f"It needs {need}, or {smallest_change(e)}"


def _broken(wish: Wish, values: Row) -> str:
    """What a candidate with these values has in place of what a wish asks for."""
    if wish.name == WITH_HEADROOM:
        needed, there = (values[name] / GIGABYTE for name in (WITH_HEADROOM, AVAILABLE))
        return f"It needs {needed:.1f} GB with the headroom (--headroom), and {there:.1f} GB are there"
    named = {name: values[name] for name in wish.quantities or (wish.name,)}
    facts = [f"its {name} is {v if isinstance(v, str) else f'{v:.6g}'}" for name, v in named.items()]
    return f"{', '.join(facts)}, and {wish.written} was asked for"
