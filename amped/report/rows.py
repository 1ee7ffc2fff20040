"""One row of a lookup table, for a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from amped.report.tables import Part, drawn, grid
from amped.tables.table_files import ABOUT
from amped.tables.tables import LISTED, Row
from amped.theory.language.catalogue import catalogue


@drawn
def shown_row(row: Row) -> Iterator[Part]:
    """A row of a lookup table: its values with units and doubts, its notes, and its sources."""
    aliases = f"  (also {', '.join(row.aliases)})" if row.aliases else ""
    yield (row.name, "bold"), (f"{aliases}\n{LISTED.get(row.table, row.table)}, {row.file}")
    if extends := row.columns.get("extends"):
        yield f"extends {extends}"
    if row.preliminary:
        yield row.preliminary, "yellow"
    yield ""
    yield grid(
        (f"  {column}", _value(column, value), (_doubt(row, column), "yellow"),
         ("inherited", "dim") if column in row.inherited else "")
        for column, value in sorted(row.columns.items(), key=lambda item: item[0] in row.inherited)
        if column not in ABOUT and value is not None
    )  # fmt: skip
    if notes := row.columns.get("notes"):
        yield f"\n{notes}"
    yield "\nsources (* read while the table was built)", "bold"
    opened = row.columns.get("sources_opened") or ()
    for source in row.sources or ("none given",):
        yield f"  {'*' if source in opened else '-'} {source}"
    yield ""


def _doubt(row: Row, column: str) -> str:
    """A remark if the value of a column is not verified, or was fitted."""
    return "unverified" if column in row.unverified else "fitted" if column in row.fitted else ""


def _value(column: str, value: object) -> str:
    """The value as it is written; a bare number gets the unit of its parameter."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "nothing"
    text = f"{value:,}" if isinstance(value, int) and not column.endswith("year") else str(value)
    names = catalogue()
    unit = names[column].mark.bare or names[column].mark.unit if column in names else ""
    lacks_unit = isinstance(value, int | float) and unit not in ("", "1", "count", "choice", "boolean")
    return f"{text} {unit}" if lacks_unit else text
