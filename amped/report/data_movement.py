"""Tables of the arithmetic and the data movement of a layer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from rich.table import Table

from amped.report.tables import table

# A key of an operator's record, the head of its column, and how a value is written.
Column = tuple[str, str, Callable[[Any], str]]


def _millions(words: float) -> str:
    return f"{words / 1e6:.2f}"


# What an operator is, what it moves, and how long it takes.
NAMED: tuple[Column, ...] = (("operator", "operator", str), ("class", "class", str))
MOVED: tuple[Column, ...] = (
    ("flop", "Gflop", lambda flop: f"{flop / 1e9:.3f}"),
    ("words_in", "Mwords in", _millions),
    ("words_out", "out", _millions),
    ("words_unfused", "un-fused", _millions),
)
TIMED: tuple[Column, ...] = (
    ("bound_us", "bound µs", "{:.1f}".format),
    ("limited_by", "limit", str),
    ("time_us", "time µs", "{:.1f}".format),
    ("mue_percent", "MUE %", "{:.1f}".format),
    ("peak_percent", "peak %", "{:.1f}".format),
    ("gap", "time/bound", "{:.2f}".format),
)


def operator_tables(lines: list[dict[str, Any]]) -> Iterator[Table]:
    """The operators with their work, traffic and least time: one table, or two if times were measured.

    Each operator has a row; columns that no operator has are left out.
    """
    has_times = any("time_us" in line for line in lines)
    for columns in (MOVED, TIMED) if has_times else ((*MOVED, *TIMED),):
        used_columns = [column for column in (*NAMED, *columns) if any(column[0] in line for line in lines)]
        rows = [[write(line[key]) if key in line else "" for key, _, write in used_columns] for line in lines]
        yield table([head for _, head, _ in used_columns], rows, ("class", "limit"))


def class_totals(content: dict[str, Any]) -> Table:
    """A table of sums over each class of operators with their shares, then the sums over the layer."""
    layer = content["total"]
    rows = [
        (name, f"{part['operators']}", f"{part['flop'] / 1e9:.2f}", f"{100 * part['flop'] / layer['flop']:.3f}",
         f"{part['words'] / 1e6:.2f}", f"{100 * part['words'] / layer['words']:.1f}", f"{part['unfused_words'] / 1e6:.2f}")
        for name, part in {**content["classes"], "layer": layer}.items()
    ]  # fmt: skip
    return table(("class", "kernels", "Gflop", "%", "Mwords", "%", "un-fused Mwords"), rows)


def saved_by_fusion(content: dict[str, Any]) -> str:
    """A sentence on the share of data movement that fusion removes."""
    removed, of_rest = (100 * content[f"fusion_saves_fraction{part}"] for part in ("", "_of_fused_kernels"))
    return f"Fusion removes {removed:.1f} % of all words, {of_rest:.1f} % of those that no contraction moves."
