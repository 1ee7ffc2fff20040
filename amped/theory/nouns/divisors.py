"""Divisors of degrees: how a degree can be split, and the largest part of it that fits."""

from __future__ import annotations

from functools import lru_cache
from math import isqrt
from typing import Any

import numpy as np

# In fast domains with more places, only divisors up to this number, and the whole degree, are considered.
MOST_PLACES = 65_536


@lru_cache(maxsize=4096)
def divisors(number: int, most: int | None = None) -> tuple[int, ...]:
    """The divisors of a number in ascending order. The number itself is always one of them.

    Args:
        number: a whole number.
        most: the largest divisor to list, except the number itself; None to list all.

    Source: definition.
    """
    most = number if most is None else most
    lower = [d for d in range(1, min(isqrt(number), most) + 1) if number % d == 0]
    upper = [number // d for d in reversed(lower) if number // d <= most]
    return tuple(dict.fromkeys([*lower, *upper, number]))


def common_divisor(one: Any, other: Any) -> Any:
    """The greatest common divisor of two numbers, whose decimals are left out. Source: definition."""
    return np.gcd(one.astype(np.int64), other.astype(np.int64)).astype(np.float64)


def largest_divisor(degree: Any, places: Any) -> Any:
    """The largest divisor of a degree that is at most the number of places; 1 if there is no place.

    One sorted list has the divisors of all degrees. The divisors of each degree are moved up by an offset, so that one
    search finds the largest divisor for every pair of a degree and a number of places. Another rule refuses a degree
    that is not a whole number; here the only divisor of such a degree is 1.

    Source: definition.
    """
    degree, places = np.broadcast_arrays(degree, np.maximum(places, 1.0))
    if not degree.size:
        return degree
    numbers, number_index = np.unique(degree, return_inverse=True)
    spacing = max(float(np.max(numbers)), float(np.max(places))) + 1
    most = int(min(np.max(places), MOST_PLACES))
    divisors_of = [divisors(int(number), most) if number == int(number) and number >= 1 else (1,) for number in numbers]
    spaced = np.concatenate([index * spacing + np.array(row, np.float64) for index, row in enumerate(divisors_of)])
    offset = number_index.reshape(degree.shape) * spacing
    return spaced[np.searchsorted(spaced, offset + places, side="right") - 1] - offset
