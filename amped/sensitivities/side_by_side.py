"""Many variations of one configuration as the rows of one axis: in each row one parameter has another value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from amped.engine.axes import JointAxis
from amped.engine.evaluate import Array, Results, run
from amped.engine.resolve import Plan
from amped.sensitivities.variations import Variation
from amped.theory.catalogue import Formula


@dataclass(frozen=True)
class Rows:
    """The results of a run, and which of its rows belong to which parameter; row 0 is the configuration as it is."""

    results: Results
    places: Mapping[str, slice]

    def of(self, parameter: str, name: str) -> Array:
        """A quantity at each value of a parameter."""
        return self.results.whole(name)[self.places[parameter]]


def side_by_side(
    chosen: Plan, given: Mapping[str, float], tried: Sequence[tuple[Variation, Array]], keep: frozenset[str]
) -> Rows:
    """Evaluates a plan once, a row for each value of each parameter.

    The structure is that of the plan; a value may take the place of what a formula without arguments gives.

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
    """The name of the column: the parameter's, or that of the flag that flips it."""
    return f"{variation.name}__flipped" if variation.calculated else variation.name


def _opened(chosen: Plan, varied: Sequence[Variation]) -> Plan:
    """The plan with leaves in place of the formulas of what is varied; a calculated switch keeps its formula."""
    own = {variation.name: variation for variation in varied}
    leaves = [_leaf(own[name]) for name in chosen.by_name if name in own]
    by_name = {name: _flippable(formula) if name in own else formula
               for name, formula in chosen.by_name.items() if name not in own or own[name].calculated}  # fmt: skip
    return replace(chosen, by_name=by_name, leaves=(*chosen.leaves, *leaves))


def _flippable(formula: Formula) -> Formula:
    """A switch's formula with one more argument: whether the other of two is wanted."""

    def flipped(*values: Array) -> Array:
        return np.abs(np.asarray(formula.function(*values[:-1]), dtype=np.float64) - values[-1])

    return replace(formula, function=flipped, arguments=(*formula.arguments, f"{formula.name}__flipped"))
