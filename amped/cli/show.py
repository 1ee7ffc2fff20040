"""`amped show`: one row of a lookup table, or one measurement."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amped.base.errors import TableError, did_you_mean, quoted
from amped.cli import options
from amped.tables.table_files import MODELS, SOFTWARE, LookupTables

if TYPE_CHECKING:
    from amped.tables.tables import Row


def show(name: str, lookup_tables: options.Folders = None, as_json: bool = False) -> None:
    """Show a row of the lookup tables with its values, units, sources and doubts; or a measured run by its id.

    Example: amped show "H100 SXM"

    Options:
        name ROW: A row of any table, or a measurement.
        as_json --json: Print the row as JSON.
    """
    from amped.validation.table import shipped_cells

    measurement = next((cells for cells in shipped_cells() if cells["id"] == name), None)
    if measurement is not None:
        if as_json:
            options.show_json(measurement, ensure_ascii=False)
        else:
            from amped.report.tables import listed

            options.show(listed([{"column": column, "cell": cell} for column, cell in measurement.items()]))
        return
    rows = _rows(name, lookup_tables)
    if as_json:
        options.show_json([{"table": r.table, "name": r.name, **r.columns} for r in rows], ensure_ascii=False)
        return
    from amped.report.rows import shown_row

    for row in rows:
        options.show(shown_row(row))


def _rows(name: str, lookup_tables: LookupTables) -> list[Row]:
    """The rows with a name, from all tables; else models and software for which the name is another spelling.

    Raises:
        TableError: if there is no such row, with the nearest names of all tables.
    """
    from amped.tables.stacks import middle

    tables = options.user_tables(lookup_tables)
    rows = [middle(tables, tables.row(table, name)) for table in tables.all_names() if tables.has(table, name)]
    meant = {} if rows else {table: tables.meant(table, name) for table in (MODELS, SOFTWARE)}
    rows += [tables.row(table, other) for table, other in meant.items() if tables.has(table, other)]
    if not rows:
        from amped.tables.row_names import without_owner
        from amped.validation.table import shipped_cells

        names = [row for table in tables.all_names() for row in tables.names(table)]
        names += [cells["id"] for cells in shipped_cells()]
        raise TableError(
            f"no table has a row {quoted(name)}", did_you_mean(without_owner(name), names) or "`amped list` shows them"
        )
    return rows
