"""What `amped calibrate --all` and `amped validate --leave-out` do: they fit to all rows at once, and print what was found."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from amped.cli import options
from amped.tables.table_files import LookupTables

if TYPE_CHECKING:
    from amped.calibration.all_rows import AllRows
    from amped.calibration.step_table import Behind

NAME = "numbers_fitted_to_steps.json"


def fit_to_all_rows(table: Path | None, path: Path | None, as_json: bool, lookup_tables: LookupTables) -> None:
    """Fits to all rows, prints each number with its errors, and writes the rows and a CSV of the numbers to `path`."""
    from amped.calibration.all_rows import as_file, fitted_to_all
    from amped.calibration.leave_out import Left, refits
    from amped.calibration.step_table import as_csv, behind, beside

    if path is not None:
        options.refuse_existing(beside(path), "--output")
    fit = fitted_to_all(table, lookup_tables, options.tell)
    numbers = behind(fit, *(refits(fit, by, options.tell) for by in (Left.SOURCE, Left.ACCELERATOR)))
    if as_json:
        options.show_json(_plain(fit, numbers), allow_nan=False)
    else:
        from amped.report.all_rows import all_rows

        options.show(all_rows(fit, numbers))
    if path is not None:
        options.write_file(path, as_file(fit))
        options.write_file(beside(path), as_csv(numbers))


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


def print_left_out(table: Path | None, by_text: str, as_json: bool, lookup_tables: LookupTables) -> None:
    """Prints the errors of each source, accelerator or stack, predicted by a fit that lacks its rows."""
    from amped.calibration.leave_out import Left, left_out
    from amped.report import all_rows as report

    by = Left(by_text)
    fit, parts = left_out(table, by, lookup_tables, options.tell)
    if not as_json:
        options.show(report.left_out(fit, parts, by))
        return
    keys = [part.key for part in fit.numbers]
    rows = [row for part in parts for row in part.rows]
    options.show_json({
        "left_out": [
            {by.value: part.name, "errors": report.plain_errors(part.rows), "share_in_band": report.share_inside([part]),
             "numbers": [
                 {**asdict(key), "value": value} for key, value in zip(keys, part.values.tolist(), strict=True)]}
            for part in parts
        ],
        "errors_without_steps": report.plain_errors(fit.unfitted),
        "errors_before": report.plain_errors(fit.before), "errors_of_the_fit": report.plain_errors(fit.after),
        "errors": report.plain_errors(rows), "share_in_band": report.share_inside(parts),
    }, allow_nan=False)  # fmt: skip
