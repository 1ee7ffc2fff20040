"""The waterfall of a step in words: what each of its bars is, in figures that add up."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.table import Column

from amped.estimation.estimation import Estimation
from amped.estimation.waterfall import Bar, apportioned, largest_causes, waterfall
from amped.report import human
from amped.report.tables import Part, grid
from amped.theory.nouns.parallelisms import PARALLELISMS

# What each bar is, on the screen and in pictures.
SAID = {
    "peak_time": "FLOPs of the model at the peak rate", "uncounted_work_time": "products that the model does not count",
    "clock_loss_time": "clock below that of the peak", "product_loss_time": "efficiency of products",
    "attention_loss_time": "efficiency of attention", "other_kernel_time": "memory-bound kernels",
    "recomputation_time": "recomputation",
    **{f"exposed_{kind}_communication_time": f"{kind}-parallel messages" for kind in PARALLELISMS},
    "exposed_offload_communication_time": "copies to the host and back", "kernel_wait_time": "waits for the host",
    "pipeline_bubble_time": "pipeline bubble", "optimizer_time": "optimizer",
}  # fmt: skip
# The same of a bar that takes time away.
SAID_OF_LESS = {"uncounted_work_time": "products that the model counts and nobody does"}
STEP, SIGNIFICANT = "step", 4
CAUSES_TOLD = 3


def said(bar: Bar) -> str:
    """What a bar is, in words."""
    return SAID_OF_LESS.get(bar.name, SAID[bar.name]) if bar.time < 0 else SAID[bar.name]


@dataclass(frozen=True)
class Rounded:
    """The times of a waterfall in decimal figures that add up to the last digit.

    Attributes:
        unit: s or ms; `size` is its number of seconds.
        places: the decimal places of each figure.
        times: the time of each bar, in this unit and rounded.
    """

    unit: str
    size: float
    places: int
    times: tuple[float, ...]

    def figure(self, time: float) -> str:
        """A time in this unit as text."""
        return f"{time:.{self.places}f}"

    @property
    def whole(self) -> float:
        """The time of the step, in this unit and rounded."""
        return round(math.fsum(self.times), self.places)


def rounded(bars: Sequence[Bar], step_time: float) -> Rounded:
    """The times of the bars in figures that add up, so that the step has four digits."""
    size, unit = (1.0, "s") if step_time >= 1 else (1e-3, "ms")
    places = max(SIGNIFICANT - 1 - math.floor(math.log10(step_time / size)), 0)
    scale = 10**places
    wholes = apportioned([bar.time / size * scale for bar in bars], step_time / size * scale, 1.0)
    return Rounded(unit, size, places, tuple(number / scale for number in wholes))


def causes(e: Estimation) -> str:
    """Sentences: how long a step takes, its time at the peak rate, and what adds most to that."""
    bars, step_time = waterfall(e), e["step_time"]
    most = [
        f"{said(bar)} ({human.duration(bar.time)}, {human.percent(bar.time / step_time)})"
        for bar in largest_causes(bars, CAUSES_TOLD)
    ]
    peak, used = human.duration(bars[0].time), human.percent(e["model_flops_utilization"])
    return (
        f"A step takes {human.duration(step_time)}. At the peak rate the FLOPs of the model would take {peak} of it "
        f"(MFU {used}). What adds most: {'; '.join(most)}."
    )


def lines(e: Estimation) -> Iterator[Part]:
    """The bars of the waterfall as lines: what each is, its time, and the MFU of a step that ends there."""
    bars = waterfall(e)
    times = rounded(bars, e["step_time"])
    yield f"From the peak rate to the step (in {times.unit}, and the MFU that is left):\n"
    rows = [
        (f"  {said(bar)}", times.figure(time), human.percent(bar.utilization))
        for bar, time in zip(bars, times.times, strict=True)
        if time
    ]
    rows.append((f"  {STEP}", times.figure(times.whole), human.percent(e["model_flops_utilization"])))
    yield grid(rows, Column(), Column(justify="right", no_wrap=True), Column(justify="right", no_wrap=True))
