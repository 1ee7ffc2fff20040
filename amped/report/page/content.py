"""What a page is made of: numbers by name, tables, pictures as data, and sections of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from amped.report import human
from amped.report.axes_values import axis_label, size_for, unit_of

# What a cell holds: a number, a boolean, a text, or nothing.
Plain = float | bool | str | None
SHARE, EXACT = "share", "exact"
# Results whose head is short, with their unit.
SHORT_HEADS = {"model_flops_utilization": "MFU|share", "memory_per_accelerator_bytes": "memory|byte"}
PERCENT = 0.01


@dataclass(frozen=True)
class Number:
    """One value of `amped estimate --json`, under its name there, and as text.

    Attributes:
        told: the value as text with its unit.
        config: the place of the number's configuration on a page of several; None for that of the section.
    """

    name: str
    value: Any
    told: str
    config: int | None = None

    @property
    def label(self) -> str:
        """The name in words."""
        return axis_label(self.name)

    @property
    def exact(self) -> str:
        """The value with all its digits, as JSON."""
        return json.dumps(self.value)


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes:
        name: the canonical name of what stands in it.
        head: its name in words.
        unit: the canonical unit of its numbers; empty for texts, counts, and values by name that bring their unit.
            "share" is a fraction that is shown as a percentage, and "exact" a number that is shown with all its digits.
    """

    name: str
    head: str
    unit: str = ""


@dataclass(frozen=True)
class Cell:
    """A cell as it is shown: its text, its exact value as JSON, and its name if it is a value of `--json`."""

    told: str
    exact: str
    name: str = ""
    config: int | None = None
    is_number: bool = False


@dataclass(frozen=True)
class Table:
    """Rows of values; a `Number` among them also has its name.

    Attributes:
        rows: the values in canonical units. What is shown is in the unit that fits the largest of a column.
    """

    caption: str
    columns: tuple[Column, ...]
    rows: Sequence[Sequence[Plain | Number]]

    def column(self, name: str) -> list[Plain]:
        """The plain values of a column."""
        place = [column.name for column in self.columns].index(name)
        return [plain(row[place]) for row in self.rows]

    def _scale(self, column: Column) -> tuple[float, str]:
        """The divisor for the values of a column, and the unit in which the values are then shown."""
        if column.unit == SHARE:
            return PERCENT, "%"
        alike = [c.name for c in self.columns if c.unit == column.unit]
        numbers = [value for name in alike for value in self.column(name) if isinstance(value, float | int)]
        return size_for(column.unit, numbers) if column.unit and numbers else (1.0, "")

    @property
    def scaled(self) -> list[tuple[Column, float, str]]:
        """The columns, each with the number to divide its values by, and the unit in which they are then shown.

        All columns of one unit share it, so that they can be compared.
        """
        return [(column, *self._scale(column)) for column in self.columns]

    @property
    def heads(self) -> list[str]:
        """The heads of the columns, with units."""
        return [f"{column.head} ({unit})" if unit else column.head for column, _, unit in self.scaled]

    @property
    def cells(self) -> list[list[Cell]]:
        """The cells of each row as they are shown."""
        scales = [(column.unit, size) for column, size, _ in self.scaled]
        return [[_cell(value, *scale) for value, scale in zip(row, scales, strict=True)] for row in self.rows]

    @property
    def data(self) -> dict[str, Any]:
        """The table as plain data for JSON: its columns with their scales, and the plain values of its rows."""
        return {
            "columns": [{"name": c.name, "head": c.head, "size": size, "unit": unit} for c, size, unit in self.scaled],
            "rows": [[plain(value) for value in row] for row in self.rows],
        }


@dataclass(frozen=True)
class Picture:
    """A chart: the values that it shows, how they are drawn, and the same in words.

    Attributes:
        id: its name on the page.
        kind: how it is drawn: bars, stacked, spans or points (`pictures.js`).
        sentence: what it shows, for who does not see it.
        table: the values as text beside it.
        how: which column is drawn along which axis, and further lines.
        drawn: the values that are drawn, where they are not those of `table`.
    """

    id: str
    title: str
    kind: str
    sentence: str
    table: Table
    how: Mapping[str, Any]
    drawn: Table | None = None

    @property
    def data(self) -> dict[str, Any]:
        """The title, the kind and the values of the picture as plain data for JSON, for the script that draws."""
        shown = {"id": self.id, "title": self.title, "kind": self.kind, "sentence": self.sentence, **self.how}
        return {**shown, **(self.drawn or self.table).data}


@dataclass(frozen=True)
class Section:
    """What a page says on one topic, of one configuration.

    Attributes:
        id: its name on the page.
        lines: sentences; each may have a word before it.
        blocks: texts that keep their lines, each under its title.
    """

    id: str
    title: str
    lines: Sequence[tuple[str, str]] = ()
    numbers: Sequence[Number] = ()
    pictures: Sequence[Picture] = ()
    tables: Sequence[Table] = ()
    blocks: Mapping[str, str] = field(default_factory=dict)


def plain(value: Plain | Number) -> Plain:
    """The value of a cell without its name."""
    return value.value if isinstance(value, Number) else value


def said(*sentences: str) -> list[tuple[str, str]]:
    """Sentences as lines of a section, without a word before them; empty sentences are left out."""
    return [("", sentence) for sentence in sentences if sentence]


def table(caption: str, columns: Iterable[str], rows: Iterable[Sequence[Plain | Number]]) -> Table:
    """A table; each column is written as `name`, `name|head` or `name|head|unit`."""
    return Table(caption, tuple(map(_column, columns)), [tuple(row) for row in rows])


def _column(written: str) -> Column:
    """The column that a text such as `name|head|unit` describes; the head is the name if none is written."""
    name, head, unit = [*written.split("|"), "", ""][:3]
    return Column(name, (head or name).strip(), unit)


def of_results(names: Iterable[str]) -> list[str]:
    """Columns of results as `table` takes them, each with its head and its unit."""
    return [f"{name}|{SHORT_HEADS.get(name) or f'{axis_label(name)}|{unit_of(name)}'}" for name in names]


def _cell(value: Plain | Number, unit: str, size: float) -> Cell:
    """The cell of a value: as text, and exactly. `unit` is that of the column, and `size` the divisor of its values."""
    number = value if isinstance(value, Number) else Number("", value, "")
    is_number = isinstance(number.value, float | int) and not isinstance(number.value, bool)
    if unit == EXACT and (is_number or isinstance(number.value, list)):
        shown = number.exact
    else:
        shown = number.told if number.name and not unit else _shown(number.value, size)
    return Cell(shown, number.exact, number.name, number.config, is_number)


def _shown(value: Plain, size: float) -> str:
    """A value as text; a number is divided by `size`."""
    if value is None or isinstance(value, bool | str):
        return "-" if value is None else human.value(value, "boolean")
    return f"{value / size:.1f}" if size == PERCENT else human.digits(value / size)
