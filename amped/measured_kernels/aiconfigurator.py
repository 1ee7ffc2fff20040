"""Reads aiconfigurator's tables of shapes: one kernel on one accelerator in a file, as text or as Parquet.

Source: ai-dynamo/aiconfigurator, collector/helper.py (`log_perf`, the first columns), collector/*/collect_*.py (the others).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from amped.base.errors import quoted
from amped.base.files import shipped_json
from amped.measured_kernels.found_rows import FoundRows, without_vendor
from amped.measured_kernels.kinds import BYTES
from amped.measured_kernels.rows_of_tools import Cells, heads_of, placed, positive, rows_of_text

TOOL = "aiconfigurator"
# Milliseconds, and who measured what: every table has these columns.
LATENCY, DEVICE, ABOUT = "latency", "device", {"framework", "version", "device", "op_name", "latency"}
# Formats by their names in these tables, and in amped's. Its `float16` means that both factors have 16 bits (w16a16), which
# runs as fast as bf16.
FORMATS = {
    "bfloat16": "bfloat16", "float16": "bfloat16", "fp8": "fp8", "fp8_static": "fp8", "fp8_block": "fp8_block", "nvfp4": "nvfp4",
}  # fmt: skip
INFERENCE = "a shape of inference: amped's laws are for training"


@dataclass(frozen=True)
class TableForm:
    """A table with one kind of kernel.

    Attributes:
        format: the column with the format, which no other kind has.
        shape: columns that are numbers, by the columns of amped's table.
        words: columns that are words, by the columns of amped's table.
        least: the least numbers for which amped has a law, by the columns of amped's table.
        plain: the numbers that columns have in a kernel of training; with another number it is a kernel of inference.
    """

    format: str
    shape: Mapping[str, str]
    words: Mapping[str, str] = field(default_factory=dict)
    least: Mapping[str, int] = field(default_factory=dict)
    plain: Mapping[str, int] = field(default_factory=dict)


# The kinds of kernels that amped has laws of. The least sizes are amped's choice: smaller kernels are those of a decoder that
# writes one token after another, and wait for the host.
FORMS = {kind: TableForm(**form) for kind, form in shipped_json("measured_kernels", "aiconfigurator.json").items()}
# Columns that older tables do not have, and what they mean then.
OLDER = {"window_size": 0, "head_dim": 128, "kernel_source": "", "step": 0, "beam_width": 1, "distribution": "balanced"}
COUNT = re.compile(r"\d+(\.0+)?")


def is_own_format(text: str) -> bool:
    """Whether a text is a table of aiconfigurator: its first line names the columns that every table has."""
    return heads_of(text) >= ABOUT


def read(text: str, path: Path) -> FoundRows:
    """The kernels of a table that is given as text.

    Raises:
        FileError: for a damaged line, with its number.
    """
    return _read(*rows_of_text(text, path), path)


def read_columns(columns: Mapping[str, Sequence[Any]], path: Path) -> FoundRows:
    """The kernels of a table that is given as columns.

    Raises:
        FileError: for a damaged row, with its number.
    """
    rows = (dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True))
    return _read(list(columns), ((f"row {number}", cells) for number, cells in enumerate(rows, 1)), path)


def _read(heads: Sequence[str], rows: Iterator[tuple[str, Cells]], path: Path) -> FoundRows:
    """The kernels of a table.

    Args:
        heads: the names of the columns.
        rows: the place and the cells of each row.
        path: the file, for messages.

    Raises:
        FileError: for a damaged row, with its place.
    """
    kernels = FoundRows(TOOL)
    kind = next((name for name, form in FORMS.items() if {form.format, *form.shape.values()} <= {*heads, *OLDER}), "")
    for place, cells in rows:
        with placed(place, path):
            if why := _left_because(kind, cells):
                kernels.leave(why)
            else:
                kernels.add(kind, **_row(kind, cells))
    return kernels


def _left_because(kind: str, cells: Cells) -> str | None:
    """Why amped cannot compare a row; None if it can.

    Raises:
        ValueError: for a cell that is no number.
    """
    if not kind:
        return f"{cells['op_name']}: amped has no law of this kernel"
    form, name = FORMS[kind], str(cells["op_name"])
    if "generation" in name or any(_number(cells, column) != expected for column, expected in form.plain.items()):
        return INFERENCE
    written, is_collective = str(cells[form.format]), kind == "collectives"
    if written not in (BYTES if is_collective else FORMATS):
        return f"elements of type {written}" if is_collective else f"the format {written}"
    too_small = [column for column, least in form.least.items() if _number(cells, form.shape[column], least=1) < least]
    return (
        f"{INFERENCE} ({' or '.join(f'{column} below {form.least[column]}' for column in too_small)})"
        if too_small
        else None
    )


def _row(kind: str, cells: Cells) -> dict[str, object]:
    """A row in the columns of amped's table.

    Raises:
        ValueError: for a cell that is no number.
    """
    form = FORMS[kind]
    written = str(cells[form.format])
    software = {"software": f"{cells['framework']} {cells['version']}", "precision": FORMATS.get(written)}
    return {
        "accelerator": without_vendor(str(cells[DEVICE])),
        **{name: str(cells.get(column, OLDER.get(column, ""))) for name, column in form.words.items()},
        **{name: _number(cells, column, least=0 if column in OLDER else 1) for name, column in form.shape.items()},
        **({"element": written} if kind == "collectives" else software),
        "time_us": positive(cells, LATENCY) * 1e3,
    }


def _number(cells: Cells, column: str, least: int = 0) -> int:
    """The whole number of a cell, or of its default in older tables.

    Raises:
        ValueError: if the cell is no whole number, or below `least`.
    """
    written = str(cells.get(column, OLDER.get(column)))
    if not COUNT.fullmatch(written) or int(float(written)) < least:
        raise ValueError(f"column '{column}': {quoted(written)} is no whole number from {least}")
    return int(float(written))
