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
# The kinds of parameters that say how a machine is built. Among them, OF_A_RUN belong to a run, which may take any number
# of accelerators.
MACHINE = ("system", "accelerator")
OF_A_RUN = ("number_of_accelerators", "number_of_nodes")


@dataclass(frozen=True)
class Rows:
    """The results of a run. Row 0 is the unchanged configuration.

    Attributes:
        varied: the parameters, with their values.
        results: every quantity, in each row.
        places: for each parameter, the rows in which it is varied.
    """

    varied: Sequence[Variation]
    results: Results
    places: Mapping[str, slice]

    def of(self, parameter: str, name: str) -> Array:
        """The quantity `name` at each value of a parameter."""
        return self.results.whole(name)[self.places[parameter]]


def side_by_side(chosen: Plan, given: Mapping[str, float], varied: Sequence[Variation]) -> Rows:
    """The results of a plan, with a row for each value of each parameter.

    The formulas stay the same, but the formula of a varied parameter is replaced by the values of the parameter.

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
    """The name of a variation's column: the name of the parameter, or the name of the flag that flips a calculated switch."""
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
    """The formula of a switch with one more argument, the flag that flips the value (1 if it does, else 0)."""

    def flipped(*values: Array) -> Array:
        return np.abs(np.asarray(formula.function(*values[:-1]), dtype=np.float64) - values[-1])

    return replace(formula, function=flipped, arguments=(*formula.arguments, f"{formula.name}__flipped"))


def with_neighbors(rules: Plan, given: Mapping[str, float], all_variations: Sequence[Variation]) -> list[Variation]:
    """The variations; each count gets its neighbors: the next smaller and the next larger value that keep the rules.

    Counts that say how a machine is built, such as the accelerators of a domain, are halved and doubled.

    Args:
        rules: a plan of all rules.
        given: the given values, by name.
        all_variations: the variations of all parameters.
    """
    names_in_rules = {*rules.leaves, *rules.by_name}  # a parameter that no rule reads may have any value
    counts = [(v, _values_in_reach(v)) for v in all_variations if v.varied == "neighbor"]
    rows = side_by_side(
        rules,
        given,
        [
            replace(v, values=reach.tolist() if v.name in names_in_rules else _nearest(v.value, reach))
            for v, reach in counts
        ],
    )
    neighbors = {}
    for v in rows.varied:
        keeps = np.logical_and.reduce([rows.of(v.name, rule) > 0 for rule in rules.targets])
        neighbors[v.name] = _nearest(v.value, np.compress(keeps, v.values))
    return [replace(v, values=neighbors.get(v.name, v.values)) for v in all_variations]


def _values_in_reach(variation: Variation) -> Array:
    """All whole values that are tried as neighbors of a count, without its own value.

    For a count that says how a machine is built, these are halves and doubles.
    """
    value, mark = variation.value, variation.mark
    least = max(1.0 if mark.at_least is None else mark.at_least, np.ceil(value - AT_MOST))
    most = min(max(TIMES * value, value + AT_LEAST), value + AT_MOST, mark.at_most or np.inf)
    is_built = variation.kind in MACHINE and variation.name not in OF_A_RUN
    whole: Array = _halves_and_doubles(value, least, most) if is_built else np.arange(least, np.floor(most) + 1)
    return np.compress(whole != value, whole)


def _halves_and_doubles(value: float, least: float, most: float) -> Array:
    """The whole values from `least` to `most` that are a count times a power of two.

    Nobody builds a domain of 7 accelerators in place of one of 8.
    """
    powers = int(np.log2(AT_MOST))
    counts = value * 2.0 ** np.arange(-powers, powers + 1)
    return np.compress((counts % 1 == 0) & (counts >= least) & (counts <= most), counts)


def _nearest(value: float, whole: Array) -> tuple[float, ...]:
    """The next smaller and the next larger of ascending whole values: two, one or none."""
    return tuple(map(float, (*whole[whole < value][-1:], *whole[whole > value][:1])))
