"""Values that successive runs have in common: one run computes each, and the next run takes it over.

A value is recognized by its formula and by the values from which the formula computes it. Two plans that differ in one
choice, or two joint axes that differ in one variable, therefore share all that does not depend on it. The same formula
with the same values gives the same bits, so that a run takes over exactly what it would compute itself.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from amped.engine.axes import JointAxis, Tied
from amped.theory.language.catalogue import Formula

DIGEST_BYTES = 16
# Stands for the mask of all variables, which may be more variables in another run with the same rows.
EVERY_ROW = -1
# A value's number, which no other value has; the value; and whether it has an entry for each row of its mask.
Numbered = tuple[int, Any, bool]


class Known:
    """The joint axis and the values of the latest run, each value by what it was computed from."""

    def __init__(self) -> None:
        self._numbers, self._dimensions = count(), 0
        self._latest: dict[Hashable, Numbered] = {}
        self._before: dict[Hashable, Numbered] = {}
        self._axes: dict[Hashable, JointAxis] = {}

    def begin(self, dimensions: int) -> None:
        """A run with arrays of so many dimensions begins: what the run before did not use is forgotten.

        Arrays of another number of dimensions are forgotten, too.
        """
        self._before, self._latest = self._latest if dimensions == self._dimensions else {}, {}
        self._dimensions = dimensions

    def number(self, key: Hashable) -> int:
        """The number of a source, which `key` tells apart from others."""
        return (self._found(key) or self._kept(key, None, False))[0]

    def value(
        self, formula: Formula, mask: int, full: int, numbers: dict[str, int], compute: Callable[[], tuple[Any, int]]
    ) -> tuple[Any, int]:
        """What a formula gives on the rows of a mask, with its own mask; `compute` is called if it is not known.

        `numbers` are those of the arguments; that of the value is added. `full` is the mask of all variables.
        """
        key = formula.function, EVERY_ROW if mask == full else mask, *[numbers[name] for name in formula.arguments]
        entry = self._found(key)
        if entry is None:
            data, own_mask = compute()
            entry = self._kept(key, data, own_mask > 0)
        numbers[formula.name], data, has_rows = entry
        return data, mask if has_rows else 0

    def axis(self, columns: Mapping[str, NDArray[np.float64]], worthwhile: float, tied: Tied) -> JointAxis:
        """The joint axis of these columns; that of the latest run, if its columns are the same."""
        followers = {f"{leader} of {name}": values for name, (leader, values) in tied.items()}
        key = (worthwhile, *((name, digest(column)) for name, column in {**columns, **followers}.items()))
        self._axes = {key: self._axes.get(key) or JointAxis(columns, worthwhile, tied)}
        return self._axes[key]

    def _found(self, key: Hashable) -> Numbered | None:
        entry = self._latest.get(key)
        if entry is None and (entry := self._before.get(key)) is not None:
            self._latest[key] = entry
        return entry

    def _kept(self, key: Hashable, data: Any, has_rows: bool) -> Numbered:
        entry = self._latest[key] = next(self._numbers), data, has_rows
        return entry


def source_of(
    name: str, values: Mapping[str, Any], joint: JointAxis, axes: Mapping[str, NDArray[np.float64]]
) -> Hashable:
    """What tells a source apart from others: its values, and the axis on which they lie."""
    if name in joint.columns or name in joint.tied:
        leader, levels = joint.tied.get(name, (name, np.empty(0)))
        return "joint", joint.masks[leader], digest(joint.columns[leader]), digest(levels)
    if name in axes:
        return "open", [*axes].index(name), digest(axes[name])
    return "given", values[name]


def digest(values: NDArray[np.float64]) -> bytes:
    """A short text that two arrays share only if their bytes are equal."""
    from hashlib import blake2b  # takes long to load, and not every run has equal rows to look for

    return blake2b(np.ascontiguousarray(values).tobytes(), digest_size=DIGEST_BYTES).digest()
