"""What `amped calibrate --all` and `amped validate --leave-out` do: they fit to all rows at once, and print what was found."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from amped.base.files import write_atomically
from amped.cli import options
from amped.tables.table_files import LookupTables

if TYPE_CHECKING:
    from amped.calibration.all_rows import AllRows
    from amped.calibration.step_table import Behind

NAME = "numbers_fitted_to_steps.json"


def fit_to_all_rows(
    table: Path | None, path: Path | None, as_json: bool, lookup_tables: LookupTables, writes: bool = False
) -> None:
    """Fits to all rows, prints each number with its errors, and writes what was found.

    Args:
        table: the file with the measurements; None for the table that comes with amped.
        path: a new file for the rows; a CSV of the numbers goes beside it. None to write neither.
        as_json: whether JSON is printed.
        lookup_tables: the user's own tables.
        writes: whether the tables that come with amped are written again.
    """
    from amped.calibration import rewrite
    from amped.calibration.all_rows import as_file, fitted_to_all
    from amped.calibration.leave_out import refits, without_each
    from amped.calibration.step_table import as_csv, behind, beside
    from amped.estimation.validated import Left

    folder = rewrite.tables_folder() if writes else None
    if path is not None:
        options.refuse_existing(beside(path), "--output")
    fit = fitted_to_all(table, lookup_tables, options.tell)
    found = without_each(fit, options.tell) if writes else None
    without_source = found.refitted[Left.SOURCE] if found else refits(fit, Left.SOURCE, options.tell)
    numbers = behind(fit, without_source)
    _show(fit, numbers, as_json)
    if path is not None:
        options.write_file(path, as_file(fit))
        options.write_file(beside(path), as_csv(numbers))
    if folder is not None and found is not None:
        for name, text in rewrite.rewritten(found, numbers).items():
            options.tell(f"written to {write_atomically(folder / name, text, overwrite=True)}")


def _show(fit: AllRows, numbers: list[Behind], as_json: bool) -> None:
    """Prints each fitted number with what is behind it."""
    if as_json:
        options.show_json(_plain(fit, numbers), allow_nan=False)
    else:
        from amped.report.all_rows import all_rows

        options.show(all_rows(fit, numbers))


def _plain(fit: AllRows, numbers: list[Behind]) -> dict[str, Any]:
    """The fit as plain data for JSON."""
    from amped.report.all_rows import plain_errors

    return {
        "numbers": [*map(asdict, numbers)],
        "kept": [{**asdict(key), "reason": why} for key, why in fit.kept.items()],
        "groups": fit.groups, "most_numbers": fit.most_numbers,
        "errors_without_steps": plain_errors(fit.unfitted), "errors_before": plain_errors(fit.before),
        "errors": plain_errors(fit.after),
    }  # fmt: skip


def print_left_out(table: Path | None, left_text: str, as_json: bool, lookup_tables: LookupTables) -> None:
    """Prints the errors of rows, each predicted by a fit that lacks its source and perhaps more; and whether bands hold."""
    from amped.calibration.leave_out import bands_checked, left_out
    from amped.estimation.validated import Left
    from amped.report import all_rows as report

    left, found = Left(left_text), left_out(table, lookup_tables, options.tell)
    checked = bands_checked(found.runs())
    if as_json:
        options.show_json(report.plain_left_out(found, left, checked), allow_nan=False)
    else:
        options.show(report.left_out(found, left, checked))
