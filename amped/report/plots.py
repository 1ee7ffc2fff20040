"""Plots of an estimate; matplotlib is imported only here, and only when a plot is drawn."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping
from typing import Any

from amped.estimation.estimation import Estimation
from amped.estimation.parts import STEP_PARTS
from amped.report import human
from amped.report.summary import kind_of

# Hues and marks for sources, families or systems: as many as a reader can tell apart.
# ERRORS: the errors for which a line is drawn, and how it is dashed.
HUES = ("#1f5a99", "#c0392b", "#f2b134", "#2e8b57", "#7b4fa3", "#7fb3d5", "#e377c2", "#777777", "#8c564b", "#17becf")
MARKS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*", "p")
ERRORS = ((0.10, "--"), (0.25, ":"))
# These colors differ in hue and, printed in gray, in lightness; hatches separate parts of one kind.
COLORS = {"compute": "#1f5a99", "recomputation": "#7fb3d5", "communication": "#f2b134", "bubble": "#c0392b"}
SMALLEST_SLICE = 0.01
SMALLEST_LABEL = 5.0
EDGE: dict[str, Any] = {"edgecolor": "black", "linewidth": 0.6}
LABEL_BOX = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1.0}
_PATTERNS = ("", "//", "..", "xx", "\\\\", "", "//", "..", "xx", "\\\\", "--", "||")
HATCHES = dict(zip(STEP_PARTS, _PATTERNS, strict=True))


def step_time_plot(e: Estimation, suffix: str = "png") -> bytes:
    """The parts of a step's time as horizontal bars, as an image file."""
    parts = {name: e[name] for name in STEP_PARTS if e[name] > 0}
    figure = new_figure(8, 0.45 * len(parts) + 1.6)
    axes = figure.subplots()
    for name, seconds in reversed(parts.items()):
        bars = axes.barh(human.label(name), seconds, **look(name))
        axes.bar_label(bars, [f" {human.value(seconds, 's')}, {human.percent(seconds / e['step_time'])}"])
    axes.set(xlabel="time of one step (s)", xlim=(0, max(parts.values()) * 1.3))
    axes.set_title(e.scenario.title, fontsize=10)
    return image(figure, suffix)


def look(part: str) -> dict[str, Any]:
    """The color and the hatch of the bar of a part of a step."""
    return {"color": COLORS[kind_of(part)], "hatch": HATCHES[part], **EDGE}


def pie_charts(e: Estimation, suffix: str) -> bytes:
    """Pie charts as AMPeD draws them: all parts of a step, and the communication by parallelism."""
    figure = new_figure(12, 4.4)
    axes = figure.subplots(1, 2)
    _pie(axes[0], {name: e[name] for name in STEP_PARTS}, "one step: " + human.duration(e["step_time"]))
    waiting = {name: e[name] for name in STEP_PARTS if kind_of(name) == "communication"}
    _pie(axes[1], waiting, "communication: " + human.duration(sum(waiting.values())))
    title = f"{e.scenario.title}\ntraining {human.duration(e['training_time'])}"
    figure.suptitle(title, fontsize=11)
    return image(figure, suffix)


def _pie(axes: Any, parts: dict[str, float], title: str) -> None:
    """Shares above one percent as slices, the smaller ones as one slice; hatches separate them when printed in gray."""
    whole = sum(parts.values())
    slices = [(human.label(name).removeprefix("exposed "), part, COLORS[kind_of(name)], HATCHES[name])
              for name, part in parts.items() if part > SMALLEST_SLICE * whole]  # fmt: skip
    rest = whole - sum(part for _, part, _, _ in slices)
    if rest > 1e-9 * whole:
        slices.append(("the rest", rest, "#bbbbbb", "oo"))
    axes.set_title(title, fontsize=10)
    if not slices:
        nothing(axes, "none", va="center", transform=axes.transAxes)
        return
    labels, sizes, colors, hatches = zip(*slices, strict=True)
    wedges = axes.pie(
        sizes, colors=colors, startangle=90, counterclock=False, pctdistance=0.7, hatch=hatches,
        autopct=lambda share: f"{share:.1f} %" if share >= SMALLEST_LABEL else "",
        textprops={"fontsize": 9, "bbox": LABEL_BOX}, wedgeprops=EDGE,
    )[0]  # fmt: skip
    named = [f"{label} {human.percent(size / whole)}" for label, size in zip(labels, sizes, strict=True)]
    axes.legend(wedges, named, loc="center left", bbox_to_anchor=(0.98, 0.5), fontsize=9, frameon=False)


