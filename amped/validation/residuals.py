"""Predictions beside measurements: for each row of a table and each measured quantity, how far off the prediction is.

A row that cannot be modeled stays, with its reason and without a prediction.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any

from amped.base.errors import AmpedError, ConfigError, Problem, one_line
from amped.base.processes import side_by_side, usable_cores
from amped.configuring.scenario import Scenario
from amped.configuring.sources import LookedUp
from amped.estimation.estimation import Estimation, estimated_each
from amped.estimation.own_runs import own_runs
from amped.estimation.validated import CAUSAL_UTILIZATION, Ground, Left, Validated
from amped.tables.table_files import KERNELS, SOFTWARE, LookupTables
from amped.tables.tables import user_tables
from amped.validation.as_typed import Typed, as_typed
from amped.validation.logged import read_runs
from amped.validation.measurements import (
    COMPARED,
    FLOP_RATE,
    MEMORY,
    TIME,
    UTILIZATION,
    Measurement,
    Taken,
    measurements,
)
from amped.validation.table import STEP, Row

# The smallest error. A prediction is above 0, so that its error is above -1; but beside a measurement that is far too large,
# rounding gives -1.
LEAST_ERROR = math.nextafter(-1.0, 0.0)
FITS = "fits_in_memory"
# The page about how well a software stack does: its values come from the stack's row, so they are no assumption.
HOW_WELL = "inputs/software"
# What of a recipe is told even where it is a default, or of the model's row.
RECIPE = ("context", "matrix_precision", "optimizer", "weight_precision", "activation_precision", "optimizer_state_precision",
          "cuda_graph_scope")  # fmt: skip
CONVENTION = "attention_flop_convention"
NOTHING = "nothing was measured"
# A process of its own for fewer rows takes longer to start than it saves.
FEWEST_ROWS = 32
# A fit that moves a time by less has not moved it.
NOT_MOVED = 1e-6
# How far times and rates of one run may differ, as logs round them.
ROUNDED = 0.02
ENDED, RAN = "ran out of memory, and is predicted to fit", "ran, and is predicted not to fit in memory"


@dataclass(frozen=True)
class Residual:
    """One compared quantity of one row, in its canonical unit.

    Attributes:
        measurement: the row of the table.
        quantity: what is compared; `fits_in_memory` for a run that ran out of memory.
        measured: the measured value.
        predicted: the predicted value; None if the row cannot be modeled.
        fits_in_memory: whether the run is predicted to fit.
        ground: the properties of the run on which the error depends, such as the accelerator.
        step_time: the predicted time of a step, which turns the error of a rate into one of time.
        tokens: tokens of a step for each accelerator.
        assumed: the values that the row leaves open.
        fitted: whether coefficients that the prediction uses were fitted to the run.
        reason: why there is no prediction, or what is wrong with the prediction about memory.
        utilization: the predicted share of the peak that FLOPs of the model take, where causal scores count.
    """

    measurement: Measurement
    quantity: str
    measured: float | None
    predicted: float | None = None
    fits_in_memory: bool | None = None
    ground: Ground | None = None
    step_time: float | None = None
    tokens: float = 0.0
    assumed: tuple[Taken, ...] = ()
    reason: str = ""
    utilization: float = 0.0
    fitted: bool = False

    @property
    def missed(self) -> bool:
        """Whether there is no prediction, because the row could not be modeled."""
        return self.predicted is None

    @property
    def of_time(self) -> bool:
        """Whether the time of a step is compared, directly or as a rate."""
        return self.quantity in COMPARED

    @property
    def error(self) -> float | None:
        """The relative error, predicted / measured - 1; None without both values. Source: definition."""
        if self.predicted is None or not self.measured or self.quantity == FITS:
            return None
        return max(self.predicted / self.measured - 1, LEAST_ERROR)

    @property
    def aligned_error(self) -> float | None:
        """The relative error as an error of time: that of a rate is converted, so that more is slower. Other errors are unchanged."""
        error = self.error
        return error if error is None or self.quantity == TIME or not self.of_time else 1 / (1 + error) - 1

    @property
    def times(self) -> tuple[float, float] | None:
        """The measured and the predicted time of a step; a measured rate is converted. None if no time is compared."""
        error = self.aligned_error
        if error is None or self.step_time is None or not self.of_time:
            return None
        return self.step_time / (1 + error), self.step_time

    @property
    def accelerator(self) -> str:
        """The row of the accelerator, or the name in the table if there is no prediction."""
        settings = self.measurement.settings
        if self.ground:
            return self.ground.accelerator
        return str(settings.get("accelerator") or settings.get("system", ""))

    @property
    def trusted(self) -> bool:
        """Whether the inputs are known well enough for a judgment: the confidence is high or medium."""
        return self.measurement.confidence != "low"


def residuals(
    table: str | Path | None = None, lookup_tables: LookupTables = None, typed: Typed | None = None
) -> list[Residual]:
    """The compared quantities of all rows of a table (by default amped's own table), in its order.

    Args:
        table: a file of comma-separated values; `amped validate --template` prints its columns.
        lookup_tables: a folder of lookup tables that overrule the shipped ones.
        typed: what of the software a person types, if rows are to be taken as typed.

    Raises:
        AmpedError: for a table that cannot be read.
    """
    rows = read_runs(table)
    if typed is not None:
        tables = user_tables(lookup_tables)
        rows = [as_typed(row, typed, tables) for row in rows if row.texts.get("kind", STEP) == STEP]
    processes = min(usable_cores(), len(rows) // FEWEST_ROWS)
    work = partial(residuals_of, lookup_tables=lookup_tables)
    parts = _rows_for_processes(rows) if processes > 1 else [rows]
    compared = chain.from_iterable(side_by_side(work, parts, processes))
    return sorted(compared, key=lambda residual: residual.measurement.row.line)


def _rows_for_processes(rows: Sequence[Row]) -> list[list[Row]]:
    """The rows in parts for processes, the largest part first.

    A part has rows of one software that all have experts or all have none, as most configs of such a part have one structure.
    """
    rows_by_structure: dict[tuple[str, bool], list[Row]] = {}
    for row in rows:
        key = str(row.settings.get("software")), "number_of_experts" in row.settings
        rows_by_structure.setdefault(key, []).append(row)
    return sorted(rows_by_structure.values(), key=len, reverse=True)


def validated_runs(
    rows: Sequence[Residual], shifts: Mapping[Left, Mapping[str, float]] = MappingProxyType({})
) -> list[Validated]:
    """The errors of step times and of memory, with what they depend on. Error bands of estimates are made from them.

    Args:
        rows: the compared quantities.
        shifts: for what a fit leaves out, what the predicted time of a step is multiplied by in that fit, by the id of its row.
    """
    return [
        Validated(
            id=r.measurement.id, source=r.measurement.source, group=r.measurement.group, confidence=r.measurement.confidence, error_fraction=error, ground=r.ground,
            quantity=TIME if r.of_time else MEMORY, utilization=r.utilization * (1 + error) if r.of_time else 0.0,
            **{left.column: _shifted(error, of_left.get(r.measurement.id)) for left, of_left in shifts.items() if r.of_time},
        )
        for r in rows
        if r.measurement.kind == STEP and r.ground and (error := r.aligned_error) is not None
    ]  # fmt: skip


def _shifted(error: float, shift: float | None) -> float | None:
    """The error of a time that is multiplied by a shift; None without one, or if it moves nothing."""
    return None if shift is None or abs(shift - 1) < NOT_MOVED else (1 + error) * shift - 1


def residuals_of(rows: Sequence[Row], lookup_tables: LookupTables = None) -> list[Residual]:
    """The compared quantities of some rows of a table, in their order."""
    estimates = estimates_of(measurements(rows, lookup_tables), lookup_tables)
    return [residual for row_residuals, _ in estimates for residual in row_residuals]


def estimates_of(
    rows: Sequence[Measurement], lookup_tables: LookupTables = None
) -> list[tuple[list[Residual], Estimation | None]]:
    """For each measurement, its compared quantities and its estimate; the estimate is None if the row cannot be modeled.

    Repeats of one config share its estimate. Configs of one structure are estimated together.
    """
    configs = [m.reason or repr(sorted(m.settings.items())) for m in rows]
    scenarios: dict[str, Scenario] = {}
    estimates: dict[str, Estimation | AmpedError] = {}
    for config, m in dict(zip(configs, rows, strict=True)).items():
        try:
            scenarios[config] = m.scenario(lookup_tables)
        except AmpedError as error:
            estimates[config] = error
    estimates.update(zip(scenarios, estimated_each([*scenarios.values()]), strict=True))
    return [_residuals_of_row(m, estimates[config]) for config, m in zip(configs, rows, strict=True)]


def _residuals_of_row(m: Measurement, e: Estimation | AmpedError) -> tuple[list[Residual], Estimation | None]:
    """The compared quantities of one row, and its estimate.

    There is no prediction (and None as the estimate) if the config was refused, if no formula uses a value of the row, or if the
    measured times and rates disagree.
    """
    quantities: dict[str, float | None] = m.compared | ({FITS: False} if m.out_of_memory else {}) or {TIME: None}
    if isinstance(e, AmpedError):
        reason = f"line {m.row.line}: {one_line(e)}"
        return [Residual(m, name, value, reason=reason) for name, value in quantities.items()], None
    unread = [f"'{name}' is given, and no formula of its plan reads it" for name in e.unread if name in m.row.settings]
    if unread:
        return _residuals_of_row(m, ConfigError(Problem(what, advice="leave the cell blank") for what in unread))
    fits, tokens = bool(e[FITS]), e["batch_size"] * e["context"] / e["number_of_accelerators"]
    verdict = {(True, True): ENDED, (False, False): RAN}.get((m.out_of_memory, fits), "")
    verdict = verdict if m.compared or m.out_of_memory else NOTHING
    shared: dict[str, Any] = {
        "fits_in_memory": fits, "ground": e.ground, "step_time": e[TIME], "tokens": tokens, "assumed": _assumed_values(m, e), "reason": verdict,
        "utilization": e[CAUSAL_UTILIZATION], "fitted": _is_fitted(m, e),
    }  # fmt: skip
    compared = [
        Residual(m, name, measured, predicted=fits if name == FITS else m.predicted(e, name), **shared)
        for name, measured in quantities.items()
    ]
    paces = [residual for residual in compared if residual.times]
    if contradiction := _contradiction(paces):
        error = ConfigError(contradiction, "keep the one that was printed, and leave the others out")
        return _residuals_of_row(m, error)
    return [residual for residual in compared if residual not in paces[1:]], e


def _is_fitted(m: Measurement, e: Estimation) -> bool:
    """Whether coefficients were fitted to the run: the shipped ones, or those of a user's own calibration."""
    runs = own_runs(e.scenario.sources.rows[KERNELS]) if e.uses_kernels else ()
    return m.fitted or m.row.texts.get("id") in [run.id for run in runs]


def _contradiction(paces: Sequence[Residual]) -> str:
    """A sentence, if the measured times and rates of a run give different times of a step; empty if they agree.

    Args:
        paces: the residuals of one run that compare a time or a rate.
    """
    times = [pace.times[0] for pace in paces if pace.times]
    if not times or max(times) <= min(times) * (1 + ROUNDED):
        return ""
    values = (f"{p.quantity} {p.measured:.4g} (a step of {time:.4g} s)" for p, time in zip(paces, times, strict=True))
    return f"the time of a step is given more than once, and differs: {', '.join(values)}"


def _assumed_values(m: Measurement, e: Estimation) -> tuple[Taken, ...]:
    """The values that the row leaves open: chosen ones, defaults of its software's row, and the rest of the recipe."""
    software_defaults = {
        name: Taken(name, origin.written, f"default of {origin.row.name}")
        for name, origin in e.scenario.sources.origins.items()
        if isinstance(origin, LookedUp) and origin.row.table == SOFTWARE and (name in e or name in e.choices)
        and e.scenario.catalogue[name].formulas[0].page != HOW_WELL
    }  # fmt: skip
    recipe = (taken for taken in _rest_of_recipe(m, e) if taken.name not in {*m.settings, *software_defaults})
    return (*m.assumed, *software_defaults.values(), *recipe)


def _rest_of_recipe(m: Measurement, e: Estimation) -> Iterator[Taken]:
    """The values of parameters in which runs differ and which logs often leave out, from the model's row or a default of amped."""
    counts_flops = {FLOP_RATE, UTILIZATION} & m.row.measured.keys()
    for name in (*RECIPE, *([CONVENTION] if counts_flops else [])):
        origin = e.scenario.sources.origins.get(name)
        why = f"of {origin.row.name}" if isinstance(origin, LookedUp) else "default of amped"
        if name in e.choices or name in e:
            yield Taken(name, e.choices[name] if name in e.choices else e[name], why)
