"""One row of a lookup table, and what it takes from a row that it extends or corrects."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import field
from typing import Any

from amped.base.errors import TableError, did_you_mean, plain, quoted
from amped.base.record import dataclass
from amped.tables.table_files import (
    ABOUT,
    COMPANIONS,
    FOLLOWERS,
    OF_A_PRODUCT,
    PREDICTED_FROM,
    SIXTEEN_BITS,
    canonical_column,
)

SHIPPED_FOLDER = "amped/lookup_tables/"


@dataclass(frozen=True)
class Row:
    """One row of a table: its columns, and where the values come from.

    Attributes:
        table: the name of the table.
        name: the name of the row.
        columns: the values as they are written in the table, by canonical name.
        file: the file of the table.
        inherited: the columns whose values come from the row that this row extends, or from another column.
        ancestors: the rows that this row extends, the nearest first.
        is_a_file: whether the row is a whole file, which another tool wrote, and is in no table.
        notices: what the user should know about the columns that nobody wrote into the row.
    """

    table: str
    name: str
    columns: Mapping[str, Any] = field(repr=False)
    file: str
    inherited: frozenset[str] = frozenset()
    ancestors: tuple[str, ...] = ()
    is_a_file: bool = False
    notices: tuple[str, ...] = ()

    def column(self, name: str) -> Any:
        """The value of a column.

        Raises:
            TableError: if the row has no such column, or no value in it.
        """
        value = self.columns.get(canonical_column(name), self.columns.get(name))
        if value is None:
            problem = "has no value in column" if name in self.columns else "has no column"
            columns = [column for column, cell in self.columns.items() if column not in ABOUT and cell is not None]
            raise TableError(f"row '{self.name}' of {self.table} {problem} {quoted(name)}", did_you_mean(name, columns))
        return value

    @property
    def is_shipped(self) -> bool:
        """Whether the row comes with amped."""
        return self.file.startswith(SHIPPED_FOLDER)

    @property
    def unverified(self) -> tuple[str, ...]:
        """The columns whose values are not confirmed by a source that somebody has read."""
        return tuple(self.columns.get("unverified") or ())

    @property
    def fitted(self) -> tuple[str, ...]:
        """The columns whose values were fitted to measured training steps."""
        return tuple(self.columns.get("fitted") or ())

    @property
    def sources(self) -> tuple[str, ...]:
        """The publications and pages that the row comes from."""
        return tuple(self.columns.get("sources") or ())

    @property
    def preliminary(self) -> str:
        """What to tell of figures that are not final: whose they are and of which date; empty if they are final."""
        date = self.columns.get("preliminary")
        return f"warning: the figures of '{self.name}' are preliminary, as of {date}" if date else ""

    @property
    def aliases(self) -> tuple[str, ...]:
        """Other names of the row."""
        return tuple(self.columns.get("aliases") or ())


def row_alone(table: str, name: str, written: Mapping[str, Any], file: str) -> Row:
    """A row that extends no other row.

    In a user's table, a 16-bit peak that is missing is the other 16-bit peak; the row has a notice of that.

    Args:
        table: the name of the table.
        name: the name of the row.
        written: the columns as they are written.
        file: the file of the table.
    """
    columns = written if file.startswith(SHIPPED_FOLDER) else _with_both_peaks(written, SIXTEEN_BITS)
    filled_columns = frozenset(columns.keys() - written.keys())
    notices = tuple(_notice_of_peak(name, written, columns))
    return Row(table, name, columns, file=file, inherited=filled_columns, notices=notices)


def derived(base: Row, name: str, own_columns: Mapping[str, Any], file: str) -> Row:
    """A row with its own columns, the columns of another row for the rest, and the sources of both.

    A row of another name is another product: it does not inherit price and power. A column that follows from one of the
    row's own columns is not inherited either.

    Args:
        base: the row that it extends or corrects.
        name: the name of the row.
        own_columns: the columns that are written in the row.
        file: the file of the table.
    """
    written = _with_both_peaks(own_columns, base.columns)
    changed_columns = [column for column, value in written.items() if value != base.columns.get(column)]
    is_correction = plain(name) in map(plain, (base.name, *base.aliases))
    lost = set() if is_correction else {*OF_A_PRODUCT}
    for column in changed_columns:
        lost |= {*COMPANIONS.get(column, ())}
        value = base.columns.get(column)
        if value is not None and base.columns.get(FOLLOWERS.get(column, "")) == value:
            lost.add(FOLLOWERS[column])
    inherited = {column: value for column, value in base.columns.items() if column not in {*ABOUT, *written, *lost}}
    unknown = [
        column
        for column in PREDICTED_FROM
        if column in lost and column not in written and base.columns.get(column) is not None
    ]
    notices = (
        *_notice_of_peak(name, own_columns, written, base.name),
        *_notice_of_product(name, base.name, unknown),
    )
    return Row(
        base.table, name, {**inherited, **written, **_about_both(base, written, inherited)}, file=file,
        inherited=frozenset({*inherited, *(written.keys() - own_columns.keys())}), ancestors=(base.name, *base.ancestors),
        notices=() if file.startswith(SHIPPED_FOLDER) else (*base.notices, *notices),
    )  # fmt: skip


def _about_both(base: Row, own_columns: Mapping[str, Any], inherited: Mapping[str, Any]) -> dict[str, Any]:
    """The columns unverified, fitted, sources, preliminary and fitted_on of a derived row, from its own and the inherited ones."""
    unverified, fitted = (
        [*(own_columns.get(about) or ()), *(c for c in base.columns.get(about) or () if c in inherited)]
        for about in ("unverified", "fitted")
    )
    sources = [*(own_columns.get("sources") or ()), *base.sources]
    columns: dict[str, Any] = {"unverified": unverified, "fitted": fitted, "sources": list(dict.fromkeys(sources))}
    if date := own_columns.get("preliminary", base.columns.get("preliminary")):
        columns["preliminary"] = date
    if fitted:
        columns["fitted_on"] = "; ".join(
            row["fitted_on"] for row in (own_columns, base.columns) if row.get("fitted_on")
        )
    return columns


def _with_both_peaks(columns: Mapping[str, Any], needed: Container[str]) -> Mapping[str, Any]:
    """The columns of a row; if one of the two 16-bit peaks is missing and is in `needed`, it gets the value of the other."""
    for given, missing in (SIXTEEN_BITS, SIXTEEN_BITS[::-1]):
        if columns.get(given) is not None and missing not in columns and missing in needed:
            return {**columns, missing: columns[given]}
    return columns


def _notice_of_peak(name: str, written: Mapping[str, Any], columns: Mapping[str, Any], base: str = "") -> Iterator[str]:
    """A notice if a 16-bit peak was filled in from the other one.

    Args:
        name: the name of the row.
        written: the columns as they are written.
        columns: the columns after the peak was filled in.
        base: the name of the row that it extends, if any.
    """
    for missing, given in (SIXTEEN_BITS, SIXTEEN_BITS[::-1]):
        if missing in columns and missing not in written:
            other_peaks = f"; peaks of other formats stay those of '{base}'" if base else ""
            yield f"row '{name}' gives {given} alone: {missing} is {columns[missing]}, too{other_peaks}"


def _notice_of_product(name: str, base: str, columns: list[str]) -> Iterator[str]:
    """A notice if the row, as another product than `base`, has no value in some columns, so that results are missing."""
    if columns:
        missing_results = " and ".join(f"no {PREDICTED_FROM[column]}" for column in columns)
        yield f"row '{name}' does not say its {' and '.join(columns)}, and does not take that of '{base}': so {missing_results}"
