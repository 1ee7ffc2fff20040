"""Calibrations as a file with rows of `kernel_efficiencies`; each row says what it was fitted to, and how well."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from amped.base import version
from amped.calibration.calibrate import Calibration
from amped.estimation.own_runs import COLUMN, as_column
from amped.tables.table_files import KERNELS
from amped.theory.language.catalogue import catalogue
from amped.validation.table import SHIPPED

UNITS = {
    "s": (1e-6, " us"),
    "byte": (1e6, " MB"),
    "1": (1.0, ""),
    "flop/byte": (1.0, " flop/byte"),
    "J/byte": (1e-12, " pJ/byte"),
}
DESCRIPTION = "Coefficients fitted by `amped calibrate`: each row extends the one that served its accelerator."


def as_table(calibrations: Sequence[Calibration], table: Path | None) -> str:
    """Calibrations as the text of a file of lookup tables.

    amped reads the file if it is in ./lookup_tables/, or with --lookup-tables.

    Args:
        calibrations: the calibrations, each of which becomes a row.
        table: the file with the measurements; None for the table that comes with amped.
    """
    rows = {row_name(calibration): _row(calibration, table) for calibration in calibrations}
    return as_text({"table": KERNELS, "description": DESCRIPTION, "rows": rows})


def row_name(calibration: Calibration) -> str:
    """The name of the row that an accelerator's estimates look up: its own name, unless its row names another."""
    named = calibration.accelerator.columns.get(KERNELS)
    return str(named) if isinstance(named, str) else calibration.accelerator.name


def _row(calibration: Calibration, table: Path | None) -> dict[str, Any]:
    """The row of a calibration, by its columns; `table` is the file with the measurements, None for amped's own."""
    return {
        "extends": calibration.base.name,
        **columns_written(calibration.values),
        "aliases": [], "sources": [_source(calibration, table)], "fitted": list(calibration.values),
        "fitted_on": f"{len(calibration.used)} rows of {label(table)}", "unverified": [],
        "notes": _notes(calibration), **({COLUMN: as_column(calibration.validated)} if table is not None else {}),
    }  # fmt: skip


def as_written(name: str, value: float) -> float | str:
    """A value with the unit of its column, as tables write it: 2e-6 s is '2 us'."""
    size, unit = UNITS[catalogue()[name].mark.unit]
    number = float(f"{value / size:.6g}")
    return f"{number:g}{unit}" if unit else number


def columns_written(values: Mapping[str, float]) -> dict[str, float | str]:
    """Columns of a row, with the unit of each value: the values are given in canonical units."""
    return {name: as_written(name, value) for name, value in values.items()}


def as_text(rows: Mapping[str, Any], ascii_only: bool = True) -> str:
    """Rows as the text of a file of lookup tables; other letters than those of ASCII are escaped if `ascii_only`."""
    return json.dumps(rows, indent=1, ensure_ascii=ascii_only) + "\n"


@contextmanager
def temporary_file(rows: Mapping[str, Any]) -> Iterator[Path]:
    """A file of lookup tables with these rows, which is removed at the end."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "rows.json"
        file.write_text(as_text(rows), "utf-8")
        yield file


def _source(calibration: Calibration, table: Path | None) -> str:
    """The source of a row in words: what it was fitted to, and the errors before and after the fit."""
    today = date.today().isoformat()
    left_out = (
        f", {calibration.error_left_out:.1%} for networks left out" if calibration.error_left_out is not None else ""
    )
    return (
        f"amped calibrate, amped {version.__version__}, {today}: {len(calibration.used)} rows of {label(table)} ({', '.join(calibration.used)}); "
        f"mean absolute error of the step's time {calibration.error_before:.1%} before, {calibration.error_after:.1%} after{left_out}"
    )


def label(table: Path | None) -> str:
    """The name of a table of measurements, as sources say it."""
    return table.name if table is not None else f"amped's own {SHIPPED}"


def _notes(calibration: Calibration) -> str:
    """The bounds of the fit in words, and the coefficients that stopped at a bound."""
    bounds = "; ".join(f"{fitted.name} {fitted.lowest:g} to {fitted.highest:g}" for fitted in calibration.coefficients)
    return f"Bounds of the fit, in SI units: {bounds}." + (
        f" At a bound: {', '.join(calibration.at_bound)}." if calibration.at_bound else ""
    )
