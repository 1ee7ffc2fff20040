"""A calibration: which coefficients of an accelerator its measurements determine, their values, and their gain."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from amped.base.errors import AmpedError, ConfigError, Problem, one_line
from amped.calibration.coefficients import FITTABLE, MOST_OF_AN_ACCELERATOR, Coefficient
from amped.calibration.fitting import NOISE, Task, Tell, fitted, rounded
from amped.calibration.observations import Observation, observed
from amped.engine.evaluate import Array
from amped.estimation.own_runs import own_run, own_size
from amped.estimation.validated import Ground, Left, Validated
from amped.tables.table_files import ACCELERATORS, SYSTEMS, LookupTables
from amped.tables.tables import Row, Tables, user_tables
from amped.validation.measurements import Measurement, read_measurements

# How much more the rows must tell about a coefficient than is known without them. The measure is the sum of squares of
# the changes of all times, in units of the noise, when the coefficient moves by its doubt.
TELLING = 1.0
DIGITS = 4
# The least number of measured times for each fitted number.
ROWS_OF_A_NUMBER = 2
# If the loss is above this, the fitted values do not hold for networks that were not in the fit.
MOST_LOSS = 1.5


@dataclass(frozen=True)
class FittedRun:
    """A run in a fit: its time as measured and as predicted.

    Attributes:
        name: the name of its row.
        measured, before, after: seconds of a step: as measured, and as predicted before and after the fit.
        without: seconds, as predicted by a fit that has seen neither the run nor, if there are several networks, its network.
        ground: what the error of the prediction depends on; None for a kernel.
    """

    name: str
    measured: float
    before: float
    after: float
    without: float
    ground: Ground | None

    @property
    def error(self) -> float:
        """The relative error of the fit that has not seen the run, as a fraction (0.1 is 10 %)."""
        return self.without / self.measured - 1


@dataclass(frozen=True)
class Calibration:
    """The result of the calibration of one accelerator.

    Attributes:
        accelerator: the row of the accelerator.
        base: the row of kernel efficiencies that it has used until now.
        coefficients: the fitted coefficients, with their bounds.
        values: the fitted value of each.
        before: the value of each before the fit.
        at_bound: the coefficients that stopped at a bound.
        unseen: coefficients that these rows do not tell, or for which there are too few rows; they keep their values.
        used: the names of the rows in the fit.
        sizes: the number of different networks in these rows.
        left_out: the rows of the accelerator that are not in the fit, with the reason.
        error_before, error_after: mean absolute errors of the step's time.
        runs: the rows in the fit, each with its times.
        error_left_out: the mean absolute error if each network is predicted by a fit without it; None for one network.
    """

    accelerator: Row
    base: Row
    coefficients: tuple[Coefficient, ...]
    values: Mapping[str, float]
    before: Mapping[str, float]
    at_bound: tuple[str, ...]
    unseen: tuple[str, ...]
    used: tuple[str, ...]
    sizes: int
    left_out: Mapping[str, str]
    error_before: float
    error_after: float
    error_left_out: float | None
    runs: tuple[FittedRun, ...] = ()

    @property
    def validated(self) -> tuple[Validated, ...]:
        """The runs in the form from which the error bands of later estimates are computed.

        Empty if the runs are kernels.
        """
        return tuple(own_run(run.name, run.error, run.ground) for run in self.runs if run.ground)

    @property
    def own_error_fraction(self) -> float | None:
        """The relative error that four of five runs like these stay below; None if the runs are kernels."""
        return math.expm1(own_size([r.size(Left.SOURCE) for r in self.validated])) if self.validated else None

    @property
    def loss(self) -> float | None:
        """The error on networks outside of the fit, divided by the error on networks in the fit.

        None if there is only one network, or if the fit has no error.
        """
        return self.error_left_out / self.error_after if self.error_left_out is not None and self.error_after else None


def calibrated(
    table: Path | None, accelerator: str, lookup_tables: LookupTables = None, tell: Tell = lambda _: None
) -> Calibration:
    """Fits the coefficients of one accelerator to its rows of a table of measurements.

    Args:
        table: the file with the measurements; None for the table that comes with amped.
        accelerator: the name of the accelerator, or one of its aliases.
        lookup_tables: the user's own tables.
        tell: takes lines of progress.

    Raises:
        TableError: for an unknown accelerator; ConfigError: if it was not measured; AmpedError: for an unreadable
            table.
    """
    tables = user_tables(lookup_tables)
    row = tables.row(ACCELERATORS, accelerator)
    by_accelerator = _measurements_by_accelerator(table, tables, lookup_tables)
    if row.name not in by_accelerator:
        names = f"it has rows of {', '.join(by_accelerator)}"
        advice = names if by_accelerator else "no row can be modeled: `amped validate` says why"
        raise ConfigError(f"no row of {_table_in_words(table)} was measured on {row.name}", advice)
    return _calibrated(row, by_accelerator[row.name], lookup_tables, tell)


def calibrated_all(
    table: Path | None, lookup_tables: LookupTables = None, tell: Tell = lambda _: None
) -> list[Calibration]:
    """Fits each accelerator of a table to its rows. Accelerators whose rows cannot be used are reported and left out.

    Raises:
        ConfigError: if no accelerator can be fitted; AmpedError: for an unreadable table.
    """
    tables = user_tables(lookup_tables)
    by_accelerator = _measurements_by_accelerator(table, tables, lookup_tables)
    if not by_accelerator:
        raise ConfigError(f"no row of {_table_in_words(table)} can be modeled", "`amped validate` says why")
    calibrations: list[Calibration] = []
    refused: list[Problem] = []
    for name, rows in by_accelerator.items():
        try:
            calibrations.append(_calibrated(tables.row(ACCELERATORS, name), rows, lookup_tables, tell))
        except ConfigError as error:
            refused += error.problems
            tell(f"left as it is: {one_line(error)}")
    if not calibrations:
        raise ConfigError(refused)
    return calibrations


def _measurements_by_accelerator(
    measurement_file: Path | None, tables: Tables, lookup_table_folders: LookupTables
) -> dict[str, list[Measurement]]:
    """The measurements of a file by the name of their accelerator; those whose accelerator has no row are left out.

    Args:
        measurement_file: None for the table that comes with amped.
        tables: the lookup tables, with the rows of accelerators and systems.
        lookup_table_folders: the user's own tables as paths, with which measurements are read.
    """
    by_accelerator: dict[str, list[Measurement]] = {}
    for measurement in read_measurements(measurement_file, lookup_table_folders):
        with suppress(AmpedError):
            system = measurement.settings.get("system")
            accelerator_of_system = tables.row(SYSTEMS, system).columns.get("accelerator") if system else None
            row = tables.row(ACCELERATORS, str(measurement.settings.get("accelerator") or accelerator_of_system))
            by_accelerator.setdefault(row.name, []).append(measurement)
    return by_accelerator


def _calibrated(row: Row, rows: Sequence[Measurement], lookup_tables: LookupTables, tell: Tell) -> Calibration:
    """The calibration of one accelerator by its measurements.

    Raises:
        ConfigError: if no measurement can be used, or if the measurements determine no coefficient.
    """
    observations, base, left_out = _observations(rows, lookup_tables)
    if base is None:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in left_out.items())
        raise ConfigError(f"none of the {len(rows)} rows of {row.name} can be fitted to", reasons)
    return fitted_to(row, base, observations, left_out, tell)


def fitted_to(
    row: Row, base: Row, observations: Sequence[Observation], left_out: Mapping[str, str], tell: Tell = lambda _: None
) -> Calibration:
    """Fits the coefficients of an accelerator to observations of any origin.

    Args:
        row: the accelerator.
        base: the row of kernel efficiencies that the observations start from; the fitted row extends it.
        observations: measured times of steps or of kernels.
        left_out: the reason for each measurement that is not in the fit, by the measurement's name.
        tell: takes lines of progress.

    Raises:
        ConfigError: if the observations determine no coefficient.
    """
    coefficients, undetermined = chosen(observations, base.fitted)
    if not coefficients:
        raise ConfigError(f"{len(observations)} rows of {row.name} tell no coefficient",
                          f"a fitted number needs {ROWS_OF_A_NUMBER} rows whose time depends on it")  # fmt: skip
    tell(f"{row.name}: {len(coefficients)} coefficients to {len(observations)} rows")
    start = np.array([_start(observations, c.name) for c in coefficients])
    networks = len({o.group for o in observations})
    groups = [o.group if networks > 1 else o.name for o in observations]
    different_groups = list(dict.fromkeys(groups))
    weights = np.concatenate([np.ones((1, len(groups))), np.array(different_groups)[:, None] != np.array(groups)])
    task = Task(coefficients, start, observations, weights)
    values = rounded(fitted(task, tell), DIGITS)
    (before,), (after, *without) = (
        np.exp(task.errors((settings - start) / task.doubts)) for settings in (start[None], values)
    )
    unseen = np.array(without)[[different_groups.index(group) for group in groups], range(len(groups))]
    measured = np.array([o.measured_time for o in observations])
    predicted = [(measured * ratios).tolist() for ratios in (before, after, unseen)]
    runs = tuple(
        FittedRun(o.name, o.measured_time, before=time_before, after=time_after, without=time_unseen, ground=o.ground)
        for o, time_before, time_after, time_unseen in zip(observations, *predicted, strict=True)
    )
    names = [c.name for c in coefficients]
    return Calibration(
        row, base, tuple(coefficients), values=dict(zip(names, values[0].tolist(), strict=True)),
        before=dict(zip(names, start.tolist(), strict=True)), at_bound=_at_bound(task, values[0]), unseen=undetermined,
        used=tuple(o.name for o in observations), sizes=networks, left_out=left_out, error_before=_mean_error(before),
        error_after=_mean_error(after), error_left_out=_mean_error(unseen) if networks > 1 else None, runs=runs,
    )  # fmt: skip


def _observations(
    rows: Sequence[Measurement], lookup_tables: LookupTables
) -> tuple[list[Observation], Row | None, dict[str, str]]:
    """The measurements that can be fitted to, the row of kernel efficiencies that they use, and the other measurements.

    The row is None if no measurement can be fitted to. The others come with the reason, by their names.
    """
    observations: list[Observation] = []
    base, left_out = None, {}
    for measurement in rows:
        try:
            observation, base = observed(measurement, lookup_tables)
            observations.append(observation)
        except AmpedError as error:
            left_out[measurement.id] = one_line(error)
    return observations, base, left_out


def chosen(
    observations: Sequence[Observation], fitted_before: Sequence[str] = ()
) -> tuple[list[Coefficient], tuple[str, ...]]:
    """The coefficients that the observations determine (at most as many as a row may have); the names of the others.

    The choice reads predictions, but no measured time. So a fit that leaves a network out has not seen this network
    here, either. For the same reason, a table's value that was itself fitted before does not count as knowledge.

    Args:
        observations: measured times of steps or of kernels.
        fitted_before: the names of coefficients whose values in the table were fitted.
    """
    used = [c for c in FITTABLE if any(c.name in o.start for o in observations)]
    doubted = [c.with_doubt_of_bounds() if c.name in fitted_before else c for c in used]
    start = np.array([_start(observations, c.name) for c in doubted])
    task = Task(doubted, start, observations, np.ones((1, len(observations))))
    low, high = task.bounds
    moved = np.diag(np.clip(np.where(high >= 1.0, 1.0, -1.0), low, high))
    errors = task.errors(np.concatenate([np.zeros((1, len(doubted))), moved]))
    effects = np.sum(((errors[1:] - errors[0]) / NOISE) ** 2, axis=1)
    ranked = [i for i in np.argsort(-effects, kind="stable") if effects[i] >= TELLING]
    determined = set(ranked[: min(MOST_OF_AN_ACCELERATOR, len(observations) // ROWS_OF_A_NUMBER)])
    undetermined = tuple(c.name for i, c in enumerate(doubted) if i not in determined)
    return [c for i, c in enumerate(doubted) if i in determined], undetermined


def _start(observations: Sequence[Observation], name: str) -> float:
    """The value of a coefficient in the table, from the first observation that depends on the coefficient."""
    return next(o.start[name] for o in observations if name in o.start)


def _at_bound(task: Task, values: Array) -> tuple[str, ...]:
    """The names of the coefficients that the fit moved to a bound.

    Bounds are distances from the start, in units of each coefficient's doubt (its standard deviation before the fit).
    """
    moved = (values - task.start) / task.doubts
    low, high = task.bounds
    is_at_bound = (moved <= low) | (moved >= high)
    return tuple(c.name for c, stopped in zip(task.coefficients, is_at_bound, strict=True) if stopped)


def _mean_error(ratios: Array) -> float:
    """The mean absolute relative error, from ratios of predicted to measured times."""
    return float(np.mean(np.abs(ratios - 1)))


def _table_in_words(table: Path | None) -> str:
    """The path of a table of measurements, as messages say it."""
    return str(table) if table is not None else "the table that comes with amped"
