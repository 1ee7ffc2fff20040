"""Counts values in many narrow bins; the counts of blocks can be added in any order.

The first sixteen bits of a number decide its bin: its sign, its power of two, and a sixteenth of that octave. Therefore
no range must be known in advance, each bin is as wide as three to six percent of its values, and there are few bins.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from amped.engine.evaluate import Array

BITS_LEFT, BINS = np.uint64(48), 1 << 16


def counted(values: Array) -> dict[int, int]:
    """How many of the values lie in each bin that has some."""
    positive_zeros = np.ascontiguousarray(values) + 0.0  # the two floating-point zeros become one value
    counts = np.bincount((positive_zeros.view(np.uint64) >> BITS_LEFT).astype(np.intp))
    places = np.flatnonzero(counts)
    return dict(zip(places.tolist(), counts[places].tolist(), strict=True))


def bins(counts: Mapping[int, int]) -> list[tuple[float, float, int]]:
    """The bins that have values, in ascending order: where each begins and ends, and how many values it has."""
    return sorted((*_edges(place), count) for place, count in counts.items())


def _edges(place: int) -> tuple[float, float]:
    begins, ends = np.array([place << 48, (place + 1) << 48], dtype=np.uint64).view(np.float64).tolist()
    return (begins, ends) if place < BINS // 2 else (ends, begins)
