"""Predicted against measured, kernel by kernel; and one run against another."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from amped.kernels.error_groups import stratum_of
from amped.kernels.machine import Machine
from amped.kernels.predicting import TIMED, Array, family_of, grouped, measured_time, predicted, samples
from amped.kernels.results import Result
from amped.kernels.specs import FAMILIES, Record, key_of

MOST_WORST = 10
# A record whose size exceeds all measured ones by more than this factor is extrapolated.
BEYOND = 1.01


@dataclass(frozen=True)
class Point:
    """One record and its prediction, in seconds."""

    name: str
    kernel: str
    family: str
    stratum: str
    measured: float
    predicted: float
    flags: tuple[str, ...]

    @property
    def error(self) -> float:
        """Predicted over measured, minus one."""
        return self.predicted / self.measured - 1


@dataclass(frozen=True)
class Accuracy:
    """The errors of some points: mean absolute, mean, ninetieth percentile, largest, weighted by measured time."""

    family: str
    name: str
    count: int
    mape: float
    bias: float
    p90: float
    largest: float
    time_weighted: float
    r_squared: float | None


@dataclass(frozen=True)
class Report:
    """A comparison: all points, their accuracy by family and part, and the records that were not predicted."""

    points: Sequence[Point]
    families: Sequence[Accuracy]
    left_out: Mapping[str, int]

    @property
    def worst(self) -> list[Point]:
        """The ten points with the largest errors."""
        return sorted(self.points, key=lambda p: -abs(math.log(p.predicted / p.measured)))[:MOST_WORST]


def compared(
    result: Result, machine: Machine, coefficients: Mapping[str, float],
    fitted_on: Sequence[Record] = (),
) -> Report:  # fmt: skip
    """Every record with its prediction; records outside of what the fit has seen are marked as extrapolated."""
    device, hull = result["device"]["kind"], hull_of(fitted_on)
    groups = samples(result["records"], result["settings"]["statistic"], device)
    points = []
    for s in groups:
        times = np.broadcast_to(predicted(s, coefficients, machine), (1, len(s)))[0]
        for record, measured, time in zip(s.records, s.times, times, strict=True):
            beyond = ("extrapolated",) if fitted_on and outside(hull, record) else ()
            flags = (*record.get("flags", ()), *beyond)
            points.append(Point(name=name_of(record), kernel=record["kernel"], family=s.family, flags=flags,
                                stratum=stratum_of(record, device), measured=float(measured), predicted=float(time)))  # fmt: skip
    records = [r for r in result["records"] if r["kernel"] in FAMILIES]
    left_out = [family_of(r) for r in records if r["kernel"] not in TIMED]
    left_out += ["kernels that this amped does not know"] * (len(result["records"]) - len(records))
    return Report(points, accuracies(points), Counter(left_out))


def accuracies(points: Sequence[Point]) -> list[Accuracy]:
    """The accuracy of each family, and of each part of it."""
    rows = []
    for family, of_family in grouped(points, lambda p: p.family).items():
        parts = grouped(of_family, lambda p: p.stratum)
        rows.append(accuracy(family, "all", of_family))
        rows += [accuracy(family, part, some) for part, some in parts.items() if len(parts) > 1]
    return rows


def accuracy(family: str, name: str, points: Sequence[Point]) -> Accuracy:
    """The accuracy of some points."""
    errors, measured = np.array([p.error for p in points]), np.array([p.measured for p in points])
    size = np.abs(errors)
    return Accuracy(
        family=family, name=name, count=len(points), mape=float(size.mean()), bias=float(errors.mean()),
        p90=float(np.percentile(size, 90)), largest=float(size.max()),
        time_weighted=float(np.average(size, weights=measured)), r_squared=_r_squared(points),
    )  # fmt: skip


def _r_squared(points: Sequence[Point]) -> float | None:
    """How much of the spread of the logarithms is predicted; None if there is no spread."""
    measured, predicted = np.log([(p.measured, p.predicted) for p in points]).T
    spread = measured.var()
    return 1 - float(np.mean((predicted - measured) ** 2) / spread) if spread > 0 and len(points) > 2 else None


def name_of(record: Record) -> str:
    """A record in a few words: its kernel, sizes and format."""
    shown = [str(v) for v in record["params"].values() if v not in (1, 0.0, False, "default")]
    return f"{record['kernel']} {' '.join(shown)} {record['dtype']}"


Hull = Mapping[str, Array]


def hull_of(records: Sequence[Record]) -> Hull:
    """For each kernel, the least and the largest work and traffic that the fit has seen."""
    return {
        kernel: np.sort([_size(r) for r in of_kernel], axis=0)[[0, -1]]
        for kernel, of_kernel in grouped(records, lambda r: r["kernel"]).items()
    }


def _size(record: Record) -> tuple[float, float]:
    return record["flop"], record["bytes"]


def outside(hull: Hull, record: Record) -> bool:
    """Whether a record is smaller or larger than all that the fit has seen of its kernel."""
    if record["kernel"] not in hull:
        return True
    (least, most), size = hull[record["kernel"]], np.array(_size(record))
    return bool(np.any(size < least / BEYOND) or np.any(size > most * BEYOND))


def drift(one: Result, two: Result) -> dict[str, tuple[float, int]]:
    """How much slower the second run is, by family: the geometric mean of the ratios of times, and their number."""
    times = {key_of(r): measured_time(r, one["settings"]["statistic"]) for r in one["records"]}
    both = [r for r in two["records"] if key_of(r) in times and r["kernel"] in FAMILIES]

    def slower(of_family: Sequence[Record]) -> float:
        ratios = [measured_time(r, two["settings"]["statistic"]) / times[key_of(r)] for r in of_family]
        return math.exp(float(np.mean([*map(math.log, ratios)])))

    return {family: (slower(members), len(members)) for family, members in grouped(both, family_of).items()}


def as_json(report: Report) -> dict[str, Any]:
    """The comparison as plain data for JSON."""
    lists = {"worst": report.worst, "points": report.points}
    points = {name: [{**vars(p), "error": p.error} for p in listed] for name, listed in lists.items()}
    return {"families": [vars(a) for a in report.families], **points, "left_out": dict(report.left_out)}
