"""`amped check-tables`: whether lookup tables can be trusted."""

from __future__ import annotations

from pathlib import Path

import typer

from amped.base.errors import TableError
from amped.cli import options
from amped.theory.language.catalogue import catalogue


def check_tables(folder: Path | None = None) -> None:
    """Check lookup tables: units, dense peaks, bandwidths per direction, parameter counts, names that clash.

    Example: amped check-tables

    Options:
        folder [DIR]: Folder or file; by default, the shipped ones.
    """
    from amped.estimation.table_check import table_problems
    from amped.tables.tables import Tables

    tables = Tables((folder,)) if folder else options.user_tables()
    problems = list(table_problems(tables, catalogue(), shipped_too=folder is None))
    if problems:
        raise TableError(problems, file=str(folder or "lookup_tables"))
    for table in tables.all_names():
        rows = [tables.row(table, name) for name in tables.names(table)]
        of_user = sum(not row.is_shipped for row in rows)
        typer.echo(f"{table}: {len(rows)} rows{f', {of_user} of them yours' if of_user else ''}, nothing wrong")
