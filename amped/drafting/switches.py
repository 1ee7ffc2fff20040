"""The switches that a stack has, chosen together with the mapping: what its recipes switch on, as far as it is faster here.

Two mappings are chosen: one with the software's own switches, one with all that its recipes for this network and machine switch on.
On each of them, all combinations of switches are estimated if there are at most four switches; more of them are turned one after
another as long as a step gets shorter, which may miss the best combination. The notice says which of the two was done. What only a
benchmark does, experts that are balanced by force, is never chosen.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import product
from typing import Any

from amped.base.errors import AmpedError
from amped.base.record import dataclass
from amped.configuring.scenario import Scenario, asked_again
from amped.drafting.chooser import completed
from amped.drafting.fastest import FITS, KEEPS
from amped.estimation.estimation import Estimation, estimated, estimated_each
from amped.estimation.manners import in_recipe, values_of
from amped.tables.recipes import BY_FORCE, MANNER
from amped.theory.language.quantity import MAPPING

# A switch is turned if a step gets shorter by a thousandth.
NO_GAIN = 0.999
# Up to so many switches, all of their combinations are estimated: 16 estimates on each of the two mappings.
MOST_TOGETHER = 4


@dataclass(frozen=True)
class _Found:
    """A scenario with its estimate, and which switches differ from those of the software itself."""

    scenario: Scenario
    estimate: Estimation
    switched: frozenset[str]

    @property
    def time(self) -> tuple[bool, bool, float]:
        """What is compared: whether it does not fit, whether it does not keep the headroom, and the seconds of a step."""
        return not self.estimate[FITS], not self.estimate[KEEPS], self.estimate["step_time"]


def tuned(given: Mapping[str, object], lookup_tables: Any = None, formulas: Any = None) -> Scenario:
    """The scenario with the fastest mapping and switches; its notices say which switches were chosen.

    Args:
        given: values and rows by name, as the chooser takes them; the manner is left out.
        lookup_tables: as the chooser takes them.
        formulas: as the chooser takes them.
    """
    best, on = _chosen(given, lookup_tables, formulas)
    row = best.scenario.sources.rows.get(MAPPING)
    names = ", ".join(f"{name}={str(on[name]).lower()}" for name in sorted(best.switched)) or "none but its own"
    tried = f"all {2 ** len(on)} combinations tried" if len(on) <= MOST_TOGETHER else "tried one after another"
    how = f"{tried}, on two mappings" if on else "no recipes of it are known that change anything here"
    best.scenario.sources.notices.insert(0, f"switches of {row.name if row else 'the software'}: {names}; {how}")
    return best.scenario


def switched(given: Mapping[str, object], lookup_tables: Any = None, formulas: Any = None) -> dict[str, object]:
    """What is given, without the manner and with the switches that `tuned` chooses, for a search of mappings."""
    best, on = _chosen(given, lookup_tables, formulas)
    asked = {name: value for name, value in given.items() if name != MANNER}
    return {**asked, **{name: on[name] for name in best.switched}}


def _chosen(given: Mapping[str, object], lookup_tables: Any, formulas: Any) -> tuple[_Found, Mapping[str, Any]]:
    """The fastest mapping and switches that were found, and what all switches are when they are on."""
    asked = {name: value for name, value in given.items() if name != MANNER}
    plain = completed(asked, lookup_tables, formulas)
    own = _Found(plain, estimated(plain), frozenset())
    recipe = in_recipe(own.estimate)
    on = {name: v for name, v in (recipe or {}).items() if name not in BY_FORCE and name not in asked}
    if not on:
        return own, on
    off = values_of(own.estimate, on)
    best = _best_combination if len(on) <= MOST_TOGETHER else _turned
    found = [best(own, on, off)]
    try:
        together = completed({**asked, **on}, lookup_tables, formulas)
        found.append(best(_Found(together, estimated(together), frozenset(on)), on, off))
    except AmpedError:  # no mapping is possible with all of them
        pass
    return _without_idle(min(found, key=lambda each: each.time), on, off), on


def _best_combination(found: _Found, on: Mapping[str, Any], off: Mapping[str, Any]) -> _Found:
    """The same mapping with the fastest of all combinations of switches; of equal ones, the one with fewest switched on."""
    asked: dict[frozenset[str], Scenario] = {}
    for turned in product((False, True), repeat=len(on)):
        switched = frozenset(name for name, is_on in zip(on, turned, strict=True) if is_on)
        try:
            asked[switched] = asked_again(found.scenario.question, {n: on[n] if n in switched else off[n] for n in on})
        except AmpedError:  # the stack does not have this combination
            continue
    answers = zip(asked.items(), estimated_each(list(asked.values())), strict=True)
    possible = [_Found(s, e, switched) for (switched, s), e in answers if isinstance(e, Estimation)]
    return min(possible, key=lambda each: (*each.time, len(each.switched)), default=found)


def _turned(found: _Found, on: Mapping[str, Any], off: Mapping[str, Any]) -> _Found:
    """The same mapping with switches turned, the one that gains most first, as long as a step gets shorter."""
    while True:
        others = [other for name in on if (other := _with(found, found.switched ^ {name}, on, off))]
        best = min(others, key=lambda each: each.time, default=found)
        (*room, time), (*before, earlier) = best.time, found.time
        if (*room, math.ceil(time / NO_GAIN * 1e9)) >= (*before, math.ceil(earlier * 1e9)):
            return found
        found = best


def _without_idle(found: _Found, on: Mapping[str, Any], off: Mapping[str, Any]) -> _Found:
    """The same without the switches that change nothing."""
    for name in sorted(found.switched):
        other = _with(found, found.switched - {name}, on, off)
        if other is not None and other.time <= (*found.time[:2], found.time[2] / NO_GAIN):
            found = other
    return found


def _with(found: _Found, switched: frozenset[str], on: Mapping[str, Any], off: Mapping[str, Any]) -> _Found | None:
    """The same mapping with these switches on and all others as the software has them; None if that is not possible."""
    values = {name: on[name] if name in switched else off[name] for name in on}
    try:
        scenario = asked_again(found.scenario.question, values)
        return _Found(scenario, estimated(scenario), switched)
    except AmpedError:
        return None
