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

    varied: Sequence[Variation]
    results: Results
    places: Mapping[str, slice]

    def of(self, parameter: str, name: str) -> Array:
        """A quantity at each value of a parameter."""
        return self.results.whole(name)[self.places[parameter]]


def side_by_side(chosen: Plan, given: Mapping[str, float], varied: Sequence[Variation]) -> Rows:
    """Evaluates a plan once, with a row for each value of each parameter.

    The plan's structure stays; a value may replace the result of a formula that has no arguments.

    Raises:
        EvaluationError: if a formula fails.
    """
    size = 1 + sum(len(variation.values) for variation in varied)
    columns, places, row = {}, {}, 1
    for variation in varied:
        place = slice(row, row + len(variation.values))
        column = np.full(size, 0.0 if variation.calculated else variation.value)
        column[place] = 1.0 if variation.calculated else variation.values
        columns[_leaf(variation)], places[variation.name], row = column, place, place.stop
    results = run(_opened(chosen, varied), given, JointAxis(columns), keep=frozenset(chosen.targets))
    return Rows(varied, results, places)


def _leaf(variation: Variation) -> str:
    """The name of a variation's column: that of the parameter, or that of the flag that flips a switch."""
    return f"{variation.name}__flipped" if variation.calculated else variation.name


def _opened(chosen: Plan, varied: Sequence[Variation]) -> Plan:
    """The plan with leaves in place of the formulas of varied parameters; a calculated switch keeps its formula."""
    by_name = dict(chosen.by_name)
    computed = [variation for variation in varied if variation.name in by_name]
    for variation in computed:
        if variation.calculated:
            by_name[variation.name] = _flippable(by_name[variation.name])
        else:
            del by_name[variation.name]
    return replace(chosen, by_name=by_name, leaves=(*chosen.leaves, *map(_leaf, computed)))


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
    of_rules = {*rules.leaves, *rules.by_name}  # what no rule reads may have any value
    counts = [(v, _near(v)) for v in every if v.varied == "neighbor"]
    rows = side_by_side(
        rules,
        given,
        [replace(v, values=near.tolist() if v.name in of_rules else _nearest(v.value, near)) for v, near in counts],
    )
    neighbors = {}
    for v in rows.varied:
        keeps = np.logical_and.reduce([rows.of(v.name, rule) > 0 for rule in rules.targets])
        neighbors[v.name] = _nearest(v.value, np.compress(keeps, v.values))
    return [replace(v, values=neighbors.get(v.name, v.values)) for v in every]


def _near(variation: Variation) -> Array:
    """All whole values within reach, without the variation's own value; of what is built, those that may be built."""
    value, mark = variation.value, variation.mark
    least = max(1.0 if mark.at_least is None else mark.at_least, np.ceil(value - AT_MOST))
    most = min(max(TIMES * value, value + AT_LEAST), value + AT_MOST, mark.at_most or np.inf)
    is_built = variation.kind in MACHINE and variation.name not in OF_A_RUN
    whole: Array = _built(value, least, most) if is_built else np.arange(least, np.floor(most) + 1)
    return np.compress(whole != value, whole)


def _built(value: float, least: float, most: float) -> Array:
    """The whole values that are a count times a power of two: nobody builds a domain of 7 where one of 8 is."""
    powers = int(np.log2(AT_MOST))
    counts = value * 2.0 ** np.arange(-powers, powers + 1)
    return np.compress((counts % 1 == 0) & (counts >= least) & (counts <= most), counts)


def _nearest(value: float, whole: Array) -> tuple[float, ...]:
    """The next smaller and the next larger of ascending values, where they exist."""
    return tuple(map(float, (*whole[whole < value][-1:], *whole[whole > value][:1])))
