"""Finds the fastest mapping that fits. The answer is that of an exploration of the whole space; what cannot win is skipped.

Recomputation adds work and keeps less: with more of it a mapping never gets faster (a step is a sum of times, where
computation hides at most its own time of messages). So each mapping needs only the least recomputation with which it
fits, and none if it is too slow already without.
Source: definition; `tests/drafting/test_fastest.py` compares with explorations of the whole space.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from itertools import groupby, islice
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from amped.base.aliases import aliases
from amped.base.errors import AmpedError
from amped.base.record import dataclass
from amped.configuring.scenario import Scenario
from amped.configuring.values import Value
from amped.engine.axes import WORTHWHILE, JointAxis
from amped.engine.evaluate import Array, Columns, Mask, run
from amped.engine.resolve import plan
from amped.exploration.best_of_block import AVAILABLE, MEMORY
from amped.exploration.cases import CASE
from amped.exploration.mappings import of_rows
from amped.exploration.request import Options, Request
from amped.exploration.search import Branch, Search
from amped.exploration.search_space import CHUNKS, space_of
from amped.exploration.searched_layouts import Postponed
from amped.theory.nouns.conditions import OFFLOADS

AGAIN, TIME, FITS = "activation_recomputation", "training_time", "fits_in_memory"
# Whether it also leaves the headroom free; without headroom, each mapping that fits does.
KEEPS = "keeps_memory_headroom"
# What follows for a candidate: whether it keeps all rules, and the bytes that it lacks.
HOLDS, LACKING = "holds", "lacking"
# What each kind of recomputation repeats in a layer; what nothing is known of stands under an empty text. And what else
# bounds the time of a step: the passes of the bottleneck stage, and the messages that more work could hide.
WORK_OF_MODE = {
    "": "", "selective": "attention_core_forward_time_per_layer", "full": "repeated_time_per_layer",
}  # fmt: skip
WAITS = ("exposed_data_communication_time", "exposed_pipeline_communication_time")
BOUNDING = ("step_time", "bottleneck_stage_layer_passes", *WAITS, *filter(None, WORK_OF_MODE.values()))
# What bounds the time with several chunks of layers on a stage; the last ones are no work of the stages.
IN_CHUNKS = (
    "step_time", "bottleneck_stage_layer_passes", "number_of_microbatches_per_minibatch", "layers", "embedding_time",
    "output_head_time", "bottleneck_stage_embedding_passes", "bottleneck_stage_output_head_passes", "pipeline_bubble_time",
    "optimizer_time", *WAITS,
)  # fmt: skip
# How far a mapping may be from fitting so that it may fit with chunks: with two of them, stages hold at least 0.9 times as much.
NEARLY_FITS, ROUNDING, STAGES = 1.15, 1e-9, "pipeline_parallel_degree"
Places = NDArray[np.intp]
# Up to so many candidates have their time computed with their memory: to plan twice takes longer.
FEW = 4096
# Among up to so many candidates, to find equal ones takes longer than to compute them.
FEW_ROWS = 512


@dataclass(frozen=True)
class Fastest:
    """A mapping of a space, and how it was found.

    Attributes:
        settings: its degrees, its micro-batch and its policies, by name.
        fits: whether it fits in memory; if not, no mapping of the space does, and this one lacks least.
        keeps: whether it leaves the headroom free, too; if it fits and does not, no mapping of the space does.
        candidates: how many there are in the space.
        time: seconds that it trains.
        lacking: bytes that it lacks, if it does not fit.
        shortest_time: seconds that the fastest mapping trains that fits without headroom; of none, infinity.
    """

    settings: Mapping[str, Value]
    fits: bool
    keeps: bool
    candidates: int
    time: float
    lacking: float
    shortest_time: float


def fastest(scenario: Scenario, vary: Mapping[str, tuple[object, ...]] | None = None, space: str = "quick") -> Fastest:
    """The fastest mapping of a space that leaves the headroom free, else that fits, else the one that lacks least memory.

    Args:
        scenario: the config; what is set on top of it is kept.
        vary: values of further names, or other values of the space's own names.
        space: the space that is searched.

    Raises:
        ConfigError: if the degrees of no mapping multiply and divide as they must.
    """
    return fastest_of_each(scenario, vary or {}, space)[0]


def fastest_of_each(
    scenario: Scenario, vary: Mapping[str, tuple[object, ...]], space: str, least_gain: float | None = None
) -> tuple[Fastest, ...]:
    """The fastest mapping alone or, with `least_gain`, that with one chunk of layers per stage and that with several.

    Both are searched together, because most computations are the same.

    Args:
        scenario: as for `fastest`.
        vary: as for `fastest`.
        space: as for `fastest`.
        least_gain: layouts with several chunks are tried if a step may be shorter by at least this share; None tries none.
    """
    modes, several = _modes(scenario, space), least_gain is not None
    values = {**vary, **({AGAIN: modes[:1]} if modes[0] else {})}
    request, postponed = Request(scenario.question, values, Options(1, space)), Postponed() if several else None
    kinds = [_Kind() for _ in range(1 + several)]
    groups = _searched(Search(request, scenario, postponed), modes, kinds)
    whole = kinds[0].best
    if postponed is not None and whole.fits:
        limit = (1 - (least_gain or 0)) * whole.time if whole.keeps else np.inf
        if promising := _may_gain(groups, modes, postponed, limit):
            with suppress(AmpedError):  # no such mapping is possible
                groups += _searched(Search(request, scenario, Postponed(wanted=promising)), modes, kinds)
    candidates = len(modes) * sum(len(group.open) for group in groups)
    return tuple(kind.fastest(candidates) for kind in kinds)


def _may_gain(
    groups: Sequence[_Group], modes: tuple[str, ...], postponed: Postponed, limit: float
) -> frozenset[tuple[int, int]]:
    """The postponed layouts, as (stages, chunks), with which a mapping may train in less than `limit` seconds."""
    gains = [group.may_gain_from_chunks(modes, limit) for group in groups] if postponed.later else []
    hopeless = {n for gain in gains for n in gain} - {n for gain in gains for n, may_gain in gain.items() if may_gain}
    return frozenset(pair for pair in postponed.later if pair[0] not in hopeless)


def _searched(search: Search, modes: tuple[str, ...], kinds: Sequence[_Kind]) -> list[_Group]:
    """The groups of all mappings of a search; the best mappings of each kind are entered into `kinds`."""
    groups = [_Group(search, *structure, with_chunks=len(kinds) > 1) for structure in _by_structure(search)]
    for mode in modes:
        for group in groups:
            for kind, candidates in zip(kinds, group.best(mode, [kind.best for kind in kinds], modes), strict=True):
                kind.take(candidates)
    return groups


def _by_structure(search: Search) -> Iterator[tuple[Branch, Columns, tuple[str, ...]]]:
    """Each branch of the search with the columns of its mappings and the names of the policies that they vary.

    Parts of one branch are joined into tables of up to about `FEW` rows.
    """
    for number, parts in groupby(search.parts, attrgetter("branch")):
        branch, tables, names = search.branches[number], list[Columns](), tuple[str, ...]()
        for _, columns, axes in map(search.mappings, parts):
            mappings = _every(columns, axes)
            if tables and sum(len(table[CASE]) for table in (*tables, mappings)) > FEW:
                yield branch, _joined(tables), names
                tables = []
            tables, names = [*tables, mappings], tuple(axes)
        yield branch, _joined(tables), names


def _joined(tables: Sequence[Columns]) -> Columns:
    """The rows of several tables with the same columns, one table after the other."""
    return {name: np.concatenate([columns[name] for columns in tables]) for name in tables[0]}


def _modes(scenario: Scenario, space: str) -> tuple[str, ...]:
    """The kinds of recomputation to try, from the least to the most; one empty text if the user gave the kind."""
    given = scenario.question.overrides.items()
    is_given = any(aliases().canonical(name) == AGAIN and value is not None for name, value in given)
    return ("",) if is_given else tuple(map(str, space_of(space).policies[AGAIN]))


@dataclass(frozen=True)
class _Best:
    """A candidate mapping and its results.

    Attributes:
        fits: whether it fits in memory.
        keeps: whether it leaves the headroom free, too.
        lacking: the bytes of memory that it lacks.
        time: seconds that it trains.
        bytes: the bytes of memory that it needs.
        settings: its values by name.
    """

    fits: bool = False
    keeps: bool = False
    lacking: float = np.inf
    time: float = np.inf
    bytes: float = np.inf
    settings: Mapping[str, Value] = field(default_factory=dict)

    def order(self) -> tuple[bool, float, bool, float, float]:
        """The key to sort by, the better candidate first.

        It compares in this order: fits, lacks less, keeps the headroom, is faster, needs less memory.
        """
        return not self.fits, self.lacking, not self.keeps, self.time, self.bytes


class _Kind:
    """Mappings of one kind: the best of them, and the shortest time of those that fit."""

    def __init__(self) -> None:
        self.best, self.shortest_time = _Best(), float(np.inf)

    def take(self, candidates: Sequence[_Best]) -> None:
        """Updates the best mapping and the shortest time with further candidates."""
        self.best = min(self.best, *candidates, key=_Best.order)
        self.shortest_time = min(self.shortest_time, *(best.time for best in candidates if best.fits), np.inf)

    def fastest(self, candidates: int) -> Fastest:
        """The best mapping as a `Fastest`.

        Args:
            candidates: the number of mappings in the space.
        """
        best = self.best
        return Fastest(
            settings=best.settings, fits=best.fits, keeps=best.keeps, candidates=candidates, time=best.time,
            lacking=best.lacking, shortest_time=self.shortest_time,
        )  # fmt: skip


class _Group:
    """The mappings of one structure, each a row of `columns`.

    Attributes:
        open: for each mapping, whether more recomputation may still make it fit or keep the headroom.
        bounded: whether least times can be computed: not with offload.
        kinds: for each mapping, the place of its kind: 0; with `with_chunks`, 1 if stages have several chunks of layers.
        least: for each kind of recomputation, the seconds that each mapping trains at least.
        first: the results of all mappings with the first kind of recomputation.
        more: the names of the results from which the least times follow.
    """

    def __init__(
        self, search: Search, branch: Branch, columns: Columns, axes: tuple[str, ...], with_chunks: bool
    ) -> None:
        self.catalogue, self.branch, self.names = search.catalogue, branch, (*branch.family.told, *axes)
        self.columns = columns
        self.rules = (*branch.wanted.dividing, *branch.wanted.rules)
        self.bounded = not set(OFFLOADS) & {*branch.family.sources.given, *self.names}
        self.open = np.ones(len(self.columns[CASE]), dtype=bool)
        self.kinds = (self.columns[CHUNKS] > 1).astype(int) if with_chunks else np.zeros(len(self.open), dtype=int)
        self.least = dict.fromkeys(WORK_OF_MODE, np.zeros(len(self.open)))
        self.first: dict[str, Any] = {}
        self.more = (*BOUNDING, *IN_CHUNKS) if with_chunks else BOUNDING

    def best(self, mode: str, leaders: Sequence[_Best], modes: tuple[str, ...]) -> list[list[_Best]]:
        """For each kind of mapping, the best open candidates with the recomputation `mode` that may be better than the leader.

        The fastest one that fits comes first, then the fastest one that leaves the headroom free.

        Args:
            mode: the kind of recomputation; an empty text if the user gave it.
            leaders: the best mapping of each kind so far.
            modes: all kinds of recomputation to try, in order.
        """
        candidates = self._rest(mode, np.array([best.time if best.keeps else np.inf for best in leaders]))
        if not len(candidates):
            return [[_Best()] for _ in leaders]
        results = self._judged(mode, candidates, mode == modes[0] and len(modes) > 1)
        by_kind = [_fitting(results, self.kinds[candidates] == kind, best) for kind, best in enumerate(leaders)]
        if TIME not in results:
            is_timed = np.isin(np.arange(len(candidates)), np.concatenate(by_kind))
            results[TIME] = np.full(len(candidates), np.inf)
            if is_timed.any():
                results[TIME][is_timed] = self._results(mode, candidates[is_timed], (TIME,))[TIME]
        return [
            [self._best(mode, candidates, results, p) for p in _first(results, places)] or [_Best()]
            for places in by_kind
        ]

    def _judged(self, mode: str, candidates: Places, is_first: bool) -> dict[str, Any]:
        """The results of some candidates by name: memory, bytes lacking, and whether each keeps the rules, fits, has headroom.

        Candidates that more recomputation cannot help are closed. With the first kind of recomputation (`is_first`), the
        least times with the other kinds are set, if any candidate fits; and times are among the results of few candidates.
        """
        timed = is_first and len(candidates) <= FEW
        names = (MEMORY, AVAILABLE, FITS, KEEPS, *self.rules)
        results: dict[str, Any] = self._results(
            mode, candidates, (*names, TIME) if timed else names, self.more if timed else ()
        )
        holds = np.logical_and.reduce([results[name] > 0 for name in self.rules if name in results], initial=True)
        fits = holds & (results[FITS] > 0)
        keeps = fits & (results[KEEPS] > 0)
        lacking = np.where(holds, np.maximum(results[MEMORY] - results[AVAILABLE], 0), np.inf)
        results |= {HOLDS: holds, FITS: fits, KEEPS: keeps, LACKING: lacking}
        self.open[candidates] = holds & ~keeps
        self.first = results if is_first else self.first
        if is_first and fits.any():
            results |= {} if timed else self._results(mode, candidates, (TIME,), self.more)
            self._bound(results)
        return results

    def _best(self, mode: str, candidates: Places, results: Mapping[str, Any], place: int) -> _Best:
        """The record of one candidate: whether it fits and leaves the headroom free, the bytes it lacks, time, memory, settings.

        Args:
            mode: the kind of recomputation.
            candidates: the rows of the candidates, in the order of `results`.
            results: arrays of results by name, with one entry for each candidate.
            place: the index of the candidate in both.
        """
        fits = bool(results[FITS][place])
        return _Best(
            fits=fits, keeps=bool(results[KEEPS][place]), lacking=0.0 if fits else float(results[LACKING][place]),
            time=float(results[TIME][place]), bytes=float(results[MEMORY][place]), settings=self._settings(mode, candidates[place]),
        )  # fmt: skip

    def _rest(self, mode: str, times: Array) -> Places:
        """The rows of the open candidates that may take less time with the recomputation `mode` than the limit of their kind.

        Args:
            mode: the kind of recomputation.
            times: the limit in seconds for each kind of mapping.
        """
        if not self.bounded:
            return np.arange(len(self.open))
        return np.flatnonzero(self.open & (self.least.get(mode, self.least[""]) < times[self.kinds]))

    def _bound(self, results: Mapping[str, Array]) -> None:
        """Sets the least times with each kind of recomputation, from the results with the first kind.

        Recomputation repeats work of the bottleneck stage, and can hide no more communication than was exposed.
        """
        self.least = dict.fromkeys(self.least, results[TIME])
        if not set(BOUNDING) <= results.keys():
            return
        step, passes, *waits = (results[name] for name in BOUNDING[: 2 + len(WAITS)])
        for mode, work in WORK_OF_MODE.items():
            if work:
                added = np.maximum(passes * results[work] - sum(waits), 0)
                self.least[mode] = results[TIME] * (step + added) / step

    def may_gain_from_chunks(self, modes: tuple[str, ...], limit: float) -> dict[int, bool]:
        """For each number of stages, whether several chunks per stage may fit and train in less than `limit` seconds.

        True if that is not known.

        A stage has whole layers, so that no layout makes the longest stage shorter than the most even one, and a step is
        no shorter than its micro-batches there. With chunks, stages hold on average as many micro-batches in flight as the
        first stage holds without, so that a mapping that lacks much memory does not fit with chunks, either.

        Args:
            modes: the kinds of recomputation to try, in order.
            limit: the time to beat.
        """
        stages = self.columns[STAGES].astype(int)
        candidates = np.flatnonzero((self.kinds == 0) & (stages > 1))
        is_known = self.bounded and self.branch.family.cases[0].experts == 1 and {*IN_CHUNKS} <= self.first.keys()
        gains = dict.fromkeys(stages[candidates].tolist(), not is_known)
        least = least_time_in_chunks(self.first, stages) if is_known else np.zeros(0)
        for mode in modes if is_known else ():
            added = np.maximum(self.least.get(mode, self.least[""]) - self.first[TIME], 0) if mode != modes[0] else 0
            candidates = candidates[(least + added)[candidates] < limit]
            if not len(candidates):
                break
            first = {name: self.first[name][candidates] for name in (MEMORY, AVAILABLE)} if mode == modes[0] else {}
            memory = first or self._results(mode, candidates, (MEMORY, AVAILABLE))
            nearly_fits = memory[MEMORY] <= NEARLY_FITS * memory[AVAILABLE]
            gains |= dict.fromkeys(stages[candidates[nearly_fits]].tolist(), True)
            candidates = np.array(
                [row for row in candidates[~nearly_fits].tolist() if not gains[stages[row]]], dtype=int
            )
        return gains

    def _results(
        self, mode: str, candidates: Places, names: tuple[str, ...], optional: tuple[str, ...] = ()
    ) -> dict[str, Array]:
        """The results `names` of some candidates with the recomputation `mode`, and those of `optional` that can be computed."""
        family = self.branch.family
        choices = family.sources.choices | ({AGAIN: mode} if mode else {})
        chosen = plan(self.catalogue, names, replace(family.sources, choices=choices), optional)
        worthwhile = WORTHWHILE if len(candidates) > FEW_ROWS else 0.0
        joint = JointAxis(of_rows(self.columns, candidates), worthwhile, family.tied)
        results = run(chosen, family.sources.given, joint, keep=frozenset(chosen.targets))
        return {name: results.whole(name) for name in chosen.targets}

    def _settings(self, mode: str, place: Places) -> dict[str, Value]:
        """The settings of the candidate in one row, by name."""
        case = self.branch.family.cases[int(self.columns[CASE][place])]
        numbers: dict[str, Value] = {name: float(self.columns[name][place]) for name in self.names}
        return {**case.outer, **numbers, **({AGAIN: mode} if mode else {})}


def least_time_in_chunks(results: Mapping[str, Any], stages: Any) -> Array:
    """The seconds that each mapping trains at least with any layout of equal layers: the most even layout, without waiting.

    It is 0 where the bottleneck stage has no layers (only the embedding or the output head), so that a layer's time is not known.
    """
    step, layer_passes, microbatches, layers, embedding, head, embedding_passes, head_passes, *waits = (
        results[name] for name in IN_CHUNKS
    )
    whole = step - sum(waits) - embedding_passes * embedding - head_passes * head
    is_known = (layer_passes > 0) & (whole > 0)
    layer = np.where(is_known, whole, 1.0) / np.where(is_known, layer_passes, 1.0)
    even, longest = np.floor(layers / stages), np.full(len(step), np.inf)
    for number in (even - 2, even - 1, even, even + 1):
        for end in (0.0, embedding, head):
            time = (number * layer + end) * (1 + ROUNDING)
            at_ends = sum(np.maximum(np.floor((time - work) / layer), 0) for work in (embedding, head))
            holds = (stages - 2) * np.floor(time / layer) + at_ends >= layers
            longest = np.where(holds, np.minimum(longest, time), longest)
    return np.where(is_known, microbatches * longest * results[TIME] / step, 0.0)


def _fitting(results: Mapping[str, Any], is_of_kind: Mask, leader: _Best) -> Places:
    """The places of the candidates of a kind that fit; if none fits, of those that lack least, unless the leader lacks less."""
    fits, holds, lacking = results[FITS] & is_of_kind, results[HOLDS] & is_of_kind, results[LACKING]
    if fits.any():
        return np.flatnonzero(fits)
    least = np.min(lacking, where=holds, initial=np.inf)
    return np.flatnonzero(holds & (lacking == least) & (not leader.fits and least <= leader.lacking))


def _first(results: Mapping[str, Any], places: Places) -> list[int]:
    """The place of the fastest candidate, and that of the fastest with headroom; less memory decides between equal times."""
    order = places[np.lexsort((results[MEMORY][places], results[TIME][places]))].tolist()
    keeping = (place for place in order if results[KEEPS][place])
    return list(dict.fromkeys([*order[:1], *islice(keeping, 1)]))


def _every(columns: Columns, axes: Columns) -> dict[str, Array]:
    """The columns of all mappings, each repeated for every combination of the values of the open axes."""
    shape = len(columns[CASE]), *map(len, axes.values())
    rows, *places = np.unravel_index(np.arange(np.prod(shape)), shape)
    chosen = {name: values[place] for (name, values), place in zip(axes.items(), places, strict=True)}
    return {**of_rows(columns, rows), **chosen}
