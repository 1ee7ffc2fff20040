"""`amped coefficients`: every coefficient, what selects it, and which were fitted."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from amped.cli import options


def coefficients(
    filter_text: Annotated[str, typer.Option("--filter", "-f", metavar="TEXT", help="Only names with this text.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print all values of all rows as JSON, SI units.")] = False,
    old_names: options.OldNamesOption = False,
    lookup_tables: options.TablesOption = None,
) -> None:
    """List every coefficient: unit, bounds, what selects it, its values, and how many of each row were fitted.

    A coefficient belongs to an accelerator (or its generation), a precision, a system or a software stack, never to a
    network or a measurement. `amped show ROW` prints those of one row with their sources.

    Example: amped coefficients --filter attention
    """
    options.print_old_names(old_names)
    from amped.calibration import listing
    from amped.tables.table_files import user_folders
    from amped.tables.tables import Tables
    from amped.theory.catalogue import catalogue

    tables = Tables(user_folders(lookup_tables))
    every = [c for c in listing.coefficients(tables, catalogue()) if filter_text.casefold() in c.name.casefold()]
    if as_json:
        told = {"coefficients": [asdict(c) for c in every], "fitted": [asdict(c) for c in listing.counts(tables)]}
        typer.echo(options.as_json(told, allow_nan=False))
        return
    if not every:
        typer.echo(f"no coefficient has {filter_text!r}", err=True)
        return
    from amped.report.coefficients import listed

    options.show(listed(every, listing.counts(tables)))
