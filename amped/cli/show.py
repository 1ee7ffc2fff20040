"""`amped show`: one row of a lookup table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from amped.cli import options

if TYPE_CHECKING:
    from amped.tables.tables import Row


def show(
    name: Annotated[
        str,
        typer.Argument(
            metavar="ROW",
            help="An accelerator, a model, a system, a link, a software, or a row of kernel efficiencies.",
        ),
    ],
    lookup_tables: options.TablesOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the row as JSON.")] = False,
    old_names: options.OldNamesOption = False,
) -> None:
    """Show a row of the lookup tables with its values, units, sources and doubts.

    Example: amped show "H100 SXM"
    """
    options.print_old_names(old_names)
    rows = _rows(name, lookup_tables)
    if as_json:
        typer.echo(options.as_json([{"table": r.table, "name": r.name, **r.columns} for r in rows], ensure_ascii=False))
        return
    from amped.report.rows import shown_row

    for row in rows:
        options.show(shown_row(row))


def _rows(name: str, lookup_tables: object) -> list[Row]:
    """The rows of that name, of whichever tables have one.

    Raises:
        TableError: if there is none, with the nearest names of all tables.
    """
    from pathlib import Path

    from amped.base.errors import TableError, did_you_mean, quoted
    from amped.tables.table_files import user_folders
    from amped.tables.tables import Tables

    tables = Tables(user_folders(Path(str(lookup_tables)) if lookup_tables else None))
    found = [tables.row(table, name) for table in tables.all_names() if tables.has(table, name)]
    if not found:
        known = [row for table in tables.all_names() for row in tables.names(table)]
        raise TableError(f"no table has a row {quoted(name)}", did_you_mean(name, known) or "`amped list` shows them")
    return found
