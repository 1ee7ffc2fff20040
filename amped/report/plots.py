"""Plots of an estimate; matplotlib is imported only here, and only when a plot is drawn."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from itertools import cycle
from textwrap import fill
from typing import Any

from amped.estimation.estimation import Estimation
from amped.estimation.parts import STEP_PARTS
from amped.report import human
from amped.report.screen import mapping_in_words
from amped.report.verdicts import kind_of
from amped.theory.nouns.parallelisms import OPTIONS, PARALLELISMS

# Hues and marks for sources, families or systems: as many as a reader can tell apart.
# ERRORS: the errors for which a line is drawn, and how it is dashed.
HUES = ("#1f5a99", "#c0392b", "#f2b134", "#2e8b57", "#7b4fa3", "#7fb3d5", "#e377c2", "#777777", "#8c564b", "#17becf")
MARKS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*", "p")
ERRORS = ((0.10, "--"), (0.25, ":"))
# The kinds of time, with the words of every legend. Their colors differ in hue and, printed in gray, in lightness (58,
# 123, 206 and 171 of 255); hatches separate parts of one kind, in white where the color is dark.
COLORS = {"compute": "#173f7a", "recomputation": "#4f83c4", "communication": "#f7cf5e", "bubble": "#e8928a"}
KINDS = {"compute": "compute", "recomputation": "recomputation", "communication": "communication", "bubble": "idle"}
# Room for the total beside the longest bar, as a multiple of it.
TOTAL_ROOM = 1.15
SMALLEST_SLICE = 0.01
SMALLEST_LABEL = 5.0
EDGE: dict[str, Any] = {"edgecolor": "black", "linewidth": 0.6}
DARK_EDGE: dict[str, Any] = {"edgecolor": "white", "linewidth": 0.6}
LEGEND: dict[str, Any] = {"loc": "outside lower center", "fontsize": 9, "frameon": False}
# The edge of a bar that stands alone: thin, so that it does not hide a bar of few milliseconds.
BAR_EDGE = 0.0
# How many characters of a title of 10 points stand in an inch.
TITLE_LETTERS = 12.0
LABEL_BOX = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1.0}
_PATTERNS = ("", "//", "..", "xx", "\\\\", "", "//", "..", "xx", "\\\\", "--", "||")
# A point: its name in the legend, whether it is trusted, and where it is.
Point = tuple[str, bool, float, float]
# The width of the picture of a step in inches, and the entry of a PNG that holds its numbers.
STEP_WIDTH, DRAWN = 8.0, "amped"
HATCHES = dict(zip(STEP_PARTS, _PATTERNS, strict=True))


def step_time_plot(e: Estimation) -> bytes:
    """The parts of a step's time as horizontal bars, as a PNG."""
    return image(step_time_figure(e), "png", metadata=drawn_numbers(e))


def step_time_figure(e: Estimation) -> Any:
    """The parts of a step's time as horizontal bars, as a figure."""
    parts = {name: e[name] for name in STEP_PARTS if e[name] > 0}
    figure = new_figure(STEP_WIDTH, 0.45 * len(parts) + 2.2)
    axes = figure.subplots()
    for name, seconds in reversed(parts.items()):
        bars = axes.barh(human.label(name), seconds, **look(name) | {"linewidth": BAR_EDGE})
        axes.bar_label(bars, [f" {human.value(seconds, 's')}, {human.percent(seconds / e['step_time'])}"])
    axes.set(xlabel="time of one step (s)", xlim=(0, max(parts.values()) * 1.3))
    titled(figure, f"{e.scenario.title}\n{mapping_in_words(e)}: {human.value(e['step_time'], 's')} a step", STEP_WIDTH)
    figure.legend(handles=kind_handles(parts), ncols=len(COLORS), **LEGEND)
    return figure


def drawn_numbers(e: Estimation) -> dict[str, str]:
    """The numbers that the picture of a step shows, as the text of a PNG: whether the picture is stale can be read from it."""
    return {
        DRAWN: "; ".join(f"{name} {human.value(e[name], 's')}" for name in ("step_time", *STEP_PARTS) if e[name] > 0)
    }


