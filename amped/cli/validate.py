"""`amped validate`: how far predictions are from measurements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import typer

from amped.base.errors import ConfigError
from amped.base.files import shipped_text
from amped.cli import options
from amped.cli.fit_to_all_rows import print_left_out

if TYPE_CHECKING:
    from rich.console import RenderableType

    from amped.validation.residuals import Residual


@dataclass(frozen=True)
class Comparison:
    """What is compared, and what is printed of it, as the options say.

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
        --bands: How wide bands are, and whether they hold.
        --anchored: Predict larger runs from the smallest.
        --as-typed: Rows as people type them, without switches.
        --order: Tell which of two alike runs is faster.
        --leave-out: Predict each by a fit to all others.
        --plot: Draw both as points, validation.png.
        --output FILE: Write there; as CSV if it ends so.
    """

    table: Path | None = None
    by: Literal["source", "accelerator", "model", "software"] | None = None
    list_rows: bool = False
    assumed: bool = False
    as_json: bool = False
    as_csv: bool = False
    as_markdown: bool = False
    as_residuals: bool = False
    template: bool = False
    kernels: Path | None = None
    bands: bool = False
    anchored: bool = False
    as_typed: bool = False
    order: bool = False
    leave_out: Literal["source", "accelerator", "stack", "all"] | None = None
    plot: bool = False
    output: Path | None = None
    output_dir: Path | None = None
    lookup_tables: options.Folders = None

    @property
    def form(self) -> str:
        """The form to print: the one that the user asks for, or the one that the file's name ends in."""
        by_suffix = {".json": "json", ".csv": "csv", ".md": "markdown"}
        given = options.only(
            template=self.template,
            json=self.as_json,
            csv=self.as_csv,
            markdown=self.as_markdown,
            residuals=self.as_residuals,
        )
        return given or by_suffix.get(self.output.suffix.lower() if self.output else "", "table")


@options.bundled(asked=Comparison)
def validate(asked: Comparison) -> None:
    """Compare predictions with measurements: estimate every row of a table, and print how far off amped is.

    It compares the step's time (else tokens per second, else FLOP/s, else MFU), and peak memory; a run that ran out of memory must be
    predicted not to fit. A row that cannot be modeled is counted with the reason. A column of your own table is a parameter,
    a row of a lookup table, or what was measured (see --template); a blank cell is what `amped estimate` takes.

    --leave-out fits the numbers that are fitted to steps anew, without each source; with `accelerator` also without all runs on
    its accelerator, with `stack` without all runs of its software, with `all` without both. Below: the bands of each class.
    --bands shows for each class of what may be new (source, accelerator, stack) how wide its bands are, and how many runs they hold,
    by the errors that come with amped.
    --anchored takes networks that ran on several numbers of accelerators, and predicts the larger runs as with --anchor of the
    smallest one; nothing was fitted to their source.
    --as-typed takes of each training step what a person types (network, machine, degrees, batch, precision, recomputation, and
    software with its release, then its name alone), and the recipes of the software for what only a benchmark does.
    --order takes pairs of runs that are alike, and tells in how many amped puts them in the measured order.
    --kernels compares single kernels, library by library, on shapes that nothing was fitted to. With --leave-out
    accelerator, each accelerator's kernels are predicted from its datasheet and from the kernels of its kin alone.

    Example: amped validate --by accelerator --plot
    """
    from amped.validation.residuals import residuals

    form = asked.form  # refuses two forms before any work
    if asked.template:
        from amped.validation.table import FOLDER, TEMPLATE

        typer.echo(shipped_text(FOLDER, TEMPLATE), nl=False)
    elif asked.bands:
        _show_bands(asked)
    elif asked.anchored:
        _show_anchored(asked)
    elif asked.kernels is not None:
        _print_kernels(asked.kernels, asked)
    elif asked.as_typed:
        _show_as_typed(asked)
    elif asked.leave_out is not None:
        print_left_out(asked.table, asked.leave_out, asked.as_json, asked.lookup_tables)
    else:
        options.refuse_existing(asked.output, "--output")
        rows = residuals(asked.table, asked.lookup_tables)
        if asked.order:
            _put_order(rows, form, asked)
            return
        options.put(form, lambda: _table(rows, asked), lambda form: _text(rows, form, asked), asked.output)
        if asked.plot:
            from amped.report.scatter import scatter_plot

            options.write_and_tell(asked.output_dir, ("validation.png", scatter_plot(rows)))


