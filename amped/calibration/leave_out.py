"""What is predicted without having been seen: each source, accelerator or software stack is left out of the fit in turn.

Rows of other sources that repeat a configuration of what is left out are left out of the fit, too. The numbers of an
accelerator or a stack that no other row tells become those that they are drawn to. Each fit starts from the fit to
all rows and takes a few steps of Gauss and Newton, all fits at once.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from amped.calibration.all_rows import AllRows, fitted_to_all, groups_of, overlaid
from amped.calibration.fitting import Tell
from amped.calibration.frozen_steps import Frozen, MeasuredStep
from amped.calibration.step_fit import fitted_steps, weights
from amped.engine.evaluate import Array
from amped.estimation.uncertainty import Validated, error_band, holds
from amped.validation.residuals import Residual, residuals_of, validated_runs
from amped.validation.table import STEP

# How often a fit without some rows is linearized again.
ROUNDS = 2


class Left(enum.StrEnum):
    """What is left out together."""

    SOURCE = "source"
    ACCELERATOR = "accelerator"
    STACK = "stack"


@dataclass(frozen=True)
class LeftOut:
    """What was left out, and how well it is predicted without it.

    Attributes:
        name: the source, the accelerator or the stack.
        values: the numbers of the fit without it.
        rows: its rows, with the predictions of that fit.
        inside: for each row that is a training step, whether its error lies in the 80 % band that the other rows give.
    """

    name: str
    values: Array
    rows: tuple[Residual, ...]
    inside: tuple[bool, ...]


def left_out(
    table: Path | None, by: Left, lookup_tables: Path | None = None, tell: Tell = lambda _: None
) -> tuple[AllRows, list[LeftOut]]:
    """The fit to all rows, and for each source, accelerator or stack what the fit without it predicts."""
    found = fitted_to_all(table, lookup_tables, tell)
    names, values = refits(found, by, tell)
    errors = found.frozen.errors(values)
    told = [_predicted(found, by, name, own, e) for name, own, e in zip(names, values, errors, strict=True)]
    return found, told


def refits(found: AllRows, by: Left, tell: Tell = lambda _: None) -> tuple[list[str], Array]:
    """What can be left out, and the numbers of the fit without each, a row for each."""
    steps, groups = found.frozen.steps, groups_of(found.frozen)
    names = list(dict.fromkeys(name_of(step.residual, by) for step in steps))
    tell(f"{len(names)} fits, each without one {by.value}")
    weight = np.array([weights(groups, kept_without(found.frozen, by, name)) for name in names])
    return names, fitted_steps(found.frozen, np.repeat(found.values[None], len(names), 0), weight, ROUNDS, tell)


def name_of(row: Residual, by: Left) -> str:
    """The source, the accelerator or the stack of a row."""
    if by is Left.STACK:
        return row.ground.software if row.ground else ""
    return row.measurement.source if by is Left.SOURCE else row.accelerator


def kept_without(frozen: Frozen, by: Left, name: str) -> list[bool]:
    """The steps that a fit sees without a source: no row of it, and no repeat of its configurations."""
    groups = groups_of(frozen)
    gone = {g for g, step in zip(groups, frozen.steps, strict=True) if name_of(step.residual, by) == name}
    return [group not in gone for group in groups]


def _predicted(found: AllRows, by: Left, name: str, values: Array, errors: Array) -> LeftOut:
    """The rows of what is left out, predicted with the numbers of the fit without it."""
    own = [step for step in found.frozen.steps if name_of(step.residual, by) == name]
    with overlaid(found.lookup_tables, found.numbers, values) as folder:
        rows = [r for r in _estimated(own, folder) if r.of_time and r.aligned_error is not None]
    kept = kept_without(found.frozen, by, name)
    runs = list(_runs([s for s, keep in zip(found.frozen.steps, kept, strict=True) if keep], errors[kept]))
    inside = [holds(error_band(run.ground, runs), run) for run in validated_runs(rows)]
    return LeftOut(name, values, tuple(rows), tuple(inside))


def _estimated(steps: Sequence[MeasuredStep], folder: Path) -> list[Residual]:
    """Rows with the predictions of a folder of lookup tables."""
    return residuals_of([step.residual.measurement.row for step in steps], folder)


def _runs(steps: Sequence[MeasuredStep], errors: Array) -> Iterator[Validated]:
    """The errors that a band comes from."""
    for step, error in zip(steps, errors, strict=True):
        m, ground = step.residual.measurement, step.residual.ground
        if m.kind == STEP and ground is not None:
            yield Validated(m.id, m.confidence, math.expm1(error), ground)
