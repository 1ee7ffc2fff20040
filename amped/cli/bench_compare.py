"""`amped bench compare`: predicted against measured kernels, or one run against another."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from amped.base.errors import ConfigError
from amped.cli import options
from amped.cli.bench_fit import coefficients_of
from amped.tables.table_files import LookupTables


def compare(
    file: Path,
    other: Path | None = None,
    row: str | None = None,
    accelerator: str | None = None,
    fitted_on: Path | None = None,
    plot: bool = False,
    as_json: bool = False,
    as_csv: bool = False,
    output_dir: Path | None = None,
    lookup_tables: options.Folders = None,
) -> None:
    """Compare predicted with measured kernels: errors by family, the worst ten, a scatter plot; or two runs.

    Predictions use the row of kernel_efficiencies that estimates of the device use, or, if it has none of its own, a
    fit to the file itself. Kernels outside of what --fitted-on has seen are marked as extrapolated.

    Example: amped bench compare this_machine.json --plot

    Options:
        file FILE: What `amped bench run` wrote.
        other [FILE2]: A second run: print the drift instead.
        --row ROW: Row of kernel_efficiencies to predict with.
        --accelerator ROW: Its row of accelerator_specifications.
        --fitted-on FILE: Predict by a fit to this result instead.
        --plot: Draw both as points: kernels.png and .svg.
        as_json --json: Print errors and points as JSON.
        as_csv --csv: Print the points as comma-separated values.
    """
    from amped.kernels.results import read_result

    result = read_result(file)
    if other is not None:
        _show_drift(result, read_result(other), (file.stem, other.stem), as_json)
        return
    report, basis = _report(result, row, accelerator, fitted_on, lookup_tables)
    options.tell(basis)
    _show(report, as_json, as_csv)
    if plot:
        from amped.report.bench_plots import kernel_scatter

        title = f"{result['device']['name']}, {result['date'][:10]}, {basis}"
        files = ((f"kernels.{suffix}", kernel_scatter(report.points, title, suffix)) for suffix in ("png", "svg"))
        options.write_and_tell(output_dir, *files)


def _show(report: Any, as_json: bool, as_csv: bool) -> None:
    """Prints the comparison as a table, as JSON, or its points as CSV."""
    from amped.kernels import comparing
    from amped.report.benching import comparison
    from amped.report.rows_formats import as_csv as written

    if as_json:
        options.show_json(comparing.as_json(report), allow_nan=False)
    elif as_csv:
        names = ("name", "family", "part", "measured_s", "predicted_s", "error", "flags")
        rows = [
            (p.name, p.family, p.stratum, p.measured, p.predicted, p.error, " ".join(p.flags)) for p in report.points
        ]
        typer.echo(written(names, [dict(zip(names, row, strict=True)) for row in rows]), nl=False)
    else:
        options.show(comparison(report))


def _report(
    result: dict[str, Any],
    row: str | None,
    accelerator: str | None,
    fitted_on: Path | None,
    lookup_tables: LookupTables,
) -> tuple[Any, str]:
    """The comparison, and a phrase on the coefficients that predict the kernels."""
    from amped.kernels import comparing, rows
    from amped.kernels.calibration import calibrated
    from amped.kernels.machine import machine_of
    from amped.kernels.results import read_result

    tables = options.user_tables(lookup_tables)
    fitted_result = read_result(fitted_on) if fitted_on is not None else result
    machine = machine_of(fitted_result, tables, accelerator, known_ones=fitted_on is None)
    base = row or rows.base_row(tables, machine.name, machine.known)
    coefficients, basis = coefficients_of(tables, base), f"predicted with row '{base}' of kernel_efficiencies"
    if fitted_on is not None or (row is None and not machine.known):
        coefficients = calibrated(fitted_result, machine, coefficients).coefficients
        basis = f"predicted by a fit to {'these very records' if fitted_result is result else fitted_on}"
    seen_records = fitted_result["records"] if fitted_result is not result else ()
    return comparing.compared(result, machine, coefficients, seen_records), basis


def _show_drift(first: dict[str, Any], second: dict[str, Any], names: tuple[str, str], as_json: bool) -> None:
    """Prints the ratio of times of the second run to the first one, by family.

    Raises:
        ConfigError: if the runs have no kernel in common.
    """
    from amped.kernels.comparing import drift
    from amped.report import benching

    families = drift(first, second)
    if not families:
        raise ConfigError("the two results have no kernel in common", "compare runs of one suite and format")
    if as_json:
        options.show_json({family: {"ratio": ratio, "count": n} for family, (ratio, n) in families.items()})
    else:
        options.show(benching.drift(families, names))
