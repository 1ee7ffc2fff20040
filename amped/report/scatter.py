"""A plot of predicted against measured values, one point for each row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from amped.report import plots
from amped.validation.accuracy import accuracy, of_memory, of_time
from amped.validation.residuals import Residual

# How many sources a legend may list inside a panel; a longer legend stands beside the panel.
MOST_INSIDE = 16
GIGA = 1e9
WIDTH, LARGE, SMALL = 8.6, 6.0, 2.8
Point = tuple[Residual, float, float]


def scatter_plot(rows: Sequence[Residual], suffix: str = "png") -> bytes:
    """Predicted against measured times of a step, their errors, and both for memory if it was measured."""
    times: list[Point] = [(r, *r.times) for r in of_time(rows) if r.times]
    memory: list[Point] = [
        (r, r.measured / GIGA, r.predicted / GIGA) for r in of_memory(rows) if r.measured and r.predicted
    ]
    kinds = [kind for kind in ((times, "time of one step (s)"), (memory, "memory of one accelerator (GB)")) if kind[0]]
    figure, panels = plots.panels(WIDTH, [LARGE, SMALL] * len(kinds) or [SMALL])
    styles = _styles(rows)
    for (points, what), both, errors in zip(kinds, panels[::2], panels[1::2], strict=False):
        plots.measured_and_predicted(both, [point[1:] for point in points], (0.7, 1.4), what)
        plots.marks(both, [(r.measurement.source, r.trusted, m, p) for r, m, p in points], styles)
        beside = len(both.get_legend_handles_labels()[1]) > MOST_INSIDE
        place = {"bbox_to_anchor": (1.01, 1.02), "fontsize": 7} if beside else {"fontsize": 8}
        both.legend(loc="upper left", frameon=False, **place)
        _levels(errors)
        plots.marks(errors, [(r.measurement.source, r.trusted, m, 100 * (p / m - 1)) for r, m, p in points], styles)
        errors.set(xscale="log", xlim=both.get_xlim(), xlabel=f"measured {what}", ylabel="error (%), + too much")
    if not kinds:
        plots.nothing(panels[0], "nothing that was measured could be predicted")
    figure.suptitle(_title(rows), fontsize=11)
    return plots.image(figure, suffix)


def _title(rows: Sequence[Residual]) -> str:
    mean = accuracy(of_time([r for r in rows if r.trusted])).mean_absolute_error_fraction
    every, missed = ({r.measurement.id for r in some} for some in (rows, [r for r in rows if r.missed]))
    told = f"{len(every)} rows, {len(missed)} of them not modeled"
    if mean is None:
        return told
    return f"{told}; step time off by {mean * 100:.1f} % on average (hollow: low confidence, not in it)"


def _styles(rows: Sequence[Residual]) -> dict[str, tuple[str, str]]:
    """A color and a mark for each source."""
    names, hues, marks = dict.fromkeys(r.measurement.source for r in rows), plots.HUES, plots.MARKS
    return {name: (hues[(i + 3 * (i // len(hues))) % len(hues)], marks[i % len(marks)]) for i, name in enumerate(names)}


def _levels(panel: Any) -> None:
    """Lines of equal error for a panel of the errors themselves, which logarithmic axes would hide."""
    panel.axhline(0.0, color="black", linewidth=0.8)
    for share, dashes in plots.ERRORS:
        for sign in (1, -1):
            panel.axhline(sign * share * 100, color="black", linewidth=0.7, linestyle=dashes)