def look(part: str) -> dict[str, Any]:
    """The color and the hatch of the bar of a part of a step."""
    kind = kind_of(part)
    return {"facecolor": COLORS[kind], "hatch": HATCHES[part], **(DARK_EDGE if kind == "compute" else EDGE)}


def kind_handles(parts: Iterable[str]) -> list[Any]:
    """The entries of a legend: a color for each kind of time that some parts have."""
    from matplotlib.patches import Patch

    kinds = {kind_of(part) for part in parts}
    return [Patch(facecolor=COLORS[kind], label=KINDS[kind], **EDGE) for kind in COLORS if kind in kinds]


def titled(figure: Any, text: str, width: float) -> None:
    """Puts a title over a figure of a width in inches; lines for which there is no room are wrapped."""
    lines = (fill(line, int(width * TITLE_LETTERS)) for line in text.splitlines())
    figure.suptitle("\n".join(lines), fontsize=10)


def short_degrees(row: Mapping[str, Any] | Estimation) -> str:
    """The degrees that are not 1, under the names of their options: dp 8 tp 4 ep 8."""
    degrees = [(kind, row[f"{kind}_parallel_degree"]) for kind in PARALLELISMS]
    return " ".join(f"{OPTIONS[kind]}\N{NO-BREAK SPACE}{degree:g}" for kind, degree in degrees if degree != 1) or "one"


SHORT_DEGREES = ", ".join(f"{OPTIONS[kind]} {kind}" for kind in PARALLELISMS)


def pie_charts(e: Estimation, suffix: str) -> bytes:
    """An image with AMPeD's two pie charts: all parts of a step, and the communication by parallelism."""
    figure = new_figure(12, 4.4)
    whole, waits = figure.subplots(1, 2)
    _pie(whole, {name: e[name] for name in STEP_PARTS}, "one step: " + human.duration(e["step_time"]))
    waiting = {name: e[name] for name in STEP_PARTS if kind_of(name) == "communication"}
    _pie(waits, waiting, "communication: " + human.duration(sum(waiting.values())))
    titled(figure, f"{e.scenario.title}\n{mapping_in_words(e)}; training {human.duration(e['training_time'])}", 12)
    return image(figure, suffix)


def _pie(axes: Any, parts: dict[str, float], title: str) -> None:
    """Draws parts above one percent as slices, and the smaller ones as one slice; hatches separate slices in gray."""
    whole = sum(parts.values())
    slices = [(human.label(name).removeprefix("exposed "), part, look(name))
              for name, part in parts.items() if part > SMALLEST_SLICE * whole]  # fmt: skip
    rest = whole - sum(part for _, part, _ in slices)
    if rest > 1e-9 * whole:
        slices.append(("the rest", rest, {"facecolor": "white", "hatch": "oo", **EDGE}))
    axes.set_title(title, fontsize=10)
    if not slices:
        nothing(axes, "none", va="center", transform=axes.transAxes)
        return
    labels, sizes, looks = zip(*slices, strict=True)
    wedges, _, texts = axes.pie(
        sizes, startangle=90, counterclock=False, pctdistance=0.7,
        autopct=lambda share: f"{share:.1f} %" if share >= SMALLEST_LABEL else "",
        textprops={"fontsize": 9, "bbox": LABEL_BOX},
    )  # fmt: skip
    for wedge, text, look_of_slice in zip(wedges, texts, looks, strict=True):
        wedge.set(**look_of_slice)
        text.set_visible(bool(text.get_text()))
    labels_with_share = [f"{label} {human.percent(size / whole)}" for label, size in zip(labels, sizes, strict=True)]
    axes.legend(wedges, labels_with_share, loc="center left", bbox_to_anchor=(0.98, 0.5), fontsize=9, frameon=False)


