"""Ways to write numbers as products: ordered splits, and the divisors of a number, as columns."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from amped.engine.evaluate import Array
from amped.theory.nouns.divisors import divisors


@lru_cache(maxsize=1024)
def splits(number: int, factors: int) -> Array:
    """All ordered ways to write a number as a product of `factors` whole numbers: a row for each way."""
    if factors == 1:
        return np.array([[float(number)]])
    rows = [np.insert(splits(number // first, factors - 1), 0, first, axis=1) for first in divisors(number)]
    return np.concatenate(rows)


def fullest(accelerators: int, places: int) -> tuple[int, ...]:
    """The numbers of accelerators that mappings place in one fast domain: the largest divisors of the accelerators that fit.

    A divisor is left out if it divides a larger divisor that fits: a domain with empty places gains nothing.
    """
    fitting = [divisor for divisor in divisors(accelerators) if divisor <= places]
    return tuple(one for one in fitting if not any(other % one == 0 for other in fitting if other > one))


@lru_cache(maxsize=4096)
def column_of_divisors(number: int, largest: float = np.inf) -> Array:
    """The divisors of a number that are at most `largest`, in ascending order."""
    return np.array([divisor for divisor in divisors(number) if divisor <= largest], dtype=np.float64)
