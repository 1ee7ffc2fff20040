"""A calibration: which coefficients of an accelerator its measurements determine, their values, and their gain."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from amped.base.errors import AmpedError, ConfigError, Problem, one_line
from amped.calibration.coefficients import FITTABLE, MOST_OF_AN_ACCELERATOR, Coefficient
from amped.calibration.fitting import NOISE, Task, Tell, fitted
from amped.calibration.observations import Observation, observed
from amped.engine.evaluate import Array
from amped.estimation.own_runs import own_run, own_size
from amped.estimation.validated import Ground, Validated
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
        without: seconds, as predicted by a fit that has not seen it (nor its network, if there are several networks).
        ground: what its error depends on.
    """

    name: str
    measured: float
    before: float
    after: float
    without: float
    ground: Ground | None

    @property
    def error(self) -> float:
        """Its error in the fit that has not seen it, as a fraction."""
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
        """The runs as those that the band of one's own estimates comes from."""
        return tuple(own_run(run.name, run.error, run.ground) for run in self.runs if run.ground)

    @property
    def own_error_fraction(self) -> float | None:
        """How far four of five runs like these may be off; None if the runs are no steps."""
        return math.expm1(own_size([r.size_without_source for r in self.validated])) if self.validated else None

    @property
    def loss(self) -> float | None:
        """The error on networks outside of the fit, divided by the error on those in the fit."""
        return self.error_left_out / self.error_after if self.error_left_out is not None and self.error_after else None


def calibrated(
    table: Path | None, accelerator: str, lookup_tables: LookupTables = None, tell: Tell = lambda _: None
) -> Calibration:
    """Fits an accelerator's coefficients to its rows of a table of measurements.

    Raises:
        TableError: for an unknown accelerator; ConfigError: if it was not measured; AmpedError: for an unreadable
            table.
    """
    tables = user_tables(lookup_tables)
    row = tables.row(ACCELERATORS, accelerator)
    own = [m for m in read_measurements(table, lookup_tables) if accelerator_of(m, tables) == row.name]
    if not own:
        raise ConfigError(f"no row of {_label(table)} was measured on {row.name}", _measured_on(table, lookup_tables))
    return _calibrated(row, own, lookup_tables, tell)


def calibrated_all(
    table: Path | None, lookup_tables: LookupTables = None, tell: Tell = lambda _: None
) -> list[Calibration]:
    """Fits each accelerator of a table to its rows. Accelerators whose rows cannot be used are reported and left out.

    Raises:
        ConfigError: if no accelerator can be fitted; AmpedError: for an unreadable table.
    """
    tables, every = user_tables(lookup_tables), read_measurements(table, lookup_tables)
    names = [name for name in dict.fromkeys(accelerator_of(m, tables) for m in every) if name]
    if not names:
        raise ConfigError(f"no row of {_label(table)} can be modeled", "`amped validate` says why")
    found: list[Calibration] = []
    refused: list[Problem] = []
    for name in names:
        try:
            own = [m for m in every if accelerator_of(m, tables) == name]
            found.append(_calibrated(tables.row(ACCELERATORS, name), own, lookup_tables, tell))
        except ConfigError as error:
            refused += error.problems
            tell(f"left as it is: {one_line(error)}")
    if not found:
        raise ConfigError(refused)
    return found


def accelerator_of(m: Measurement, tables: Tables) -> str:
    """The accelerator's row for a measurement; an empty text if there is none."""
    try:
        system = m.settings.get("system")
        own = tables.row(SYSTEMS, system).columns.get("accelerator") if system else None
        return tables.row(ACCELERATORS, str(m.settings.get("accelerator") or own)).name
    except AmpedError:
        return ""


def _calibrated(row: Row, own: Sequence[Measurement], lookup_tables: LookupTables, tell: Tell) -> Calibration:
    observations, base, left_out = _observations(own, lookup_tables)
    if base is None:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in left_out.items())
        raise ConfigError(f"none of the {len(own)} rows of {row.name} can be fitted to", reasons)
    return fitted_to(row, base, observations, left_out, tell)


