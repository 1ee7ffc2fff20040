"""The speedometer: passes of a layer back to back, timed as a whole and one by one.

As Transformer Engine's quickstart measures: warm-up, a context around forward only, gradients that add up unless asked
otherwise, no optimizer. Beside its mean, the median and the least of single passes are kept: a mean hides stalls.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

WARM_UP, PASSES = 50, 50
ZEROING = ("never", "none", "zero")


@dataclass(frozen=True)
class Speed:
    """Seconds of a forward and backward pass: mean of the whole loop, median and least of single passes."""

    mean: float
    median: float
    least: float
    n: int


def speedometer(
    forward: Callable[[Any], Any], x: Any, dy: Any, *, warm_up: int = WARM_UP, passes: int = PASSES,
    context: Callable[[], AbstractContextManager[Any]] = nullcontext, parameters: Iterable[Any] = (), zeroing: str = "never",
    clock: Callable[[], float] = time.perf_counter, settled: Callable[[], None] = lambda: None,
) -> Speed:  # fmt: skip
    """Times a layer forward and backward.

    Args:
        forward: the layer.
        x: its input.
        dy: the gradient of its output.
        warm_up: passes that do not count.
        passes: those that do.
        context: entered around forward, and left before backward.
        parameters: whose gradients are set to None or to zero after each pass where `zeroing` says so.
        zeroing: never, none or zero.
        clock: seconds.
        settled: waits for the device before the clock is read.
    """
    own = list(parameters) if zeroing != "never" else []

    def once() -> None:
        with context():
            y = forward(x)
        y.backward(dy)
        _zero(own, zeroing)

    for _ in range(warm_up):
        once()
    settled()
    marks = [clock()]
    for _ in range(passes):
        once()
        settled()
        marks.append(clock())
    each = [after - before for before, after in pairwise(marks)]
    return Speed((marks[-1] - marks[0]) / passes, statistics.median(each), min(each), passes)


def _zero(parameters: Iterable[Any], zeroing: str) -> None:
    for parameter in parameters:
        if zeroing == "none":
            parameter.grad = None
        else:
            parameter.grad.zero_()
