"""How long a call takes: warmed up, repeated within a cap of time, told as minimum, median and spread.

On a CPU other programs only ever add time, so its statistic is the minimum (of one thread's own time); on a GPU clocks and power move, and it is the
median. Source: Chen and Revels, arXiv 1608.04295 (minima as estimates of time in the presence of noise).
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

# Seconds of one record, and calls it has at least and at most.
RECORD_TIME, FEWEST, MOST = 0.15, 5, 200
# Spread of the ninetieth over the tenth percentile beyond which a record is noisy; below it a fit may still trust minima.
NOISY = {"cpu": 1.5, "cuda": 1.1}
TRUSTED = 0.5
STATISTIC = {"cpu": "min", "cuda": "median"}
Call = Callable[[], Any]
Clock = Callable[[], float]


@dataclass(frozen=True)
class Timing:
    """Times of the calls of one kernel, in seconds, and how many there were."""

    median: float
    p10: float
    p90: float
    min: float
    n: int
    beside: float | None = None

    @classmethod
    def of(cls, times: Sequence[float], beside: float | None = None) -> Timing:
        """The statistics of measured times; `beside` is what a kernel that stays the same took beside them."""
        ordered = sorted(times)
        last = len(ordered) - 1
        low, high = ordered[round(0.1 * last)], ordered[round(0.9 * last)]
        return cls(statistics.median(ordered), low, high, ordered[0], len(times), beside)

    def as_plain(self) -> dict[str, float]:
        """What a record keeps of it."""
        return {"median": self.median, "p10": self.p10, "p90": self.p90, "min": self.min, "n": self.n}

    def best(self, device: str) -> float:
        """The statistic that counts on a device."""
        return float(getattr(self, STATISTIC[device]))

    def flags(self, device: str) -> list[str]:
        """What makes the record doubtful."""
        noisy = self.p90 > NOISY[device] * self.p10
        return [*(["noisy"] if noisy else []), *(["unsettled"] if noisy and self.min < TRUSTED * self.median else [])]


class Timer(Protocol):
    """Times calls on one device."""

    device: str

    def measure(self, call: Call, cap: float = RECORD_TIME, cold: bool = False) -> Timing:
        """The time of a call, in about `cap` seconds; `cold`: with caches flushed before each."""
        ...

    def together(self, calls: Sequence[Call], cap: float = RECORD_TIME) -> list[Timing]:
        """The time of each of several calls that take turns, so that what else runs meanwhile slows all of them.

        A call may use what the one before it left: they always follow one another. About `cap` seconds each.
        """
        ...

    def dispatched(self, call: Call) -> Timing:
        """Seconds that the host takes to launch a kernel."""
        ...


def repeated(estimate: float, cap: float) -> int:
    """How often to call what takes about `estimate` seconds."""
    return max(FEWEST, min(MOST, int(cap / estimate) if estimate > 0 else MOST))
