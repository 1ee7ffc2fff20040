"""Tables of layouts: how much they matter, which are chosen, what a layer takes with them."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from typing import Any

from rich.table import Table


def _table(*heads: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for place, head in enumerate(heads):
        table.add_column(head, justify="right" if place else "left", no_wrap=True)
    return table


def spread(rows: Iterable[Mapping[str, Any]]) -> Table:
    """For each operator: how many layouts, the best, the median and the worst time, and how many are near the best."""
    times: dict[str, list[float]] = {}
    copies: dict[str, int] = {}
    for row in rows:
        times.setdefault(row["op"], []).append(row["time_us"])
        copies[row["op"]] = copies.get(row["op"], 0) + bool(row.get("hidden_copy"))
    table = _table("operator", "layouts", "best µs", "median", "worst", "worst/best", "within 10 %", "hidden copies")
    for name, found in times.items():
        best, worst = min(found), max(found)
        near = sum(time <= 1.1 * best for time in found)
        table.add_row(
            name, str(len(found)), f"{best:.1f}", f"{statistics.median(found):.1f}", f"{worst:.1f}",
            f"{worst / best:.2f}", str(near), str(copies[name]),
        )  # fmt: skip
    return table


def plan_lines(layouts: Mapping[str, str]) -> Table:
    """The layout of each tensor that chooses one, in four columns."""
    table = _table(*("tensor", "layout") * 4)
    pairs = list(layouts.items())
    for start in range(0, len(pairs), 4):
        table.add_row(*(text for pair in pairs[start : start + 4] for text in pair))
    return table


def plan_summary(strategy: str, predicted: float | None, bound: float | None, gap: float | None) -> str:
    """What a plan is predicted to take, in a sentence."""
    if predicted is None or bound is None or gap is None:
        return f"strategy {strategy}; nothing measured"
    return (
        f"strategy {strategy}: {predicted / 1e3:.3f} ms predicted, {100 * gap:.2f} % above the sum of each operator's "
        f"best ({bound / 1e3:.3f} ms)"
    )


def runs_table(runs: Iterable[Mapping[str, Any]], published: Mapping[str, float | None]) -> Table:
    """What each layer took; the published times of the same layer on a V100 below."""
    table = _table("layer", "forward ms", "backward ms", "both ms", "calls", "largest error")
    for run in runs:
        if run["total"] is None:
            table.add_row(run["name"], *[""] * 4, f"not run: {run['why_not']}"[:60])
            continue
        table.add_row(
            run["name"], f"{1e3 * run['forward']:.3f}", f"{1e3 * run['backward']:.3f}", f"{1e3 * run['total']:.3f}",
            str(run["calls"]), f"{run['error']:.1e}",
        )  # fmt: skip
    for name, milliseconds in published.items():
        shown = "n.a." if milliseconds is None else f"{milliseconds:.2f}"
        table.add_row(f"published, V100, fp16: {name}", "", "", shown)
    return table


def predicted_and_measured(
    predicted: float, measured: float, where: Mapping[str, Any], here: Mapping[str, Any]
) -> str:  # fmt: skip
    """The sum of isolated operators against the layer itself, in a sentence."""
    same = all(where.get(key) == here.get(key) for key in ("device", "dtype", "dropout"))
    of = "" if same else f" (predicted for {where.get('device')}, {where.get('dtype')}, dropout {where.get('dropout')})"
    part = 100 * (predicted / measured - 1)
    return f"the plan's sum of operators is {predicted / 1e3:.3f} ms, {part:+.1f} % from what the layer took{of}"
