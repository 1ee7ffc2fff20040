"""Predictions of rows that no fit has seen: each source, accelerator or software stack is left out of the fit in turn.

Rows of other sources that repeat a configuration of what is left out are left out of the fit, too. The numbers of an
accelerator or a stack that no other row tells become those that they are drawn to. Each fit starts from the fit to
all rows and takes a few steps of Gauss and Newton, all fits at once.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from amped.calibration.all_rows import AllRows, fitted_to_all, groups_of, overlaid, predicted_with
from amped.calibration.fitting import Tell
from amped.calibration.frozen_steps import Frozen
from amped.calibration.step_fit import fitted_steps, weights
from amped.calibration.step_numbers import Key, Number, number
from amped.calibration.step_table import shipped_numbers
from amped.engine.evaluate import Array
from amped.estimation.uncertainty import error_band, holds
from amped.estimation.validated import Validated
from amped.tables.table_files import LookupTables
from amped.tables.tables import Tables, user_tables
from amped.validation.residuals import Residual, residuals_of, validated_runs
from amped.validation.table import Row

# How often a fit without some rows is linearized again.
ROUNDS = 2


class Left(enum.StrEnum):
    """What a fit leaves out together: the rows of one source, of one accelerator, or of one software stack."""

    SOURCE = "source"
    ACCELERATOR = "accelerator"
    STACK = "stack"


@dataclass(frozen=True)
class LeftOut:
    """A source, an accelerator or a stack that was left out, and the predictions of its rows.

    Attributes:
        name: the source, the accelerator or the stack.
        values: the values of the numbers in the fit without its rows.
        rows: its rows, with the predictions of that fit.
        inside: for each row that is a training step, whether its error lies in the 80 % band that the other rows give.
    """

    name: str
    values: Array
    rows: tuple[Residual, ...]
    inside: tuple[bool, ...]


def left_out(
    table: Path | None, by: Left, lookup_tables: LookupTables = None, tell: Tell = lambda _: None
) -> tuple[AllRows, list[LeftOut]]:
    """The fit to all rows; and for each source, accelerator or stack, what the fit without it predicts.

    Args:
        table: the file with the measurements; None for the table that comes with amped.
        by: what is left out together.
        lookup_tables: the user's own tables.
        tell: takes lines of progress.
    """
    fit = fitted_to_all(table, lookup_tables, tell)
    refitted = {left: refits(fit, left, tell) for left in dict.fromkeys((by, Left.SOURCE, Left.ACCELERATOR))}
    runs = _runs(fit.frozen, refitted)
    return fit, [_predicted(fit, by, name, values, runs) for name, values in refitted[by].items()]


def refits(fit: AllRows, by: Left, tell: Tell = lambda _: None) -> dict[str, Array]:
    """The values of the numbers in the fit without each source, accelerator or stack, by the name left out."""
    steps, groups = fit.frozen.steps, groups_of(fit.frozen)
    names = list(dict.fromkeys(name_of(step.residual, by) for step in steps))
    tell(f"{len(names)} fits, each without one {by.value}")
    weight = np.array([weights(groups, _is_seen_without(fit.frozen, by, name)) for name in names])
    values = fitted_steps(fit.frozen, np.repeat(fit.values[None], len(names), 0), weight, ROUNDS, tell)
    return dict(zip(names, values, strict=True))


def name_of(row: Residual, by: Left) -> str:
    """The source, the accelerator or the stack of a row; empty if the stack is not known."""
    if by is Left.STACK:
        return row.ground.software if row.ground else ""
    return row.measurement.source if by is Left.SOURCE else row.accelerator


def _is_seen_without(frozen: Frozen, by: Left, name: str) -> list[bool]:
    """For each step, whether a fit sees it that leaves out a source, an accelerator or a stack of this name.

    It does not see the steps of that name, and no step that repeats one of their configurations.
    """
    groups = groups_of(frozen)
    groups_left_out = {
        group for group, step in zip(groups, frozen.steps, strict=True) if name_of(step.residual, by) == name
    }
    return [group not in groups_left_out for group in groups]


def _predicted(fit: AllRows, by: Left, name: str, values: Array, runs: Mapping[str, Validated]) -> LeftOut:
    """The rows of what is left out, predicted with the numbers of the fit without it; bands come from the other runs.

    Args:
        fit: the fit to all rows.
        by: what is left out together.
        name: the source, the accelerator or the stack that is left out.
        values: the values of the numbers in the fit without it.
        runs: the training steps by the ids of their rows.
    """
    steps, is_seen = fit.frozen.steps, _is_seen_without(fit.frozen, by, name)
    steps_left_out = [step for step in steps if name_of(step.residual, by) == name]
    rows = predicted_with(steps_left_out, fit.lookup_tables, fit.numbers, values)
    ids = [step.residual.measurement.id for step, seen in zip(steps, is_seen, strict=True) if seen]
    other_runs = [runs[key] for key in ids if key in runs]
    inside = [holds(error_band(run.ground, other_runs), run) for run in validated_runs(rows)]
    return LeftOut(name, values, rows=tuple(rows), inside=tuple(inside))


def _runs(frozen: Frozen, refitted: Mapping[Left, Mapping[str, Array]]) -> dict[str, Validated]:
    """The training steps by the ids of their rows, with their errors in fits without their source or accelerator."""
    rows, without = [step.residual for step in frozen.steps], []
    for by in (Left.SOURCE, Left.ACCELERATOR):
        errors = dict(zip(refitted[by], frozen.errors(np.array([*refitted[by].values()])), strict=True))
        without.append({row.measurement.id: math.expm1(errors[name_of(row, by)][i]) for i, row in enumerate(rows)})
    return {run.id: run for run in validated_runs(rows, *without)}


def errors_without(rows: Sequence[Residual], by: Left, lookup_tables: LookupTables = None) -> dict[str, float]:
    """The relative error of each step's time in the fit without its source or its accelerator, by the id of its row.

    The fits are those of `numbers_fitted_to_steps.csv`: each number moves by as large a share as in these fits. A step
    whose numbers do not move is not in the result.

    Args:
        rows: the steps, as predicted with the tables.
        by: the source or the accelerator.
        lookup_tables: the user's own tables.
    """
    tables = user_tables(lookup_tables)
    rows_by_name: dict[str, list[Row]] = {}
    for residual in rows:
        rows_by_name.setdefault(name_of(residual, by), []).append(residual.measurement.row)
    errors: dict[str, float] = {}
    for name, rows_of_name in rows_by_name.items():
        moved = dict(_moved(tables, by, name))
        if moved:
            with overlaid(lookup_tables, [*moved], np.array([*moved.values()])) as folder:
                residuals = residuals_of(rows_of_name, folder)
            errors |= {
                residual.measurement.id: error
                for residual in residuals
                if residual.of_time and (error := residual.aligned_error) is not None
            }
    return errors


def _moved(tables: Tables, by: Left, name: str) -> Iterator[tuple[Number, float]]:
    """The numbers that move if a source or an accelerator is left out, and the value of each in the fit without it.

    The value is that of the tables, changed by the share by which the number moved in `numbers_fitted_to_steps.csv`.
    """
    for shipped in shipped_numbers():
        value = getattr(shipped, f"without_{by}").get(name)
        if value is not None:
            moved = number(tables, Key(shipped.table, shipped.row, shipped.column))
            yield moved, moved.value * value / shipped.fitted
