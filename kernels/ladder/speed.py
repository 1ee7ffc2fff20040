"""The speedometer: passes of a layer one after another, timed as a whole and one by one.

It measures as Transformer Engine's quickstart does: with a warm-up, with gradients that accumulate, and without an
optimizer. It also keeps the median and the least time of single passes, because a mean hides stalls.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any


@dataclass(frozen=True)
class Speed:
    """Seconds of a forward and backward pass: mean of the whole loop, median and least of single passes."""

    mean: float
    median: float
    least: float


@dataclass(frozen=True)
class Laps:
    """How passes are timed.

    Attributes:
        mark: gives a note of now, without waiting for a device.
        between: gives the seconds between two notes, when all passes have ended.
        settle: waits until everything has ended.
    """

    mark: Callable[[], Any]
    between: Callable[[Any, Any], float]
    settle: Callable[[], object]


def clock_laps(clock: Callable[[], float]) -> Laps:
    """The laps of a processor, by a clock."""
    return Laps(clock, lambda before, after: after - before, lambda: None)


def event_laps(cuda: Any) -> Laps:
    """The laps of a GPU, by events in its stream: the host does not wait between passes. `cuda` is torch.cuda."""

    def mark() -> Any:
        event = cuda.Event(enable_timing=True)
        event.record()
        return event

    return Laps(mark, lambda before, after: float(before.elapsed_time(after)) / 1e3, cuda.synchronize)


def speedometer(once: Callable[[], object], laps: Laps, warm_up: int, passes: int) -> Speed:
    """The speed of passes of a layer, forward and backward; the passes of the warm-up do not count."""
    for _ in range(warm_up):
        once()
    laps.settle()
    marks = [laps.mark()]
    for _ in range(passes):
        once()
        marks.append(laps.mark())
    laps.settle()
    times = [laps.between(before, after) for before, after in pairwise(marks)]
    return Speed(laps.between(marks[0], marks[-1]) / passes, statistics.median(times), min(times))
