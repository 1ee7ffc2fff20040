"""The fit of all numbers that are fitted to steps, of accelerators and of software stacks, to all rows at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from amped.base import version
from amped.base.errors import ConfigError
from amped.calibration.calibrate import DIGITS
from amped.calibration.coefficients import MOST_OF_ALL_ROWS
from amped.calibration.fitting import NOISE, Tell, optimizer, rounded
from amped.calibration.frozen_steps import Frozen, MeasuredStep, steps_of
from amped.calibration.step_fit import SETTLED, cost, fitted_steps, weights
from amped.calibration.step_numbers import Key, Number, drawn, fitted_key, number
from amped.calibration.written import as_text, as_written, label, temporary_file
from amped.configuring.sources import LookedUp
from amped.engine.evaluate import Array
from amped.tables.table_files import KERNELS, LookupTables, table_paths
from amped.tables.tables import Tables, user_tables
from amped.validation.measurements import read_measurements
from amped.validation.residuals import Residual, residuals_of

# A row is behind a number if its time changes by more than this when the number moves by its width.
MOVED = 0.005
# The most steps of Gauss and Newton between two choices, and how often amped chooses anew what rows leave open.
MOST_STEPS, MOST_CHOICES = 8, 3
# One number for so many configurations at most: with more, the numbers would repeat the measurements.
GROUPS_OF_A_NUMBER = 8
NO_ROW = "no row of high or medium confidence depends on it"
TOO_MANY = f"an accelerator has at most {MOST_OF_ALL_ROWS} numbers, and rows tell more about the others"


@dataclass(frozen=True)
class AllRows:
    """The result of the fit to all rows.

    Attributes:
        table, lookup_tables: the file of measurements (None: amped's own), and the user's own tables.
        frozen: the rows as functions of the numbers, with the choices that belong to the fitted values.
        values: the fitted values.
        unfitted, before, after: the predictions of the rows before any fit to steps, from kernels, datasheets and sources
            alone; with the values of the tables; and with the fitted ones.
        kept: numbers that are named in `fitted` and keep their values, with the reason.
    """

    table: Path | None
    lookup_tables: LookupTables
    frozen: Frozen
    values: Array
    unfitted: tuple[Residual, ...]
    before: tuple[Residual, ...]
    after: tuple[Residual, ...]
    kept: Mapping[Key, str]

    @property
    def numbers(self) -> list[Number]:
        """The numbers that were fitted."""
        return self.frozen.numbers

    @property
    def groups(self) -> int:
        """The number of different configurations."""
        return len({r.measurement.group for r in self.after})

    @property
    def most_numbers(self) -> int:
        """The largest number of fitted numbers that so many configurations allow."""
        return self.groups // GROUPS_OF_A_NUMBER


def fitted_to_all(table: Path | None, lookup_tables: LookupTables = None, tell: Tell = lambda _: None) -> AllRows:
    """Fits all numbers that are fitted to steps to all rows of high and medium confidence.

    Each round fits the numbers and then makes amped's choices anew with them, as long as that lowers the cost.

    Args:
        table: the file with the measurements; None for the table that comes with amped.
        lookup_tables: the user's own tables.
        tell: takes lines of progress.

    Raises:
        ConfigError: if scipy is not installed, or if no row depends on such a number; AmpedError: for an unreadable
            table.
    """
    optimizer()  # a missing scipy is reported before anything is read
    tables = user_tables(lookup_tables)

    def key_of(origin: LookedUp) -> Key | None:
        return fitted_key(tables, origin.row, origin.column)

    steps = steps_of(read_measurements(table, lookup_tables), key_of, lookup_tables)
    numbers, reasons = chosen(steps, tables)
    if not numbers:
        raise ConfigError("no row depends on a number that is fitted to steps",
                          "rows name such numbers in `fitted`; `amped coefficients` lists them")  # fmt: skip
    frozen = Frozen(steps, numbers, drawn(tables, numbers))
    tell(f"{len(numbers)} numbers to {len(steps)} rows")
    values = np.array([number.value for number in numbers])
    lowest_cost = _cost(frozen, values)
    for _ in range(MOST_CHOICES):
        fitted = rounded(fitted_steps(frozen, values[None], _weights(frozen)[None], MOST_STEPS, tell)[0], DIGITS)
        if np.max(np.abs(fitted - values) / frozen.drawn.widths) < SETTLED:
            break
        with overlaid(lookup_tables, numbers, fitted) as folder:
            steps_again = steps_of(read_measurements(table, folder), key_of, folder)
        frozen_again = Frozen(steps_again, numbers, frozen.drawn)
        cost_again = _cost(frozen_again, fitted)
        tell(f"with the choices that belong to these values: cost {cost_again:.2f}, before {lowest_cost:.2f}")
        if cost_again >= lowest_cost:
            break
        frozen, values, lowest_cost = frozen_again, fitted, cost_again
    unfitted = predicted_with(steps, lookup_tables, numbers, frozen.drawn.without_steps())
    before, after = (tuple(step.residual for step in measured_steps) for measured_steps in (steps, frozen.steps))
    return AllRows(
        table, lookup_tables, frozen, values, unfitted=tuple(unfitted), before=before, after=after, kept=reasons
    )


def predicted_with(
    steps: Sequence[MeasuredStep], lookup_tables: LookupTables, numbers: Sequence[Number], values: Array
) -> list[Residual]:
    """The residuals of steps, predicted with these values of the numbers; steps without a prediction are left out."""
    with overlaid(lookup_tables, numbers, values) as folder:
        residuals = residuals_of([step.residual.measurement.row for step in steps], folder)
    return [residual for residual in residuals if residual.of_time and residual.aligned_error is not None]


def chosen(steps: Sequence[MeasuredStep], tables: Tables) -> tuple[list[Number], dict[Key, str]]:
    """The numbers that rows tell something about, at most three of an accelerator; the other ones with the reason.

    The choice reads predictions, but no measured time.

    Args:
        steps: the rows.
        tables: the lookup tables that have the numbers.

    Returns:
        The numbers to fit; and for each other number the reason, by its key.
    """
    keys = sorted({key for step in steps for key in step.keys.values()})
    if not keys:
        return [], {}
    numbers = [number(tables, key) for key in keys]
    frozen = Frozen(steps, numbers, drawn(tables, numbers))
    effects = _effects(frozen, np.array([number.value for number in numbers]))
    reasons = {keys[i]: NO_ROW for i in np.flatnonzero(~np.any(np.abs(effects) > MOVED, axis=0))}
    keys_of_row: dict[str, list[Key]] = {}
    for i in np.argsort(-(_weights(frozen) @ (effects / NOISE) ** 2), kind="stable"):
        if keys[i].table == KERNELS and keys[i] not in reasons:
            keys_of_row.setdefault(keys[i].row, []).append(keys[i])
    reasons |= {key: TOO_MANY for ranked in keys_of_row.values() for key in ranked[MOST_OF_ALL_ROWS:]}
    return [number for number in numbers if number.key not in reasons], reasons


@contextmanager
def overlaid(lookup_tables: LookupTables, numbers: Sequence[Number], values: Array) -> Iterator[LookupTables]:
    """The user's lookup tables, and over them a temporary file of rows with these values of the numbers."""
    with temporary_file(rows_with(numbers, values)) as file:
        yield (*table_paths(lookup_tables), file)


def rows_with(numbers: Sequence[Number], values: Array, about: dict[str, Any] | None = None) -> dict[str, Any]:
    """Lookup tables whose rows extend the rows of the same name, with these values of the numbers.

    Args:
        numbers: the numbers, each of which has its table, row and column.
        values: the value of each number.
        about: further columns of each row; with them, `fitted` names the row's numbers.

    Returns:
        The columns by table and row.
    """
    tables: dict[str, dict[str, Any]] = {}
    for key, value in zip((fitted.key for fitted in numbers), values.tolist(), strict=True):
        row = tables.setdefault(key.table, {}).setdefault(key.row, {"extends": key.row})
        row[key.column] = as_written(key.column, value)
    if about:
        for row in (row for rows in tables.values() for row in rows.values()):
            row |= about | {"fitted": [name for name in row if name != "extends"]}
    return tables


def as_file(fit: AllRows) -> str:
    """The fitted numbers as the text of a file of lookup tables.

    amped reads the file if it is in ./lookup_tables/, or with --lookup-tables.
    """
    rows = f"{len(fit.after)} rows of high and medium confidence of {label(fit.table)}, all rows and numbers at once"
    about = {
        "sources": [f"amped calibrate --all, amped {version.__version__}, {date.today().isoformat()}: {rows}"],
        "fitted_on": rows, "unverified": [],
    }  # fmt: skip
    return as_text(rows_with(fit.numbers, fit.values, about))


def is_moved(frozen: Frozen, values: Array) -> Array:
    """For each step (row) and each number (column), whether the step tells the number.

    It does if its time changes noticeably when the number moves by its width.
    """
    return np.asarray(np.abs(_effects(frozen, values)) > MOVED)


def _effects(frozen: Frozen, values: Array) -> Array:
    """The change of the error of each step (row) when a number (column) moves by its width."""
    _, slopes = frozen.linearized(values[None])
    return np.asarray(slopes[0] * frozen.drawn.widths)


def groups_of(frozen: Frozen) -> list[str]:
    """The configuration of each step."""
    return [step.residual.measurement.group for step in frozen.steps]


def _weights(frozen: Frozen) -> Array:
    """The weight of each step in a fit that sees all steps."""
    return weights(groups_of(frozen), [True] * len(frozen.steps))


def _cost(frozen: Frozen, values: Array) -> float:
    """The cost of these values of the numbers in a fit that sees all steps."""
    return float(cost(frozen.errors(values[None])[0], _weights(frozen), frozen.drawn.distances(values)))
