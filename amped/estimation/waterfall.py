"""The waterfall of a step: what each cause adds to the time at the peak rate, until the time of the step is reached."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from amped.estimation.estimation import Estimation
from amped.estimation.parts import COMMUNICATIONS

# The quantities of the waterfall from the peak rate to the step; the closed form has not all of them.
PEAK = "peak_time"
CAUSES = (
    PEAK, "uncounted_work_time", "clock_loss_time", "product_loss_time", "attention_loss_time", "other_kernel_time",
    "recomputation_time", *(f"exposed_{kind}_communication_time" for kind in COMMUNICATIONS), "kernel_wait_time",
    "pipeline_bubble_time", "optimizer_time",
)  # fmt: skip


@dataclass(frozen=True)
class Bar:
    """What one cause adds to a step.

    Attributes:
        name: the quantity; `amped explain` tells its formula.
        start: the seconds of all bars before it.
        time: its seconds; negative if it takes time away.
        utilization: the MFU of a step that ends with this bar.
    """

    name: str
    start: float
    time: float
    utilization: float

    def to_dict(self) -> dict[str, Any]:
        """The bar as plain data."""
        return asdict(self)


def waterfall(e: Estimation) -> tuple[Bar, ...]:
    """The bars of a step, from its time at the peak rate; their times add up to `step_time` bit for bit, in any order.

    They are whole multiples of the last binary digit of the step's time, so that no sum of them is rounded.
    """
    names = [name for name in CAUSES if name in e]
    times = apportioned([e[name] for name in names], e["step_time"], math.ulp(e["step_time"]))
    starts = [math.fsum(times[:place]) for place in range(len(times))]
    return tuple(
        Bar(name, start, time, times[0] / (start + time) if start + time else 0.0)
        for name, start, time in zip(names, starts, times, strict=True)
    )


def largest_causes(bars: Sequence[Bar], number: int = 3) -> list[Bar]:
    """The causes that add most to the time at the peak rate, the largest first."""
    losses = [bar for bar in bars if bar.name != PEAK and bar.time > 0]
    return sorted(losses, key=lambda bar: -bar.time)[:number]


def apportioned(parts: Sequence[float], whole: float, unit: float) -> list[float]:
    """The parts as multiples of a unit that add up to the whole, as a multiple of the unit, too.

    Each part is at most a unit from what it was, as long as the parts add up to the whole before: units that are missing
    go to the parts that lost most when they were cut to multiples.

    Source: the method of largest remainders (Hamilton).
    """
    units = [part / unit for part in parts]
    floors = [math.floor(number) for number in units]
    missing = round(whole / unit) - sum(floors)
    order = sorted(range(len(parts)), key=lambda place: floors[place] - units[place])
    for turn in range(abs(missing)):
        floors[order[turn % len(order)]] += 1 if missing > 0 else -1
    return [number * unit for number in floors]
