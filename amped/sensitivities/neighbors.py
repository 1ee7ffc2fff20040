"""The next whole values of a count with which every rule still holds: all counts asked of the rules at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from amped.engine.evaluate import Array
from amped.engine.resolve import Plan
from amped.sensitivities.side_by_side import side_by_side
from amped.sensitivities.variations import Variation

# How far is looked: to so many times the value, at least so far, at most so far.
TIMES, AT_LEAST, AT_MOST = 4.0, 256.0, 8192.0


def with_neighbors(rules: Plan, given: Mapping[str, float], every: Sequence[Variation]) -> list[Variation]:
    """The variations, those of counts with the next smaller and the next larger value that keep the rules.

    Args:
        rules: a plan of all rules.
        given: the sources of the plan.
        every: all variations.
    """
    counts = [v for v in every if v.varied == "neighbor"]
    asked = {*rules.leaves, *rules.by_name}  # what no rule reads may have any value
    tried = [(v, _near(v) if v.name in asked else _next(v)) for v in counts]
    rows = side_by_side(rules, given, tried, frozenset(rules.targets))
    found = {}
    for v, values in tried:
        keeps = [rows.of(v.name, rule) > 0 for rule in rules.targets]
        found[v.name] = _nearest(v.value, values[np.logical_and.reduce(keeps)])
    return [replace(v, values=found.get(v.name, v.values)) for v in every]


def _near(variation: Variation) -> Array:
    """All whole values within reach, but its own."""
    value, mark = variation.value, variation.mark
    least = max(1.0 if mark.at_least is None else mark.at_least, np.ceil(value - AT_MOST))
    most = min(max(TIMES * value, value + AT_LEAST), value + AT_MOST, mark.at_most or np.inf)
    whole: Array = np.arange(least, np.floor(most) + 1)
    return np.compress(whole != value, whole)


def _next(variation: Variation) -> Array:
    """The whole values beside it."""
    beside: Array = variation.value + np.array([-1.0, 1.0])
    return np.intersect1d(beside, _near(variation))


def _nearest(value: float, whole: Array) -> tuple[float, ...]:
    """The next smaller and the next larger of rising values, where there is one."""
    return tuple(float(v) for v in (*whole[whole < value][-1:], *whole[whole > value][:1]))
