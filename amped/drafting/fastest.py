"""The fastest mapping that fits, exactly that of a space of explorations, without the candidates that cannot win.

Recomputation adds work and keeps less: with more of it a mapping never gets faster (a step is a sum of times, where
computation hides at most its own time of messages). So each mapping needs only the least recomputation with which it
fits, and none if it is too slow already without.
Source: definition; `tests/drafting/test_fastest.py` compares with explorations of the whole space.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace

import numpy as np
from numpy.typing import NDArray

from amped.base.aliases import aliases
from amped.base.record import dataclass
from amped.configuring.scenario import Scenario
from amped.configuring.values import Value
from amped.engine.axes import JointAxis
from amped.engine.evaluate import Array, Columns, run
from amped.engine.resolve import plan
from amped.exploration.asked_space import searched
from amped.exploration.best_of_block import AVAILABLE, MEMORY
from amped.exploration.cases import CASE
from amped.exploration.mappings import of_rows
from amped.exploration.request import Options
from amped.exploration.search import Branch, Search
from amped.exploration.search_space import space_of
from amped.theory.nouns.conditions import OFFLOADS

AGAIN, TIME, FITS = "activation_recomputation", "training_time", "fits_in_memory"
# Whether it also leaves the headroom free; without headroom, each mapping that fits does.
KEEPS = "keeps_memory_headroom"
# What each kind of recomputation repeats in a layer; what nothing is known of stands under an empty text. And what else
# bounds the time of a step: the passes of the bottleneck stage, and the messages that more work could hide.
WORK_OF_MODE = {
    "": "", "selective": "attention_core_forward_time_per_layer", "full": "repeated_time_per_layer",
}  # fmt: skip
WAITS = ("exposed_data_communication_time", "exposed_pipeline_communication_time")
BOUNDING = ("step_time", "bottleneck_stage_layer_passes", *WAITS, *filter(None, WORK_OF_MODE.values()))
Places = NDArray[np.intp]
# Up to so many candidates have their time computed with their memory: to plan twice takes longer.
FEW = 4096


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
    modes = _modes(scenario, space)
    search = searched(scenario, Options(1, space), {**(vary or {}), **({AGAIN: modes[:1]} if modes[0] else {})})
    groups = [_Group(search, *search.mappings(part)) for part in search.parts]
    best, shortest_time = _Best(), np.inf
    for mode in modes:
        for group in groups:
            candidates = group.best(mode, best, modes)
            best = min(best, *candidates, key=_Best.order)
            shortest_time = min(shortest_time, *(each.time for each in candidates if each.fits), np.inf)
    number = search.candidates * len(modes)
    return Fastest(best.settings, best.fits, best.keeps, number, best.time, best.lacking, shortest_time)


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


class _Group:
    """Mappings of one structure: which of them are still open, and how long each trains at least."""

    def __init__(self, search: Search, branch: Branch, columns: Columns, axes: Columns) -> None:
        self.known, self.branch, self.names = search.catalogue, branch, (*branch.family.told, *axes)
        self.columns = _every(columns, axes)
        self.rules = (*branch.wanted.dividing, *branch.wanted.rules)
        self.bounded = not set(OFFLOADS) & {*branch.family.sources.given, *self.names}
        self.open = np.ones(len(self.columns[CASE]), dtype=bool)
        self.least = dict.fromkeys(WORK_OF_MODE, np.zeros(len(self.open)))

    def best(self, mode: str, known: _Best, modes: tuple[str, ...]) -> list[_Best]:
        """The best open candidate with one kind of recomputation, of those that may be better than a known one.

        A faster one that fits without the headroom stands before it.
        """
        rest = self._rest(mode, known.time if known.keeps else np.inf)
        if not len(rest):
            return [_Best()]
        is_first = mode == modes[0] and len(modes) > 1
        timed = is_first and len(rest) <= FEW
        names = (MEMORY, AVAILABLE, FITS, KEEPS, *self.rules)
        found = self._asked(mode, rest, (*names, TIME), BOUNDING) if timed else self._asked(mode, rest, names)
        holds = np.logical_and.reduce([found[name] > 0 for name in self.rules if name in found], initial=True)
        fits = holds & (found[FITS] > 0)
        keeps = fits & (found[KEEPS] > 0)
        self.open[rest] = holds & ~keeps
        known_times = None
        if is_first and fits.any():
            bounding = found if timed else self._asked(mode, rest, (TIME,), BOUNDING)
            self._bound(bounding)
            known_times = bounding[TIME]
        lacking = np.where(holds, np.maximum(found[MEMORY] - found[AVAILABLE], 0), np.inf)
        few = np.flatnonzero(fits if fits.any() else holds & (lacking == lacking.min()))
        if not len(few) or (not fits.any() and (known.fits or lacking.min() > known.lacking)):
            return [_Best()]
        times = self._asked(mode, rest[few], (TIME,))[TIME] if known_times is None else known_times[few]
        order = np.lexsort((found[MEMORY][few], times))
        kept = [place for place in order.tolist() if keeps[few[place]]]
        return [
            _Best(bool(fits[one]), bool(keeps[one]), 0.0 if fits[one] else float(lacking[one]), float(times[place]),
                  float(found[MEMORY][one]), self._settings(mode, rest[one]))
            for place in dict.fromkeys([int(order[0]), *kept[:1]]) for one in few[[place]].tolist()
        ]  # fmt: skip

    def _rest(self, mode: str, time: float) -> Places:
        """The candidates that are still open and may take less than this time with one kind of recomputation."""
        if not self.bounded:
            return np.arange(len(self.open))
        return np.flatnonzero(self.open & (self.least.get(mode, self.least[""]) < time))

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

    def _asked(self, mode: str, rest: Places, names: tuple[str, ...], more: tuple[str, ...] = ()) -> dict[str, Array]:
        """Some results of some candidates with one kind of recomputation; without those that do not exist there."""
        family = self.branch.family
        choices = family.sources.choices | ({AGAIN: mode} if mode else {})
        chosen = plan(self.known, names, replace(family.sources, choices=choices), more)
        joint = JointAxis(of_rows(self.columns, rest), tied=family.tied)
        found = run(chosen, family.sources.given, joint, keep=frozenset(chosen.targets))
        return {name: found.whole(name) for name in chosen.targets}

    def _settings(self, mode: str, place: Places) -> dict[str, Value]:
        """The settings of a candidate."""
        case = self.branch.family.cases[int(self.columns[CASE][place])]
        own: dict[str, Value] = {name: float(self.columns[name][place]) for name in self.names}
        return {**case.outer, **own, **({AGAIN: mode} if mode else {})}


def _every(columns: Columns, axes: Columns) -> dict[str, Array]:
    """Each mapping with each combination of the values of the open axes, as rows."""
    shape = len(columns[CASE]), *map(len, axes.values())
    rows, *places = np.unravel_index(np.arange(np.prod(shape)), shape)
    found = of_rows(columns, rows)
    for (name, values), place in zip(axes.items(), places, strict=True):
        found[name] = values[place]
    return found