def fitted_to(
    row: Row, base: Row, observations: Sequence[Observation], left_out: Mapping[str, str], tell: Tell = lambda _: None
) -> Calibration:
    """Fits an accelerator's coefficients to observations of any origin.

    Args:
        row: the accelerator.
        base: the row of kernel efficiencies that the observations start from, and that the new one extends.
        observations: measured times of steps or of kernels.
        left_out: the measurements that are not in the fit, with the reason.
        tell: takes lines of progress.

    Raises:
        ConfigError: if the observations determine no coefficient.
    """
    coefficients, unseen = chosen(observations, base.fitted)
    if not coefficients:
        raise ConfigError(f"{len(observations)} rows of {row.name} tell no coefficient",
                          f"a fitted number needs {ROWS_OF_A_NUMBER} rows whose time depends on it")  # fmt: skip
    tell(f"{row.name}: {len(coefficients)} coefficients to {len(observations)} rows")
    start = np.array([_start(observations, c.name) for c in coefficients])
    networks = list(dict.fromkeys(o.group for o in observations))
    parts = [o.group if len(networks) > 1 else o.name for o in observations]
    groups = list(dict.fromkeys(parts))
    weights = np.array([[1.0] * len(observations), *_without(parts, groups)])
    task = Task(coefficients, start, observations, weights)
    found = np.vectorize(lambda value: float(f"{value:.{DIGITS}g}"))(fitted(task, tell))
    before, errors = np.exp(task.errors(start * np.zeros((1, 1)))), np.exp(task.errors((found - start) / task.doubts))
    alone = np.array([errors[1 + groups.index(part), i] for i, part in enumerate(parts)])
    runs = tuple(
        FittedRun(o.name, o.measured_time, o.measured_time * b, o.measured_time * a, o.measured_time * w, o.ground)
        for o, b, a, w in zip(observations, *(ratios.tolist() for ratios in (before[0], errors[0], alone)), strict=True)
    )
    return Calibration(
        row, base, tuple(coefficients), dict(zip([c.name for c in coefficients], map(float, found[0]), strict=True)),
        {c.name: float(v) for c, v in zip(coefficients, start, strict=True)}, _at_bound(task, found[0]), unseen,
        tuple(o.name for o in observations), len(networks), left_out, _mean(before[0]), _mean(errors[0]),
        _mean(alone) if len(networks) > 1 else None, runs,
    )  # fmt: skip


def _observations(
    own: Sequence[Measurement], lookup_tables: LookupTables
) -> tuple[list[Observation], Row | None, dict[str, str]]:
    """The measurements that can be fitted to, the row of kernel efficiencies that they use, and those left out."""
    found: list[Observation] = []
    base, left_out = None, {}
    for m in own:
        try:
            observation, base = observed(m, lookup_tables)
            found.append(observation)
        except AmpedError as error:
            left_out[m.id] = one_line(error)
    return found, base, left_out


def chosen(
    observations: Sequence[Observation], fitted_before: Sequence[str] = ()
) -> tuple[list[Coefficient], tuple[str, ...]]:
    """The coefficients that the observations determine (at most as many as a row may have), and the other ones.

    The choice reads predictions, but no measured time; a fit that leaves a network out therefore has not seen this
    network here, either. A table's value that was itself fitted before does not count as knowledge, for the same
    reason.
    """
    used = [c for c in FITTABLE if any(c.name in o.start for o in observations)]
    known = [c.known_from_steps_alone() if c.name in fitted_before else c for c in used]
    start = np.array([_start(observations, c.name) for c in known])
    task = Task(known, start, observations, np.ones((1, len(observations))))
    low, high = task.bounds
    moved = np.diag(np.clip(np.where(high >= 1.0, 1.0, -1.0), low, high))
    errors = task.errors(np.concatenate([np.zeros((1, len(known))), moved]))
    effects = np.sum(((errors[1:] - errors[0]) / NOISE) ** 2, axis=1)
    telling = [i for i in np.argsort(-effects, kind="stable") if effects[i] >= TELLING]
    kept = set(telling[: min(MOST_OF_AN_ACCELERATOR, len(observations) // ROWS_OF_A_NUMBER)])
    return [c for i, c in enumerate(known) if i in kept], tuple(c.name for i, c in enumerate(known) if i not in kept)


def _start(observations: Sequence[Observation], name: str) -> float:
    return next(o.start[name] for o in observations if name in o.start)


def _without(parts: Sequence[str], groups: Sequence[str]) -> list[list[float]]:
    """For each group, the weights of the observations without it."""
    return [[float(part != group) for part in parts] for group in groups]


def _at_bound(task: Task, found: Array) -> tuple[str, ...]:
    moved = (found - task.start) / task.doubts
    low, high = task.bounds
    return tuple(c.name for c, m, a, b in zip(task.coefficients, moved, low, high, strict=True) if m <= a or m >= b)


def _mean(ratios: Array) -> float:
    """The mean absolute error of predicted over measured."""
    return float(np.mean(np.abs(ratios - 1)))


def _label(table: Path | None) -> str:
    return str(table) if table is not None else "the table that comes with amped"


def _measured_on(table: Path | None, lookup_tables: LookupTables) -> str:
    tables, every = user_tables(lookup_tables), read_measurements(table, lookup_tables)
    names = dict.fromkeys(filter(None, (accelerator_of(m, tables) for m in every)))
    return f"it has rows of {', '.join(names)}" if names else "no row can be modeled: `amped validate` says why"
