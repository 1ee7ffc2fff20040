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
    """The errors of several points (predicted over measured time, minus one).

    Attributes:
        name: the part of the family, or "all".
        mape, p90, largest: mean, 90th percentile and maximum of the absolute errors.
        bias: the mean of the signed errors.
        time_weighted: the mean absolute error, weighted by measured time.
        r_squared: the share of the spread of the logarithms that is predicted; None if there is no spread.
    """

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
    """The report of all records with their predictions.

    - `fitted_on`: the records of the fit. Records outside of their sizes get the flag "extrapolated".
    """
    device, hull = result["device"]["kind"], hull_of(fitted_on)
    groups = samples(result["records"], result["settings"]["statistic"], device)
    points = []
    for s in groups:
        times = np.broadcast_to(predicted(s, coefficients, machine), (1, len(s)))[0]
        for record, measured, time in zip(s.records, s.times, times, strict=True):
            extrapolated = ("extrapolated",) if fitted_on and outside(hull, record) else ()
            flags = (*record.get("flags", ()), *extrapolated)
            points.append(Point(name=name_of(record), kernel=record["kernel"], family=s.family, flags=flags,
                                stratum=stratum_of(record, device), measured=float(measured), predicted=float(time)))  # fmt: skip
    records = [r for r in result["records"] if r["kernel"] in FAMILIES]
    left_out = [family_of(r) for r in records if r["kernel"] not in TIMED]
    left_out += ["kernels that this amped does not know"] * (len(result["records"]) - len(records))
    return Report(points, accuracies(points), Counter(left_out))


def accuracies(points: Sequence[Point]) -> list[Accuracy]:
    """The accuracy of each family, and of each of its parts if it has several."""
    rows = []
    for family, of_family in grouped(points, lambda p: p.family).items():
        parts = grouped(of_family, lambda p: p.stratum)
        rows.append(accuracy(family, "all", of_family))
        rows += [accuracy(family, part, of_part) for part, of_part in parts.items() if len(parts) > 1]
    return rows


def accuracy(family: str, name: str, points: Sequence[Point]) -> Accuracy:
    """The accuracy of the points of one family, or of a part of it."""
    errors, measured = np.array([p.error for p in points]), np.array([p.measured for p in points])
    absolute_errors = np.abs(errors)
    return Accuracy(
        family=family, name=name, count=len(points), mape=float(absolute_errors.mean()), bias=float(errors.mean()),
        p90=float(np.percentile(absolute_errors, 90)), largest=float(absolute_errors.max()),
        time_weighted=float(np.average(absolute_errors, weights=measured)), r_squared=_r_squared(points),
    )  # fmt: skip


def _r_squared(points: Sequence[Point]) -> float | None:
    """The share of the spread of the logarithms of times that is predicted.

    None if there is no spread, or if there are fewer than three points.
    """
    measured, predicted = np.log([(p.measured, p.predicted) for p in points]).T
    spread = measured.var()
    return 1 - float(np.mean((predicted - measured) ** 2) / spread) if spread > 0 and len(points) > 2 else None


def name_of(record: Record) -> str:
    """A record in a few words: its kernel, sizes and format. Sizes with a usual value, such as 1, are left out."""
    sizes = [str(v) for v in record["params"].values() if v not in (1, 0.0, False, "default")]
    return f"{record['kernel']} {' '.join(sizes)} {record['dtype']}"


Hull = Mapping[str, Array]


def hull_of(records: Sequence[Record]) -> Hull:
    """For each kernel, the least and the largest operations and bytes of its records, as the two rows of an array."""
    return {
        kernel: np.sort([_size(r) for r in of_kernel], axis=0)[[0, -1]]
        for kernel, of_kernel in grouped(records, lambda r: r["kernel"]).items()
    }


def _size(record: Record) -> tuple[float, float]:
    return record["flop"], record["bytes"]


def outside(hull: Hull, record: Record) -> bool:
    """Whether a record is smaller or larger than all records in `hull` of its kernel, or the kernel is not in it."""
    if record["kernel"] not in hull:
        return True
    (least, most), size = hull[record["kernel"]], np.array(_size(record))
    return bool(np.any(size < least / BEYOND) or np.any(size > most * BEYOND))


def drift(one: Result, two: Result) -> dict[str, tuple[float, int]]:
    """For each family, how many times as long kernels took in run `two` as in run `one`, and the number of these kernels.

    The first number is the geometric mean over the kernels that are in both runs.
    """
    times = {key_of(r): measured_time(r, one["settings"]["statistic"]) for r in one["records"]}
    both = [r for r in two["records"] if key_of(r) in times and r["kernel"] in FAMILIES]

    def mean_ratio(of_family: Sequence[Record]) -> float:
        ratios = [measured_time(r, two["settings"]["statistic"]) / times[key_of(r)] for r in of_family]
        return math.exp(float(np.mean([*map(math.log, ratios)])))

    return {family: (mean_ratio(members), len(members)) for family, members in grouped(both, family_of).items()}


def as_json(report: Report) -> dict[str, Any]:
    """The comparison as plain data for JSON."""
    lists = {"worst": report.worst, "points": report.points}
    points = {name: [{**vars(p), "error": p.error} for p in listed] for name, listed in lists.items()}
    return {"families": [vars(a) for a in report.families], **points, "left_out": dict(report.left_out)}
