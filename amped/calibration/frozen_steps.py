"""Measured steps as functions of the numbers that are fitted to them, with all choices kept as they are.

What amped chooses for a row (the micro-batch that its source leaves open, the layout of the stages, places of the fast
domain) may change where a number changes. Here it is kept, so that a time has a slope; a fit freezes the steps once
more where it has arrived. Rows whose configs have the same structure are evaluated together, for all settings at once,
and each row only for the numbers that its time depends on.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from amped.calibration.step_numbers import Drawn, Key, Number
from amped.configuring.sources import LookedUp
from amped.engine.evaluate import Array
from amped.engine.resolve import Plan, plan
from amped.estimation.anchored import step_times
from amped.estimation.estimation import Estimation
from amped.tables.table_files import LookupTables
from amped.validation.measurements import TIME, Measurement
from amped.validation.residuals import Residual, estimates_of

# The step of finite differences, in widths of what a number is drawn to.
DIFFERENCE = 0.05


@dataclass(frozen=True)
class MeasuredStep:
    """A measured step.

    Attributes:
        residual: the row of the table with its prediction, by the values that it was frozen with.
        measured_time: the measured time; a measured rate is converted.
        keys: the numbers that the time depends on, by the names of the plan's leaves.
        plan: the formulas of the time, in order.
        given: the values of the plan's leaves, by name.
    """

    residual: Residual
    measured_time: float
    keys: Mapping[str, Key]
    plan: Plan = field(repr=False)
    given: Mapping[str, Any] = field(repr=False)

    @property
    def structure(self) -> Hashable:
        """A key that is equal for steps that can be evaluated together."""
        return self.plan.structure_for(self.given)


# The key of the number behind a looked-up value; None if nothing fits it.
KeyOf = Callable[[LookedUp], Key | None]


def steps_of(rows: Sequence[Measurement], key_of: KeyOf, lookup_tables: LookupTables) -> list[MeasuredStep]:
    """The steps of the rows of high and medium confidence that have a measured and a predicted time.

    Args:
        rows: measurements, read with the same lookup tables.
        key_of: says which numbers are fitted.
        lookup_tables: the tables as paths, with which the steps are estimated.
    """
    trusted = [measurement for measurement in rows if measurement.confidence != "low"]
    return [
        _step(residual, residual.times[0], estimate, key_of)
        for residuals, estimate in estimates_of(trusted, lookup_tables)
        for residual in residuals
        if estimate is not None and residual.times is not None
    ]


def _step(residual: Residual, measured_time: float, estimate: Estimation, key_of: KeyOf) -> MeasuredStep:
    """The step of a row, with the plan of its time and the fitted number behind each leaf of the plan."""
    sources = estimate.scenario.sources
    step_plan = plan(estimate.scenario.catalogue, (TIME,), sources)
    keys: dict[str, Key] = {}
    for name in step_plan.leaves:
        origin = sources.origins.get(name)
        if isinstance(origin, LookedUp) and (key := key_of(origin)):
            keys[name] = key
    given = {name: sources.given[name] for name in step_plan.leaves} | step_plan.defaults
    return MeasuredStep(residual, measured_time, keys, plan=step_plan.opened, given=given)


class Frozen:
    """Steps whose times are functions of numbers.

    Attributes:
        steps, numbers, drawn: the steps; the numbers that may change; their widths and bounds.
        places_of_leaves: for each step, the place in `numbers` of the number behind a leaf of its plan, by the leaf's
            name.
        touched: for each step, the places of the numbers that its time depends on.
        measured: the measured time of each step.
    """

    def __init__(self, steps: Sequence[MeasuredStep], numbers: Sequence[Number], drawn: Drawn) -> None:
        """Takes the steps, the numbers that may change, and their widths and bounds."""
        self.steps, self.numbers, self.drawn = list(steps), list(numbers), drawn
        places = {number.key: place for place, number in enumerate(numbers)}
        self.places_of_leaves = [
            {leaf: places[key] for leaf, key in step.keys.items() if key in places} for step in steps
        ]
        self.touched = [sorted(set(leaves.values())) for leaves in self.places_of_leaves]
        self.measured = np.array([step.measured_time for step in steps])

    @cached_property
    def bundles(self) -> list[list[int]]:
        """The places of the steps in lists: the steps of a list have one structure and are evaluated together."""
        by_structure: dict[Hashable, list[int]] = {}
        for place, step in enumerate(self.steps):
            by_structure.setdefault(step.structure, []).append(place)
        return [*by_structure.values()]

    def errors(self, settings: Array) -> Array:
        """Logarithms of predicted over measured times: a row for each setting, a column for each step.

        Args:
            settings: the values of the numbers, a row for each setting.
        """
        return np.stack(self.errors_each([settings] * len(self.steps)), axis=1)

    def linearized(self, settings: Array) -> tuple[Array, Array]:
        """The errors of the steps, and their slopes by each number, by finite differences.

        A step is evaluated again only for the numbers that its time depends on.

        Args:
            settings: the values of the numbers, a row for each setting.

        Returns:
            Errors (settings times steps), and slopes (settings times steps times numbers).
        """
        signs = np.where(settings + DIFFERENCE * self.drawn.widths > self.drawn.high, -1.0, 1.0)
        moves = DIFFERENCE * self.drawn.widths * signs
        nearby_errors = self.errors_each([_nearby(settings, moves, numbers) for numbers in self.touched])
        length = len(settings)
        errors = np.stack([step_errors[:length] for step_errors in nearby_errors], axis=1)
        slopes = np.zeros((*errors.shape, len(self.numbers)))
        for place, numbers in enumerate(self.touched):
            moved = nearby_errors[place].reshape(len(numbers) + 1, length)
            slopes[:, place, numbers] = ((moved[1:] - moved[0]) / moves[:, numbers].T).T
        return errors, slopes

    def errors_each(self, settings: Sequence[Array]) -> list[Array]:
        """Logarithms of predicted over measured times, of each step for its own settings.

        Args:
            settings: for each step, the values of the numbers, a row for each setting.
        """
        errors: dict[int, Array] = {}
        for places in self.bundles:
            times = self._times(places, [settings[place] for place in places])
            ends = np.cumsum([len(settings[place]) for place in places])[:-1]
            for place, times_of_step in zip(places, np.split(times, ends), strict=True):
                errors[place] = np.log(times_of_step / self.measured[place])
        return [errors[place] for place in range(len(self.steps))]

    def _times(self, places: Sequence[int], settings: Sequence[Array]) -> Array:
        """The times of steps of one structure, each for its own settings, one step after another.

        Args:
            places: the places of the steps.
            settings: for each of these steps, the values of the numbers, a row for each setting.
        """
        first = self.steps[places[0]]
        values = dict(first.given)
        columns: dict[str, Array] = {}
        for name, value in first.given.items():
            if isinstance(value, str):
                continue
            column = np.concatenate(
                [self._column(place, name, rows) for place, rows in zip(places, settings, strict=True)]
            )
            values[name] = float(column[0])
            if np.any(column != column[0]):
                columns[name] = column
        return step_times(first.plan, values, columns, sum(map(len, settings)))

    def _column(self, place: int, name: str, settings: Array) -> Array:
        """The values of one leaf of a step's plan, one for each setting."""
        number = self.places_of_leaves[place].get(name)
        if number is not None:
            return settings[:, number]
        return np.full(len(settings), float(self.steps[place].given[name]))


def _nearby(settings: Array, moves: Array, numbers: Sequence[int]) -> Array:
    """The settings, and below them, for each number of a step, the settings with this number moved."""
    nearby = np.repeat(settings[None], len(numbers) + 1, axis=0)
    for block, number in enumerate(numbers, 1):
        nearby[block, :, number] += moves[:, number]
    return nearby.reshape(-1, settings.shape[1])