def stacked_bars(estimations: list[Estimation], suffix: str) -> bytes:
    """The parts of a step of several configurations, one bar each, as shares of the step and in seconds."""
    names = [e.scenario.label for e in estimations]
    figure = new_figure(12, 0.6 * len(names) + 3)
    axes = figure.subplots(1, 2, sharey=True)
    wholes = ([e["step_time"] for e in estimations], [1.0] * len(names))
    for panel, whole, unit in zip(axes, wholes, ("share of the time of one step", "time of one step (s)"), strict=True):
        left = [0.0] * len(names)
        for part in STEP_PARTS:
            if any(e[part] for e in estimations):
                sizes = [e[part] / w for e, w in zip(estimations, whole, strict=True)]
                panel.barh(names, sizes, left=left, label=human.label(part), **look(part))
                left = [a + b for a, b in zip(left, sizes, strict=True)]
        panel.set_xlabel(unit)
    axes[0].invert_yaxis()
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize=9)
    return image(figure, suffix)


def panels(width: float, heights: list[float]) -> tuple[Any, list[Any]]:
    """An empty figure, and its panels from top to bottom."""
    figure = new_figure(width, sum(heights))
    return figure, list(figure.subplots(len(heights), 1, height_ratios=heights, squeeze=False)[:, 0])


def new_figure(width: float, height: float) -> Any:
    """An empty figure of a size in inches, which is not shown in a window."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def image(figure: Any, suffix: str, **how: Any) -> bytes:
    """The figure as an image file, cropped to what is drawn; `how` goes to `savefig`."""
    buffer = io.BytesIO()
    figure.draw_without_rendering()  # the first drawing settles the ticks; the second drawing is then always the same
    figure.savefig(buffer, format=suffix, dpi=150, **{"bbox_inches": "tight"} | how)
    return buffer.getvalue()


def as_image(figure: Any, suffix: str = "png") -> bytes:
    """The figure as an image file, not cropped."""
    return image(figure, suffix, bbox_inches=None)


def measured_and_predicted(
    panel: Any, points: Iterable[tuple[float, float]], room: tuple[float, float], what: str
) -> None:
    """Sets up logarithmic axes around the points, with lines of equal error."""
    both = [value for point in points for value in point]
    ends = [room[0] * min(both), room[1] * max(both)]
    panel.plot(ends, ends, color="black", linewidth=0.8)
    for share, dashes in ERRORS:
        for sign in (1, -1):
            label = f"{share * 100:.0f} % off" if sign > 0 else None
            off = [(1 + sign * share) * end for end in ends]
            panel.plot(ends, off, color="black", linewidth=0.7, linestyle=dashes, label=label)
    panel.set(xscale="log", yscale="log", xlim=ends, ylim=ends, xlabel=f"measured {what}", ylabel=f"predicted {what}")


def marks(panel: Any, points: Iterable[tuple[str, bool, float, float]], styles: Mapping[str, tuple[str, str]]) -> None:
    """Draws points in the style of their name, each name once in the legend; points that are not trusted are hollow."""
    seen = set()
    for number, (name, trusted, x, y) in enumerate(points):
        color, shape = styles[name]
        # A white edge keeps full marks apart where they overlap; they are larger by that edge.
        look: dict[str, Any] = {"fillstyle": "none", "markersize": 5.5}
        if trusted:
            look = {"markeredgecolor": "white", "markeredgewidth": 0.4, "markersize": 6.3}
        panel.plot(x, y, shape, color=color, linestyle="none", label=None if name in seen else name, gid=f"record-{number}",
                   **look)  # fmt: skip
        seen.add(name)


def grid(*panels: Any, axis: str = "both") -> None:
    """Draws pale grid lines behind the data."""
    for panel in panels:
        panel.grid(True, axis=axis, color="0.88", linewidth=0.7)
        panel.set_axisbelow(True)


def log_ticks(axis: Any) -> None:
    """Puts plain numbers at 1, 2 and 5 of each decade."""
    from matplotlib.ticker import LogLocator

    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0), numticks=12))
    axis.set_major_formatter(lambda value, _: f"{value:,g}")
    axis.set_minor_formatter(lambda *_: "")


def nothing(panel: Any, told: str, **how: Any) -> None:
    """Says in an empty panel why it is empty."""
    panel.text(0.5, 0.5, told, ha="center", **how)
    panel.set_axis_off()
