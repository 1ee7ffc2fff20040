"""Ways to write numbers as products: ordered splits, and the divisors of a number, as columns."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from amped.engine.evaluate import Array
from amped.theory.nouns.divisors import divisors


@lru_cache(maxsize=1024)
def splits(number: int, factors: int) -> Array:
    """All ordered ways to write a number as a product of this many factors, a row for each."""
    if factors == 1:
        return np.array([[float(number)]])
    rows = [np.insert(splits(number // d, factors - 1), 0, d, axis=1) for d in divisors(number)]
    return np.concatenate(rows)


def fullest(accelerators: int, places: int) -> tuple[int, ...]:
    """How many of a machine's accelerators a mapping may place in one domain: the largest divisors that fit.

    A divisor is left out if it divides a larger one that fits: a domain with empty places gains nothing.
    """
    fitting = [d for d in divisors(accelerators) if d <= places]
    return tuple(d for d in fitting if not any(other % d == 0 for other in fitting if other > d))


@lru_cache(maxsize=4096)
def column_of_divisors(number: int, largest: float = np.inf) -> Array:
    """The divisors of a number up to the largest that is asked for, as a column."""
    return np.array([d for d in divisors(number) if d <= largest], dtype=np.float64)
