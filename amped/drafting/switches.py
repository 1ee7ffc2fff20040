"""The switches that a stack has, chosen together with the mapping: what its recipes switch on, as far as it is faster here.

Two mappings are chosen: one with the software's own switches, one with all that its recipes for this network and machine switch on.
With the switches that are then best, a mapping is chosen once more, until the best switches are ones that had a mapping of their own.
On each mapping, all combinations of switches are estimated if there are at most four switches; more of them are turned one after
another as long as a step gets shorter, which may miss the best combination. The notice says which of the two was done. What only a
benchmark does, experts that are balanced by force, is never chosen.

While switches are turned, the pipeline keeps its layout, because to find one takes longer than an estimate. The switches that are
chosen then get a layout of their own.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import compress, product
from typing import Any

from amped.base.errors import AmpedError
from amped.base.record import dataclass
from amped.configuring.scenario import Scenario, asked_again
from amped.drafting.chooser import completed
from amped.drafting.fastest import FITS, KEEPS
from amped.estimation.estimation import Estimation, estimated, estimated_each
from amped.estimation.manners import in_recipe, values_of
from amped.pipeline_layouts.laying_out import LAYOUT
from amped.tables.recipes import BY_FORCE, MANNER
from amped.theory.language.quantity import MAPPING

# A switch is turned if a step gets shorter by a thousandth.
NO_GAIN = 0.999
# Up to so many switches, all of their combinations are estimated: 16 estimates on each mapping.
MOST_TOGETHER = 4


@dataclass(frozen=True)
class _Switches:
    """The switches that a stack has: the values of each as its recipes have it, and as the software itself does."""

    on: Mapping[str, Any]
    off: Mapping[str, Any]

    def values(self, switched: frozenset[str]) -> dict[str, Any]:
        """The value of each switch if these are switched on."""
        return {name: self.on[name] if name in switched else self.off[name] for name in self.on}


@dataclass(frozen=True)
class _Found:
    """A scenario with its estimate, and which switches differ from those of the software itself.

    Attributes:
        scenario: what is asked; its pipeline has the layout that amped finds, unless one is given.
        estimate: its estimate, with this layout or with the one that is held while switches are turned.
        switched: the names of the switches that differ.
    """

    scenario: Scenario
    estimate: Estimation
    switched: frozenset[str]

    @property
    def time(self) -> tuple[bool, bool, float]:
        """What is compared: whether it does not fit, whether it does not keep the headroom, and the seconds of a step."""
        return not self.estimate[FITS], not self.estimate[KEEPS], self.estimate["step_time"]


@dataclass(frozen=True)
class _Chosen:
    """What was found: the fastest mapping and switches, what all switches are when they are on, and the number of mappings."""

    best: _Found
    on: Mapping[str, Any]
    mappings: int


def tuned(given: Mapping[str, object], lookup_tables: Any = None, formulas: Any = None) -> Scenario:
    """The scenario with the fastest mapping and switches; its notices say which switches were chosen.

    Args:
        given: values and rows by name, as the chooser takes them; the manner is left out.
        lookup_tables: as the chooser takes them.
        formulas: as the chooser takes them.
    """
    chosen = _chosen(given, lookup_tables, formulas)
    best, on = chosen.best, chosen.on
    row = best.scenario.sources.rows.get(MAPPING)
    names = ", ".join(f"{name}={str(on[name]).lower()}" for name in sorted(best.switched)) or "none but its own"
    tried = f"all {2 ** len(on)} combinations tried" if len(on) <= MOST_TOGETHER else "tried one after another"
    how = f"{tried}, on {chosen.mappings} mappings" if on else "no recipes of it are known that change anything here"
    best.scenario.sources.notices.insert(0, f"switches of {row.name if row else 'the software'}: {names}; {how}")
    return best.scenario


def switched(given: Mapping[str, object], lookup_tables: Any = None, formulas: Any = None) -> dict[str, object]:
    """What is given, without the manner and with the switches that `tuned` chooses, for a search of mappings."""
    chosen = _chosen(given, lookup_tables, formulas)
    asked = {name: value for name, value in given.items() if name != MANNER}
    return {**asked, **{name: chosen.on[name] for name in chosen.best.switched}}


def _chosen(given: Mapping[str, object], lookup_tables: Any, formulas: Any) -> _Chosen:
    """The fastest mapping and switches that were found."""
    asked = {name: value for name, value in given.items() if name != MANNER}
    own = _mapped(asked, frozenset(), lookup_tables, formulas)
    recipe = in_recipe(own.estimate)
    on = {name: v for name, v in (recipe or {}).items() if name not in BY_FORCE and name not in asked}
    if not on:
        return _Chosen(own, on, 1)
    switches = _Switches(on, values_of(own.estimate, on))
    best = _best_of(own, switches)
    mapped, unmapped = {own.switched}, frozenset(on)
    while unmapped not in mapped:
        mapped.add(unmapped)
        with suppress(AmpedError):  # no mapping is possible with them
            values = {**asked, **{name: on[name] for name in unmapped}}
            start = _mapped(values, unmapped, lookup_tables, formulas)
            best = min(best, _best_of(start, switches), key=lambda found: found.time)
        unmapped = best.switched
    return _Chosen(best, on, len(mapped))


def _mapped(asked: Mapping[str, object], switched: frozenset[str], lookup_tables: Any, formulas: Any) -> _Found:
    """The mapping that is chosen around some values."""
    scenario = completed(asked, lookup_tables, formulas)
    return _Found(scenario, estimated(scenario), switched)


def _best_of(start: _Found, switches: _Switches) -> _Found:
    """A mapping with the best of its switches and a layout of its own; itself if that is faster."""
    best = _turned_on(start, switches)
    if best is start:
        return start
    return min(start, _Found(best.scenario, estimated(best.scenario), best.switched), key=lambda found: found.time)


def _turned_on(start: _Found, switches: _Switches) -> _Found:
    """A mapping with the best of its switches that is found, without those that change nothing."""
    best = _best_combination if len(switches.on) <= MOST_TOGETHER else _turned
    return _without_idle(best(start, switches), switches)


def _best_combination(start: _Found, switches: _Switches) -> _Found:
    """The same mapping with the fastest of all combinations of switches; of equal ones, the one with fewest switched on."""
    names, turned = list(switches.on), product((False, True), repeat=len(switches.on))
    combinations = (frozenset(compress(names, are_on)) for are_on in turned)
    return min(
        _each(start, combinations, switches), key=lambda found: (*found.time, len(found.switched)), default=start
    )


def _turned(start: _Found, switches: _Switches) -> _Found:
    """The same mapping with switches turned, the one that gains most first, as long as a step gets shorter."""
    found = start
    while True:
        others = _each(found, [found.switched ^ {name} for name in switches.on], switches)
        best = min(others, key=lambda each: each.time, default=found)
        (*room, time), (*before, earlier) = best.time, found.time
        if (*room, math.ceil(time / NO_GAIN * 1e9)) >= (*before, math.ceil(earlier * 1e9)):
            return found
        found = best


def _without_idle(found: _Found, switches: _Switches) -> _Found:
    """The same without the switches that change nothing."""
    for name in sorted(found.switched):
        for other in _each(found, [found.switched - {name}], switches):
            if other.time <= (*found.time[:2], found.time[2] / NO_GAIN):
                found = other
    return found


def _each(found: _Found, combinations: Iterable[frozenset[str]], switches: _Switches) -> list[_Found]:
    """The same mapping and layout with each of these combinations; those that the stack does not have are left out."""
    layout = {name: text for name, text in found.estimate.choices.items() if name == LAYOUT}
    asked: dict[frozenset[str], tuple[Scenario, Scenario]] = {}
    for switched in combinations:
        with suppress(AmpedError):
            scenario = asked_again(found.scenario.question, switches.values(switched))
            asked[switched] = scenario, asked_again(scenario.question, layout) if layout else scenario
    estimates = estimated_each([held for _, held in asked.values()])
    answers = zip(asked.items(), estimates, strict=True)
    return [_Found(free, e, switched) for (switched, (free, _)), e in answers if isinstance(e, Estimation)]
