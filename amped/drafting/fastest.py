"""The fastest mapping that fits, exactly that of a space of explorations, without the candidates that cannot win.

Recomputation adds work and keeps less: with more of it a mapping never gets faster (a step is a sum of times, where
computation hides at most its own time of messages). So each mapping needs only the least recomputation with which it
fits, and none if it is too slow already without.
Source: definition; `tests/drafting/test_fastest.py` compares with explorations of the whole space.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from itertools import groupby
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
    (found,) = fastest_of_each(scenario, vary or {}, space)
    return found


def fastest_of_each(
    scenario: Scenario, vary: Mapping[str, tuple[object, ...]], space: str, least_gain: float | None = None
) -> tuple[Fastest, ...]:
    """As `fastest`; with `least_gain`, the fastest mapping with one chunk of layers on each stage, and that with several.

    The arguments are those of `fastest`. Both are searched together, because most of what is computed is the same. Layouts
    with several chunks are sought where a step may be shorter by the share `least_gain`.
    """
    modes, several = _modes(scenario, space), least_gain is not None
    asked = {**vary, **({AGAIN: modes[:1]} if modes[0] else {})}
    request, postponed = Request(scenario.question, asked, Options(1, space)), Postponed() if several else None
    kinds = [_Kind() for _ in range(1 + several)]
    groups = _searched(Search(request, scenario, postponed), modes, kinds)
    plain = kinds[0].best
    if postponed is not None and plain.fits:
        limit = (1 - (least_gain or 0)) * plain.time if plain.keeps else np.inf
        if wanted := _may_gain(groups, modes, postponed, limit):
            with suppress(AmpedError):  # no such mapping is possible
                groups += _searched(Search(request, scenario, Postponed(wanted=wanted)), modes, kinds)
    found = sum(len(group.open) for group in groups)
    return tuple(kind.fastest(found * len(modes)) for kind in kinds)


def _may_gain(
    groups: Sequence[_Group], modes: tuple[str, ...], postponed: Postponed, limit: float
) -> frozenset[tuple[int, int]]:
    """The numbers of stages and chunks of postponed layouts with which a mapping may train in less than a time."""
    gains = [group.stages_in_chunks(modes, limit) for group in groups] if postponed.later else []
    hopeless = {stages for each in gains for stages in each} - {n for each in gains for n, may in each.items() if may}
    return frozenset(pair for pair in postponed.later if pair[0] not in hopeless)


def _searched(search: Search, modes: tuple[str, ...], kinds: Sequence[_Kind]) -> list[_Group]:
    """All mappings of a search, after the best of each kind was found among them."""
    groups = [
        _Group(search, branch, columns, names, len(kinds) > 1) for branch, columns, names in _by_structure(search)
    ]
    for mode in modes:
        for group in groups:
            for kind, candidates in zip(kinds, group.best(mode, [kind.best for kind in kinds], modes), strict=True):
                kind.take(candidates)
    return groups


def _by_structure(search: Search) -> Iterator[tuple[Branch, Columns, tuple[str, ...]]]:
    """The mappings of each structure, few of them together, and the names of the policies that they vary."""
    for number, parts in groupby(search.parts, attrgetter("branch")):
        branch, several, names = search.branches[number], list[Columns](), tuple[str, ...]()
        for _, columns, axes in map(search.mappings, parts):
            own = _every(columns, axes)
            if several and sum(len(each[CASE]) for each in (*several, own)) > FEW:
                yield branch, _joined(several), names
                several = []
            several, names = [*several, own], tuple(axes)
        yield branch, _joined(several), names


def _joined(several: Sequence[Columns]) -> Columns:
    """Rows of several tables one after the other."""
    return {name: np.concatenate([columns[name] for columns in several]) for name in several[0]}


def _modes(scenario: Scenario, space: str) -> tuple[str, ...]:
    """The kinds of recomputation to choose from, the least first; one empty text where it is given."""
    own = aliases().canonical
    is_given = any(own(name) == AGAIN and value is not None for name, value in scenario.question.overrides.items())
    return ("",) if is_given else tuple(map(str, space_of(space).policies[AGAIN]))


@dataclass(frozen=True)
class _Best:
    """A candidate: whether it fits, keeps the headroom and what it lacks, its time, the bytes that it needs, its settings."""

    fits: bool = False
    keeps: bool = False
    lacking: float = np.inf
    time: float = np.inf
    bytes: float = np.inf
    settings: Mapping[str, Value] = field(default_factory=dict)

    def order(self) -> tuple[bool, float, bool, float, float]:
        """What is better comes first: what fits, else what lacks less; what keeps the headroom; what is faster; what needs less."""
        return not self.fits, self.lacking, not self.keeps, self.time, self.bytes


class _Kind:
    """Mappings of one kind: the best of them, and the shortest time of those that fit."""

    def __init__(self) -> None:
        self.best, self.shortest_time = _Best(), float(np.inf)

    def take(self, candidates: Sequence[_Best]) -> None:
        """Compares further candidates."""
        self.best = min(self.best, *candidates, key=_Best.order)
        self.shortest_time = min(self.shortest_time, *(each.time for each in candidates if each.fits), np.inf)

    def fastest(self, candidates: int) -> Fastest:
        """The answer, of so many candidates."""
        best = self.best
        return Fastest(best.settings, best.fits, best.keeps, candidates, best.time, best.lacking, self.shortest_time)


class _Group:
    """Mappings of one structure: which of them are still open, and how long each trains at least.

    With `with_chunks` they are of two kinds: 0 with one chunk of layers on each stage, 1 with several.
    """

    def __init__(
        self, search: Search, branch: Branch, columns: Columns, axes: tuple[str, ...], with_chunks: bool = False
    ) -> None:
        self.known, self.branch, self.names = search.catalogue, branch, (*branch.family.told, *axes)
        self.columns = columns
        self.rules = (*branch.wanted.dividing, *branch.wanted.rules)
        self.bounded = not set(OFFLOADS) & {*branch.family.sources.given, *self.names}
        self.open = np.ones(len(self.columns[CASE]), dtype=bool)
        self.kinds = (self.columns[CHUNKS] > 1).astype(int) if with_chunks else np.zeros(len(self.open), dtype=int)
        self.least = dict.fromkeys(WORK_OF_MODE, np.zeros(len(self.open)))
        self.first: dict[str, Any] = {}
        self.more = (*BOUNDING, *IN_CHUNKS) if with_chunks else BOUNDING

    def best(self, mode: str, known: Sequence[_Best], modes: tuple[str, ...]) -> list[list[_Best]]:
        """The best open candidates of each kind with one kind of recomputation, of those that may be better than a known one.

        A faster one that fits without the headroom stands before it.
        """
        rest = self._rest(mode, np.array([each.time if each.keeps else np.inf for each in known]))
        if not len(rest):
            return [[_Best()] for _ in known]
        found = self._judged(mode, rest, mode == modes[0] and len(modes) > 1)
        few = [_few(found, self.kinds[rest] == kind, each) for kind, each in enumerate(known)]
        if TIME not in found:
            asked = np.isin(np.arange(len(rest)), np.concatenate(few))
            found[TIME] = np.full(len(rest), np.inf)
            found[TIME][asked] = self._asked(mode, rest[asked], (TIME,))[TIME] if asked.any() else np.inf
        return [[self._best(mode, rest, found, place) for place in _first(found, own)] or [_Best()] for own in few]

    def _judged(self, mode: str, rest: Places, is_first: bool) -> dict[str, Any]:
        """The memory of some candidates, and whether each keeps the rules, fits, and leaves the headroom free; of few, the time.

        After the first kind of recomputation, how long each takes at least with another one is known, if any fits.
        """
        timed = is_first and len(rest) <= FEW
        names = (MEMORY, AVAILABLE, FITS, KEEPS, *self.rules)
        found: dict[str, Any] = self._asked(mode, rest, (*names, TIME) if timed else names, self.more if timed else ())
        found[HOLDS] = np.logical_and.reduce([found[name] > 0 for name in self.rules if name in found], initial=True)
        found[FITS] = found[HOLDS] & (found[FITS] > 0)
        found[KEEPS] = found[FITS] & (found[KEEPS] > 0)
        found[LACKING] = np.where(found[HOLDS], np.maximum(found[MEMORY] - found[AVAILABLE], 0), np.inf)
        self.open[rest] = found[HOLDS] & ~found[KEEPS]
        self.first = found if is_first else self.first
        if is_first and found[FITS].any():
            found |= {} if timed else self._asked(mode, rest, (TIME,), self.more)
            self._bound(found)
        return found

    def _best(self, mode: str, rest: Places, found: Mapping[str, Any], place: int) -> _Best:
        """A candidate of which all is known."""
        fits, keeps = bool(found[FITS][place]), bool(found[KEEPS][place])
        lacking, settings = 0.0 if fits else float(found[LACKING][place]), self._settings(mode, rest[place])
        return _Best(fits, keeps, lacking, float(found[TIME][place]), float(found[MEMORY][place]), settings)

    def _rest(self, mode: str, times: Array) -> Places:
        """The candidates that are still open and may take less than the time of their kind with one kind of recomputation."""
        if not self.bounded:
            return np.arange(len(self.open))
        return np.flatnonzero(self.open & (self.least.get(mode, self.least[""]) < times[self.kinds]))

    def _bound(self, found: Mapping[str, Array]) -> None:
        """The least time with each kind of recomputation, from the results without.

        It repeats work of the bottleneck stage, and may only hide messages that have been waited for.
        """
        self.least = dict.fromkeys(self.least, found[TIME])
        if not set(BOUNDING) <= found.keys():
            return
        step, passes, *waits = (found[name] for name in BOUNDING[: 2 + len(WAITS)])
        for mode, work in WORK_OF_MODE.items():
            if work:
                more = np.maximum(passes * found[work] - sum(waits), 0)
                self.least[mode] = found[TIME] * (step + more) / step

    def stages_in_chunks(self, modes: tuple[str, ...], limit: float) -> dict[int, bool]:
        """For each number of stages, whether a layout in chunks may fit and train in less than a time; true if that is not known.

        A stage has whole layers, so that no layout makes the longest stage shorter than the most even one, and a step is
        no shorter than its micro-batches there. With chunks, stages hold on average as many micro-batches in flight as the
        first stage holds without, so that a mapping that lacks much memory does not fit with chunks, either.
        """
        stages = self.columns[STAGES].astype(int)
        rest = np.flatnonzero((self.kinds == 0) & (stages > 1))
        is_known = self.bounded and self.branch.family.cases[0].experts == 1 and {*IN_CHUNKS} <= self.first.keys()
        gains = dict.fromkeys(stages[rest].tolist(), not is_known)
        least = least_time_in_chunks(self.first, stages) if is_known else np.zeros(0)
        for mode in modes if is_known else ():
            more = np.maximum(self.least.get(mode, self.least[""]) - self.first[TIME], 0) if mode != modes[0] else 0
            rest = rest[(least + more)[rest] < limit]
            if not len(rest):
                break
            known = {name: self.first[name][rest] for name in (MEMORY, AVAILABLE)} if mode == modes[0] else {}
            found = known or self._asked(mode, rest, (MEMORY, AVAILABLE))
            near = found[MEMORY] <= NEARLY_FITS * found[AVAILABLE]
            gains |= dict.fromkeys(stages[rest[near]].tolist(), True)
            rest = np.array([row for row in rest[~near].tolist() if not gains[stages[row]]], dtype=int)
        return gains

    def _asked(self, mode: str, rest: Places, names: tuple[str, ...], more: tuple[str, ...] = ()) -> dict[str, Array]:
        """Some results of some candidates with one kind of recomputation; without those that do not exist there."""
        family = self.branch.family
        choices = family.sources.choices | ({AGAIN: mode} if mode else {})
        chosen = plan(self.known, names, replace(family.sources, choices=choices), more)
        worthwhile = WORTHWHILE if len(rest) > FEW_ROWS else 0.0
        joint = JointAxis(of_rows(self.columns, rest), worthwhile, family.tied)
        found = run(chosen, family.sources.given, joint, keep=frozenset(chosen.targets))
        return {name: found.whole(name) for name in chosen.targets}

    def _settings(self, mode: str, place: Places) -> dict[str, Value]:
        """The settings of a candidate."""
        case = self.branch.family.cases[int(self.columns[CASE][place])]
        own: dict[str, Value] = {name: float(self.columns[name][place]) for name in self.names}
        return {**case.outer, **own, **({AGAIN: mode} if mode else {})}


def least_time_in_chunks(found: Mapping[str, Any], stages: Any) -> Array:
    """The seconds that mappings train at least, with any layout of like layers: what the most even one takes without waiting."""
    step, layer_passes, microbatches, layers, *ends = (found[name] for name in IN_CHUNKS[: 4 + 2])
    embedding_passes, head_passes, *waits = (found[name] for name in IN_CHUNKS[4 + 2 :])
    embedding, head = ends
    whole = step - sum(waits) - embedding_passes * embedding - head_passes * head
    layer = whole / layer_passes
    even, longest = np.floor(layers / stages), np.full(len(step), np.inf)
    for more in (even - 2, even - 1, even, even + 1):
        for end in (0.0, embedding, head):
            time = (more * layer + end) * (1 + ROUNDING)
            held = [np.floor((time - each) / layer) for each in (embedding, head)]
            holds = (stages - 2) * np.floor(time / layer) + sum(np.maximum(each, 0) for each in held) >= layers
            longest = np.where(holds, np.minimum(longest, time), longest)
    least: Array = microbatches * longest * found[TIME] / step
    return least


def _few(found: Mapping[str, Any], own: Mask, known: _Best) -> Places:
    """The candidates of a kind that fit; if none does, those that lack least, unless a known one lacks less."""
    fits, holds, lacking = found[FITS] & own, found[HOLDS] & own, found[LACKING]
    if fits.any():
        return np.flatnonzero(fits)
    least = np.min(lacking, where=holds, initial=np.inf)
    return np.flatnonzero(holds & (lacking == least) & (not known.fits and least <= known.lacking))


def _first(found: Mapping[str, Any], few: Places) -> list[int]:
    """The fastest of some candidates, and the fastest that leaves the headroom free; of equal ones, that with less memory."""
    order = few[np.lexsort((found[MEMORY][few], found[TIME][few]))].tolist()
    return list(dict.fromkeys([*order[:1], *[place for place in order if found[KEEPS][place]][:1]]))


def _every(columns: Columns, axes: Columns) -> dict[str, Array]:
    """Each mapping with each combination of the values of the open axes, as rows."""
    shape = len(columns[CASE]), *map(len, axes.values())
    rows, *places = np.unravel_index(np.arange(np.prod(shape)), shape)
    found = of_rows(columns, rows)
    for (name, values), place in zip(axes.items(), places, strict=True):
        found[name] = values[place]
    return found
