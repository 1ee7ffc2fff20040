"""How well a small run anchors larger ones: in each family of runs, the smallest predicts the others.

A family is of one source, network, accelerator, software and precision, and has runs on several numbers of accelerators. It is
predicted as for somebody whose runs no fit has seen: by the errors in the fit without its source, and by the bands that the other
sources give.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from statistics import mean
from typing import NamedTuple

import numpy as np

from amped.calibration.fitting import Tell, optimizer
from amped.calibration.frozen_steps import MeasuredStep, steps_of
from amped.calibration.step_anchor import anchored_values, frozen_at_tables, key_of
from amped.estimation.anchored import narrowed
from amped.estimation.uncertainty import TIME_LAW, Bands, ErrorBand
from amped.estimation.validated import Ground, Left, error_size, shipped_shifts, validated
from amped.tables.table_files import LookupTables
from amped.validation.logged import read_runs
from amped.validation.measurements import measurements
from amped.validation.table import Row

# The columns that the runs of a family share, and those that say how large a run is.
KIN = ("source", "network", "model", "accelerator", "system", "software", "matrix_precision")
SIZES = ("number_of_accelerators", "number_of_nodes", "data_parallel_degree")


@dataclass(frozen=True)
class AnchoredStep:
    """A run that the smallest of its family predicts.

    Attributes:
        name: the run.
        accelerators: how many it ran on.
        error_without, error_with: its relative errors without the anchor and with it.
        band_without, band_with: the half widths of its band.
        is_inside: whether the error with the anchor lies in the narrowed band.
    """

    name: str
    accelerators: float
    error_without: float
    error_with: float
    band_without: float
    band_with: float
    is_inside: bool


@dataclass(frozen=True)
class Family:
    """Runs of one source, network, accelerator, software and precision.

    Attributes:
        source, network, accelerator, software, precision: what they share.
        anchor: the smallest run; of several, the first.
        accelerators: how many it ran on.
        others: the runs on more accelerators.
    """

    source: str
    network: str
    accelerator: str
    software: str
    precision: str
    anchor: str
    accelerators: float
    others: Sequence[AnchoredStep]

    @property
    def error_without(self) -> float:
        """The mean size of the others' errors without the anchor."""
        return mean(abs(step.error_without) for step in self.others)

    @property
    def error_with(self) -> float:
        """The mean size of the others' errors with the anchor."""
        return mean(abs(step.error_with) for step in self.others)


def families(table: Path | None, lookup_tables: LookupTables = None, tell: Tell = lambda _: None) -> list[Family]:
    """The families of a table, each predicted from its smallest run.

    Args:
        table: the file with the measurements; None for the table that comes with amped.
        lookup_tables: the user's own tables.
        tell: takes lines of progress.

    Raises:
        AmpedError: if scipy is missing, or for a table that cannot be read.
    """
    optimizer()
    rows = _of_several_sizes(read_runs(table))
    tell(f"{len(rows)} rows of networks that ran on several numbers of accelerators")
    shifts = shipped_shifts()[Left.SOURCE] if table is None else {}
    by_family: dict[_Names, list[_Run]] = {}
    for step in steps_of(measurements(rows, lookup_tables), key_of, lookup_tables):
        if (ground := step.residual.ground) is not None:
            by_family.setdefault(_names(step, ground), []).append(_Run(_as_unseen(step, shifts), ground))
    tell(f"{len(by_family)} networks, each with its accelerator, software and precision")
    found = (_family(names, sorted(runs, key=lambda run: run.size)) for names, runs in by_family.items())
    return [family for family in found if family.others]


class _Names(NamedTuple):
    """What the runs of a family share."""

    source: str
    network: str
    accelerator: str
    software: str
    precision: str
    parameters: float
    context: float


class _Run(NamedTuple):
    """A measured step, and what its error depends on."""

    step: MeasuredStep
    ground: Ground

    @property
    def name(self) -> str:
        """The name of the row."""
        return self.step.residual.measurement.id

    @property
    def size(self) -> float:
        """The number of accelerators."""
        return self.ground.number_of_accelerators


def _names(step: MeasuredStep, ground: Ground) -> _Names:
    """What a run shares with its family."""
    run = step.residual.measurement
    return _Names(run.source, run.network, ground.accelerator, ground.software, ground.precision,
                  ground.number_of_parameters, ground.context)  # fmt: skip


def _of_several_sizes(rows: Sequence[Row]) -> list[Row]:
    """The rows that have kin on another number of accelerators, by what is written in them."""
    sizes: dict[tuple[str, ...], set[tuple[str, ...]]] = {}
    for row in rows:
        sizes.setdefault(_written(row, KIN), set()).add(_written(row, SIZES))
    return [row for row in rows if len(sizes[_written(row, KIN)]) > 1]


def _written(row: Row, columns: Sequence[str]) -> tuple[str, ...]:
    """Some cells of a row as they are written."""
    return tuple(str(row.texts.get(column, row.settings.get(column, ""))) for column in columns)


def _as_unseen(step: MeasuredStep, shifts: Mapping[str, float]) -> MeasuredStep:
    """A step whose error is that of the fit without its source: its measured time is shifted, and not the predicted one."""
    return replace(step, measured_time=step.measured_time / shifts.get(step.residual.measurement.id, 1.0))


def _family(names: _Names, runs: Sequence[_Run]) -> Family:
    """A family, predicted from its smallest run, which is the first."""
    frozen = frozen_at_tables([run.step for run in runs])
    before, weight = frozen.drawn.constants, np.eye(1, len(runs))[0]
    errors, slopes = frozen.linearized(np.stack([before, anchored_values(frozen, weight)]))
    effects, bands = slopes[1] * frozen.drawn.widths, _bands_without(names.source)

    def width(band: ErrorBand, place: int) -> float:
        size, left = math.log1p(band.error_fraction), abs(float(errors[1, 0]))
        return math.expm1(narrowed(size, effects[place], effects[:1], left))

    others = [
        _other(run, errors[:, i].tolist(), band := bands.band(run.ground), width(band, i))
        for i, run in enumerate(runs)
        if run.size > runs[0].size
    ]
    return Family(*names[:5], anchor=runs[0].name, accelerators=runs[0].size, others=others)


@lru_cache
def _bands_without(source: str) -> Bands:
    """The bands that the runs of all other sources give."""
    return Bands([run for run in validated() if run.source != source], TIME_LAW)


def _other(run: _Run, errors: Sequence[float], band: ErrorBand, width: float) -> AnchoredStep:
    """A larger run of a family.

    Args:
        run: the run.
        errors: the logarithms of predicted over measured time without the anchor and with it.
        band: its band without the anchor.
        width: the half width of its band with the anchor.
    """
    without, anchored = (math.expm1(error) for error in errors)
    return AnchoredStep(
        run.name, run.size, without, anchored, band_without=band.error_fraction, band_with=width,
        is_inside=error_size(anchored) <= math.log1p(width),
    )  # fmt: skip
