"""Many variations of one configuration as the rows of one axis: in each row one parameter has another value.

The neighbors of a count are found in this way, too: the next whole values with which every rule still holds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from amped.engine.axes import JointAxis
from amped.engine.evaluate import Array, Results, run
from amped.engine.resolve import Plan
from amped.sensitivities.variations import Variation
from amped.theory.language.catalogue import Formula

# How far neighbors are searched: up to TIMES the value, but at least AT_LEAST and at most AT_MOST away.
TIMES, AT_LEAST, AT_MOST = 4.0, 256.0, 8192.0
# The kinds of parameters that say how a machine is built, and the counts among them that are of a run: it may take any number of
# accelerators.
MACHINE = ("system", "accelerator")
OF_A_RUN = ("number_of_accelerators", "number_of_nodes")


@dataclass(frozen=True)
class Rows:
    """The results of a run, and which of its rows belong to which parameter; row 0 is the unchanged configuration."""

    results: Results
    places: Mapping[str, slice]

    def of(self, parameter: str, name: str) -> Array:
        """A quantity at each value of a parameter."""
        return self.results.whole(name)[self.places[parameter]]


def side_by_side(
    chosen: Plan, given: Mapping[str, float], tried: Sequence[tuple[Variation, Array]], keep: frozenset[str]
) -> Rows:
    """Evaluates a plan once, with a row for each value of each parameter.

    The plan's structure stays; a value may replace the result of a formula that has no arguments.

    Raises:
        EvaluationError: if a formula fails.
    """
    size = 1 + sum(len(values) for _, values in tried)
    columns, places, row = {}, {}, 1
    for variation, values in tried:
        place = slice(row, row + len(values))
        column = np.full(size, 0.0 if variation.calculated else variation.value)
        column[place] = 1.0 if variation.calculated else values
        columns[_leaf(variation)], places[variation.name], row = column, place, place.stop
    return Rows(run(_opened(chosen, [v for v, _ in tried]), given, JointAxis(columns), keep=keep), places)


def _leaf(variation: Variation) -> str:
    """The name of a variation's column: that of the parameter, or that of the flag that flips a switch."""
    return f"{variation.name}__flipped" if variation.calculated else variation.name


def _opened(chosen: Plan, varied: Sequence[Variation]) -> Plan:
    """The plan with leaves in place of the formulas of varied parameters; a calculated switch keeps its formula."""
    own = {variation.name: variation for variation in varied}
    leaves = [_leaf(own[name]) for name in chosen.by_name if name in own]
    by_name = {name: _flippable(formula) if name in own else formula
               for name, formula in chosen.by_name.items() if name not in own or own[name].calculated}  # fmt: skip
    return replace(chosen, by_name=by_name, leaves=(*chosen.leaves, *leaves))


def _flippable(formula: Formula) -> Formula:
    """A switch's formula with one more argument: whether its value is flipped."""

    def flipped(*values: Array) -> Array:
        return np.abs(np.asarray(formula.function(*values[:-1]), dtype=np.float64) - values[-1])

    return replace(formula, function=flipped, arguments=(*formula.arguments, f"{formula.name}__flipped"))


def with_neighbors(rules: Plan, given: Mapping[str, float], every: Sequence[Variation]) -> list[Variation]:
    """The variations; those of counts get the next smaller and the next larger value that keep the rules.

    Counts of a machine, as the accelerators of a domain, are halved and doubled.

    Args:
        rules: a plan of all rules.
        given: the sources of the plan.
        every: all variations.
    """
    counts = [v for v in every if v.varied == "neighbor"]
    asked = {*rules.leaves, *rules.by_name}  # if no rule reads it, it may have any value
    tried = [(v, _near(v) if v.name in asked else _next(v)) for v in counts]
    rows = side_by_side(rules, given, tried, frozenset(rules.targets))
    found = {}
    for v, values in tried:
        keeps = [rows.of(v.name, rule) > 0 for rule in rules.targets]
        found[v.name] = _nearest(v.value, values[np.logical_and.reduce(keeps)])
    return [replace(v, values=found.get(v.name, v.values)) for v in every]


def _near(variation: Variation) -> Array:
    """All whole values within reach, without the variation's own value; of what is built, those that may be built."""
    value, mark = variation.value, variation.mark
    least = max(1.0 if mark.at_least is None else mark.at_least, np.ceil(value - AT_MOST))
    most = min(max(TIMES * value, value + AT_LEAST), value + AT_MOST, mark.at_most or np.inf)
    whole: Array = _built(value, least, most) if _is_built(variation) else np.arange(least, np.floor(most) + 1)
    return np.compress(whole != value, whole)


def _is_built(variation: Variation) -> bool:
    """Whether a count is of a machine, as the accelerators of a domain are, and not of a run."""
    return variation.kind in MACHINE and variation.name not in OF_A_RUN


def _built(value: float, least: float, most: float) -> Array:
    """The whole values that are a count times a power of two: nobody builds a domain of 7 where one of 8 is."""
    times = value * 2.0 ** np.arange(-int(np.log2(AT_MOST)), int(np.log2(AT_MOST)) + 1)
    return np.compress((times % 1 == 0) & (times >= least) & (times <= most), times)


def _next(variation: Variation) -> Array:
    """The values next to the variation's own."""
    return np.array(_nearest(variation.value, _near(variation)))


def _nearest(value: float, whole: Array) -> tuple[float, ...]:
    """The next smaller and the next larger of ascending values, where they exist."""
    return tuple(float(v) for v in (*whole[whole < value][-1:], *whole[whole > value][:1]))
