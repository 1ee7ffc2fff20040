"""Plots of an estimate; matplotlib is imported only here and only when one is drawn."""

from __future__ import annotations

import io
from typing import Any

from amped.estimation.estimation import STEP_PARTS, Estimation
from amped.report import human
from amped.report.summary import kind_of

# Distinct in hue and, printed gray, in lightness; hatches tell parts of one kind apart.
COLORS = {"compute": "#1f5a99", "recomputation": "#7fb3d5", "communication": "#f2b134", "bubble": "#c0392b"}
SMALLEST_SLICE = 0.01
SMALLEST_LABEL = 5.0
EDGE: dict[str, Any] = {"edgecolor": "black", "linewidth": 0.6}
LABEL_BOX = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1.0}
_PATTERNS = ("", "//", "..", "xx", "\\\\", "", "//", "..", "xx", "\\\\", "--", "||")
HATCHES = dict(zip(STEP_PARTS, _PATTERNS, strict=True))


def step_time_plot(e: Estimation, suffix: str = "png") -> bytes:
    """The parts of a step's time as horizontal bars, as an image file."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    parts = {name: e[name] for name in STEP_PARTS if e[name] > 0}
    figure, axes = plt.subplots(figsize=(8, 0.45 * len(parts) + 1.6), layout="constrained")
    for name, seconds in reversed(parts.items()):
        bars = axes.barh(human.label(name), seconds, color=COLORS[kind_of(name)], hatch=HATCHES[name], **EDGE)
        axes.bar_label(bars, [f" {human.value(seconds, 's')}, {human.percent(seconds / e['step_time'])}"])
    axes.set_xlabel("time of one step (s)")
    axes.set_xlim(0, max(parts.values()) * 1.3)
    axes.set_title(e.scenario.description or e.scenario.label, fontsize=10)
    return image(figure, suffix)


def pie_charts(e: Estimation, suffix: str) -> bytes:
    """Where the time goes, as AMPeD draws it: all parts of a step, and the communication by parallelism."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(12, 4.4), layout="constrained")
    _pie(axes[0], {name: e[name] for name in STEP_PARTS}, "one step: " + human.duration(e["step_time"]))
    waiting = {name: e[name] for name in STEP_PARTS if kind_of(name) == "communication"}
    _pie(axes[1], waiting, "communication: " + human.duration(sum(waiting.values())))
    figure.suptitle(
        f"{e.scenario.description or e.scenario.label}\ntraining {human.duration(e['training_time'])}", fontsize=11
    )
    return image(figure, suffix)


def _pie(axes: Any, parts: dict[str, float], title: str) -> None:
    """Shares above a hundredth as slices, the smaller together; hatches tell slices apart in gray."""
    whole = sum(parts.values())
    shown = {name: part for name, part in parts.items() if part > SMALLEST_SLICE * whole}
    rest = whole - sum(shown.values())
    labels = [human.label(name).removeprefix("exposed ") for name in shown]
    sizes, colors = list(shown.values()), [COLORS[kind_of(name)] for name in shown]
    hatches = [HATCHES[name] for name in shown]
    if rest > 1e-9 * whole:
        labels, sizes, colors, hatches = [*labels, "the rest"], [*sizes, rest], [*colors, "#bbbbbb"], [*hatches, "oo"]
    axes.set_title(title, fontsize=10)
    if not sizes:
        axes.text(0.5, 0.5, "none", ha="center", va="center", transform=axes.transAxes)
        axes.set_axis_off()
        return
    wedges = axes.pie(
        sizes, colors=colors, startangle=90, counterclock=False, pctdistance=0.7, hatch=hatches,
        autopct=lambda share: f"{share:.1f} %" if share >= SMALLEST_LABEL else "",
        textprops={"fontsize": 9, "bbox": LABEL_BOX}, wedgeprops=EDGE,
    )[0]  # fmt: skip
    named = [f"{label} {human.percent(size / whole)}" for label, size in zip(labels, sizes, strict=True)]
    axes.legend(wedges, named, loc="center left", bbox_to_anchor=(0.98, 0.5), fontsize=9, frameon=False)


def stacked_bars(estimations: list[Estimation], suffix: str) -> bytes:
    """The parts of a step of several configurations, one bar each, as shares of the step and in seconds."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    names = [e.scenario.label for e in estimations]
    figure, axes = plt.subplots(1, 2, figsize=(12, 0.6 * len(names) + 3), layout="constrained", sharey=True)
    parts = [part for part in STEP_PARTS if any(e[part] for e in estimations)]
    for panel, whole in ((axes[0], [e["step_time"] for e in estimations]), (axes[1], [1.0] * len(names))):
        left = [0.0] * len(names)
        for part in parts:
            sizes = [e[part] / w for e, w in zip(estimations, whole, strict=True)]
            panel.barh(names, sizes, left=left, label=human.label(part), color=COLORS[kind_of(part)],
                       hatch=HATCHES[part], **EDGE)  # fmt: skip
            left = [a + b for a, b in zip(left, sizes, strict=True)]
        panel.invert_yaxis()
    axes[0].set_xlabel("share of the time of one step")
    axes[1].set_xlabel("time of one step (s)")
    axes[1].invert_yaxis()
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize=9)
    return image(figure, suffix)


def panels(width: float, heights: list[float]) -> tuple[Any, list[Any]]:
    """An empty figure, and its panels one below the other."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, grid = plt.subplots(
        len(heights), 1, figsize=(width, sum(heights)), layout="constrained", height_ratios=heights, squeeze=False
    )
    return figure, list(grid[:, 0])


def new_figure(width: float, height: float) -> Any:
    """An empty figure that no window knows of, in inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def as_image(figure: Any, suffix: str = "png") -> bytes:
    """A figure as an image file."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format=suffix, dpi=150)
    return buffer.getvalue()


def log_ticks(axis: Any) -> None:
    """Plain numbers at 1, 2 and 5 of each decade."""
    from matplotlib.ticker import LogLocator

    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0), numticks=12))
    axis.set_major_formatter(lambda value, _: f"{value:,g}")
    axis.set_minor_formatter(lambda *_: "")


def image(figure: Any, suffix: str) -> bytes:
    """The figure as an image file."""
    import matplotlib.pyplot as plt

    buffer = io.BytesIO()
    figure.savefig(buffer, format=suffix, dpi=150, bbox_inches="tight")
    plt.close(figure)
    return buffer.getvalue()
