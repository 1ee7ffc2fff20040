"""Plots of an estimate; matplotlib is imported only here and only when one is drawn."""

from __future__ import annotations

import io
from typing import Any

from amped.estimation import STEP_PARTS, Estimation
from amped.report import human
from amped.report.summary import kind_of

# Distinct in hue and, printed grey, in lightness; hatches tell parts of one kind apart.
COLOURS = {"compute": "#1f5a99", "recomputation": "#7fb3d5", "communication": "#f2b134", "bubble": "#c0392b"}
HATCHES = ("", "//", "..", "xx", "\\\\")


def step_time_plot(e: Estimation, suffix: str = "png") -> bytes:
    """The parts of a step's time as horizontal bars, as an image file."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    parts = {name: e[name] for name in STEP_PARTS if e[name] > 0}
    figure, axes = plt.subplots(figsize=(8, 0.45 * len(parts) + 1.6), layout="constrained")
    seen: dict[str, int] = {}
    for name, seconds in reversed(parts.items()):
        kind = kind_of(name)
        hatch = HATCHES[seen.setdefault(kind, 0) % len(HATCHES)]
        seen[kind] += 1
        bars = axes.barh(human.label(name), seconds, color=COLOURS[kind], hatch=hatch, edgecolor="black", linewidth=0.6)
        axes.bar_label(bars, [f" {human.value(seconds, 's')}, {human.percent(seconds / e['step_time'])}"])
    axes.set_xlabel("time of one step (s)")
    axes.set_xlim(0, max(parts.values()) * 1.3)
    axes.set_title(e.scenario.description or e.scenario.label, fontsize=10)
    return _image(figure, suffix)


def _image(figure: Any, suffix: str) -> bytes:
    import matplotlib.pyplot as plt

    buffer = io.BytesIO()
    figure.savefig(buffer, format=suffix, dpi=150)
    plt.close(figure)
    return buffer.getvalue()
