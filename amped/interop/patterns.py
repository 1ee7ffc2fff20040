"""Marks of layers, a 0 or 1 for each, as runs and as text."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby


def marks_of(marks: Sequence[int]) -> list[tuple[int, int]]:
    """The runs of equal marks: the mark, and how many layers have it."""
    return [(mark, len(list(run))) for mark, run in groupby(map(int, marks))]


def runs(marks: Sequence[int]) -> str:
    """Marks as amped's pattern, in which 0*3,1*58 is three dense layers and 58 mixtures."""
    return ",".join(f"{mark}*{number}" if number > 1 else str(mark) for mark, number in marks_of(marks))
