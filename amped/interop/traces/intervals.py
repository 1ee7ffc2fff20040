"""Unions of stretches of time: how long they are, and how much of them lies in others."""

from __future__ import annotations

import numpy as np

from amped.interop.traces.trace import Floats

Stretches = tuple[Floats, Floats]
NONE: Stretches = (np.empty(0), np.empty(0))


def union(start: Floats, end: Floats) -> Stretches:
    """The stretches in which at least one of the given ones runs, in order and without touching each other."""
    if not len(start):
        return NONE
    order = np.argsort(start, kind="stable")
    start, latest = start[order], np.maximum.accumulate(end[order])
    begins = np.flatnonzero(np.append(True, start[1:] > latest[:-1]))
    return start[begins], latest[np.append(begins[1:], len(start)) - 1]


def length(stretches: Stretches) -> float:
    """The sum of the lengths of stretches that do not overlap."""
    return float(np.sum(stretches[1] - stretches[0]))


def within(start: Floats, end: Floats, begin: float, finish: float) -> Stretches:
    """The parts of stretches that lie between two moments."""
    which = (end > begin) & (start < finish)
    return np.maximum(start[which], begin), np.minimum(end[which], finish)


def between(stretches: Stretches, begin: float, finish: float) -> Stretches:
    """The gaps between stretches of a union, from one moment to another."""
    start, end = within(*stretches, begin, finish)
    gaps = np.append(begin, end), np.append(start, finish)
    which = gaps[1] > gaps[0]
    return gaps[0][which], gaps[1][which]


def both(one: Stretches, other: Stretches) -> float:
    """The seconds in which two unions run at one time."""
    together = union(np.append(one[0], other[0]), np.append(one[1], other[1]))
    return length(one) + length(other) - length(together)


def covered(stretches: Stretches, moments: Floats) -> Floats:
    """The seconds of a union before each moment."""
    start, end = stretches
    if not len(start):
        return np.zeros(len(moments))
    before = np.append(0.0, np.cumsum(end - start))
    last = np.searchsorted(start, moments, side="right") - 1
    in_last = np.minimum(moments, end[last]) - start[last]
    return np.where(last < 0, 0.0, before[last] + in_last)
