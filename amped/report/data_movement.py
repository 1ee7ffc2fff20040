"""Tables of what a layer computes and moves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rich.table import Table

Column = tuple[str, str, Callable[[Any], str]]
# Key, head, how a value is written: what an operator is, what it moves, and how long it takes.
NAMED: tuple[Column, ...] = (("operator", "operator", str), ("class", "class", str))
MOVED: tuple[Column, ...] = (
    ("flop", "Gflop", lambda value: f"{value / 1e9:.3f}"),
    ("words_in", "Mwords in", lambda value: f"{value / 1e6:.2f}"),
    ("words_out", "out", lambda value: f"{value / 1e6:.2f}"),
    ("words_unfused", "un-fused", lambda value: f"{value / 1e6:.2f}"),
)
TIMED: tuple[Column, ...] = (
    ("bound_us", "bound µs", lambda value: f"{value:.1f}"),
    ("limited_by", "limit", str),
    ("time_us", "time µs", lambda value: f"{value:.1f}"),
    ("mue_percent", "MUE %", lambda value: f"{value:.1f}"),
    ("peak_percent", "peak %", lambda value: f"{value:.1f}"),
    ("gap", "time/bound", lambda value: f"{value:.2f}"),
)


def movement(lines: list[dict[str, Any]]) -> Table:
    """What each operator computes and moves; without times, also the least time it could take."""
    timed = any("time_us" in line for line in lines)
    return _table(lines, (*NAMED, *MOVED) if timed else (*NAMED, *MOVED, *TIMED))


def efficiency(lines: list[dict[str, Any]]) -> Table | None:
    """How near each operator's time is to the least one, where there are times."""
    return _table(lines, (*NAMED, *TIMED)) if any("time_us" in line for line in lines) else None


def _table(lines: list[dict[str, Any]], columns: tuple[Column, ...]) -> Table:
    """One row for each operator; columns that no operator has are left out."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    shown = [column for column in columns if any(column[0] in line for line in lines)]
    for key, head, _ in shown:
        table.add_column(head, justify="left" if key in ("operator", "class", "limited_by") else "right", no_wrap=True)
    for line in lines:
        table.add_row(*(write(line[key]) if key in line else "" for key, _, write in shown))
    return table


def class_totals(told: dict[str, Any]) -> Table:
    """Sums by class with their shares, then the layer's."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for head in ("class", "kernels", "Gflop", "%", "Mwords", "%", "un-fused Mwords"):
        table.add_column(head, justify="left" if head == "class" else "right", no_wrap=True)
    every = told["total"]
    for name, part in {**told["classes"], "layer": every}.items():
        table.add_row(
            name, str(part["operators"]), f"{part['flop'] / 1e9:.2f}", f"{100 * part['flop'] / every['flop']:.3f}",
            f"{part['words'] / 1e6:.2f}", f"{100 * part['words'] / every['words']:.1f}",
            f"{part['unfused_words'] / 1e6:.2f}",
        )  # fmt: skip
    return table


def saved_by_fusion(told: dict[str, Any]) -> str:
    """What fusion removes, in a sentence."""
    removed, of_rest = (100 * told[f"fusion_saves_fraction{of}"] for of in ("", "_of_fused_kernels"))
    return f"Fusion removes {removed:.1f} % of all words, {of_rest:.1f} % of those that no contraction moves."
