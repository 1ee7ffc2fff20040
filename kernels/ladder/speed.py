"""The speedometer: passes of a layer one after another, timed as a whole and one by one.

It measures as Transformer Engine's quickstart does: with a warm-up, with a context around the forward pass only, with
gradients that accumulate, and without an optimizer. It also keeps the median and the
least time of single passes, because a mean hides stalls.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

WARM_UP, PASSES = 50, 50


@dataclass(frozen=True)
class Speed:
    """Seconds of a forward and backward pass: mean of the whole loop, median and least of single passes."""

    mean: float
    median: float
    least: float
    n: int


class Laps(Protocol):
    """What is noted before the first pass and after each one, and the seconds between two notes."""

    def mark(self) -> Any:
        """A note of now, without waiting for a device."""
        ...

    def between(self, before: Any, after: Any) -> float:
        """The seconds between two notes, when all passes have ended."""
        ...

    def settle(self) -> None:
        """Waits until everything has ended."""
        ...


@dataclass(frozen=True)
class ClockLaps:
    """The laps of a processor, by a clock."""

    clock: Callable[[], float] = time.perf_counter

    def mark(self) -> float:
        """The time."""
        return self.clock()

    def between(self, before: float, after: float) -> float:
        """The difference of two times."""
        return after - before

    def settle(self) -> None:
        """A processor has nothing to wait for."""


@dataclass(frozen=True)
class EventLaps:
    """The laps of a GPU, by events in its stream: the host does not wait between passes.

    Attributes:
        cuda: the module torch.cuda.
    """

    cuda: Any

    def mark(self) -> Any:
        """An event."""
        event = self.cuda.Event(enable_timing=True)
        event.record()
        return event

    def between(self, before: Any, after: Any) -> float:
        """The time from one event to another."""
        return float(before.elapsed_time(after)) / 1e3

    def settle(self) -> None:
        """Waits for the GPU."""
        self.cuda.synchronize()


def speedometer(
    forward: Callable[[Any], Any], x: Any, dy: Any, *, warm_up: int = WARM_UP, passes: int = PASSES,
    context: Callable[[], AbstractContextManager[Any]] = nullcontext, laps: Laps = ClockLaps(),
) -> Speed:  # fmt: skip
    """Times the forward and backward pass of a layer.

    Args:
        forward: the layer.
        x: the input of the layer.
        dy: the gradient of the layer's output.
        warm_up: the number of passes that do not count.
        passes: the number of passes that count.
        context: a context around the forward pass, left before the backward pass.
        laps: how the passes are timed.
    """

    def once() -> None:
        with context():
            y = forward(x)
        y.backward(dy)

    for _ in range(warm_up):
        once()
    laps.settle()
    marks = [laps.mark()]
    for _ in range(passes):
        once()
        marks.append(laps.mark())
    laps.settle()
    each = [laps.between(before, after) for before, after in pairwise(marks)]
    return Speed(laps.between(marks[0], marks[-1]) / passes, statistics.median(each), min(each), passes)
