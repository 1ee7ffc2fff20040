"""A calibration: which coefficients of an accelerator its measurements tell, their values, and what is gained by them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from amped.base.errors import AmpedError, ConfigError, Problem, one_line
from amped.calibration.coefficients import FITTABLE, MOST_OF_AN_ACCELERATOR, Coefficient
from amped.calibration.fitting import NOISE, Task, Told, fitted
from amped.calibration.observations import Observation, observed
from amped.engine.evaluate import Array
from amped.tables.table_files import ACCELERATORS, SYSTEMS
from amped.tables.tables import Row, Tables, user_tables
from amped.validation.measurements import Measurement, read_measurements

# How much more the rows must tell of a coefficient than is known without them: the changes of all times when it is moved by
# its doubt, in units of the noise, squared and added.
TELLING = 1.0
DIGITS = 4
# Measured times a fitted number needs at least.
ROWS_OF_A_NUMBER = 2
# Beyond this, what was fitted does not hold for what was not seen.
MOST_LOSS = 1.5


@dataclass(frozen=True)
class Calibration:
    """What came of the measurements of one accelerator.

    Attributes:
        accelerator: its row; `base` the row of kernel efficiencies that served it until now.
        coefficients: those that were fitted, with their bounds.
        values: of each; `before` what it was; `at_bound` those that would go on but for their bounds.
        unseen: coefficients that these rows do not tell, or for which there are too few rows; they stay.
        used: names of the rows fitted to; `sizes` how many networks they are of.
        left_out: rows of the accelerator that were not fitted to, with the reason.
        error_before, error_after: mean absolute errors of the step's time.
        error_left_out: the same where each network is predicted by a fit that has not seen it; None with one network.
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

    @property
    def loss(self) -> float | None:
        """The error on networks not seen as a multiple of that on those fitted to."""
        return self.error_left_out / self.error_after if self.error_left_out is not None and self.error_after else None


def calibrated(
    table: Path | None, accelerator: str, lookup_tables: Path | None = None, tell: Told = lambda _: None
) -> Calibration:
    """Fits an accelerator's coefficients to its rows of a table of measurements.

    Raises:
        TableError: for an unknown accelerator; ConfigError: if nothing of it was measured; AmpedError: for no table.
    """
    tables = user_tables(lookup_tables)
    row = tables.row(ACCELERATORS, accelerator)
    own = [m for m in read_measurements(table, lookup_tables) if accelerator_of(m, tables) == row.name]
    if not own:
        raise ConfigError(f"no row of {_label(table)} was measured on {row.name}", _measured_on(table, lookup_tables))
    return _calibrated(row, own, lookup_tables, tell)


def calibrated_all(
    table: Path | None, lookup_tables: Path | None = None, tell: Told = lambda _: None
) -> list[Calibration]:
    """The same for each accelerator that a table has rows of; one whose rows cannot be used is told and left.

    Raises:
        ConfigError: if that is so of all; AmpedError: for no table.
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
    """The row of the accelerator that a measurement was made on; nothing where the row cannot be modeled."""
    try:
        system = m.settings.get("system")
        own = tables.row(SYSTEMS, system).columns.get("accelerator") if system else None
        return "" if m.reason else tables.row(ACCELERATORS, str(m.settings.get("accelerator") or own)).name
    except AmpedError:
        return ""


def _calibrated(row: Row, own: Sequence[Measurement], lookup_tables: Path | None, tell: Told) -> Calibration:
    observations, base, left_out = _observations(own, lookup_tables)
    if base is None:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in left_out.items())
        raise ConfigError(f"none of the {len(own)} rows of {row.name} can be fitted to", reasons)
    return fitted_to(row, base, observations, left_out, tell)


def fitted_to(
    row: Row, base: Row, observations: Sequence[Observation], left_out: Mapping[str, str], tell: Told = lambda _: None
) -> Calibration:
    """Fits an accelerator's coefficients to observations, wherever they come from.

    Args:
        row: the accelerator.
        base: the row of kernel efficiencies that the observations start from, and that the new one extends.
        observations: measured times of steps or of kernels.
        left_out: what was measured and is not fitted to, with the reason.
        tell: takes lines of progress.

    Raises:
        ConfigError: if they tell no coefficient.
    """
    coefficients, unseen = chosen(observations, base.fitted)
    if not coefficients:
        raise ConfigError(f"{len(observations)} rows of {row.name} tell no coefficient",
                          f"a fitted number needs {ROWS_OF_A_NUMBER} rows whose time depends on it")  # fmt: skip
    tell(f"{row.name}: {len(coefficients)} coefficients to {len(observations)} rows")
    start = np.array([_start(observations, c.name) for c in coefficients])
    groups = list(dict.fromkeys(o.group for o in observations))
    weights = np.array([[1.0] * len(observations), *_without(observations, groups)])
    task = Task(coefficients, start, observations, weights)
    found = np.vectorize(lambda value: float(f"{value:.{DIGITS}g}"))(fitted(task, tell))
    before, errors = np.exp(task.errors(start * np.zeros((1, 1)))), np.exp(task.errors((found - start) / task.doubts))
    alone = [errors[1 + groups.index(o.group), i] for i, o in enumerate(observations)] if len(groups) > 1 else []
    return Calibration(
        row, base, tuple(coefficients), dict(zip([c.name for c in coefficients], map(float, found[0]), strict=True)),
        {c.name: float(v) for c, v in zip(coefficients, start, strict=True)}, _at_bound(task, found[0]), unseen,
        tuple(o.name for o in observations), len(groups), left_out, _mean(before[0]), _mean(errors[0]),
        _mean(np.array(alone)) if alone else None,
    )  # fmt: skip


def _observations(
    own: Sequence[Measurement], lookup_tables: Path | None
) -> tuple[list[Observation], Row | None, dict[str, str]]:
    """What of the measurements can be fitted to, the row of kernel efficiencies that serves them, and what was left out."""
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
    """The coefficients that the observations tell, the most telling of them where they are too many, and the others.

    Only predictions are looked at and no measured time, so that a fit that leaves a network out has not seen it here either.
    Nor has it through what a table's value was fitted to before: such a value says nothing about itself.
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


def _without(observations: Sequence[Observation], groups: Sequence[str]) -> list[list[float]]:
    """For each group, which observations are left without it; no fits at all where it is the only one."""
    return [[float(o.group != group) for o in observations] for group in groups] if len(groups) > 1 else []


def _at_bound(task: Task, found: Array) -> tuple[str, ...]:
    moved = (found - task.start) / task.doubts
    low, high = task.bounds
    return tuple(c.name for c, m, a, b in zip(task.coefficients, moved, low, high, strict=True) if m <= a or m >= b)


def _mean(ratios: Array) -> float:
    """Mean absolute error of predicted over measured."""
    return float(np.mean(np.abs(ratios - 1)))


def _label(table: Path | None) -> str:
    return str(table) if table is not None else "the table that comes with amped"


def _measured_on(table: Path | None, lookup_tables: Path | None) -> str:
    tables, every = user_tables(lookup_tables), read_measurements(table, lookup_tables)
    names = dict.fromkeys(filter(None, (accelerator_of(m, tables) for m in every)))
    return f"it has rows of {', '.join(names)}" if names else "no row can be modeled: `amped validate` says why"
