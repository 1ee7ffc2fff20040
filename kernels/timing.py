"""How long a call takes: warmed up and repeated within a cap of time; minimum, median and spread.

On a CPU, other programs can only add time, so that the statistic is the minimum (of one thread's own time). On a GPU,
clocks and power change, and the statistic is the median. Source: Python's timeit, the note of
Timer.repeat (the minimum, because what is above it comes from other programs).
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

# The seconds of one record, and the least and the largest number of its calls.
RECORD_TIME, FEWEST, MOST = 0.15, 5, 200
# A record is noisy if its 90th percentile is more than this many times its 10th. A fit may still trust its minimum if
# that is at least TRUSTED times the median.
NOISY = {"cpu": 1.5, "cuda": 1.1}
# Smaller differences than this are the clock's: an event of a GPU is right to half a microsecond, and a difference of two
# times has four of them. Source: CUDA Runtime API, cudaEventElapsedTime.
CLOCK_ERROR = {"cpu": 0.0, "cuda": 2e-6}
TRUSTED = 0.5
STATISTIC = {"cpu": "min", "cuda": "median"}
Call = Callable[[], Any]
Clock = Callable[[], float]


@dataclass(frozen=True)
class Timing:
    """The times of the calls of one kernel in seconds, and their number.

    Attributes:
        beside: the time of a constant kernel measured with them.
        host_bound: whether a GPU may have waited for launches in all of them.
    """

    median: float
    p10: float
    p90: float
    min: float
    n: int
    beside: float | None = None
    host_bound: bool = False

    @classmethod
    def of(cls, times: Sequence[float], beside: float | None = None, host_bound: bool = False) -> Timing:
        """The statistics of measured times."""
        ordered = sorted(times)
        last = len(ordered) - 1
        low, high = ordered[round(0.1 * last)], ordered[round(0.9 * last)]
        return cls(median=statistics.median(ordered), p10=low, p90=high, min=ordered[0], n=len(times), beside=beside,
                   host_bound=host_bound)  # fmt: skip

    def as_plain(self) -> dict[str, float]:
        """The statistics as a record has them."""
        return {name: getattr(self, name) for name in ("median", "p10", "p90", "min", "n")}

    def best(self, device: str) -> float:
        """The statistic that counts on a device: the minimum on a CPU, the median on a GPU."""
        return float(getattr(self, STATISTIC[device]))

    def flags(self, device: str) -> list[str]:
        """The names of the reasons to doubt the times: noisy, unsettled, host_bound."""
        noisy = self.p90 > max(NOISY[device] * self.p10, self.p10 + CLOCK_ERROR[device])
        unsettled = noisy and self.min < TRUSTED * self.median
        reasons = {"noisy": noisy, "unsettled": unsettled, "host_bound": self.host_bound}
        return [flag for flag, holds in reasons.items() if holds]


def repeated(estimate: float, cap: float) -> int:
    """The number of calls, each of about `estimate` seconds, that fit in `cap` seconds; at least five, at most 200."""
    return max(FEWEST, min(MOST, int(cap / estimate) if estimate > 0 else MOST))
