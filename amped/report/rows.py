"""One row of a lookup table, for a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType, group
from rich.table import Table
from rich.text import Text

from amped.tables.table_files import ABOUT
from amped.tables.tables import LISTED, Row
from amped.theory.language.catalogue import catalogue


@group()
def shown_row(row: Row) -> Iterator[RenderableType]:
    """The values as they are written, units of bare numbers, doubts, and the sources of the row."""
    also = f"  (also {', '.join(row.aliases)})" if row.aliases else ""
    yield Text.assemble((row.name, "bold"), f"{also}\n{LISTED.get(row.table, row.table)}, {row.file}")
    if extends := row.columns.get("extends"):
        yield Text(f"extends {extends}")
    yield Text("")
    table = Table.grid(padding=(0, 2))
    for column, value in sorted(row.columns.items(), key=lambda item: item[0] in row.inherited):
        if column not in ABOUT and value is not None:
            doubt = "unverified" if column in row.unverified else "fitted" if column in row.fitted else ""
            inherited = Text("inherited", style="dim") if column in row.inherited else Text("")
            table.add_row(f"  {column}", _value(column, value), Text(doubt, style="yellow"), inherited)
    yield table
    if notes := row.columns.get("notes"):
        yield Text(f"\n{notes}")
    yield Text("\nsources (* read while the table was built)", style="bold")
    opened = row.columns.get("sources_opened") or ()
    for source in row.sources or ("none given",):
        yield Text(f"  {'*' if source in opened else '-'} {source}")
    yield Text("")


def _value(column: str, value: object) -> str:
    """The value as it is written; a bare number gets the unit of its parameter."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "nothing"
    text = f"{value:,}" if isinstance(value, int) and not column.endswith("year") else str(value)
    known = catalogue()
    unit = known[column].mark.bare or known[column].mark.unit if column in known else ""
    bare = isinstance(value, int | float) and unit not in ("", "1", "count", "choice", "boolean")
    return f"{text} {unit}" if bare else text