def _show_bands(asked: Comparison) -> None:
    """Prints how wide the bands of each class are, and how many runs they hold."""
    from amped.calibration.leave_out import bands_checked
    from amped.estimation.uncertainty import ERROR_LAWS
    from amped.estimation.validated import validated
    from amped.report.bands import bands, plain

    if asked.as_json:
        options.show_json({law.quantity: plain(bands_checked(validated(), law)) for law in ERROR_LAWS}, allow_nan=False)
    else:
        options.show(bands(validated()))


def _show_anchored(asked: Comparison) -> None:
    """Prints how well the smallest run of each network predicts its larger ones."""
    from amped.calibration.anchored_check import families
    from amped.report import anchoring

    found = families(asked.table, asked.lookup_tables, options.tell)
    if asked.as_json:
        options.show_json(anchoring.as_json(found), allow_nan=False)
    else:
        options.show(anchoring.anchored(found))


def _show_as_typed(asked: Comparison) -> None:
    """Prints the errors of rows as people type them; as CSV or JSON the rows, with the release of their software."""
    from amped.report.validating import typed_errors
    from amped.validation.as_typed import Typed
    from amped.validation.residuals import residuals

    form, wanted = asked.form, (Typed.RELEASE,) if asked.form != "table" else tuple(Typed)
    found = {typed: residuals(asked.table, asked.lookup_tables, typed) for typed in wanted}
    if form == "table" and not asked.list_rows:
        options.show(typed_errors(found))
    else:
        options.put(
            form,
            lambda: _table(found[Typed.RELEASE], asked),
            lambda f: _text(found[Typed.RELEASE], f, asked),
            asked.output,
        )


def _put_order(rows: Sequence[Residual], form: str, asked: Comparison) -> None:
    """Prints or writes which pairs of runs are in the measured order."""
    from amped.report import order
    from amped.validation.order import pairs

    if form in ("markdown", "residuals"):
        raise ConfigError(f"--order has no form for --{form}", "--json or --csv")
    found = pairs(rows)
    forms = {
        "json": lambda: options.as_json(order.as_json(found), allow_nan=False) + "\n",
        "csv": lambda: order.as_csv(found),
    }
    options.put(form, lambda: order.order(found, asked.list_rows), lambda form: forms[form](), asked.output)


def _print_kernels(measured: Path, asked: Comparison) -> None:
    """Prints the errors of predicted kernels; with --leave-out, those of a fit that lacks the accelerator."""
    from amped.calibration.kernel_errors import kernel_errors
    from amped.measured_kernels.kernel_files import kernels_of
    from amped.report.kernel_errors import library_by_library

    if asked.leave_out not in (None, "accelerator"):
        raise ConfigError(
            f"--kernels cannot leave out a {asked.leave_out}: kernels are told apart by accelerator",
            "--leave-out accelerator, or leave out --kernels",
        )
    files = options.kernel_files(measured)
    kernels = kernels_of(files)
    if asked.leave_out is None:
        errors = kernel_errors(kernels, asked.lookup_tables)
    else:
        from amped.calibration.kernels_left_out import kernels_left_out

        errors = kernels_left_out(kernels, asked.lookup_tables, options.tell)
    if asked.as_json:
        read = [file.to_dict() for file in files if not file.own]
        options.show_json({"kernels": [e.to_dict() for e in errors], "files": read}, allow_nan=False)
    else:
        options.show(library_by_library(errors, left_out=asked.leave_out is not None))


def _table(rows: Sequence[Residual], asked: Comparison) -> RenderableType:
    """The result for a terminal: one screen, every row, the errors by group, or the assumed values."""
    from amped.report.validating import accuracy_screen, by_group, taken_values, validation
    from amped.validation.accuracy import By

    if asked.assumed:
        return taken_values(rows)
    if asked.list_rows:
        return validation(rows, By(asked.by or "source"))
    return by_group(rows, By(asked.by)) if asked.by else accuracy_screen(rows)


def _text(rows: Sequence[Residual], form: str, asked: Comparison) -> str:
    """The result as JSON, CSV, Markdown, or the file of residuals."""
    from amped.report.accuracy import as_csv, as_json, as_markdown, taken, taken_as_csv
    from amped.validation.accuracy import By

    if asked.assumed and form in ("json", "csv"):
        return taken_as_csv(rows) if form == "csv" else options.as_json({"rows": taken(rows)}) + "\n"
    if form == "json":
        return options.as_json(as_json(rows, By(asked.by or "source")), allow_nan=False) + "\n"
    if form == "residuals":
        from amped.estimation.validated import as_file, shipped_shifts
        from amped.validation.residuals import validated_runs

        return as_file(validated_runs(rows, shipped_shifts()))
    return as_csv(rows) if form == "csv" else as_markdown(rows) + "\n"
