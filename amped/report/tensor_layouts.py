"""Tables of tensor layouts: how much they matter, which are chosen, and how long a layer takes with them."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from rich.table import Table

from amped.report.tables import table


def spread(rows: Iterable[Mapping[str, Any]]) -> Table:
    """For each operator: the number of layouts; the best, median and worst time; how many layouts are near the best."""
    times: dict[str, list[float]] = {}
    copies: Counter[str] = Counter()
    for row in rows:
        times.setdefault(row["op"], []).append(row["time_us"])
        copies[row["op"]] += bool(row.get("hidden_copy"))
    heads = ("operator", "layouts", "best µs", "median", "worst", "worst/best", "within 10 %", "hidden copies")
    return table(heads, [_spread(name, of_operator, copies[name]) for name, of_operator in times.items()])


def _spread(name: str, times: list[float], copies: int) -> tuple[str, ...]:
    """The cells of an operator: its number of layouts and their times."""
    best, worst, number_near_best = min(times), max(times), sum(time <= 1.1 * min(times) for time in times)
    return (name, f"{len(times)}", f"{best:.1f}", f"{statistics.median(times):.1f}", f"{worst:.1f}",
            f"{worst / best:.2f}", f"{number_near_best}", f"{copies}")  # fmt: skip


def plan_lines(layouts: Mapping[str, str]) -> Table:
    """A table of the layout of each tensor, four tensors per line."""
    pairs = list(layouts.items())
    lines = [pairs[start : start + 4] for start in range(0, len(pairs), 4)]
    return table(("tensor", "layout") * 4, [[text for pair in line for text in pair] for line in lines])


def plan_summary(plan: Any) -> str:
    """The time that a plan (`amped.kernels.tensor_layouts.plan.Plan`) is predicted to take, in a sentence."""
    if None in (plan.predicted_us, plan.lower_bound_us, plan.gap):
        return f"strategy {plan.strategy}; nothing measured"
    return (
        f"strategy {plan.strategy}: {plan.predicted_us / 1e3:.3f} ms predicted, {100 * plan.gap:.2f} % above the sum of "
        f"each operator's best ({plan.lower_bound_us / 1e3:.3f} ms)"
    )


def runs_table(runs: Iterable[Mapping[str, Any]], published: Mapping[str, float | None]) -> Table:
    """A table of the time of each layer; below, the published times of the same layer on a V100."""
    times = [
        ("n.a." if time is None else f"{time:.2f}", f"published, V100, fp16: {n}") for n, time in published.items()
    ]
    lines = [*map(_run, runs), *((name, "", "", time) for time, name in times)]
    return table(("layer", "forward ms", "backward ms", "both ms", "calls", "largest error"), lines)


def _run(run: Mapping[str, Any]) -> tuple[str, ...]:
    """The cells of a layer; the reason if the layer was not run."""
    if run["total"] is None:
        return (run["name"], *[""] * 4, f"not run: {run['why_not']}"[:60])
    return (run["name"], f"{1e3 * run['forward']:.3f}", f"{1e3 * run['backward']:.3f}", f"{1e3 * run['total']:.3f}",
            f"{run['calls']}", f"{run['error']:.1e}")  # fmt: skip


def predicted_and_measured(predicted: float, measured: float, where: Mapping[str, Any], here: Mapping[str, Any]) -> str:
    """A sentence: the sum of the times of single operators against the time of the whole layer, in microseconds.

    `where` and `here` describe the machine of the prediction and of the measurement.
    """
    same = all(where.get(key) == here.get(key) for key in ("device", "dtype", "dropout"))
    conditions = (
        "" if same else f" (predicted for {where.get('device')}, {where.get('dtype')}, dropout {where.get('dropout')})"
    )
    error = 100 * (predicted / measured - 1)
    return (
        f"the plan's sum of operators is {predicted / 1e3:.3f} ms, {error:+.1f} % from what the layer took{conditions}"
    )
