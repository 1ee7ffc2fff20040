"""What measured runs tell about an estimate: the numbers that they fix, and by how much the error band is narrower.

An anchor (`calibration/step_anchor.py`) writes into the rows that it moved which numbers its runs told, and how much. The
logarithm of a step's time is taken as linear in the numbers x_j, whose widths w_j are the standard deviations of what is known
without the runs. With u the changes of an estimate's logarithm by a width of each number, U those of the runs (a row each) and s the
scatter of measurements, the variance of the estimate is

    u u' + s^2                            without the runs
    u (1 + U'U / s^2)^-1 u' + s^2         with them

and the band narrows by the root of the ratio, but never below what the runs are still off by: what they have and no number explains,
the estimate may have, too. What the runs do not depend on, such as links between nodes in a run on one
node, stays as doubtful as it was.
Source: Bishop, Pattern Recognition and Machine Learning (2006), section 3.3 (equations 3.51, 3.54 and 3.59).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from amped.base.record import dataclass
from amped.configuring.scenario import Scenario
from amped.configuring.sources import LookedUp
from amped.engine.axes import JointAxis
from amped.engine.evaluate import NO_TUPLES, Array, run
from amped.engine.resolve import Plan, plan
from amped.estimation.own_runs import SCATTER
from amped.estimation.validated import STEP_TIME
from amped.tables.tables import Row

COLUMN = "anchored_runs"
# The step of finite differences, in widths.
DIFFERENCE = 0.05


@dataclass(frozen=True)
class ToldNumber:
    """A number that the runs of an anchor tell.

    Attributes:
        table, row, column: its place.
        width: the standard deviation of what is known of it without the runs, in its canonical unit.
        effects: the change of the logarithm of each run's time when the number moves by its width.
        left: the size of error that a run keeps whatever the numbers are, the largest of all runs.
    """

    table: str
    row: str
    column: str
    width: float
    effects: Sequence[float]
    left: float


def told_numbers(rows: Sequence[Row]) -> list[ToldNumber]:
    """The numbers that the anchor behind one of these rows tells; empty if there is none."""
    return next(([ToldNumber(**told) for told in row.columns[COLUMN]] for row in rows if row.columns.get(COLUMN)), [])


def step_times(step_plan: Plan, given: Mapping[str, Any], columns: Mapping[str, Array], length: int) -> Array:
    """The times of a planned step for several settings.

    Args:
        step_plan: the formulas of the time.
        given: the values of the plan's leaves, by name.
        columns: for each leaf that differs between settings, its value in each setting.
        length: the number of settings.
    """
    joint = JointAxis(columns, worthwhile=0.0) if columns else NO_TUPLES
    return np.broadcast_to(run(step_plan, given, joint, keep=frozenset({STEP_TIME}))[STEP_TIME].reshape(-1), (length,))


def anchored_size(size: float, scenario: Scenario, told: Sequence[ToldNumber]) -> float:
    """The size of error of an estimate if the runs of an anchor are known; `size` is that without them."""
    return narrowed(size, _effects(scenario, told), np.array([number.effects for number in told]).T, told[0].left)


def narrowed(size: float, effects: Array, runs: Array, left: float) -> float:
    """A size of error if measured runs are known.

    Source: the module's head.

    Args:
        size: the size of error without them.
        effects: the change of the logarithm of a step's time when each number moves by its width.
        runs: the same for each run, a row each.
        left: the size of error that the runs keep.
    """
    after = effects @ np.linalg.solve(np.eye(len(effects)) + runs.T @ runs / SCATTER**2, effects)
    return max(size * math.sqrt((after + SCATTER**2) / (effects @ effects + SCATTER**2)), left)


def _effects(scenario: Scenario, told: Sequence[ToldNumber]) -> Array:
    """The change of the logarithm of the step's time when each number moves by its width; 0 for a number that it does not use."""
    sources, places = scenario.sources, {(number.table, number.row, number.column): i for i, number in enumerate(told)}
    step_plan = plan(scenario.catalogue, (STEP_TIME,), sources)
    moved: dict[str, int] = {}
    for name in step_plan.leaves:
        origin = sources.origins.get(name)
        if isinstance(origin, LookedUp):
            place = places.get((origin.row.table, origin.row.name, origin.column))
            moved |= {} if place is None else {name: place}
    if not moved:
        return np.zeros(len(told))
    columns = {name: np.full(len(told) + 1, float(sources.given[name])) for name in moved}
    for name, place in moved.items():
        columns[name][place + 1] += DIFFERENCE * told[place].width
    times = np.log(step_times(step_plan, dict(sources.given), columns, len(told) + 1))
    return np.asarray((times[1:] - times[0]) / DIFFERENCE)
