"""The error band of whoever calibrated to runs of their own: that of these runs, and not that of strangers.

`amped calibrate` writes the runs into the row of kernel efficiencies that it fitted, each with its error in a fit that has
not seen it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, replace

import numpy as np

from amped.estimation.uncertainty import TIME_LAW, WIDENED, Bands, ErrorBand, conformal_quantile
from amped.estimation.validated import Ground, Left, Validated, ground_from
from amped.tables.tables import Row

COLUMN = "own_runs"
# Two sources that measure one configuration differ by 2 to 6.5 %; each of them is off by such a difference over the root
# of 2, about 3 %.
SCATTER = 0.03
# With as many degrees of freedom as there are runs, from one on: what the error of four future runs of five stays below, in
# root mean squares of the errors. Source: Student's t, the quantile of 0.9 (NIST/SEMATECH e-Handbook, section 1.3.6.7.2).
STUDENT = (3.078, 1.886, 1.638, 1.533, 1.476, 1.440, 1.415, 1.397, 1.383)
# From so many runs on, the quantile is not the largest error.
FEWEST = 9
# One's own runs are of one source, which the fit has seen.
OWN_LAW = replace(TIME_LAW, one_source="")
ALIKE = "your own runs"


def own_runs(row: Row) -> tuple[Validated, ...]:
    """The user's runs to which a row of kernel efficiencies was calibrated; empty for a row without such runs."""
    return tuple(own_run(run["id"], run["error_fraction"], ground_from(run)) for run in row.columns.get(COLUMN) or ())


def own_run(name: str, error_fraction: float, ground: Ground) -> Validated:
    """One of the user's own runs, with its error in a fit that has not seen it."""
    return Validated(id=name, source=ALIKE, confidence="high", error_fraction=error_fraction, ground=ground)


def as_column(runs: Sequence[Validated]) -> list[dict[str, object]]:
    """The runs as `own_runs` reads them."""
    return [{"id": run.id, "error_fraction": float(f"{run.error_fraction:.5f}"), **asdict(run.ground)} for run in runs]


def own_size(sizes: Sequence[float]) -> float:
    """The size of error below which four of five future errors stay, from the sizes of the errors of the user's runs.

    Few errors are taken as normal around 0. No band is narrower than the scatter of measurements allows.
    Source: Student's t; from nine runs on, split conformal prediction (`uncertainty.py`).
    """
    student = STUDENT[min(len(sizes), len(STUDENT)) - 1]
    usual = math.sqrt(float(np.mean(np.square(sizes))))
    quantile = conformal_quantile(sizes) if len(sizes) >= FEWEST else None
    return max(student * SCATTER, student * usual if quantile is None else quantile)


def own_band(ground: Ground, runs: Sequence[Validated], of_others: ErrorBand) -> ErrorBand:
    """The error band of a configuration after a calibration to the user's own runs.

    If the configuration has a property that none of them has, the band is at least as wide as `of_others`, the band from
    the validated runs of others.
    """
    beyond = tuple(Bands(runs, OWN_LAW).beyond(ground))
    size = own_size([run.size(Left.SOURCE) for run in runs])
    fraction = math.expm1(size * WIDENED ** len(beyond))
    fraction = max(fraction, of_others.error_fraction) if beyond else fraction
    return ErrorBand(fraction, runs=len(runs), alike=ALIKE, beyond=beyond)
