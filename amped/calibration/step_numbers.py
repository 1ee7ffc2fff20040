"""The numbers that are fitted to training steps: which row each belongs to, and which value it is drawn to.

A number is a column of an accelerator's row (or of its generation's) or of a software stack's row. It is fitted if the
row that writes it names it in `fitted`. A number of an accelerator is drawn to that of its nearest kin in features (`tables/kin.py`),
which an accelerator that nobody measured takes, too. A number of a stack is drawn to that of the stack whose row it extends. If it
extends none, it is drawn to the mean of its kin: the other rows that extend none, if their value is not in doubt.
Source: Gelman et al., Bayesian Data Analysis (2013), chapter 5 (hierarchical models: groups share what they are drawn to).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from amped.calibration.coefficients import OF_ALL_ROWS, Coefficient
from amped.configuring.values import read_value
from amped.engine.evaluate import Array
from amped.tables.kin import CLOCK, PRODUCTS, TIED, distance, features_of, measured, own_kernels
from amped.tables.table_files import KERNELS, SOFTWARE
from amped.tables.tables import Row, Tables
from amped.theory.language.catalogue import catalogue

# The tables whose numbers may be fitted to steps, and the row of each that stands for what is unknown.
TABLES, UNKNOWN = (KERNELS, SOFTWARE), "default"


@dataclass(frozen=True, order=True)
class Key:
    """The place of a number in the tables: its table, its row and its column."""

    table: str
    row: str
    column: str


@dataclass(frozen=True)
class Number:
    """A number that is fitted to steps.

    Attributes:
        key: where it stands.
        coefficient: its bounds, and its doubt: the standard deviation of the distance from the value it is drawn to.
        value: its value in the tables.
    """

    key: Key
    coefficient: Coefficient
    value: float


@dataclass(frozen=True)
class Drawn:
    """The values that numbers are drawn to: sums of other numbers times shares, and of constants.

    Attributes:
        shares: for each number (row), the share of each other number (column) in the value that it is drawn to.
        constants: for each number, the rest of the value that it is drawn to.
        widths: the standard deviations of the distances between numbers and the values they are drawn to.
        low, high: the bounds of the numbers themselves.
    """

    shares: Array
    constants: Array
    widths: Array
    low: Array
    high: Array

    def parents(self, values: Array) -> Array:
        """The values that the numbers are drawn to.

        Args:
            values: the values of the numbers, of one setting or of many (a row for each).
        """
        return values @ self.shares.T + self.constants

    def without_steps(self) -> Array:
        """The values of the numbers if no step tells them: each has the value that it is drawn to, within its bounds.

        Numbers that are drawn only to one another stay as near as possible to the middle of their bounds.

        Source: definition; the sum of the squared distances is the least.
        """
        middle, distances = (self.low + self.high) / 2, np.eye(len(self.constants)) - self.shares
        moved = np.linalg.lstsq(distances, self.constants - distances @ middle, rcond=None)[0]
        return np.clip((middle + moved).astype(np.float64), self.low, self.high)

    def distances(self, values: Array) -> Array:
        """The distance of each number from the value that it is drawn to, in widths."""
        return np.asarray((values - self.parents(values)) / self.widths)


def owner(tables: Tables, row: Row, column: str) -> Row:
    """The row that writes the value of a column: the row itself, or the nearest one that it extends."""
    chain = [tables.row(row.table, name) for name in dict.fromkeys((row.name, *row.ancestors))]
    return next((ancestor for ancestor in chain if column not in ancestor.inherited), chain[-1])


def fitted_key(tables: Tables, row: Row, column: str) -> Key | None:
    """The key of the number behind a column of a row; None if the number is not fitted or has no bounds.

    Args:
        tables: the tables that say which numbers are fitted.
        row: the row, which may come from other tables with other values.
        column: the column.
    """
    if row.table not in TABLES or column not in OF_ALL_ROWS:
        return None
    row = tables.row(row.table, row.name)
    return Key(row.table, owner(tables, row, column).name, column) if column in row.fitted else None


def number(tables: Tables, key: Key) -> Number:
    """The number at a key, with its bounds and its value in the tables."""
    return Number(key, OF_ALL_ROWS[key.column], _value(tables.row(key.table, key.row), key.column))


def drawn(tables: Tables, numbers: Sequence[Number]) -> Drawn:
    """The values that numbers are drawn to, with their widths and bounds."""
    places = {number.key: place for place, number in enumerate(numbers)}
    shares, constants = np.zeros((len(numbers), len(numbers))), np.zeros(len(numbers))
    for place, number in enumerate(numbers):
        column = number.key.column
        for row, share in _kin(tables, number.key):
            key = Key(row.table, owner(tables, row, column).name, column)
            if key in places:
                shares[place, places[key]] += share
            else:
                constants[place] += share * _value(row, column)
    widths = np.array([number.coefficient.doubt for number in numbers])
    low, high = np.array([number.coefficient.within(number.value) for number in numbers]).reshape(-1, 2).T
    return Drawn(shares, constants, widths, low=low, high=high)


def _kin(tables: Tables, key: Key) -> list[tuple[Row, float]]:
    """The rows to whose values a number is drawn, each with its share in the value.

    A number of an accelerator is drawn to that of its nearest kin in features (`_nearest_kin`). Any other one is drawn to the nearest row that its
    row extends and that has the column; else to the mean of the other rows that extend no other row, if their value of the column
    is not in doubt; else to the row for what is unknown.
    """
    kin = _nearest_kin(tables, key) if key.table == KERNELS else []
    if kin:
        own = tables.row(key.table, key.row)
        return [(row, _ratio(own, row, key.column) / len(kin)) for row in kin]
    for row in (tables.row(key.table, name) for name in _ancestors(tables, key)):
        if row.columns.get(key.column) is not None:
            return [(row, 1.0)]
    rows = [tables.row(key.table, name) for name in tables.names(key.table) if name != key.row]
    roots = [row for row in rows if {*row.ancestors} <= {row.name} and row.columns.get(key.column) is not None]
    known = [row for row in roots if key.column not in row.unverified] or roots or [tables.row(KERNELS, UNKNOWN)]
    return [(row, 1 / len(known)) for row in known]


def _nearest_kin(tables: Tables, key: Key) -> list[Row]:
    """The kernels of the nearest accelerator of the same vendor; else those of the nearest one of each other vendor.

    Another vendor's libraries tell little, so that the mean of several is taken. Rows that extend the number's row are no kin of
    it: they are drawn to it. The list is empty if no other accelerator tells the column.
    """
    own, others = list[Row](), list[tuple[Row, Row]]()
    for accelerator in measured(tables, key.column):
        kernels = own_kernels(tables, accelerator)
        writer = owner(tables, kernels, key.column) if kernels else None
        if kernels is not None and writer is not None and writer.name == key.row:
            own.append(accelerator)
        elif kernels is not None and writer is not None and key.row not in writer.ancestors:
            others.append((accelerator, kernels))
    nearest_of: dict[object, tuple[float, Row]] = {}
    for one, (other, kernels) in itertools.product(own, others):
        far, vendor = distance(features_of(one), features_of(other)), other.columns.get("vendor")
        if far < nearest_of.get(vendor, (math.inf, kernels))[0]:
            nearest_of[vendor] = far, kernels
    same = [nearest_of[vendor] for vendor in {row.columns.get("vendor") for row in own} if vendor in nearest_of]
    return [kernels for _, kernels in same or nearest_of.values()]


def _ratio(own: Row, kin: Row, column: str) -> float:
    """What a number is to that of its kin.

    A share of 8-bit or 4-bit products is tied to that of 16-bit products. That one has the clock in it if the row's clock is not
    fitted: then the kin's counts, too.
    """
    if column in TIED:
        return _value(own, PRODUCTS) / _value(kin, PRODUCTS)
    return _value(kin, CLOCK) / _value(own, CLOCK) if column == PRODUCTS else 1.0


def _ancestors(tables: Tables, key: Key) -> list[str]:
    """The names of the rows that the row of a number extends, the nearest first."""
    return [name for name in tables.row(key.table, key.row).ancestors if name != key.row]


def _value(row: Row, column: str) -> float:
    """The value of a row's column in the canonical unit."""
    return float(read_value(catalogue()[column], row.columns[column]))
