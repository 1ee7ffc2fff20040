"""Which of two runs is faster: pairs of measured runs that are alike, and whether amped puts them in the measured order.

The runs of a pair have the same network (by its numbers of parameters and of experts), accelerator, software and precision.
Their rates are tokens per second and accelerator, so that runs on few and on many accelerators can be compared. Repeats of
one configuration are one run, with the means of their rates. Rows of low confidence are left out.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from amped.base.errors import plain
from amped.estimation.validated import Ground
from amped.validation.accuracy import network_label, split
from amped.validation.measurements import Measurement
from amped.validation.residuals import Residual
from amped.validation.table import STEP

# Rates that differ by less are as good as equal: two sources of one configuration differ by 2 to 6.5 %.
DIFFERENT = 0.05
# The settings of a pair that are equal, or say the same as others do.
ALIKE = {"software", "accelerator", "matrix_precision", "model"}


@dataclass(frozen=True)
class Run:
    """A configuration that was measured once or several times.

    Attributes:
        measurement: the first of its measurements.
        ground: the properties on which its error depends.
        measured, predicted: tokens per second and accelerator.
    """

    measurement: Measurement
    ground: Ground
    measured: float
    predicted: float


@dataclass(frozen=True)
class Pair:
    """Two runs that are alike, of which one is measured to be the faster one."""

    faster: Run
    slower: Run

    @property
    def measured(self) -> float:
        """The measured rate of the faster run over that of the slower one."""
        return self.faster.measured / self.slower.measured

    @property
    def predicted(self) -> float:
        """The predicted rate of the run that is measured to be faster over that of the other one."""
        return self.faster.predicted / self.slower.predicted

    @property
    def is_right(self) -> bool:
        """Whether amped puts the two in the measured order."""
        return self.predicted > 1

    @property
    def differences(self) -> list[str]:
        """The settings in which the runs differ, as `name = value of the faster one / value of the slower one`."""
        faster, slower = (run.measurement.settings for run in (self.faster, self.slower))
        names = [name for name in {**faster, **slower} if name not in ALIKE]
        values = {name: [_written(settings.get(name)) for settings in (faster, slower)] for name in names}
        return [f"{name} = {' / '.join(pair)}" for name, pair in values.items() if pair[0] != pair[1]]


def _written(value: object) -> str:
    """A setting as text; a dash if it is not given."""
    return "-" if value is None else plain(str(value))


def pairs(rows: Sequence[Residual]) -> list[Pair]:
    """The pairs of runs that are alike and whose measured rates differ by more than `DIFFERENT`."""
    steps = [row for row in rows if row.trusted and row.times and row.measurement.kind == STEP]
    runs_alike: dict[Hashable, list[Run]] = {}
    for repeats in split(steps, lambda row: row.measurement.group).values():
        if ground := repeats[0].ground:
            key = network_label(repeats[0]), ground.accelerator, ground.software, ground.precision
            runs_alike.setdefault(key, []).append(_run(repeats, ground))
    return [pair for runs in runs_alike.values() for pair in _different(runs)]


def _run(repeats: Sequence[Residual], ground: Ground) -> Run:
    """The repeats of one configuration as one run."""
    measured, predicted = np.mean([row.tokens / np.array(row.times) for row in repeats], axis=0).tolist()
    return Run(repeats[0].measurement, ground, measured, predicted)


def _different(runs: Sequence[Run]) -> Iterator[Pair]:
    """The pairs of runs whose measured rates differ enough."""
    for pair in combinations(runs, 2):
        slower, faster = sorted(pair, key=lambda run: run.measured)
        if faster.measured > slower.measured * (1 + DIFFERENT):
            yield Pair(faster, slower)
