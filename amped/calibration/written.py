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
    """The file as text. amped reads it if it is in ./lookup_tables/, or with --lookup-tables."""
    rows = {row_name(c): _row(c, table) for c in calibrations}
    return as_text({"table": KERNELS, "description": DESCRIPTION, "rows": rows})


def row_name(c: Calibration) -> str:
    """The row that an accelerator's estimates look up: the one with its name, unless its own row names another."""
    named = c.accelerator.columns.get(KERNELS)
    return str(named) if isinstance(named, str) else c.accelerator.name


def _row(c: Calibration, table: Path | None) -> dict[str, Any]:
    return {
        "extends": c.base.name,
        **columns_written(c.values),
        "aliases": [], "sources": [_source(c, table)], "fitted": list(c.values),
        "fitted_on": f"{len(c.used)} rows of {label(table)}", "unverified": [],
        "notes": _notes(c), **({COLUMN: as_column(c.validated)} if table is not None else {}),
    }  # fmt: skip


def as_written(name: str, value: float) -> float | str:
    """A value with its unit, as a table has it."""
    size, unit = UNITS[catalogue()[name].mark.unit]
    number = float(f"{value / size:.6g}")
    return f"{number:g}{unit}" if unit else number


def columns_written(values: Mapping[str, float]) -> dict[str, float | str]:
    """The columns of a row, each value with its unit."""
    return {name: as_written(name, value) for name, value in values.items()}


def as_text(rows: Mapping[str, Any]) -> str:
    """Rows as the text of a file of lookup tables."""
    return json.dumps(rows, indent=1) + "\n"


@contextmanager
def temporary_file(rows: Mapping[str, Any]) -> Iterator[Path]:
    """A file of lookup tables with these rows, which is removed at the end."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "rows.json"
        file.write_text(as_text(rows), "utf-8")
        yield file


def _source(c: Calibration, table: Path | None) -> str:
    today = date.today().isoformat()
    left_out = f", {c.error_left_out:.1%} for networks left out" if c.error_left_out is not None else ""
    return (
        f"amped calibrate, amped {version.__version__}, {today}: {len(c.used)} rows of {label(table)} ({', '.join(c.used)}); "
        f"mean absolute error of the step's time {c.error_before:.1%} before, {c.error_after:.1%} after{left_out}"
    )


def label(table: Path | None) -> str:
    """The name of a table of measurements."""
    return table.name if table is not None else f"amped's own {SHIPPED}"


def _notes(c: Calibration) -> str:
    bounds = "; ".join(f"{fitted.name} {fitted.lowest:g} to {fitted.highest:g}" for fitted in c.coefficients)
    return f"Bounds of the fit, in SI units: {bounds}." + (
        f" At a bound: {', '.join(c.at_bound)}." if c.at_bound else ""
    )
