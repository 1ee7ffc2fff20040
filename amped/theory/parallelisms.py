"""Tables of the parallelisms and of the sharding strategies; formulas, results, searches and reports use them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import isqrt
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Parallelism:
    """A way to distribute the work over accelerators.

    Attributes:
        name: the name in its quantities: `NAME_parallel_degree`, `exposed_NAME_communication_time`, ….
        place: the position of its degree in a written mapping. None if its groups use the accelerators of other
            parallelisms, so that its degree is not a factor of the number of accelerators.
    """

    name: str
    place: int | None


# The rows have the order in which reports list the parts of a step.
ROWS = (
    Parallelism("tensor", place=1),
    Parallelism("pipeline", place=2),
    Parallelism("data", place=0),
    Parallelism("context", place=3),
    Parallelism("expert", place=None),
)
PARALLELISMS = tuple(row.name for row in ROWS)
# The parallelisms whose degrees multiply to the number of accelerators, in the order of a written mapping.
PLACED = tuple(row.name for place in range(len(ROWS)) for row in ROWS if row.place == place)


@dataclass(frozen=True)
class Sharding:
    """A sharding strategy: each flag tells whether the replicas shard this kind of state.

    Sharded gradients are scattered for every micro-batch. Sharded weights are gathered for every pass of a micro-batch.
    """

    optimizer_state: bool
    gradient: bool
    weight: bool


# The index is the number of the ZeRO stage.
SHARDINGS = (
    Sharding(optimizer_state=False, gradient=False, weight=False),
    Sharding(optimizer_state=True, gradient=False, weight=False),
    Sharding(optimizer_state=True, gradient=True, weight=False),
    Sharding(optimizer_state=True, gradient=True, weight=True),
)


def shares(state: str, zero_stage: Any) -> Any:
    """Whether replicas at the given ZeRO stages shard a kind of state: optimizer_state, gradient or weight.

    Source: arXiv 1910.02054, section 5.
    """
    flags = [getattr(sharding, state) for sharding in SHARDINGS]
    return np.take(flags, np.asarray(zero_stage).astype(np.int64), mode="clip")


# In fast domains with more places, only divisors up to this number, and the whole degree, are considered.
MOST_PLACES = 65_536


@lru_cache(maxsize=4096)
def divisors(number: int, most: int | None = None) -> tuple[int, ...]:
    """The divisors of a number in ascending order, without those above `most`; the number itself is always in the list.

    Source: definition.
    """
    most = number if most is None else most
    small = [d for d in range(1, min(isqrt(number), most) + 1) if number % d == 0]
    large = [number // d for d in reversed(small) if number // d <= most]
    return tuple(dict.fromkeys([*small, *large, number]))


def largest_divisor(degree: Any, places: Any) -> Any:
    """The largest divisor of a degree that is at most the number of places; 1 if there is no place.

    The code puts the divisors of all degrees into one sorted list, in which it searches each pair of degree and places.
    Another rule refuses a degree that is not a whole number; here the only divisor of such a degree is 1.

    Source: definition.
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
