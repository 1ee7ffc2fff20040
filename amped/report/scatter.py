"""A picture of predicted against measured values: a point for each row, and the errors beside them with the outliers named.

Shapes tell the generations of accelerators apart, so that the picture can be read in gray; hollow marks are rows whose
inputs are known badly.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from amped.report import human, plots
from amped.report.validating import machine
from amped.validation.accuracy import accuracy, by_confidence, of_memory, of_time
from amped.validation.residuals import Residual

WIDTH, HEIGHT, SMALL = 13.0, 5.4, 2.8
# How many outliers are named, and how far apart their names stand, as a share of the panel's height.
NAMED, APART = 8, 0.062
# Where the names stand beside a panel, as a share of its width.
BESIDE = 1.03
Point = tuple[Residual, float, float]


def scatter_plot(rows: Sequence[Residual]) -> bytes:
    """Predicted against measured values, as a PNG."""
    return plots.image(scatter_figure(rows), "png")


def scatter_figure(rows: Sequence[Residual]) -> Any:
    """A figure of predicted against measured step times and their errors, and the same for memory if it was measured."""
    known_well_first = sorted(rows, key=lambda r: not r.trusted)
    times: list[Point] = [(r, *r.times) for r in of_time(known_well_first) if r.times]
    memory: list[Point] = [
        (r, r.measured / human.GIGA, r.predicted / human.GIGA)
        for r in of_memory(known_well_first) if r.measured and r.predicted
    ]  # fmt: skip
    kinds = [kind for kind in ((times, "time of a step (s)"), (memory, "memory of an accelerator (GB)")) if kind[0]]
    figure = plots.new_figure(WIDTH, HEIGHT * len(kinds) + 0.8 if kinds else SMALL)
    panels = figure.subplots(max(len(kinds), 1), 2, squeeze=False)
    numbers = Counter(_kind(r) for points, _ in kinds for r, *_ in points)
    styles = plots.styles(sorted(numbers, key=lambda name: (-numbers[name], name)))  # those with the most rows first
    for (points, what), (both, errors) in zip(kinds, panels, strict=False):
        marks = [(_kind(r), r.trusted, m, p) for r, m, p in points]
        plots.measured_and_predicted(both, marks, styles, (0.7, 1.4), what)
        both.set_title(_title([r for r, *_ in points]), fontsize=10, loc="left")
        _draw_errors(errors, points, styles)
        errors.set(xscale="log", xlim=both.get_xlim(), xlabel=f"measured {what}", ylabel="error (%), + is too much")
        plots.grid(both, errors)
        for axis in (both.xaxis, both.yaxis, errors.xaxis):
            plots.log_ticks(axis)
            axis.set_tick_params(labelsize=8)
    if kinds:
        figure.legend(*plots.once(*panels[:, 0]), ncols=6, **plots.LEGEND)
    else:
        plots.nothing(panels[0][0], "nothing that was measured could be predicted")
        panels[0][1].set_axis_off()
    measured, missed = ({r.measurement.id for r in selected} for selected in (rows, [r for r in rows if r.missed]))
    figure.suptitle(f"{len(measured)} rows, {len(missed)} of them not modeled; hollow: inputs known badly", fontsize=11)
    return figure


def _kind(r: Residual) -> str:
    """The generation of the accelerator; its name if no generation is known."""
    return (r.ground.generation if r.ground else "") or r.accelerator or "unnamed"


def _title(rows: Sequence[Residual]) -> str:
    """The mean errors of well-known (full) and badly known (hollow) rows, for the head of a panel."""
    errors = zip(("full", "hollow"), map(accuracy, by_confidence(rows).values()), strict=True)
    means = [f"{a.mean_absolute_error_fraction * 100:.1f} % ({name}, {a.groups} groups)"
             for name, a in errors if a.mean_absolute_error_fraction is not None]  # fmt: skip
    return f"mean error {', '.join(means)}"


def _draw_errors(panel: Any, points: Sequence[Point], styles: dict[str, tuple[str, str]]) -> None:
    """Draws the errors in percent, lines of equal error, and the names of the largest errors beside the panel."""
    panel.axhline(0.0, color="black", linewidth=0.8)
    for share, dashes in plots.ERRORS:
        for sign in (1, -1):
            panel.axhline(sign * share * 100, color="black", linewidth=0.7, linestyle=dashes)
    errors = [(r, m, 100 * (p / m - 1)) for r, m, p in points]
    plots.marks(panel, [(_kind(r), r.trusted, x, y) for r, x, y in errors], styles)
    named: dict[str, tuple[float, float]] = {}  # of repeats only the worst one has a name
    for r, x, y in sorted(errors, key=lambda error: -abs(error[2])):
        named.setdefault(f"{r.measurement.network}\n{machine(r)}", (x, y))
    outliers = sorted([*named.items()][:NAMED], key=lambda outlier: outlier[1][1])
    low, high = panel.get_ylim()
    heights = _spread([(y - low) / (high - low) for _, (_, y) in outliers])
    for (name, place), height in zip(outliers, heights, strict=True):
        panel.annotate(
            name, place, (BESIDE, height), textcoords="axes fraction", fontsize=7, va="center",
            arrowprops={"arrowstyle": "-", "color": "0.45", "linewidth": 0.5, "shrinkA": 0, "shrinkB": 3},
        )  # fmt: skip
    panel.set_ylim(low, high)


def _spread(heights: Sequence[float]) -> list[float]:
    """Heights in ascending order, moved as little as needed to keep names apart and below the panel's top."""
    upward = accumulate(heights, lambda below, height: max(height, below + APART))
    downward = accumulate([1.0 + APART, *reversed([*upward])], lambda above, height: min(height, above - APART))
    return [*downward][:0:-1]
