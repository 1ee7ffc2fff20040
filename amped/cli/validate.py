"""`amped validate`: how far predictions are from measurements."""

from __future__ import annotations

import enum
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from amped.cli import options

if TYPE_CHECKING:
    from amped.validation.residuals import Residual


class Groups(enum.StrEnum):
    """What rows are grouped by."""

    SOURCE = "source"
    ACCELERATOR = "accelerator"
    MODEL = "model"


TableOption = Annotated[
    Path | None,
    typer.Option("--table", metavar="CSV", help="Measurements; those that come with amped unless one is named."),
]
ByOption = Annotated[Groups, typer.Option("--by", help="What to group the errors by.")]
AssumedOption = Annotated[
    bool, typer.Option("--assumed", help="List what each row leaves to defaults, and what of it is not understood.")
]
ResidualsOption = Annotated[
    bool, typer.Option("--residuals", help="Print the errors that estimates take their bands from, as CSV.")
]
FileOption = Annotated[
    Path | None, typer.Option("--output", metavar="FILE", help="Write there instead of printing; as CSV if it ends so.")
]


def validate(
    table: TableOption = None,
    by: ByOption = Groups.SOURCE,
    assumed: AssumedOption = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print rows and summary as JSON, SI units.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print the rows as comma-separated values.")] = False,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="Print the section of the README.")] = False,
    as_residuals: ResidualsOption = False,
    plot: Annotated[bool, typer.Option("--plot", help="Draw measured against predicted, validation.png.")] = False,
    output: FileOption = None,
    output_dir: options.OutputOption = None,
    lookup_tables: options.TablesOption = None,
) -> None:
    """Compare predictions with measurements: every row of a table estimated, and how far off each is.

    Compared are the step's time (else tokens per second, else model FLOP/s) and peak memory where it was measured; runs
    that ran out of memory must be predicted not to fit. A row that cannot be modeled is listed with the reason. Columns
    are those of the table that comes with amped; ten are enough.

    Example: amped validate --by accelerator --plot
    """
    from amped.validation.residuals import residuals

    form = _form(output, json=as_json, csv=as_csv, markdown=as_markdown, residuals=as_residuals)
    options.refuse_existing(output, "--output")
    rows = residuals(table, lookup_tables)
    if output is not None:
        from amped.base.files import write_atomically

        typer.echo(f"written to {write_atomically(output, _text(rows, form, by, assumed))}", err=True)
    elif form == "table":
        from amped.report.validating import validation
        from amped.validation.accuracy import By

        options.show(validation(rows, By(by.value), assumed))
    else:
        typer.echo(_text(rows, form, by, assumed), nl=False)
    if plot:
        _draw(rows, output_dir or options.DEFAULT_FOLDER)


def _form(output: Path | None, **asked: bool) -> str:
    """How to print: the one that is asked for, else as the file's name ends."""
    suffix = output.suffix.lower().lstrip(".") if output is not None else ""
    by_suffix = {"json": "json", "csv": "csv", "md": "markdown"}
    return options.only(**asked) or by_suffix.get(suffix, "table")


def _text(rows: Sequence[Residual], form: str, by: Groups, assumed: bool) -> str:
    """All as text."""
    from amped.report.accuracy import as_csv, as_markdown
    from amped.report.validating import validation
    from amped.validation.accuracy import By, summary

    if form == "json":
        told = {"rows": [r.to_dict() for r in rows], "summary": summary(rows, By(by.value))}
        return json.dumps(told, indent=1, allow_nan=False) + "\n"
    if form == "residuals":
        from amped.estimation.uncertainty import as_file
        from amped.validation.residuals import validated_runs

        return as_file(validated_runs(rows))
    if form == "table":
        return options.plain(validation(rows, By(by.value), assumed))
    return as_csv(rows) if form == "csv" else as_markdown(rows) + "\n"


def _draw(rows: Sequence[Residual], folder: Path) -> None:
    """Writes the plot."""
    from amped.base.files import output_file, write_atomically
    from amped.report.scatter import scatter_plot

    path = write_atomically(output_file(folder, "validation.png"), scatter_plot(rows))
    typer.echo(f"written to {path}", err=True)
