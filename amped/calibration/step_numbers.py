"""The numbers that are fitted to training steps: which row each belongs to, and which value it is drawn to.

A number is a column of an accelerator's row (or of its generation's) or of a software stack's row. It is fitted if the
row that writes it names it in `fitted`. A row that extends another one starts from that row's number. A row that stands
on no other one starts from the mean of its kin: the other rows of its table that stand on no other one, if their value
is not in doubt. So does an accelerator or a stack that nobody measured.
Source: Gelman et al., Bayesian Data Analysis (2013), chapter 5 (hierarchical models: groups share what they are drawn to).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
    """Where a number stands: its table, its row and its column."""

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
    """What each of n numbers is drawn to: shares (n times n) of the other ones, and constants (n).

    Attributes:
        widths: the standard deviations of the distances.
        low, high: the bounds of the numbers themselves.
    """

    shares: Array
    constants: Array
    widths: Array
    low: Array
    high: Array

    def parents(self, values: Array) -> Array:
        """The values that the numbers are drawn to, of one setting or of many."""
        return values @ self.shares.T + self.constants

    def without_steps(self) -> Array:
        """The values of the numbers if no step tells them: each is what it is drawn to, within its bounds.

        Source: definition; the sum of the squared distances is the least.
        """
        found = np.linalg.lstsq(np.eye(len(self.constants)) - self.shares, self.constants, rcond=None)[0]
        return np.clip(found.astype(np.float64), self.low, self.high)

    def distances(self, values: Array) -> Array:
        """The distance of each number from what it is drawn to, in widths."""
        found: Array = (values - self.parents(values)) / self.widths
        return found


def owner(tables: Tables, row: Row, column: str) -> Row:
    """The row that writes the value of a column: the row itself, or the nearest one that it extends."""
    names = dict.fromkeys((row.name, *row.ancestors))
    chain = [tables.row(row.table, name) for name in names]
    return next((each for each in chain if column not in each.inherited), chain[-1])


def fitted_key(tables: Tables, row: Row, column: str) -> Key | None:
    """The number behind a column of a row, if it is one that is fitted and that has bounds.

    The row may come from other tables, which have other values.
    """
    if row.table not in TABLES or column not in OF_ALL_ROWS:
        return None
    own = tables.row(row.table, row.name)
    return Key(row.table, owner(tables, own, column).name, column) if column in own.fitted else None


def number(tables: Tables, key: Key) -> Number:
    """A number with its value in the tables."""
    return Number(key, OF_ALL_ROWS[key.column], _value(tables.row(key.table, key.row), key.column))


def drawn(tables: Tables, numbers: Sequence[Number]) -> Drawn:
    """What each number is drawn to, how narrowly, and between which bounds."""
    places = {each.key: place for place, each in enumerate(numbers)}
    shares, constants = np.zeros((len(numbers), len(numbers))), np.zeros(len(numbers))
    for place, each in enumerate(numbers):
        kin = _parent(tables, each.key) or list(_kin(tables, each.key)) or _unknown(tables, each.key)
        for row in kin:
            key = Key(each.key.table, owner(tables, row, each.key.column).name, each.key.column)
            if key in places:
                shares[place, places[key]] += 1 / len(kin)
            else:
                constants[place] += _value(row, each.key.column) / len(kin)
    widths = np.array([each.coefficient.doubt for each in numbers])
    bounds = np.array([each.coefficient.within(each.value) for each in numbers]).reshape(-1, 2)
    return Drawn(shares, constants, widths, bounds[:, 0], bounds[:, 1])


def _parent(tables: Tables, key: Key) -> list[Row]:
    """The nearest other row that this row extends and that has the column."""
    names = [name for name in tables.row(key.table, key.row).ancestors if name != key.row]
    rows = (tables.row(key.table, name) for name in names)
    return [row for row in rows if row.columns.get(key.column) is not None][:1]


def _kin(tables: Tables, key: Key) -> Iterator[Row]:
    """The other rows that stand on no other one, if their value of the column is not in doubt."""
    for name in tables.names(key.table):
        row = tables.row(key.table, name)
        stands_alone = not set(row.ancestors) - {name}
        known = row.columns.get(key.column) is not None and key.column not in row.unverified
        if name != key.row and stands_alone and known:
            yield row


def _unknown(tables: Tables, key: Key) -> list[Row]:
    """The row for what is unknown, where no kin has a value that is not in doubt."""
    return [tables.row(key.table, UNKNOWN)]


def _value(row: Row, column: str) -> float:
    return float(read_value(catalogue()[column], row.columns[column]))


def columns_of(numbers: Sequence[Number], values: Array) -> dict[str, dict[str, dict[str, float]]]:
    """Values by table, row and column."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for each, value in zip(numbers, values, strict=True):
        found.setdefault(each.key.table, {}).setdefault(each.key.row, {})[each.key.column] = float(value)
    return found
