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
from amped.estimation.estimation import MAPPING_ECHO, RESULTS, Estimation, estimated, optional_results
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
        objective: the name of the quantity that ranks.
        more: whether more of the objective is better.
        wishes: the wishes of the user, as they are written.
        histogram: the bins of the objective: where each begins and ends, and how many feasible candidates it has.
        simple: candidates that are nearly as fast as the best, and for which no other is as simple and as fast; the
            simplest first, each with `number_of_mechanisms`.
        held: what was not searched, in words.
        search: the search that was explored.
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
        """What the nearest candidate would need, in words; empty if there is no nearest candidate."""
        return what_it_needs(self.search, self.nearest) if self.nearest else ""

    @cached_property
    def error_fraction(self) -> float:
        """The error band of the best candidate as a fraction, at most NEARLY - 1; zero if the band is unknown."""
        if not self.simple:
            return 0.0
        band = _estimated(self.search, self.best[0]).error_band
        return min(band.error_fraction, NEARLY - 1) if band is not None and math.isfinite(band.error_fraction) else 0.0

    @cached_property
    def ties(self) -> list[Row]:
        """Simpler candidates that are as fast as the best one within its error band, the simplest first."""
        slowest = self.best[0][self.objective] * (1 + self.error_fraction) if self.simple else 0.0
        return [row for row in self.simple if row[self.objective] <= slowest and row != self.simple[-1]]

    @cached_property
    def notices(self) -> list[str]:
        """What to tell of the swept and given rows whose figures are not final."""
        cases = (case for branch in self.search.branches for case in branch.family.cases)
        return [*dict.fromkeys(notice for case in cases for notice in case.sources.preliminary)]

    @property
    def columns(self) -> list[str]:
        """The names of the columns of `best`."""
        return list(dict.fromkeys(name for row in self.best for name in row)) or [*self.swept, *COLUMNS]

    def to_dict(self) -> dict[str, Any]:
        """The exploration as plain data."""
        names = ["candidates", "feasible", "removed", "elapsed_time", "best", "ties", "held", "lacks_headroom"]
        names += ["front"] if self.search.front else []
        names += ["notices"] if self.notices else []
        return {name: getattr(self, name) for name in names}


def explored(
    scenario: Scenario, options: Options, vary: Mapping[str, Sequence[object]] | None = None, run: Run = ALONE
) -> Exploration:
    """The exploration of a scenario: every valid mapping is evaluated, part by part.

    If no candidate leaves the headroom free, the same space is searched without headroom. If no candidate fits in memory,
    a larger space is searched, with offload and recomputation of single modules.

    Args:
        scenario: the config. Its degrees, its micro-batch and the names of the space are searched; all else is kept.
        options: what is searched, and how candidates are ranked.
        vary: the values of further swept parameters, by name, in addition to the lists of the config.
        run: what evaluates the parts, what is kept of them, and what shows the progress.

    Raises:
        ConfigError: for an impossible sweep, or if the degrees of no mapping multiply and divide as they must.
        EvaluationError: for a result that is not a finite number.
    """
    started = time.perf_counter()
    search = searched(scenario, options, vary)
    if run.keep is not None:
        run.keep.start(column_types(search))
    finding = found_in(search, run)
    if finding.feasible or not finding.lacking or run.keep is not None:
        return answer(search, finding, started)
    spaces = filter(None, (options.space, WHERE_NOTHING_FITS.get(options.space)))
    scenarios = [scenario, *([asked_again(scenario.question, NO_HEADROOM)] if search.has_headroom else [])]
    for space, other_scenario in islice(product(spaces, scenarios), 1, None):  # the first pair is searched already
        other_search = searched(other_scenario, replace(options, space=space), vary)
        other_finding = found_in(other_search, replace(run, findings=None))
        if other_finding.feasible:
            exploration = answer(other_search, other_finding, started)
            return replace(exploration, lacks_headroom=other_scenario is not scenario)
    return answer(search, finding, started)


def column_types(search: Search) -> dict[str, type]:
    """The type of each column that is written for every candidate: swept values, results, and two booleans."""
    outer = {name: value for branch in search.branches for name, value in branch.family.cases[0].outer.items()}
    types: dict[str, type] = {name: type(outer.get(name, 0.0)) for name in search.swept}
    types |= dict.fromkeys(wholes_of(types), float)
    types |= {name: float for branch in search.branches for name in branch.wanted.columns if name not in types}
    return types | {FITS: bool, FEASIBLE: bool}


def answer(search: Search, finding: Finding, started: float) -> Exploration:
    """The exploration that a finding gives; all results are computed for the candidates that are shown.

    Args:
        search: the search.
        finding: the finding of all its parts.
        started: when the exploration began, by `time.perf_counter`.
    """
    best = best_of(finding.top, *finding.best.values())
    groups = {group: finding.best[group] for group in sorted({*finding.best} - {ALL}, key=_sort_key)}
    faster = [ranked for ranked in finding.unfit[:1] if not best or ranked.objective < best[0].objective]
    nearest = [*finding.lacking[:1], *finding.near[-1:], *faster][:1]
    shown = chain(best or finding.lacking or finding.unfit, finding.front, finding.simple, nearest, *groups.values())
    rows = _completed(search, [*shown])

    def rows_of(ranking: Iterable[Ranked], name: str = "", kind: type = float) -> list[Row]:
        """The rows of a ranking. If `name` is given, a column with that name has the value that ranks them."""
        return [rows[r.part, r.cell] | ({name: kind(r.objective)} if name else {}) for r in ranking]

    return Exploration(
        candidates=finding.candidates,
        feasible=finding.feasible,
        removed=dict(finding.removed),
        elapsed_time=time.perf_counter() - started,
        best=rows_of(best) or rows_of(finding.lacking, "missing_memory_bytes") or rows_of(finding.unfit),
        swept=search.swept,
        units={name: search.catalogue[name].mark.unit for name in search.swept if name in search.catalogue},
        groups={group: rows_of(ranking) for group, ranking in groups.items()},
        front=rows_of(finding.front),
        nearest=next(iter(rows_of(nearest)), None),
        objective=search.objective.name,
        more=search.objective.sign < 0,
        wishes=tuple(wish.written for wish in search.wishes),
        histogram=bins(finding.histogram),
        simple=rows_of(finding.simple, "number_of_mechanisms", int),
        held=_not_searched(search),
        search=search,
    )


