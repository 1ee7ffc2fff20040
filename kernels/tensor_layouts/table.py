"""Measured times of operators by layouts: a JSON-lines file with a header and one row in each line."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from amped.base.errors import ConfigError, FileError, Problem, did_you_mean, quoted
from amped.base.files import parse_json, read_text, write_atomically
from amped.kernels.layer_shape import Dimensions
from amped.kernels.tensor_layouts.spec import OPERATORS, Operator
from amped.kernels.tensor_layouts.variables import Choice, choice_of, row_layouts, row_names

FORMAT, VERSION = "amped layout times", 1
Row = dict[str, Any]


@dataclass
class Table:
    """Rows of one device, dtype and size.

    A row has `op`, `impl`, `layouts`, `time_us` with `p10`, `p90`, `n`. The `layouts` of a contraction are those of its
    tensors, and it also has `gemm`, `hidden_copy` and `max_rel_err`. The `layouts` of another operator are those of the
    variables that it depends on.
    """

    dimensions: Dimensions
    measured: Mapping[str, Any]
    rows: list[Row] = field(default_factory=list)

    def times(self, operator: str) -> dict[Choice, Row]:
        """The fastest row of an operator for each choice of its variables."""
        fastest: dict[Choice, Row] = {}
        for row in self.rows:
            choice = choice_of(OPERATORS[operator], row["layouts"]) if row["op"] == operator else None
            if choice and (choice not in fastest or row["time_us"] < fastest[choice]["time_us"]):
                fastest[choice] = row
        return fastest

    def merged(self, other: Table) -> Table:
        """A table with the rows of both tables.

        Raises:
            ConfigError: if they are of different devices, dtypes or sizes.
        """
        mine, its = ({"dimensions": str(t.dimensions), **{k: t.measured.get(k) for k in ("device", "dtype", "dropout")}}
                     for t in (self, other))  # fmt: skip
        differences = [f"{key}: {mine[key]} and {its[key]}" for key in mine if mine[key] != its[key]]
        if differences:
            raise ConfigError(f"the tables are not of one kind ({'; '.join(differences)})", "measure both alike")
        return Table(self.dimensions, self.measured, [*self.rows, *other.rows])

    def to_jsonl(self) -> str:
        """The whole table as text."""
        header = {"format": FORMAT, "version": VERSION, "dimensions": vars(self.dimensions), "measured": self.measured}
        return "".join(json.dumps(line) + "\n" for line in (header, *self.rows))

    def to_csv(self) -> str:
        """The rows as CSV, with layouts such as `X=bji KQV=qphbj`."""
        stream = io.StringIO()
        columns = ("op", "impl", "layouts", "time_us", "p10", "p90", "n")
        writer = csv.DictWriter(stream, columns, extrasaction="ignore")
        writer.writeheader()
        for row in self.rows:
            writer.writerow({**row, "layouts": " ".join(map("=".join, row["layouts"].items()))})
        return stream.getvalue()

    def write(self, path: Path, overwrite: bool = False) -> Path:
        """Writes the table, as CSV if the name says so; it overwrites a file only if `overwrite` is true."""
        return write_atomically(path, self.to_csv() if path.suffix == ".csv" else self.to_jsonl(), overwrite)


def read_table(path: Path) -> Table:
    """The table in a file.

    Raises:
        FileError: if it cannot be read or is not a table; with every wrong row, by line.
    """
    lines = [line for line in read_text(path).splitlines() if line.strip()]
    header = parse_json(lines[0], str(path)) if lines else None
    if not isinstance(header, dict) or header.get("format") != FORMAT or header.get("version") != VERSION:
        raise FileError("is no table of layout times", "make one with `amped layouts bench`", str(path))
    rows = [parse_json(line, f"{path}, line {number}") for number, line in enumerate(lines[1:], 2)]
    problems = list(row_problems(rows))
    if problems:
        raise FileError(problems[:20], file=str(path))
    try:
        return Table(Dimensions(**header["dimensions"]), header["measured"], rows)
    except (KeyError, TypeError):
        raise FileError("has a header without dimensions or device", "measure again", str(path)) from None


def row_problems(rows: Iterable[Any]) -> Iterator[Problem]:
    """The problems of rows: unknown operators and layouts, and values that are not times."""
    for number, row in enumerate(rows, 2):
        where = f"line {number}"
        try:
            operator = OPERATORS[row["op"]]
            layouts = tuple(str(row["layouts"][name]) for name in row_names(operator))
            is_positive = float(row["time_us"]) > 0
        except (KeyError, TypeError, ValueError):
            advice = did_you_mean(str(row.get("op")), OPERATORS) if isinstance(row, dict) else ""
            yield Problem(f"is no row: {quoted(row)}", where, advice)
            continue
        if not is_positive:
            yield Problem(f"time_us is {row['time_us']}", where, "measure again")
        if layouts not in _possible(operator):
            layout_list = ", ".join(layouts)
            yield Problem(
                f"{operator.name} cannot run with layouts {layout_list}", where, "measure again with this amped"
            )


@cache
def _possible(operator: Operator) -> frozenset[Choice]:
    """The layouts of measured rows in which an operator can run."""
    return frozenset(tuple(layouts.values()) for layouts in row_layouts(operator))
