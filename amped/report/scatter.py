"""Measured against predicted, each row a point."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from amped.report import plots
from amped.validation.accuracy import accuracy, of_memory, of_time
from amped.validation.residuals import Residual

COLORS = ("#1f5a99", "#c0392b", "#f2b134", "#2e8b57", "#7b4fa3", "#7fb3d5", "#e377c2", "#777777", "#8c564b", "#17becf")
MARKS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*", "p")
LINES = ((0.10, "--"), (0.25, ":"))
GIGA = 1e9
WIDTH, LARGE, SMALL = 8.6, 6.0, 2.8
Point = tuple[Residual, float, float]
Styles = dict[str, tuple[str, str]]


def scatter_plot(rows: Sequence[Residual], suffix: str = "png") -> bytes:
    """Times of a step, measured against predicted; their errors; and the same for memory where it was measured."""
    times: list[Point] = [(r, *r.times) for r in of_time(rows) if r.times]
    memory: list[Point] = [
        (r, r.measured / GIGA, r.predicted / GIGA) for r in of_memory(rows) if r.measured and r.predicted
    ]
    kinds = [kind for kind in ((times, "time of one step (s)"), (memory, "memory of one accelerator (GB)")) if kind[0]]
    figure, panels = plots.panels(WIDTH, [height for _ in kinds for height in (LARGE, SMALL)] or [SMALL])
    for (points, what), both, errors in zip(kinds, panels[::2], panels[1::2], strict=True) if kinds else ():
        _values(both, points, what, _styles(rows))
        _errors(errors, points, what, _styles(rows))
        errors.set_xlim(both.get_xlim())
    if not kinds:
        panels[0].text(0.5, 0.5, "nothing that was measured could be predicted", ha="center")
        panels[0].set_axis_off()
    figure.suptitle(_title(rows), fontsize=11)
    return plots.image(figure, suffix)


def _title(rows: Sequence[Residual]) -> str:
    trusted = accuracy(of_time([r for r in rows if r.trusted]))
    mean = trusted.mean_absolute_error_fraction
    missed = len({r.measurement.id for r in rows if r.missed})
    told = f"{len({r.measurement.id for r in rows})} rows, {missed} of them not modeled"
    return (
        told
        if mean is None
        else f"{told}; step time off by {mean * 100:.1f} % on average (hollow: low confidence, not in it)"
    )


def _styles(rows: Sequence[Residual]) -> Styles:
    """A color and a mark for each source."""
    names = dict.fromkeys(r.measurement.source for r in rows)
    return {
        name: (COLORS[(i + 3 * (i // len(COLORS))) % len(COLORS)], MARKS[i % len(MARKS)])
        for i, name in enumerate(names)
    }


def _values(panel: Any, points: list[Point], what: str, styles: Styles) -> None:
    """Measured against predicted on logarithmic axes, with lines of equal error."""
    ends = [f * m for m, f in ((min(min(p[1:]) for p in points), 0.7), (max(max(p[1:]) for p in points), 1.4))]
    panel.plot(ends, ends, color="black", linewidth=0.8)
    for share, dashes in LINES:
        for sign in (1, -1):
            panel.plot(ends, [(1 + sign * share) * e for e in ends], color="black", linewidth=0.7, linestyle=dashes,
                       label=f"{share * 100:.0f} % off" if sign > 0 else None)  # fmt: skip
    for r, measured, predicted in points:
        _mark(panel, r, measured, predicted, styles)
    panel.set(xscale="log", yscale="log", xlim=ends, ylim=ends, xlabel=f"measured {what}", ylabel=f"predicted {what}")
    panel.legend(fontsize=8, loc="upper left", frameon=False)


def _errors(panel: Any, points: list[Point], what: str, styles: Styles) -> None:
    """The errors themselves, which decades hide."""
    panel.axhline(0.0, color="black", linewidth=0.8)
    for share, dashes in LINES:
        for sign in (1, -1):
            panel.axhline(sign * share * 100, color="black", linewidth=0.7, linestyle=dashes)
    for r, measured, predicted in points:
        _mark(panel, r, measured, 100 * (predicted / measured - 1), styles)
    panel.set(xscale="log", xlabel=f"measured {what}", ylabel="error (%), + too much")


def _mark(panel: Any, r: Residual, x: float, y: float, styles: Styles) -> None:
    source = r.measurement.source
    color, mark = styles[source]
    known = panel.get_legend_handles_labels()[1]
    panel.plot(x, y, mark, color=color, markersize=5, fillstyle="full" if r.trusted else "none", linestyle="none",
               label=None if source in known else source)  # fmt: skip