def _not_searched(search: Search) -> str:
    """What was not searched, in words: first what the space leaves out, then the names that the user set."""
    names = [*search.sweeps.held, *sorted(search.sweeps.settled - search.sweeps.beside.keys())]
    return f"{search.space.held}; set: {', '.join(names)}" if names else search.space.held


def _sort_key(group: str) -> list[tuple[bool, Any]]:
    """The key that sorts groups (values as JSON) by their values, numbers before texts."""
    return [(isinstance(value, str), value) for value in json.loads(group)]


def _completed(search: Search, ranking: Sequence[Ranked]) -> dict[tuple[int, int], Row]:
    """The row with all results for each candidate of a ranking, by its part and cell.

    The candidates of one branch are computed together.
    """
    branch_of = {part.number: part.branch for part in search.parts}
    rows: dict[tuple[int, int], Row] = {}
    for number, branch in enumerate(search.branches):
        of_branch = [ranked for ranked in ranking if branch_of[ranked.part] == number]
        if of_branch:
            rows |= _results(search, branch, of_branch)
    return rows


def _results(search: Search, branch: Branch, ranking: Sequence[Ranked]) -> Iterator[tuple[tuple[int, int], Row]]:
    """For each candidate of a ranking, its part and cell, and its row with all results.

    Args:
        search: the search.
        branch: the branch of all the candidates.
        ranking: the candidates.
    """
    family, catalogue = branch.family, search.catalogue
    names = (*family.joint, *search.sweeps.axes)
    columns = {name: np.array([ranked.row[name] for ranked in ranking]) for name in names if name in ranking[0].row}
    columns |= {whole: columns[one] * columns[other] for whole, (one, other) in wholes_of(columns).items()}
    columns[CASE] = np.array([float(ranked.case) for ranked in ranking])
    asked_names = [objective.name for objective in search.objectives]
    asked_names += [n for wish in search.wishes for n in (wish.name, *wish.quantities) if not catalogue[n].is_selector]
    given = {n: v for n, v in family.sources.given.items() if n in columns or n not in names}
    wanted = dict.fromkeys((*COLUMNS, *RESULTS, *MAPPING_ECHO, *asked_names))
    chosen = plan(catalogue, wanted, replace(family.sources, given=given), optional_results(given))
    results = run(chosen, given, JointAxis(columns, tied=family.tied), keep=frozenset(chosen.targets))
    values_of = {name: results.whole(name) for name in chosen.targets}
    result_columns = [
        (column > 0 if catalogue[name].mark.unit == "boolean" else column).tolist()
        for name, column in values_of.items()
    ]
    for ranked, *values in zip(ranking, *result_columns, strict=True):
        yield (ranked.part, ranked.cell), ranked.row | dict(zip(values_of, values, strict=True))


def what_it_needs(search: Search, row: Row) -> str:
    """What the candidate of a row would need to fit in memory and to keep all wishes, in words."""
    values = {**search.branches[0].plan.choices, **row}  # choices that are not swept are alike in all branches
    broken = (_broken_wish(wish, values) for wish in search.wishes if not wish.holds(values.__getitem__))
    return "; ".join([*_missing_memory(search, row), *broken])


def settings(search: Search, row: Row) -> dict[str, object]:
    """The swept values of a row by name: set in the config, they give the candidate of the row."""
    return {name: row[name] for name in search.swept if name in row}


def _estimated(search: Search, row: Row) -> Estimation:
    """The estimate of the candidate of a row."""
    return estimated(asked_again(search.scenario.question, settings(search, row)))


def _missing_memory(search: Search, row: Row) -> Iterator[str]:
    """A sentence: how much more memory a candidate needs, or the smallest change with which it fits; none if it fits."""
    if row["fits_in_memory"]:
        return
    try:
        estimation = _estimated(search, row)
    except AmpedError:  # a mapping that no config can describe
        yield "needs more memory"
        return
    lacking = estimation["memory_per_accelerator_bytes"] - estimation["available_memory_bytes"]
    need = f"{lacking / GIGABYTE:.3g} GB more memory for each accelerator" if lacking > 0 else "more memory on the host"
    yield f"It needs {need}, or {smallest_change(estimation)}"


def _broken_wish(wish: Wish, values: Row) -> str:
    """A sentence: which value of a candidate breaks a wish. `values` are its swept values, choices and results."""
    if wish.name == WITH_HEADROOM:
        needed, available = (values[name] / GIGABYTE for name in (WITH_HEADROOM, AVAILABLE))
        return f"It needs {needed:.1f} GB with the headroom (--headroom), and {available:.1f} GB are there"
    compared = {name: values[name] for name in wish.quantities or (wish.name,)}
    facts = [f"its {name} is {value if isinstance(value, str) else f'{value:.6g}'}" for name, value in compared.items()]
    return f"{', '.join(facts)}, and {wish.written} was asked for"
