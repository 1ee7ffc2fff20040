"""A plot of how the feasible candidates lie: few good ones, and a long tail of others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from amped.base.errors import ConfigError
from amped.report import human
from amped.report.axes_values import axis_label, scale, unit_of
from amped.report.plots import COLORS, grid, log_ticks, new_figure

# Values that differ by more than this are drawn on a logarithmic axis.
WIDE = 10.0
Bins = Sequence[tuple[float, float, int]]


def distribution(bins: Bins, objective: str, best: float, title: str) -> Any:
    """How many feasible candidates have a value of the objective in each bin; a line where the best is.

    Raises:
        ConfigError: if there is none.
    """
    if not bins:
        raise ConfigError("there is nothing to plot: no candidate is feasible", "see which rule removes them")
    drawn = new_figure(7.5, 4.8)
    panel = drawn.subplots()
    low, high = bins[0][0], bins[-1][1]
    size, label = scale(objective, [best])
    begins, ends, counts = zip(*bins, strict=True)
    widths = [(end - begin) / size for begin, end in zip(begins, ends, strict=True)]
    panel.bar([begin / size for begin in begins], counts, widths, align="edge", color=COLORS["compute"], linewidth=0)
    if low > 0 and high > WIDE * low:
        panel.set_xscale("log")
        log_ticks(panel.xaxis)
    panel.axvline(best / size, color=COLORS["bubble"], linewidth=1.5)
    panel.annotate("the best", (best / size, 0.97), xycoords=("data", "axes fraction"), xytext=(5, 0), va="top",
                   textcoords="offset points", fontsize=9, color=COLORS["bubble"])  # fmt: skip
    panel.set(xlabel=label, ylabel="feasible candidates")
    panel.yaxis.set_major_formatter("{x:,.0f}")
    grid(panel, axis="y")
    told = f"{sum(counts):,} feasible candidates by {axis_label(objective)}; the best: {human.value(best, unit_of(objective))}"
    drawn.suptitle(f"{title}\n{told}", fontsize=10)
    return drawn
