"""Plots of measured kernels: predicted against measured times, and the rungs of a ladder."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import fill
from typing import Any

from amped.report.plots import HUES, as_image, measured_and_predicted, new_figure, styles

# How many characters of a title fit in a line above the axes.
TITLE_WIDTH = 90


def kernel_scatter(points: Sequence[Any], title: str, suffix: str = "png") -> bytes:
    """Predicted against measured times on logarithmic axes, with lines of equal error; noisy records are hollow.

    Args:
        points: records of kernels (`amped.kernels.comparing.Point`), colored by their family.
        title: what was measured, and what predicts it.
        suffix: png or svg.
    """
    figure = new_figure(8.0, 7.0)
    panel = figure.add_subplot()
    marks = [(p.family, "noisy" not in p.flags, p.measured, p.predicted) for p in points]
    looks = styles(dict.fromkeys(p.family for p in points))
    measured_and_predicted(panel, marks, looks, (0.6, 1.6), "time of a call (s)")
    panel.legend(fontsize=8, loc="upper left", frameon=False)
    panel.set_title(fill(title, TITLE_WIDTH), fontsize=10)
    return as_image(figure, suffix)


def ladder_bars(rungs: Sequence[dict[str, Any]], title: str, suffix: str = "png") -> bytes:
    """An image with the measured and the predicted time of each rung of a ladder as bars."""
    figure = new_figure(8.0, 0.5 * len(rungs) + 1.6)
    panel = figure.add_subplot()
    for offset, key, color, label in ((-0.2, "ms", HUES[0], "measured"), (0.2, "predicted_ms", HUES[2], "predicted")):
        places = [place + offset for place in range(len(rungs))]
        panel.barh(places, [rung[key] or 0.0 for rung in rungs], 0.38, color=color, label=label)
    panel.set_yticks(range(len(rungs)), [rung["rung"] for rung in rungs])
    panel.invert_yaxis()
    panel.set_xlabel("forward and backward pass of one layer (ms)")
    panel.legend(fontsize=8, frameon=False)
    panel.set_title(fill(title, TITLE_WIDTH), fontsize=10)
    return as_image(figure, suffix)
