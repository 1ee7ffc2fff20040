"""Ways to write numbers as products: divisors and ordered splits, as columns."""

from __future__ import annotations

from functools import lru_cache
from math import isqrt

import numpy as np

from amped.engine.evaluate import Array


@lru_cache(maxsize=4096)
def divisors(number: int) -> tuple[int, ...]:
    """All divisors, the small ones first."""
    small = [d for d in range(1, isqrt(number) + 1) if number % d == 0]
    return tuple(dict.fromkeys([*small, *(number // d for d in reversed(small))]))


@lru_cache(maxsize=1024)
def splits(number: int, factors: int) -> Array:
    """All ordered ways to write a number as a product of so many: a row for each."""
    if factors == 1:
        return np.array([[float(number)]])
    rows = [np.insert(splits(number // d, factors - 1), 0, d, axis=1) for d in divisors(number)]
    return np.concatenate(rows)


@lru_cache(maxsize=4096)
def sizes(share: int, largest: float) -> Array:
    """The micro-batch sizes that divide a replica's share, as a column."""
    return np.array([d for d in divisors(share) if d <= largest], dtype=np.float64)
