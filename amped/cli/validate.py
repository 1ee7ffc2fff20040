"""`amped validate`: how far predictions are from measurements."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import typer

from amped.base.errors import ConfigError
from amped.base.files import shipped_text, write_atomically
from amped.cli import options
from amped.cli.fit_to_all_rows import print_left_out
from amped.tables.table_files import LookupTables

if TYPE_CHECKING:
    from rich.console import RenderableType

    from amped.validation.residuals import Residual


Groups = Literal["source", "accelerator", "model", "software"]


class View(NamedTuple):
    """What a table for people shows: errors by group, every row, what each row assumes; by default, one screen."""

    by: Groups | None
    list_rows: bool
    assumed: bool


def validate(
    table: Path | None = None,
    by: Groups | None = None,
    list_rows: bool = False,
    assumed: bool = False,
    as_json: bool = False,
    as_csv: bool = False,
    as_markdown: bool = False,
    as_residuals: bool = False,
    template: bool = False,
    kernels: Path | None = None,
    leave_out: Literal["source", "accelerator", "stack"] | None = None,
    plot: bool = False,
    output: Path | None = None,
    output_dir: Path | None = None,
    lookup_tables: options.Folders = None,
) -> None:
    """Compare predictions with measurements: estimate every row of a table, and print how far off amped is.

    It compares the step's time (else tokens per second, else FLOP/s, else MFU), and peak memory; a run that ran out of memory must be
    predicted not to fit. A row that cannot be modeled is counted with the reason. A column of your own table is a parameter,
    a row of a lookup table, or what was measured (see --template); a blank cell is what `amped estimate` takes.

    --leave-out fits the numbers that are fitted to steps anew, without each source, accelerator or software stack.
    --kernels compares single kernels, library by library, on shapes that nothing was fitted to. With --leave-out
    accelerator, each accelerator's kernels are predicted from its datasheet and from the kernels of its kin alone.

    Example: amped validate --by accelerator --plot

    Options:
        --table CSV: Measurements; by default, amped's own.
        --by: Print the errors of each group instead.
        list_rows --rows: List every row, and what was missed.
        --assumed: List what rows leave open, not predictions.
        as_json --json: Print rows and summary as JSON, SI units.
        as_csv --csv: Print the rows as comma-separated values.
        as_markdown --markdown: Print the section of the README.
        as_residuals --residuals: Print the errors behind bands, as CSV.
        --template: Print a table to fill with your own runs.
        --kernels PATH: Compare kernels: a table or a folder of them.
        --leave-out: Predict each by a fit to all others.
        --plot: Draw both as points, validation.png.
        --output FILE: Write there; as CSV if it ends so.
    """
    from amped.validation.residuals import residuals

    form = _form(output, template=template, json=as_json, csv=as_csv, markdown=as_markdown, residuals=as_residuals)
    if template or kernels is not None or leave_out is not None:
        _print_other(template, table, kernels, leave_out, as_json, lookup_tables)
        return
    options.refuse_existing(output, "--output")
    rows = residuals(table, lookup_tables)
    _print(rows, form, View(by, list_rows, assumed), output)
    if plot:
        from amped.report.scatter import scatter_plot

        options.write_and_tell(output_dir, ("validation.png", scatter_plot(rows)))


def _print_other(
    template: bool, table: Path | None, kernels: Path | None, leave_out: str | None, as_json: bool, tables: LookupTables
) -> None:
    """Prints what is no comparison of all rows with the predictions of today: a template, kernels, or what is left out."""
    if template:
        from amped.validation.table import FOLDER, TEMPLATE

        typer.echo(shipped_text(FOLDER, TEMPLATE), nl=False)
    elif kernels is not None:
        _print_kernels(kernels, leave_out, as_json, tables)
    elif leave_out is not None:
        print_left_out(table, leave_out, as_json, tables)


def _print_kernels(measured: Path, leave_out: str | None, as_json: bool, lookup_tables: LookupTables) -> None:
    """Prints the errors of the laws of single kernels; with `leave_out`, of accelerators that no fit has seen."""
    from amped.calibration.kernel_errors import kernel_errors
    from amped.measured_kernels.kernel_files import kernels_of
    from amped.report.kernel_errors import library_by_library

    if leave_out not in (None, "accelerator"):
        raise ConfigError(
            f"--kernels cannot leave out a {leave_out}: kernels are told apart by accelerator",
            "--leave-out accelerator, or leave out --kernels",
        )
    files = options.kernel_files(measured)
    kernels = kernels_of(files)
    if leave_out is None:
        found = kernel_errors(kernels, lookup_tables)
    else:
        from amped.calibration.kernels_left_out import kernels_left_out

        found = kernels_left_out(kernels, lookup_tables, options.tell)
    if as_json:
        told = [each.to_dict() for each in files if not each.own]
        options.show_json({"kernels": [e.to_dict() for e in found], "files": told}, allow_nan=False)
    else:
        options.show(library_by_library(found, left_out=leave_out is not None))


def _print(rows: Sequence[Residual], form: str, view: View, output: Path | None) -> None:
    """Prints the result, or writes it to a file."""
    if output is not None:
        options.tell(f"written to {write_atomically(output, _text(rows, form, view))}")
    elif form == "table":
        options.show(_table(rows, view))
    else:
        typer.echo(_text(rows, form, view), nl=False)


def _form(output: Path | None, **asked: bool) -> str:
    """The form to print: the one that the user asks for, or the one that the file's name ends in."""
    by_suffix = {".json": "json", ".csv": "csv", ".md": "markdown"}
    return options.only(**asked) or by_suffix.get(output.suffix.lower() if output else "", "table")


def _table(rows: Sequence[Residual], view: View) -> RenderableType:
    """The result for people: one screen, or every row, or the errors by group."""
    from amped.report.validating import accuracy_screen, by_group, taken_values, validation
    from amped.validation.accuracy import By

    by = By(view.by or "source")
    if view.assumed:
        return taken_values(rows)
    if view.list_rows:
        return validation(rows, by)
    return by_group(rows, by) if view.by else accuracy_screen(rows)


def _text(rows: Sequence[Residual], form: str, view: View) -> str:
    """The result as text."""
    from amped.report.accuracy import as_csv, as_json, as_markdown, taken, taken_as_csv
    from amped.validation.accuracy import By

    if view.assumed and form in ("json", "csv"):
        return taken_as_csv(rows) if form == "csv" else json.dumps({"rows": taken(rows)}, indent=1) + "\n"
    if form == "json":
        return json.dumps(as_json(rows, By(view.by or "source")), indent=1, allow_nan=False) + "\n"
    if form == "residuals":
        from amped.calibration.leave_out import Left, errors_without
        from amped.estimation.validated import as_file
        from amped.validation.residuals import validated_runs

        without = (errors_without(rows, by) for by in (Left.SOURCE, Left.ACCELERATOR))
        return as_file(validated_runs(rows, *without))
    if form == "table":
        return options.plain(_table(rows, view))
    return as_csv(rows) if form == "csv" else as_markdown(rows) + "\n"
