"""Reads the tables of measured kernels in a folder: which kernels each table holds, and what was measured.

A table is a file (Parquet or comma-separated values) with the name of its kind. It has a row for each shape that was
run.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from amped.base.errors import ConfigError, FileError, Problem, quoted
from amped.base.extras import from_extra
from amped.measured_kernels.kinds import KINDS, KernelKind
from amped.measured_kernels.predictor import Array, floats

ENDINGS = {".parquet": ("pyarrow.parquet", "read_table"), ".csv": ("pyarrow.csv", "read_csv")}
# The columns that hold words, and the column that may hold 0.
TEXTS = (
    "software",
    "kernel",
    "precision",
    "layout",
    "accumulate",
    "out_dtype",
    "stage",
    "distribution",
    "collective",
    "element",
    "mask",
    "exchange",
    "cache",
    "indexing",
    "side",
    "work",
    "norm",
)
WINDOW = "window"
# One shape of this many is kept out of every fit.
PARTS = 5


@dataclass(frozen=True)
class MeasuredKernels:
    """Measured kernels of one kind, precision and library on one accelerator.

    Attributes:
        kind: what the kernels compute; it decides how they are predicted.
        accelerator, precision, library: what ran the kernels; `library` is the software and its kernel.
        columns: the shapes of the kernels, by the columns of the table.
        times: the measured times in seconds.
        kept_out: for each kernel, whether fits may not see it.
    """

    kind: KernelKind
    accelerator: str
    precision: str
    library: str
    columns: Mapping[str, Any]
    times: Array
    kept_out: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.times)


def read_table(path: Path) -> list[MeasuredKernels]:
    """The kernels of one table, whose file name tells its kind, grouped by what ran them.

    Raises:
        FileError: if the file is no table, or if a column or a number is missing or wrong.
    """
    kind, columns = KINDS[path.stem], columns_of(path)
    needed = (*kind.shape, *kind.measured)
    missing = ", ".join(quoted(name) for name in (*needed, "accelerator") if name not in columns)
    if missing:
        raise FileError(f"has no column {missing}", "add it, or leave the file out", file=str(path))
    problems = [problem for name in needed for problem in _problems_of_column(name, columns[name])]
    if problems:
        raise FileError(problems, file=str(path))
    return list(grouped(columns, kind))


def grouped(columns: Mapping[str, Any], kind: KernelKind) -> Iterator[MeasuredKernels]:
    """The kernels of some columns, grouped by what ran them; rows that amped does not compare are left out.

    Args:
        columns: the columns of a table, by name.
        kind: the kind of its kernels.
    """
    compared_rows = np.flatnonzero(kind.is_compared(columns))
    columns = {name: column[compared_rows] for name, column in columns.items()}
    if not len(compared_rows):
        return
    names = [name for name in ("accelerator", "precision", *kind.library) if name in columns]
    _, group = np.unique(_rows_as_texts(columns, names), return_inverse=True)
    kept_out = np.array([is_kept_out(shape) for shape in _rows_as_texts(columns, kind.shape)])
    for number in range(max(group) + 1):
        rows = np.flatnonzero(group == number)
        part = {name: column[rows] for name, column in columns.items()}
        yield MeasuredKernels(
            kind, str(part["accelerator"][0]), precision=str(part["precision"][0]) if "precision" in part else kind.precision,
            library=" ".join(str(part[name][0]) for name in kind.library if name in part), columns=part, times=floats(kind.seconds(part)),
            kept_out=kept_out[rows],
        )  # fmt: skip


def _problems_of_column(name: str, column: Any) -> Iterator[Problem]:
    """A problem for the first entry of a column of numbers that is not a number above 0; a window may be 0."""
    if name in TEXTS:
        return
    if np.issubdtype(column.dtype, np.number):
        is_right = np.isfinite(column) & ((column > 0) | ((name == WINDOW) & (column == 0)))
    else:
        is_right = np.array([str(value).replace(".", "", 1).isdigit() for value in column])
    for place in np.flatnonzero(~is_right)[:1]:
        what = f"{quoted(str(column[place]))} is no number above 0"
        yield Problem(what, f"row {place + 1}, column '{name}'", "correct it, or take the row out")


def columns_of(path: Path) -> dict[str, Any]:
    """The columns of a table as arrays, by name.

    Raises:
        FileError: for a file that is no table.
    """
    module, reader = ENDINGS[path.suffix]
    library = from_extra(module, "parquet", "a table of kernels")
    try:
        table = getattr(library, reader)(path)
    except (OSError, ValueError) as error:
        raise FileError(f"is no table: {error}", "write it again", file=str(path)) from None
    return {name: table[name].to_numpy() for name in table.column_names}


def _rows_as_texts(columns: Mapping[str, Any], names: Sequence[str]) -> list[str]:
    """For each row, the values of some columns as one text."""
    return [",".join(map(str, values)) for values in zip(*(columns[name] for name in names), strict=True)]


def is_kept_out(shape: str) -> bool:
    """Whether fits may not see a shape: one of five, drawn by its hash, so that all libraries keep out the same."""
    return int(hashlib.sha256(shape.encode()).hexdigest(), 16) % PARTS == 0


def chosen(
    kernels: Sequence[MeasuredKernels], accelerator: str | None, row_of: Callable[[str], str] = str
) -> list[MeasuredKernels]:
    """The kernels of one accelerator; all kernels if no accelerator is named.

    Args:
        kernels: measured kernels of any accelerator.
        accelerator: the name of an accelerator.
        row_of: gives the name of the row that a name in the tables means.

    Raises:
        ConfigError: if there are no such kernels.
    """
    ran_there = [k for k in kernels if accelerator is None or row_of(k.accelerator) == row_of(accelerator)]
    if not ran_there:
        names = ", ".join(dict.fromkeys(k.accelerator for k in kernels))
        raise ConfigError(f"no kernel was measured on {quoted(accelerator or '')}", f"there are those of {names}")
    return ran_there
