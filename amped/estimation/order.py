"""Which of several estimates is the least, as far as their bands and the range of their prices tell."""

from __future__ import annotations

import math
from collections.abc import Sequence

from amped.base.record import dataclass
from amped.estimation.estimation import Estimation

COST = "cost"


@dataclass(frozen=True)
class Range:
    """A result with the ends between which it lies; both ends are infinite where nobody knows."""

    low: float
    likely: float
    high: float


def range_of(e: Estimation, name: str) -> Range:
    """A time, a cost or an energy with the band of the step's time; a cost also with the low and the high price of its list."""
    likely, error = e[name], e.error_band.error_fraction if e.error_band else 0.0
    low, high = likely / (1 + error), likely * (1 + error)
    return Range(low * _cheapest(e), likely, high * _dearest(e)) if name == COST else Range(low, likely, high)


def tied(estimations: Sequence[Estimation], name: str) -> list[int]:
    """The places of the estimates that may be the least, the likely least first; one place if the order is sure.

    Estimates share most of their error. An order is sure if the larger of both errors, and for costs the ends of both prices,
    do not turn it.
    """
    order = sorted(range(len(estimations)), key=lambda place: estimations[place][name])
    best = estimations[order[0]]
    return [place for place in order if place == order[0] or _turns(best, estimations[place], name)]


def _turns(best: Estimation, other: Estimation, name: str) -> bool:
    """Whether the bands of two estimates may turn their order."""
    error = max((e.error_band.error_fraction for e in (best, other) if e.error_band), default=0.0)
    room = (1 + error) * (_dearest(best) / _cheapest(other) if name == COST else 1.0)
    return other[name] < best[name] * room or room == math.inf


def _cheapest(e: Estimation) -> float:
    """The low price of the list as a share of the price that is taken; 1 where there is no range."""
    price = e.scenario.sources.price
    return price.low / price.median if price and price.low and price.median else 1.0


def _dearest(e: Estimation) -> float:
    """The high price of the list as a multiple of the price that is taken; 1 where there is no range."""
    price = e.scenario.sources.price
    return price.high / price.median if price and price.high and price.median else 1.0


def memory_left(e: Estimation) -> float:
    """The share of the available memory that the run leaves free; negative if it does not fit."""
    return 1 - e["memory_per_accelerator_bytes"] / e["available_memory_bytes"]
