"""Rows as files for machines: CSV and Parquet, whole or block by block.

pyarrow is imported only here, when it is used.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import IO, Any

import numpy as np

from amped.base.extras import from_extra
from amped.exploration.all_candidates import Column

# How many rows are collected before they are written as a row group: enough to compress well, few enough for memory.
GROUP_ROWS = 131_072
# What a formula of a spreadsheet begins with.
FORMULA = ("=", "+", "-", "@", "\t", "\r")


def as_csv(names: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> str:
    """Rows as CSV: a header with the names, then one line for each row; numbers in SI units, with all their digits."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([as_cell(row.get(name)) for name in names] for row in rows)
    return stream.getvalue()


def as_cell(value: Any) -> Any:
    """A value as a cell of CSV. A text that a spreadsheet would take for a formula begins with an apostrophe."""
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value


def as_parquet(names: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> bytes:
    """Rows as a Parquet file.

    Raises:
        ConfigError: if pyarrow is not installed.
    """
    arrow = pyarrow()
    table = arrow.table({name: [row.get(name) for row in rows] for name in names})
    stream = io.BytesIO()
    arrow.parquet.write_table(table, stream)
    return stream.getvalue()


def pyarrow() -> Any:
    """The library that writes Parquet.

    Raises:
        ConfigError: if pyarrow is not installed.
    """
    arrow, _ = (from_extra(name, "parquet", "Parquet", "use --format csv") for name in ("pyarrow", "pyarrow.parquet"))
    return arrow


class CsvStream:
    """Writes every candidate as a line of CSV, block by block."""

    def __init__(self, stream: IO[bytes]) -> None:
        self.stream = stream
        self.names: list[str] = []

    def start(self, kinds: Mapping[str, type]) -> None:
        """Writes the header."""
        self.names = list(kinds)
        self.stream.write(f"{','.join(self.names)}\n".encode())

    def take(self, columns: Mapping[str, Column]) -> None:
        """Writes the rows of a block; a column that the block does not have stays empty."""
        rows = len(next(iter(columns.values())))
        texts = (_texts(columns[name]) if name in columns else [""] * rows for name in self.names)
        self.stream.write("".join(f"{','.join(line)}\n" for line in zip(*texts, strict=True)).encode())

    def close(self) -> None:
        """Does nothing: all rows are written already."""


def _texts(column: Column) -> list[str]:
    """The cells of a column as text for CSV.

    Each distinct value is formatted once, because most columns have few of them.
    """
    values, place = np.unique(column, return_inverse=True)
    written = np.array([_cell(value) for value in values.tolist()], dtype=object)
    return written[place].tolist()  # type: ignore[no-any-return]


def _cell(value: object) -> str:
    """A value as text for CSV, in quotes if the text needs them."""
    text = str(as_cell(value))
    return '"' + text.replace('"', '""') + '"' if set(text) & set(',"\r\n') else text


class ParquetStream:
    """Writes every candidate to a Parquet file, in row groups of several blocks."""

    def __init__(self, stream: IO[bytes]) -> None:
        self.arrow = pyarrow()
        self.stream = stream
        self.writer: Any = None
        self.held: list[Any] = []
        self.rows = 0

    def start(self, kinds: Mapping[str, type]) -> None:
        """Fixes the schema: each column holds doubles, texts or booleans."""
        types = {float: self.arrow.float64(), str: self.arrow.string(), bool: self.arrow.bool_()}
        self.names = list(kinds)
        self.schema = self.arrow.schema([(name, types[kind]) for name, kind in kinds.items()])
        self.writer = self.arrow.parquet.ParquetWriter(self.stream, self.schema)

    def take(self, columns: Mapping[str, Column]) -> None:
        """Keeps a block, and writes the kept blocks when there are enough of them."""
        rows = len(next(iter(columns.values())))
        cells = zip(self.names, self.schema.types, strict=True)
        arrays = [
            self.arrow.array(np.ascontiguousarray(columns[name]), type=kind) if name in columns else self.arrow.nulls(rows, kind)
            for name, kind in cells
        ]  # fmt: skip
        self.held.append(self.arrow.record_batch(arrays, schema=self.schema))
        self.rows += rows
        if self.rows >= GROUP_ROWS:
            self._write()

    def close(self) -> None:
        """Writes the blocks that are left, and the end of the file."""
        if self.writer is not None:
            self._write()
            self.writer.close()

    def _write(self) -> None:
        """Writes the held blocks as row groups, and holds none after that."""
        if self.held:
            self.writer.write_table(self.arrow.Table.from_batches(self.held, self.schema), row_group_size=GROUP_ROWS)
        self.held, self.rows = [], 0


STREAMS: dict[str, type[CsvStream] | type[ParquetStream]] = {"csv": CsvStream, "parquet": ParquetStream}