def stacked_bars(estimations: list[Estimation], suffix: str) -> bytes:
    """An image with a bar for each configuration: the parts of its step, as shares and in seconds."""
    names = [f"{e.scenario.label}\n{short_degrees(e)}" for e in estimations]
    figure = new_figure(12, 0.7 * len(names) + 3)
    shares, seconds = figure.subplots(1, 2, sharey=True)
    times = [e["step_time"] for e in estimations]
    stack(shares.barh, "left", names, estimations, [time / 100 for time in times])
    stack(seconds.barh, "left", names, estimations, [1.0] * len(names))
    shares.set(xlabel="share of the time of one step (%)", xlim=(0, 100))
    seconds.set(xlabel="time of one step (s)", xlim=(0, TOTAL_ROOM * max(times)))
    for place, time in enumerate(times):
        seconds.text(time, place, f" {human.duration(time)}", va="center", fontsize=9)
    shares.invert_yaxis()
    figure.legend(*shares.get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize=9)
    return image(figure, suffix)


def stack(draw: Any, begin: str, places: Any, steps: Sequence[Any], wholes: Iterable[float], **how: Any) -> None:
    """Draws the parts of steps as stacked bars.

    Each size is divided by its entry of `wholes`. `begin` is the argument of `draw` for the start of a bar.
    """
    begins = [0.0] * len(steps)
    for part in STEP_PARTS:
        sizes = [step[part] / whole for step, whole in zip(steps, wholes, strict=True)]
        if any(sizes):
            draw(places, sizes, label=human.label(part), **{begin: begins}, **look(part), **how)
            begins = [start + size for start, size in zip(begins, sizes, strict=True)]


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


def styles(names: Iterable[str]) -> dict[str, tuple[str, str]]:
    """A color and a shape for each name; many names share them."""
    return dict(zip(names, zip(cycle(HUES), cycle(MARKS), strict=True), strict=False))


def measured_and_predicted(
    panel: Any, points: Sequence[Point], styles: Mapping[str, tuple[str, str]], room: tuple[float, float], what: str
) -> None:
    """Draws points on logarithmic axes, and lines of equal error.

    `room` has the factors from the least value to the start of the axes, and from the largest to their end.
    """
    values = [value for *_, measured, predicted in points for value in (measured, predicted)]
    ends = [room[0] * min(values), room[1] * max(values)]
    panel.plot(ends, ends, color="black", linewidth=0.8)
    for share, dashes in ERRORS:
        for sign in (1, -1):
            label = f"{share * 100:.0f} % off" if sign > 0 else None
            shifted = [(1 + sign * share) * end for end in ends]
            panel.plot(ends, shifted, color="black", linewidth=0.7, linestyle=dashes, label=label)
    panel.set(xscale="log", yscale="log", xlim=ends, ylim=ends, xlabel=f"measured {what}", ylabel=f"predicted {what}")
    marks(panel, points, styles)


def marks(panel: Any, points: Iterable[Point], styles: Mapping[str, tuple[str, str]]) -> None:
    """Draws points in the style of their name, each name once in the legend; points that are not trusted are hollow."""
    unnamed = {*styles}
    for number, (name, trusted, x, y) in enumerate(points):
        color, shape = styles[name]
        # A white edge keeps full marks apart where they overlap; they are larger by that edge.
        look: dict[str, Any] = {"fillstyle": "none", "markersize": 5.5}
        if trusted:
            look = {"markeredgecolor": "white", "markeredgewidth": 0.4, "markersize": 6.3}
        panel.plot(x, y, shape, color=color, linestyle="none", label=name if name in unnamed else None, gid=f"record-{number}",
                   **look)  # fmt: skip
        unnamed.discard(name)


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


def once(*panels: Any) -> tuple[list[Any], list[str]]:
    """The handles and the labels of a legend for several panels, each label once."""
    entries: dict[str, Any] = {}
    for panel in panels:
        for handle, label in zip(*panel.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    return [*entries.values()], [*entries]


def nothing(panel: Any, text: str, **how: Any) -> None:
    """Writes into an empty panel why the panel is empty."""
    panel.text(0.5, 0.5, text, ha="center", **how)
    panel.set_axis_off()
