"""An anchor of measured steps: runs on one node, or more, as numbers of their accelerator and of their software.

Every number that may be fitted to steps, and that the time of a run depends on, is drawn to its value in the tables, by its doubt
(`coefficients.py`). The cost, its bounds and its steps are those of the fit to all steps (`step_fit.py`), so that one run moves a
number by no more than its time tells, and an odd run hardly. What a run does not depend on keeps its value.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from amped.base.errors import ConfigError
from amped.calibration.calibrate import DIGITS
from amped.calibration.coefficients import OF_ALL_ROWS
from amped.calibration.fitting import optimizer, rounded
from amped.calibration.frozen_steps import Frozen, MeasuredStep, steps_of
from amped.calibration.step_fit import fitted_steps, weights
from amped.calibration.step_numbers import TABLES, Drawn, Key, Number
from amped.calibration.written import as_written
from amped.configuring.sources import LookedUp
from amped.engine.evaluate import Array
from amped.estimation.anchored import COLUMN, ToldNumber
from amped.estimation.own_runs import SCATTER
from amped.estimation.validated import error_size
from amped.tables.table_files import LookupTables
from amped.validation.measurements import Measurement

MOST_STEPS = 8
# A number whose whole width changes no run by more than this is not told.
LEAST_EFFECT = 1e-4
# A run that is further off than so many times the scatter of measurements is told.
FAR = 2
# The most runs that are named.
MOST_SHOWN = 3


@dataclass(frozen=True)
class AnchoredRun:
    """A run of an anchor: its name, what it ran on, and its step as measured and as predicted before and now, in seconds."""

    name: str
    accelerators: float
    accelerator: str
    measured: float
    before: float
    now: float


@dataclass(frozen=True)
class StepAnchor:
    """The numbers that the runs of an anchor tell.

    Attributes:
        name: what the runs come from.
        numbers: the numbers, with their values before.
        values: their values now.
        told: how much the runs tell of each.
        runs: the runs.
    """

    name: str
    numbers: Sequence[Number]
    values: Array
    told: Sequence[ToldNumber]
    runs: Sequence[AnchoredRun]


def anchored_to_steps(rows: Sequence[Measurement], name: str, lookup_tables: LookupTables = None) -> StepAnchor:
    """The numbers that the measured steps of these rows tell.

    Args:
        rows: the runs.
        name: what they come from.
        lookup_tables: the user's own tables.

    Raises:
        ConfigError: if scipy is missing, or if no run has a measured step that can be estimated.
    """
    optimizer()
    steps = steps_of(rows, key_of, lookup_tables)
    if not steps:
        reasons = "; ".join(
            f"{row.id}: {row.reason or 'no step was measured, or its inputs are known badly'}" for row in rows
        )
        raise ConfigError(f"no run of {name} can be an anchor", reasons or "it has no run")
    frozen = frozen_at_tables(steps)
    values = rounded(anchored_values(frozen, _weights(frozen)), DIGITS)
    before, now = (np.exp(frozen.errors(v[None])[0]) * frozen.measured for v in (_values(frozen.numbers), values))
    return StepAnchor(name, frozen.numbers, values, told=_told(frozen, values), runs=[
        AnchoredRun(step.residual.measurement.id, step.residual.ground.number_of_accelerators if step.residual.ground else 0.0,
                    step.residual.accelerator, measured=step.measured_time, before=float(before[i]), now=float(now[i]))
        for i, step in enumerate(steps)
    ])  # fmt: skip


def key_of(origin: LookedUp) -> Key | None:
    """The key of the number behind a looked-up value: of the row itself, so that an anchor moves no other row."""
    is_told = origin.row.table in TABLES and origin.column in OF_ALL_ROWS
    return Key(origin.row.table, origin.row.name, origin.column) if is_told else None


def frozen_at_tables(steps: Sequence[MeasuredStep]) -> Frozen:
    """Steps as functions of the numbers that they depend on, each of which is drawn to its own value."""
    found = {key: float(step.given[leaf]) for step in steps for leaf, key in step.keys.items()}
    numbers = [Number(key, OF_ALL_ROWS[key.column], found[key]) for key in sorted(found)]
    bounds = np.array([number.coefficient.within(number.value) for number in numbers]).reshape(-1, 2)
    widths = np.array([number.coefficient.doubt for number in numbers])
    unshared = np.zeros((len(numbers), len(numbers)))
    return Frozen(steps, numbers, Drawn(unshared, _values(numbers), widths, low=bounds[:, 0], high=bounds[:, 1]))


def anchored_values(frozen: Frozen, weight: Array) -> Array:
    """The values of the numbers that make the cost of these steps smallest."""
    return np.asarray(fitted_steps(frozen, _values(frozen.numbers)[None], weight[None], MOST_STEPS)[0])


def _values(numbers: Sequence[Number]) -> Array:
    """The values of numbers in the tables."""
    return np.array([number.value for number in numbers])


def _weights(frozen: Frozen) -> Array:
    """The weight of each step: repeats of a configuration count as one."""
    return weights([step.residual.measurement.group for step in frozen.steps], [True] * len(frozen.steps))


def _told(frozen: Frozen, values: Array) -> list[ToldNumber]:
    """How much the steps tell of each number."""
    errors, slopes = frozen.linearized(values[None])
    left = float(f"{np.max(np.abs(errors[0])):.5g}")
    effects = slopes[0] * frozen.drawn.widths * np.sqrt(_weights(frozen))[:, None]
    return [
        ToldNumber(n.key.table, n.key.row, n.key.column, width=n.coefficient.doubt, left=left, effects=[float(f"{e:.5g}") for e in effects[:, i]])
        for i, n in enumerate(frozen.numbers) if np.max(np.abs(effects[:, i])) > LEAST_EFFECT
    ]  # fmt: skip


def rows_of(anchor: StepAnchor) -> dict[str, Any]:
    """The rows of lookup tables with the numbers of an anchor, by table and row; each extends the row of its name."""
    tables: dict[str, dict[str, Any]] = {}
    about = {"anchored_on": label(anchor), COLUMN: [asdict(number) for number in anchor.told]}
    values = dict(zip((number.key for number in anchor.numbers), anchor.values.tolist(), strict=True))
    for told in anchor.told:
        row = tables.setdefault(told.table, {}).setdefault(told.row, {"extends": told.row, **about})
        row[told.column] = as_written(told.column, values[Key(told.table, told.row, told.column)])
    return tables


def warning(anchor: StepAnchor) -> str:
    """A warning if a run stays further from its prediction than measurements scatter; empty if none does."""
    far = [run for run in anchor.runs if error_size(run.now / run.measured - 1) > FAR * SCATTER]
    if not far:
        return ""
    return (f"warning: with all that is doubted of its numbers, {far[0].name} is still {far[0].now / far[0].measured - 1:+.0%} off, and the band is as wide: "
            "something else differs; `amped why --measured TIME` ranks what it may be")  # fmt: skip


def label(anchor: StepAnchor) -> str:
    """The runs of an anchor in words: what they ran on, and their steps as measured and as predicted before."""
    return f"{anchor.name}: {'; '.join(_in_words(anchor))}"


def _in_words(anchor: StepAnchor) -> Iterator[str]:
    """A clause for each of the first runs, and one for how many more there are."""
    for run in anchor.runs[:MOST_SHOWN]:
        predicted = f"{run.before:.4g} s without it, {run.now:.4g} s with it"
        yield f"a step of {run.measured:.4g} s on {run.accelerators:g} {run.accelerator} ({predicted})"
    if len(anchor.runs) > MOST_SHOWN:
        yield f"{len(anchor.runs) - MOST_SHOWN} more runs"
