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
    """The joint axis and the values of the latest run, each value by its formula and the numbers of its arguments."""

    def __init__(self) -> None:
        self._numbers, self._dimensions = count(), 0
        self._latest: dict[Hashable, Numbered] = {}
        self._before: dict[Hashable, Numbered] = {}
        self._axes: dict[Hashable, JointAxis] = {}

    def begin(self, dimensions: int) -> None:
        """Begins a run whose arrays have `dimensions` dimensions.

        Values that the run before did not use are forgotten; all are, if its arrays had another number of dimensions.
        """
        self._before, self._latest = self._latest if dimensions == self._dimensions else {}, {}
        self._dimensions = dimensions

    def number(self, key: Hashable) -> int:
        """The number of the source with this key; a new one if the key is new."""
        return (self._found(key) or self._kept(key, None, False))[0]

    def value(
        self, formula: Formula, mask: int, full: int, numbers: dict[str, int], compute: Callable[[], tuple[Any, int]]
    ) -> tuple[Any, int]:
        """The result of a formula on the rows of a mask, and the mask of the result.

        Args:
            formula: the formula.
            mask: the mask of the rows.
            full: the mask of all variables.
            numbers: the number of each argument, by name; the number of the result is added.
            compute: computes the result and its mask; called only if they are not known.
        """
        key = formula.function, EVERY_ROW if mask == full else mask, *[numbers[name] for name in formula.arguments]
        entry = self._found(key)
        if entry is None:
            data, own_mask = compute()
            entry = self._kept(key, data, own_mask > 0)
        numbers[formula.name], data, has_rows = entry
        return data, mask if has_rows else 0

    def axis(self, columns: Mapping[str, NDArray[np.float64]], worthwhile: float, tied: Tied) -> JointAxis:
        """The joint axis of these columns; the one of the latest run is reused if its columns are the same.

        The arguments are those of `JointAxis`.
        """
        followers = {f"{leader} of {name}": values for name, (leader, values) in tied.items()}
        key = (worthwhile, *((name, digest(column)) for name, column in {**columns, **followers}.items()))
        self._axes = {key: self._axes.get(key) or JointAxis(columns, worthwhile, tied)}
        return self._axes[key]

    def _found(self, key: Hashable) -> Numbered | None:
        """The entry of this run or the run before; one of the run before becomes an entry of this run; None if unknown."""
        entry = self._latest.get(key)
        if entry is None and (entry := self._before.get(key)) is not None:
            self._latest[key] = entry
        return entry

    def _kept(self, key: Hashable, data: Any, has_rows: bool) -> Numbered:
        """A new entry with a new number, added under its key."""
        entry = self._latest[key] = next(self._numbers), data, has_rows
        return entry


def source_of(
    name: str, values: Mapping[str, Any], joint: JointAxis, axes: Mapping[str, NDArray[np.float64]]
) -> Hashable:
    """A key for a source, equal only if its values and the axis of the values are equal."""
    if name in joint.columns or name in joint.tied:
        leader, levels = joint.tied.get(name, (name, np.empty(0)))
        return "joint", joint.masks[leader], digest(joint.columns[leader]), digest(levels)
    if name in axes:
        return "open", [*axes].index(name), digest(axes[name])
    return "given", values[name]


def digest(values: NDArray[np.float64]) -> bytes:
    """A hash of the bytes of an array; arrays with different bytes have different ones."""
    from hashlib import blake2b  # takes long to load, and not every run has equal rows to look for

    return blake2b(np.ascontiguousarray(values).tobytes(), digest_size=DIGEST_BYTES).digest()
