"""Kernels predicted against measured, each record a mark; and the rungs of a ladder."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import fill
from typing import Any, Protocol

from amped.report.plots import as_image, new_figure
from amped.report.scatter import COLORS, LINES, MARKS

# Characters of a title's line that stand above the axes.
TITLE_WIDTH = 90


class Point(Protocol):
    """One record and its prediction, in seconds; read only."""

    @property
    def family(self) -> str:
        """What it is colored by."""
        ...

    @property
    def measured(self) -> float:
        """Measured time."""
        ...

    @property
    def predicted(self) -> float:
        """Predicted time."""
        ...

    @property
    def flags(self) -> Sequence[str]:
        """What makes it doubtful."""
        ...


def kernel_scatter(points: Sequence[Point], title: str, suffix: str = "png") -> bytes:
    """Predicted against measured on logarithmic axes, with lines of equal error; noisy records are hollow."""
    figure = new_figure(8.0, 7.0)
    panel = figure.add_subplot()
    families = list(dict.fromkeys(p.family for p in points))
    ends = [
        0.6 * min(min(p.measured, p.predicted) for p in points),
        1.6 * max(max(p.measured, p.predicted) for p in points),
    ]
    panel.plot(ends, ends, color="black", linewidth=0.8)
    for share, dashes in LINES:
        for sign in (1, -1):
            panel.plot(ends, [(1 + sign * share) * e for e in ends], color="black", linewidth=0.7, linestyle=dashes,
                       label=f"{share * 100:.0f} % off" if sign > 0 else None)  # fmt: skip
    seen: set[str] = set()
    for number, p in enumerate(points):
        kind = families.index(p.family)
        label = None if p.family in seen else p.family
        seen.add(p.family)
        panel.plot(p.measured, p.predicted, MARKS[kind % len(MARKS)], color=COLORS[kind % len(COLORS)], markersize=5,
                   linestyle="none", fillstyle="none" if "noisy" in p.flags else "full", label=label, gid=f"record-{number}")  # fmt: skip
    panel.set(xscale="log", yscale="log", xlim=ends, ylim=ends, xlabel="measured time of a call (s)",
              ylabel="predicted time of a call (s)")  # fmt: skip
    panel.legend(fontsize=8, loc="upper left", frameon=False)
    panel.set_title(fill(title, TITLE_WIDTH), fontsize=10)
    return as_image(figure, suffix)


def ladder_bars(rungs: Sequence[dict[str, Any]], title: str, suffix: str = "png") -> bytes:
    """Measured and predicted time of each rung of a ladder."""
    figure = new_figure(8.0, 0.5 * len(rungs) + 1.6)
    panel = figure.add_subplot()
    for number, rung in enumerate(rungs):
        panel.barh(number - 0.2, rung["ms"] or 0.0, 0.38, color=COLORS[0], label=None if number else "measured")
        panel.barh(
            number + 0.2, rung["predicted_ms"] or 0.0, 0.38, color=COLORS[2], label=None if number else "predicted"
        )
    panel.set_yticks(range(len(rungs)), [rung["rung"] for rung in rungs])
    panel.invert_yaxis()
    panel.set_xlabel("forward and backward pass of one layer (ms)")
    panel.legend(fontsize=8, frameon=False)
    panel.set_title(fill(title, TITLE_WIDTH), fontsize=10)
    return as_image(figure, suffix)
