"""The speedometer: passes of a layer one after another, timed as a whole and one by one.

It measures as Transformer Engine's quickstart does: with a warm-up, with a context around the forward pass only, with
gradients that accumulate unless `zeroing` says otherwise, and without an optimizer. It also keeps the median and the
least time of single passes, because a mean hides stalls.
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
    """Times the forward and backward pass of a layer.

    Args:
        forward: the layer.
        x: the input of the layer.
        dy: the gradient of the layer's output.
        warm_up: the number of passes that do not count.
        passes: the number of passes that count.
        context: a context around the forward pass, left before the backward pass.
        parameters: the parameters whose gradients are set to None or zero after each pass if `zeroing` says so.
        zeroing: never, none or zero.
        clock: a function that gives seconds.
        settled: a function that waits for the device before the clock is read.
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
