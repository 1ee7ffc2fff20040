"""The numbers that are fitted to training steps: which row each belongs to, and which value it is drawn to.

A number is a column of an accelerator's row (or of its generation's) or of a software stack's row. It is fitted if the
row that writes it names it in `fitted`. A row that extends another one starts from that row's number. A row that stands
on no other one starts from the mean of its kin: the other rows of its table that stand on no other one, if their value
is not in doubt. So does an accelerator or a stack that nobody measured.
Source: Gelman et al., Bayesian Data Analysis (2013), chapter 5 (hierarchical models: groups share what they are drawn to).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from amped.calibration.coefficients import OF_ALL_ROWS, Coefficient
from amped.configuring.values import read_value
from amped.engine.evaluate import Array
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

        Source: definition; the sum of the squared distances is the least.
        """
        values = np.linalg.lstsq(np.eye(len(self.constants)) - self.shares, self.constants, rcond=None)[0]
        return np.clip(values.astype(np.float64), self.low, self.high)

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
        kin, column = _kin(tables, number.key), number.key.column
        for row in kin:
            key = Key(row.table, owner(tables, row, column).name, column)
            if key in places:
                shares[place, places[key]] += 1 / len(kin)
            else:
                constants[place] += _value(row, column) / len(kin)
    widths = np.array([number.coefficient.doubt for number in numbers])
    low, high = np.array([number.coefficient.within(number.value) for number in numbers]).reshape(-1, 2).T
    return Drawn(shares, constants, widths, low=low, high=high)


def _kin(tables: Tables, key: Key) -> list[Row]:
    """The rows whose mean a number is drawn to.

    These are the nearest other row that its row extends and that has the column; else the other rows that extend no
    other row, if their value of the column is not in doubt; else the row for what is unknown.
    """
    ancestors = [name for name in tables.row(key.table, key.row).ancestors if name != key.row]
    for row in (tables.row(key.table, name) for name in ancestors):
        if row.columns.get(key.column) is not None:
            return [row]
    rows = [tables.row(key.table, name) for name in tables.names(key.table) if name != key.row]
    roots = [row for row in rows if {*row.ancestors} <= {row.name} and row.columns.get(key.column) is not None]
    undoubted = [row for row in roots if key.column not in row.unverified]
    return undoubted or [tables.row(key.table, UNKNOWN)]


def _value(row: Row, column: str) -> float:
    """The value of a row's column in the canonical unit."""
    return float(read_value(catalogue()[column], row.columns[column]))
