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
        columns: the values as they are written in the table, by canonical name.
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
            TableError: if the row has no such column.
        """
        value = self.columns.get(canonical_column(name), self.columns.get(name))
        if value is None:
            lacks = "has no value in column" if name in self.columns else "has no column"
            columns = [column for column, cell in self.columns.items() if column not in ABOUT and cell is not None]
            raise TableError(f"row '{self.name}' of {self.table} {lacks} {quoted(name)}", did_you_mean(name, columns))
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
        """Where the row comes from."""
        return tuple(self.columns.get("sources") or ())

    @property
    def aliases(self) -> tuple[str, ...]:
        """Other names of the row."""
        return tuple(self.columns.get("aliases") or ())


def row_alone(table: str, name: str, written: Mapping[str, Any], file: str) -> Row:
    """A row that takes nothing from another row, but for a peak in 16 bits that stands for the other one."""
    columns = written if file.startswith(SHIPPED_FOLDER) else _with_both_peaks(written, SIXTEEN_BITS)
    filled = frozenset(columns.keys() - written.keys())
    notices = tuple(_of_the_peak(name, written, columns))
    return Row(table, name, columns, file=file, inherited=filled, notices=notices)


def derived(base: Row, name: str, own: Mapping[str, Any], file: str) -> Row:
    """A row with its own columns, the columns of another row for the rest, and the sources of both.

    A row of another name is another product: it does not inherit price and power. A column that follows from one of the
    row's own is not inherited either.
    """
    written = _with_both_peaks(own, base.columns)
    changed = [column for column, value in written.items() if value != base.columns.get(column)]
    is_correction = plain(name) in map(plain, (base.name, *base.aliases))
    gone = set() if is_correction else {*OF_A_PRODUCT}
    for column in changed:
        gone |= {*COMPANIONS.get(column, ())}
        value = base.columns.get(column)
        if value is not None and base.columns.get(FOLLOWERS.get(column, "")) == value:
            gone.add(FOLLOWERS[column])
    inherited = {column: value for column, value in base.columns.items() if column not in {*ABOUT, *written, *gone}}
    left = [c for c in PREDICTED_FROM if c in gone and c not in written and base.columns.get(c) is not None]
    notices = (*_of_the_peak(name, own, written, base.name), *_of_the_product(name, base.name, left))
    return Row(
        base.table, name, {**inherited, **written, **_about_both(base, written, inherited)}, file=file,
        inherited=frozenset({*inherited, *(written.keys() - own.keys())}), ancestors=(base.name, *base.ancestors),
        notices=() if file.startswith(SHIPPED_FOLDER) else (*base.notices, *notices),
    )  # fmt: skip


def _about_both(base: Row, own: Mapping[str, Any], inherited: Mapping[str, Any]) -> dict[str, Any]:
    """What a derived row says of itself: its sources, and which columns are doubted or fitted, with those inherited."""
    unverified, fitted = (
        [*(own.get(about) or ()), *(c for c in base.columns.get(about) or () if c in inherited)]
        for about in ("unverified", "fitted")
    )
    sources = [*(own.get("sources") or ()), *base.sources]
    both: dict[str, Any] = {"unverified": unverified, "fitted": fitted, "sources": list(dict.fromkeys(sources))}
    if fitted:
        both["fitted_on"] = "; ".join(row["fitted_on"] for row in (own, base.columns) if row.get("fitted_on"))
    return both


def _with_both_peaks(columns: Mapping[str, Any], needed: Container[str]) -> Mapping[str, Any]:
    """The columns of a row; if one of the peaks in 16 bits is missing and needed, it is the other one."""
    for there, missing in (SIXTEEN_BITS, SIXTEEN_BITS[::-1]):
        if columns.get(there) is not None and missing not in columns and missing in needed:
            return {**columns, missing: columns[there]}
    return columns


def _of_the_peak(name: str, written: Mapping[str, Any], columns: Mapping[str, Any], base: str = "") -> Iterator[str]:
    for missing, there in (SIXTEEN_BITS, SIXTEEN_BITS[::-1]):
        if missing in columns and missing not in written:
            others = f"; peaks of other formats stay those of '{base}'" if base else ""
            yield f"row '{name}' gives {there} alone: {missing} is {columns[missing]}, too{others}"


def _of_the_product(name: str, base: str, left: list[str]) -> Iterator[str]:
    if left:
        lost = " and ".join(f"no {PREDICTED_FROM[column]}" for column in left)
        yield f"row '{name}' does not say its {' and '.join(left)}, and does not take that of '{base}': so {lost}"
