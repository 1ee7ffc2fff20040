"""The parallelisms, and what replicas share out: tables that formulas, results, searches and reports are made from."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import isqrt
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Parallelism:
    """A way to share the work out over accelerators.

    Attributes:
        name: what its quantities are named after: `NAME_parallel_degree`, `exposed_NAME_communication_time`, ….
        place: where it stands when a mapping is written; None where its groups lie inside those of the others, so that
            its
            degree does not multiply the number of accelerators.
    """

    name: str
    place: int | None


# In the order of the parts of a step.
ROWS = (
    Parallelism("tensor", place=1),
    Parallelism("pipeline", place=2),
    Parallelism("data", place=0),
    Parallelism("context", place=3),
    Parallelism("expert", place=None),
)
PARALLELISMS = tuple(row.name for row in ROWS)
# Those whose degrees multiply to the number of accelerators, as mappings are written.
PLACED = tuple(row.name for place in range(len(ROWS)) for row in ROWS if row.place == place)


@dataclass(frozen=True)
class Sharding:
    """What the replicas of parameters share out: each flag says so of one kind of state.

    Shared gradients are scattered for every micro-batch, and shared weights are gathered for every pass of one.
    """

    optimizer_state: bool
    gradient: bool
    weight: bool


# By the number of the ZeRO stage.
SHARDINGS = (
    Sharding(optimizer_state=False, gradient=False, weight=False),
    Sharding(optimizer_state=True, gradient=False, weight=False),
    Sharding(optimizer_state=True, gradient=True, weight=False),
    Sharding(optimizer_state=True, gradient=True, weight=True),
)


def shares(state: str, zero_stage: Any) -> Any:
    """Whether the replicas share a kind of state out at these stages. Source: arXiv 1910.02054, section 5."""
    flags = [getattr(sharding, state) for sharding in SHARDINGS]
    return np.take(flags, np.asarray(zero_stage).astype(np.int64), mode="clip")


# Places of a fast domain beyond which its divisors are not sought, but for the whole degree.
MOST_PLACES = 65_536


@lru_cache(maxsize=4096)
def divisors(number: int, most: int | None = None) -> tuple[int, ...]:
    """The divisors of a number, the small ones first; of those above `most` only the number. Source: definition."""
    most = number if most is None else most
    small = [d for d in range(1, min(isqrt(number), most) + 1) if number % d == 0]
    large = [number // d for d in reversed(small) if number // d <= most]
    return tuple(dict.fromkeys([*small, *large, number]))


def largest_divisor(degree: Any, places: Any) -> Any:
    """The largest divisor of a degree that is at most so many places; one where there is no place.

    The divisors of all degrees lie one after another in one list, in which each pair is looked up. A degree that is not
    whole breaks a rule elsewhere; here it has no divisor but one. Source: definition.
    """
    degree, places = np.broadcast_arrays(degree, np.maximum(places, 1.0))
    if not degree.size:
        return degree
    numbers, which = np.unique(degree, return_inverse=True)
    apart = max(float(np.max(numbers)), float(np.max(places))) + 1
    most = int(min(np.max(places), MOST_PLACES))
    found = [divisors(int(number), most) if number == int(number) and number >= 1 else (1,) for number in numbers]
    listed = np.concatenate([place * apart + np.array(own, np.float64) for place, own in enumerate(found)])
    start = which.reshape(degree.shape) * apart
    return listed[np.searchsorted(listed, start + places, side="right") - 1] - start
