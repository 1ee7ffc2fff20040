"""Measured steps as functions of the numbers that are fitted to them, with all choices kept as they are.

What amped chooses for a row (the micro-batch that its source leaves open, the layout of the stages, places of the fast
domain) may change where a number changes. Here it is kept, so that a time has a slope; a fit freezes the steps once
more where it has arrived. Rows whose configs have the same structure are evaluated together, for all settings at once,
and each row only for the numbers that its time depends on.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from amped.calibration.step_numbers import Drawn, Key, Number, fitted_key
from amped.configuring.sources import LookedUp
from amped.engine.axes import JointAxis
from amped.engine.evaluate import NO_TUPLES, Array, run
from amped.engine.resolve import Plan, plan
from amped.estimation.estimation import Estimation
from amped.tables.table_files import LookupTables
from amped.tables.tables import Tables
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
        keys: the numbers that the time depends on, by the names that its plan has for them.
        plan: the formulas of the time, in order.
        given: the values of the plan's sources and defaults.
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


def steps_of(rows: Sequence[Measurement], tables: Tables, lookup_tables: LookupTables) -> list[MeasuredStep]:
    """The steps of the rows of high and medium confidence that have a measured and a predicted time.

    Args:
        rows: measurements, read with the same lookup tables.
        tables: the tables that say which numbers are fitted.
        lookup_tables: a folder whose values are used instead.
    """
    trusted = [m for m in rows if m.confidence != "low"]
    found = (_step(own, e, tables) for own, e in estimates_of(trusted, lookup_tables))
    return [step for step in found if step is not None]


def _step(own: Sequence[Residual], e: Estimation | None, tables: Tables) -> MeasuredStep | None:
    timed = next((r for r in own if r.of_time and r.trusted and r.times), None)
    if e is None or timed is None or timed.times is None:
        return None
    sources = e.scenario.sources
    chosen = plan(e.scenario.catalogue, (TIME,), sources)
    keys: dict[str, Key] = {}
    for name in chosen.leaves:
        origin = sources.origins.get(name)
        key = fitted_key(tables, origin.row, origin.column) if isinstance(origin, LookedUp) else None
        if key is not None:
            keys[name] = key
    given = {name: sources.given[name] for name in chosen.leaves} | chosen.defaults
    return MeasuredStep(timed, timed.times[0], keys, chosen.opened, given)


class Frozen:
    """Steps whose times are functions of numbers."""

    def __init__(self, steps: Sequence[MeasuredStep], numbers: Sequence[Number], drawn: Drawn) -> None:
        """Takes the steps, the numbers that may change, and their widths and bounds."""
        self.steps, self.numbers, self.drawn = list(steps), list(numbers), drawn
        places = {each.key: place for place, each in enumerate(numbers)}
        self.read = [{n: places[key] for n, key in step.keys.items() if key in places} for step in steps]
        self.touched = [sorted(set(read.values())) for read in self.read]
        self.measured = np.array([step.measured_time for step in steps])

    @cached_property
    def bundles(self) -> list[list[int]]:
        """The places of the steps that are evaluated together."""
        alike: dict[Hashable, list[int]] = {}
        for place, step in enumerate(self.steps):
            alike.setdefault(step.structure, []).append(place)
        return [*alike.values()]

    def errors(self, settings: Array) -> Array:
        """Logarithms of predicted over measured times: a row for each setting, a column for each step."""
        return np.stack(self._errors([settings] * len(self.steps)), axis=1)

    def linearized(self, settings: Array) -> tuple[Array, Array]:
        """The errors, and their slopes by each number (settings times steps times numbers), by finite differences.

        A step is evaluated again only for the numbers that its time depends on.
        """
        signs = np.where(settings + DIFFERENCE * self.drawn.widths > self.drawn.high, -1.0, 1.0)
        moves = DIFFERENCE * self.drawn.widths * signs
        every = [self._nearby(settings, moves, own) for own in self.touched]
        found = self._errors([each.reshape(-1, len(self.numbers)) for each in every])
        number = len(settings)
        errors = np.stack([each[:number] for each in found], axis=1)
        slopes = np.zeros((*errors.shape, len(self.numbers)))
        for place, own in enumerate(self.touched):
            moved = found[place].reshape(len(own) + 1, number)
            slopes[:, place, own] = ((moved[1:] - moved[0]) / moves[:, own].T).T
        return errors, slopes

    def _nearby(self, settings: Array, moves: Array, own: Sequence[int]) -> Array:
        """The settings, and for each number of a step the settings with this number moved."""
        every = np.repeat(settings[None], len(own) + 1, axis=0)
        for turn, place in enumerate(own):
            every[turn + 1, :, place] += moves[:, place]
        return every

    def _errors(self, settings: Sequence[Array]) -> list[Array]:
        """For each step, its errors for its own settings."""
        found: list[Array] = [np.empty(0)] * len(self.steps)
        for places in self.bundles:
            times = self._times(places, [settings[place] for place in places])
            ends = np.cumsum([len(settings[place]) for place in places])[:-1]
            for place, own in zip(places, np.split(times, ends), strict=True):
                found[place] = np.log(own / self.measured[place])
        return found

    def _times(self, places: Sequence[int], settings: Sequence[Array]) -> Array:
        """The times of steps of one structure, each for its own settings, one after another."""
        first = self.steps[places[0]]
        values = dict(first.given)
        columns: dict[str, Array] = {}
        for name, value in first.given.items():
            if isinstance(value, str):
                continue
            column = np.concatenate([self._column(p, name, own) for p, own in zip(places, settings, strict=True)])
            values[name] = float(column[0])
            if np.any(column != column[0]):
                columns[name] = column
        joint = JointAxis(columns, worthwhile=0.0) if columns else NO_TUPLES
        found = run(first.plan, values, joint, keep=frozenset({TIME}))[TIME].reshape(-1)
        return np.broadcast_to(found, (sum(map(len, settings)),))

    def _column(self, place: int, name: str, settings: Array) -> Array:
        """The values of one source of a step's plan, for each of its settings."""
        number = self.read[place].get(name)
        if number is not None:
            return settings[:, number]
        return np.full(len(settings), float(self.steps[place].given[name]))
