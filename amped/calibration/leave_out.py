"""Predictions of rows that no fit has seen: each source is left out of the fit in turn, alone or with what else may be new.

With a source, its accelerator may be left out (all rows on it), its software stack, or both. Rows of other sources that
repeat a configuration of what is left out are left out of the fit, too. The numbers of an accelerator or a stack that no
other row tells become those that they are drawn to. Each fit starts from the fit to all rows and takes a few steps of
Gauss and Newton, all fits at once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from amped.calibration.all_rows import AllRows, fitted_to_all, groups_of
from amped.calibration.fitting import Tell
from amped.calibration.frozen_steps import Frozen
from amped.calibration.step_fit import refitted_steps, weights
from amped.engine.evaluate import Array
from amped.estimation.uncertainty import TIME_LAW, Bands, ErrorLaw
from amped.estimation.validated import Left, Validated, well_known
from amped.tables.table_files import LookupTables
from amped.validation.measurements import TIME
from amped.validation.residuals import Residual, validated_runs

# What a row's error is multiplied by, plus 1, if something is left out of the fit: by the id of the row.
Shifts = Mapping[str, float]


@dataclass(frozen=True)
class LeftOut:
    """All rows, each predicted by a fit that has not seen it nor what is left out with it.

    Attributes:
        fit: the fit to all rows.
        refitted: the values of the numbers in each fit, by what is left out together and by its names, as `traits` gives them.
        shifts: what each row's predicted time is multiplied by in the fit without it.
    """

    fit: AllRows
    refitted: Mapping[Left, Mapping[tuple[str, ...], Array]]
    shifts: Mapping[Left, Shifts]

    def runs(self) -> list[Validated]:
        """The training steps with their errors in each fit."""
        return validated_runs(self.fit.after, self.shifts)

    def rows(self, left: Left) -> list[Residual]:
        """The rows as the fit without what is left out predicts them."""
        return [_shifted(row, self.shifts[left][row.measurement.id]) for row in self.fit.after]


def _shifted(row: Residual, shift: float) -> Residual:
    """A row whose predicted time is multiplied by a shift."""
    if row.predicted is None or row.step_time is None:
        return row
    predicted = row.predicted * shift if row.quantity == TIME else row.predicted / shift
    return replace(row, predicted=predicted, step_time=row.step_time * shift)


@dataclass(frozen=True)
class Checked:
    """A band of a training step, from the runs that are left if it and what is new with it is left out.

    Attributes:
        left: what was left out.
        group: the configuration of the step.
        absolute_error: the size of the step's relative error, in the fit without what was left out.
        error_fraction: the half width of the band.
        is_inside: whether the step's error, in the fit without what was left out, lies in the band.
    """

    left: Left
    group: str
    absolute_error: float
    error_fraction: float
    is_inside: bool


def bands_checked(runs: Sequence[Validated], law: ErrorLaw = TIME_LAW) -> list[Checked]:
    """The bands of all runs for each class of what may be new, from the other runs, and whether they hold.

    A run that shares less with the other runs than the class says belongs to another class, and is not checked in this one:
    without its source, an accelerator may be left without a run.
    """
    known = well_known(runs, law.quantity)
    return [checked for left in Left for checked in _checked(known, left, law)]


def _checked(runs: Sequence[Validated], left: Left, law: ErrorLaw) -> Iterator[Checked]:
    """The bands of runs for one class, each from the runs that share nothing with the run that is left out."""
    names_of = {run.id: left.names(run.source, run.ground.accelerator, run.ground.software) for run in runs}
    for names in dict.fromkeys(names_of.values()):
        bands = Bands([run for run in runs if not shares(names_of[run.id], names)], law)
        for run in runs:
            if bands.runs and names_of[run.id] == names and bands.newness(run.ground) is left:
                band = bands.band(run.ground)
                yield Checked(
                    left, run.group or run.id, abs(run.error(left)), band.error_fraction, band.holds(run.size(left))
                )


def shares(names: tuple[str, ...], others: tuple[str, ...]) -> bool:
    """Whether two rows share one of the names that are left out together."""
    return any(name == other for name, other in zip(names, others, strict=True))


def left_out(table: Path | None, lookup_tables: LookupTables = None, tell: Tell = lambda _: None) -> LeftOut:
    """The fit to all rows; and for each source, and each source with what else may be new, what a fit without it predicts.

    Args:
        table: the file with the measurements; None for the table that comes with amped.
        lookup_tables: the user's own tables.
        tell: takes lines of progress.
    """
    return without_each(fitted_to_all(table, lookup_tables, tell), tell)


def without_each(fit: AllRows, tell: Tell = lambda _: None) -> LeftOut:
    """What fits without each source predict of its rows, each source alone or with what else may be new."""
    refitted = {left: refits(fit, left, tell) for left in Left}
    shifts = {left: _shifts(fit, values, left) for left, values in refitted.items()}
    return LeftOut(fit, refitted, shifts)


def refits(fit: AllRows, left: Left, tell: Tell = lambda _: None) -> dict[tuple[str, ...], Array]:
    """The values of the numbers in each fit that leaves something out, by the names of what it leaves out."""
    steps, groups = fit.frozen.steps, groups_of(fit.frozen)
    names = list(dict.fromkeys(traits(step.residual, left) for step in steps))
    tell(f"{len(names)} fits, each without one source{OTHERS[left]}")
    weight = np.array([weights(groups, _is_seen_without(fit.frozen, left, each)) for each in names])
    return dict(zip(names, refitted_steps(fit.frozen, fit.values, weight), strict=True))


# What is left out beside a source, in words.
OTHERS = {
    Left.SOURCE: "",
    Left.ACCELERATOR: " and one accelerator",
    Left.STACK: " and one stack",
    Left.ALL: ", one accelerator and one stack",
}


def traits(row: Residual, left: Left) -> tuple[str, ...]:
    """The names of what is left out with a row that has a prediction."""
    return left.names(row.measurement.source, row.accelerator, row.ground.software if row.ground else "")


def _is_seen_without(frozen: Frozen, left: Left, names: tuple[str, ...]) -> list[bool]:
    """For each step, whether a fit sees it that leaves out what has one of these names.

    It does not see the steps that have one of the names, and no step that repeats one of their configurations.
    """
    groups = groups_of(frozen)
    groups_left_out = {
        group for group, step in zip(groups, frozen.steps, strict=True) if shares(traits(step.residual, left), names)
    }
    return [group not in groups_left_out for group in groups]


def _shifts(fit: AllRows, refitted: Mapping[tuple[str, ...], Array], left: Left) -> dict[str, float]:
    """What the predicted time of each step is multiplied by in the fit without it, by the id of its row."""
    rows = [step.residual for step in fit.frozen.steps]
    settings = [np.stack([fit.values, refitted[traits(row, left)]]) for row in rows]
    errors = fit.frozen.errors_each(settings)
    return {row.measurement.id: math.exp(without - seen) for row, (seen, without) in zip(rows, errors, strict=True)}
