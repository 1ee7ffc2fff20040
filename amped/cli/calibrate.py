"""`amped calibrate`: coefficients fitted to measurements, as a row of `kernel_efficiencies`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from amped.base.errors import ConfigError
from amped.base.files import is_folder
from amped.cli import options
from amped.cli.fit_to_all_rows import NAME as ALL
from amped.cli.fit_to_all_rows import fit_to_all_rows
from amped.cli.fit_to_anchor import NAME as ANCHORED
from amped.cli.fit_to_anchor import fit_to_anchor
from amped.tables.table_files import ACCELERATORS, HERE

if TYPE_CHECKING:
    from amped.calibration.calibrate import Calibration


NAME = "kernel_efficiencies.json"
USUAL = HERE / NAME


@dataclass(frozen=True)
class Fit:
    """What is fitted to which measurements, and where it goes, as the options say.

    Options:
        --table CSV: Measurements; by default, amped's own.
        --accelerator ROW: Accelerator to fit; else each in the table.
        --kernels PATH: Fit to kernels: a table of them, or a folder.
        all_rows --all: Fit accelerators and software at once.
        --anchor FILE: Fit to one layer, or to a few steps.
        --output -o FILE: New file of the rows, or its folder.
        --dry-run: Fit and print, but write nothing.
        --write: With --all: into the tables of this checkout.
        as_json --json: Print what was found as JSON, SI units.
    """

    table: Path | None = None
    accelerator: str | None = None
    kernels: Path | None = None
    all_rows: bool = False
    anchor: Path | None = None
    output: Path = USUAL
    dry_run: bool = False
    write: bool = False
    as_json: bool = False
    lookup_tables: options.Folders = None

    def refuse_together(self) -> None:
        """Refuses options that exclude one another, and a fit without scipy, before any file is read.

        Raises:
            ConfigError: for such options, or if scipy is missing.
        """
        from amped.calibration.fitting import optimizer

        is_anchor = self.anchor is not None
        others = {"accelerator": self.accelerator, "kernels": self.kernels} if self.anchor or self.all_rows else {}
        given = {name: value is not None for name, value in others.items()}
        if self.write:
            self.refuse_to_write()
        options.only(anchor=is_anchor, all=self.all_rows, **given, table=is_anchor and self.table is not None)
        if not is_anchor:
            optimizer()

    def refuse_to_write(self) -> None:
        """Refuses --write without --all, and beside options by which the fit would not be that of the tables or not theirs.

        Raises:
            ConfigError: for such options.
        """
        if not self.all_rows:
            raise ConfigError("--write needs --all", "the tables that come with amped are fitted to all rows at once")
        options.only(write=True, table=self.table is not None)
        options.only(write=True, output=self.output != USUAL)
        options.only(write=True, **{"dry-run": self.dry_run})
        options.only(write=True, **{"lookup-tables": bool(self.lookup_tables)})

    def free(self) -> Path | None:
        """The new file for the rows, named by the kind of fit unless the user names one; None for a dry run and for --write."""
        if self.dry_run or self.write:
            return None
        name = ANCHORED if self.anchor else ALL if self.all_rows else NAME
        usual = self.output.with_name(name) if self.output == USUAL else self.output
        path = self.output / name if is_folder(self.output) else usual
        options.refuse_unwritable(path, "--output")
        return path


@options.bundled(asked=Fit)
def calibrate(asked: Fit) -> None:
    """Fit an accelerator's coefficients to measured training steps and write them as a row of kernel_efficiencies.

    The fit changes a few physical coefficients that the rows tell something about, within bounds and near the values of
    the tables. Each run is shown before and after the fit, with the error band that runs like yours then have. Rows of low confidence are left out. Each network is also predicted by a fit that has not seen it. amped
    uses the new row if it is in ./lookup_tables/, or with --lookup-tables.

    With --all, all numbers that are fitted to steps are fitted to all rows at once, each drawn to the number of the row
    that it extends or to the mean of its kin. The numbers, with what is behind each, are also written as CSV.
    --write puts them into the tables of a checkout, and makes the tables of numbers and of errors behind bands again.
    With --kernels, the coefficients of products and attention are fitted to measured kernels, before any step is used:
    the fit sees four shapes of five, and the error of the fifth is printed.
    With --anchor, one measured layer (amped bench anchor) gives rates and traffic of its accelerator and its software; or
    the steps of a table or of a log move each number by what they tell of it, as --anchor of other verbs does.
    All but an anchor of a layer needs scipy: pip install 'amped[fit]'.

    Example: amped calibrate --accelerator "V100 SXM2 16GB" -o my_tables/kernel_efficiencies.json
    """
    asked.refuse_together()
    path = asked.free()
    if asked.anchor is not None:
        fit_to_anchor(asked.anchor, path, asked.as_json, asked.lookup_tables)
    elif asked.kernels is not None:
        _fit_kernels(asked.kernels, asked, path)
    elif asked.all_rows:
        fit_to_all_rows(asked.table, path, asked.as_json, asked.lookup_tables, writes=asked.write)
    else:
        _fit_each(asked, path)


def _fit_each(asked: Fit, path: Path | None) -> None:
    """Fits one accelerator or all of the table, prints the results, and writes the rows to `path`, if given."""
    from amped.calibration.calibrate import calibrated, calibrated_all
    from amped.calibration.written import as_table

    if asked.accelerator is None:
        fits = calibrated_all(asked.table, asked.lookup_tables, options.tell)
    else:
        fits = [calibrated(asked.table, asked.accelerator, asked.lookup_tables, options.tell)]
    if asked.as_json:
        options.show_json({"accelerators": [_plain(c) for c in fits]}, allow_nan=False)
    else:
        from rich.console import Group

        from amped.report.calibrating import calibration

        options.show(Group(*map(calibration, fits)))
    if path is not None:
        options.write_file(path, as_table(fits, asked.table))


def _fit_kernels(measured: Path, asked: Fit, path: Path | None) -> None:
    """Fits each accelerator to single kernels, prints the results, and writes the rows to `path`, if given."""
    from amped.calibration.kernel_fit import as_table, fitted_each
    from amped.measured_kernels.kernel_files import kernels_of
    from amped.measured_kernels.table_reading import chosen

    tables, files = options.user_tables(asked.lookup_tables), options.kernel_files(measured)
    kernels = chosen(
        kernels_of(files),
        asked.accelerator,
        lambda name: tables.row(ACCELERATORS, name).name if tables.has(ACCELERATORS, name) else name,
    )
    fits = fitted_each(kernels, tables, asked.lookup_tables, options.tell)
    if asked.as_json:
        read = [file.to_dict() for file in files if not file.own]
        options.show_json({"kernels": [vars(fit) for fit in fits], "files": read}, allow_nan=False)
    else:
        from amped.report.calibrating import kernel_fits

        options.show(kernel_fits(fits))
    if path is not None:
        options.write_file(path, as_table(fits, tables, measured, asked.lookup_tables))


def _plain(c: Calibration) -> dict[str, Any]:
    """A calibration as plain data for JSON."""
    from dataclasses import asdict

    from amped.calibration.written import row_name
    from amped.report.calibrating import warnings

    return {
        "accelerator": c.accelerator.name, "row": row_name(c), "extends": c.base.name,
        "fitted": dict(c.values), "before": dict(c.before), "not_told": list(c.unseen), "at_bound": list(c.at_bound),
        "rows": list(c.used), "networks": c.sizes, "rows_left_out": dict(c.left_out),
        "mean_absolute_error_fraction_before": c.error_before, "mean_absolute_error_fraction": c.error_after,
        "mean_absolute_error_fraction_of_networks_left_out": c.error_left_out, "times_the_fitted_error": c.loss,
        "runs": [asdict(run) for run in c.runs], "error_fraction_of_own_runs": c.own_error_fraction,
        "warnings": [line.removeprefix("warning: ") for line in warnings(c)],
    }  # fmt: skip
