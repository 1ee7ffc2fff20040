"""Plots of an exploration; `figure` draws the one that is chosen, and its axes hold the numbers of the rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from textwrap import fill
from typing import Any

import numpy as np

from amped.base.errors import ConfigError
from amped.exploration.objectives import more_is_better
from amped.exploration.results import Row
from amped.report import human
from amped.report.axes_values import axis_label, by_values, in_order, scale, ticks, told, unit_of, words
from amped.report.plot_choice import Drawing
from amped.report.plots import (
    COLORS,
    LABEL_BOX,
    LEGEND,
    SHORT_DEGREES,
    grid,
    log_ticks,
    new_figure,
    short_degrees,
    stack,
    titled,
)

# Okabe and Ito's palette, which color-blind people can tell apart; its yellow is too light for a line.
LINE_COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS, DASHES = "osD^vP*X", ("-", "--", "-.", ":")
# How many bands may overlap; if there are more lines, bars are drawn, those of earlier lines wider.
MOST_BANDS = 3
MOST_LINES, MOST_BARS, MOST_NUMBERS = 12, 40, 150
TIME, STEP, MEMORY, SIZE = "training_time", "step_time", "memory_per_accelerator_bytes", "number_of_accelerators"
COST = "cost"
# If times differ by more than this factor, their axis is logarithmic.
WIDE = 10.0
# The line that marks the best.
BEST = "#c0392b"
# Room above the tallest bar for its total, as a multiple of it; and the letters in a line below a bar.
TOTAL_ROOM, TICK = 1.12, 18


def figure(drawing: Drawing, groups: Iterable[Sequence[Row]], front: Sequence[Row], objective: str, title: str) -> Any:
    """The plot that is chosen.

    Args:
        drawing: its kind, and what it is drawn along.
        groups: the best rows of each combination of values, each group in order of rank.
        front: the rows of the Pareto front.
        objective: the quantity by which the rows are ranked.
        title: what was explored.

    Raises:
        ConfigError: if there is nothing to draw, or too much.
    """
    by_value = by_values(groups, drawing.names) if drawing.names else {}
    if not (by_value or (drawing.front and front)):
        raise ConfigError("there is nothing to plot: no candidate is feasible", "see which rule removes them")
    if drawing.kind == "pareto" and drawing.front:
        drawn, about = pareto(front, drawing.front)
    elif drawing.kind == "scaling":
        drawn, about = scaling(by_value, drawing.names[1:], objective)
    elif drawing.kind == "cost":
        drawn, about = costs(by_value, drawing.names[1:])
    elif drawing.kind == "parts":
        drawn, about = parts({values[0]: rows[0] for values, rows in by_value.items()}, drawing.names[0], objective)
    else:
        best = {(values[0], values[1]): rows[0][objective] for values, rows in by_value.items()}
        drawn, about = heatmap(best, (drawing.names[0], drawing.names[1]), objective)
    titled(drawn, f"{title}\n{about}", drawn.get_figwidth())
    return drawn


def scaling(by_value: dict[tuple[Any, ...], list[Row]], names: Sequence[str], objective: str) -> tuple[Any, str]:
    """The figure of time and memory against the number of accelerators, and a phrase for its title.

    Each line is one combination of the values of `names`: the best, and the spread of the best few.

    Raises:
        ConfigError: if there are too many lines.
    """
    lines = list(dict.fromkeys(values[1:] for values in by_value))
    if len(lines) > MOST_LINES:
        raise ConfigError(f"{len(lines)} lines are more than can be told apart", "name what to compare with --along")
    drawn = new_figure(7.5, 8.2)
    above, below = drawn.subplots(2, 1, sharex=True)
    best = [row for rows in by_value.values() for row in rows[:1]]
    for panel, name in zip((above, below), (TIME, MEMORY), strict=True):
        size, label = scale(name, [row[name] for row in best])
        panel.set_ylabel(label)
        for place, line in enumerate(lines):
            groups = sorted(
                (rows for values, rows in by_value.items() if values[1:] == line), key=lambda rows: rows[0][SIZE]
            )
            _band(panel, groups, (name, size), (place, len(lines)), words(names, line) or "best")
        if name == TIME:
            _ideal(panel, best, size)
    above.set(xscale="log", yscale="log")
    below.set(xlabel="number of accelerators")
    below.set_ylim(bottom=0)
    log_ticks(above.yaxis)
    sizes = sorted({row[SIZE] for row in best})
    labeled_sizes = sizes[:: -(-len(sizes) // 10)]
    below.set_xticks(labeled_sizes, [f"{number:,.0f}" for number in labeled_sizes])
    below.minorticks_off()
    grid(above, below)
    drawn.legend(*above.get_legend_handles_labels(), ncols=2, **LEGEND)
    top = max(len(rows) for rows in by_value.values())
    return drawn, f"best by {axis_label(objective)}; with the spread of the best {top} of each size"


def costs(by_value: dict[tuple[Any, ...], list[Row]], names: Sequence[str]) -> tuple[Any, str]:
    """The figure of cost against training time, and a phrase for its title.

    Each line is one combination of the values of `names`, each point a number of accelerators.

    Raises:
        ConfigError: if no price is known, or if there are too many lines.
    """
    lines = dict[tuple[Any, ...], list[Row]]()
    for values, rows in by_value.items():
        lines.setdefault(values[1:], []).extend(row for row in rows[:1] if COST in row)
    if len(lines) > MOST_LINES or not any(lines.values()):
        raise ConfigError(
            "there is no price, or there are more lines than can be told apart", "give --cloud NAME, or --along"
        )
    drawn = new_figure(7.5, 5.8)
    panel = drawn.subplots()
    priced = [row for rows in lines.values() for row in rows]
    (days, time_label), (money, cost_label) = (scale(name, [row[name] for row in priced]) for name in (TIME, COST))
    for place, (line, rows) in enumerate(lines.items()):
        ordered = sorted(rows, key=lambda row: row[SIZE])
        x, y = [row[TIME] / days for row in ordered], [row[COST] / money for row in ordered]
        panel.plot(x, y, color=LINE_COLORS[place % len(LINE_COLORS)], marker=MARKERS[place % len(MARKERS)], markersize=5,
                   linestyle=DASHES[place // len(LINE_COLORS)], label=(words(names, line) or "best") + ("" if rows else ": no price"))  # fmt: skip
        for row, *point in zip(ordered, x, y, strict=True):
            panel.annotate(f"{row[SIZE]:,.0f}", point, (0, 5), textcoords="offset points", ha="center", fontsize=8)
    panel.set(xscale="log", xlabel=time_label, ylabel=cost_label)
    panel.set_ylim(0, TOTAL_ROOM * max(row[COST] for row in priced) / money)
    log_ticks(panel.xaxis)
    grid(panel)
    drawn.legend(*panel.get_legend_handles_labels(), ncols=2, **LEGEND)
    return drawn, "the fastest mapping of each number of accelerators (at the points)"


def _band(
    panel: Any, groups: Sequence[Sequence[Row]], scaled: tuple[str, float], place_of: tuple[int, int], label: str
) -> None:
    """Draws the best and the spread of one line; `place_of` has its place and the number of lines.

    If too many bands would overlap, bars of different widths show the spread.
    """
    (name, size), (place, lines) = scaled, place_of
    color = LINE_COLORS[place % len(LINE_COLORS)]
    x = [rows[0][SIZE] for rows in groups]
    values = [[row[name] / size for row in rows] for rows in groups]
    low, high = [min(group) for group in values], [max(group) for group in values]
    best = [group[0] for group in values]
    if name == MEMORY and lines > MOST_BANDS:
        panel.vlines(x, low, high, color=color, linewidth=1.5 + 2.5 * (lines - 1 - place), alpha=0.6)
    else:
        panel.fill_between(x, low, high, color=color, alpha=0.2, linewidth=0)
    panel.plot(x, best, color=color, marker=MARKERS[place % len(MARKERS)], markersize=5,
               linestyle=DASHES[place // len(LINE_COLORS)], label=label)  # fmt: skip


def _ideal(panel: Any, best: Sequence[Row], size: float) -> None:
    """Draws the ideal line: the best time of the smallest machine, divided by the growth in accelerators."""
    first = min(best, key=lambda row: (row[SIZE], row[TIME]))
    ends = [first[SIZE], max(row[SIZE] for row in best)]
    times = [first[TIME] * first[SIZE] / end / size for end in ends]
    panel.plot(
        ends, times, color="0.5", linestyle=":", linewidth=1.2, label="ideal: twice the accelerators, half the time"
    )


def parts(best: dict[Any, Row], name: str, objective: str) -> tuple[Any, str]:
    """The figure of the parts of a step for the best candidate of each value, and a phrase for its title.

    Raises:
        ConfigError: if there are too many bars.
    """
    if len(best) > MOST_BARS:
        raise ConfigError(f"{len(best)} bars are too many to read", f"sweep {name} in larger steps")
    rows, has_many_bars = list(best.values()), len(best) > 8
    drawn = new_figure(max(7.5, 0.62 * len(best) + 3.0), 8.6)
    above, below = drawn.subplots(2, 1, sharex=True, height_ratios=(2, 3))
    whole = np.array([row[STEP] for row in rows])
    size, label = scale(STEP, whole)
    if whole.max() > WIDE * whole.min():
        above.plot(range(len(rows)), whole / size, color="black", marker="o", label="_step")
        above.set_yscale("log")
        log_ticks(above.yaxis)
    else:
        stack(above.bar, "bottom", range(len(rows)), rows, [size] * len(rows), width=0.7)
        above.set_ylim(0, TOTAL_ROOM * whole.max() / size)
    for place, time in enumerate(whole / size):
        above.annotate(
            human.digits(float(time), 3), (place, time), (0, 3), textcoords="offset points", ha="center", fontsize=9
        )
    stack(below.bar, "bottom", range(len(rows)), rows, whole / 100, width=0.7)
    above.set_ylabel(label)
    below.set(ylabel="share of the step (%)", ylim=(0, 100))
    below.set_xlabel(f"{axis_label(name)}, with the degrees of the best that are not 1")
    labels = [
        f"{told(name, value)}  ({short_degrees(row)})"
        if has_many_bars
        else f"{told(name, value)}\n{fill(short_degrees(row), TICK)}"
        for value, row in best.items()
    ]
    how = {"rotation": 60, "ha": "right"} if has_many_bars else {"rotation": 0, "ha": "center"}
    below.set_xticks(range(len(rows)), labels, fontsize=9, rotation_mode="anchor", **how)
    grid(above, below, axis="y")
    drawn.legend(*below.get_legend_handles_labels(), ncols=3, **LEGEND)
    return drawn, f"best of each by {axis_label(objective)} ({SHORT_DEGREES})"


def heatmap(best: dict[tuple[Any, Any], float], names: tuple[str, str], objective: str) -> tuple[Any, str]:
    """The figure of the best value of each pair of swept values as a color, and a phrase for its title."""
    columns, rows = (sorted({pair[side] for pair in best}, key=in_order) for side in (0, 1))
    size, label = scale(objective, best.values())
    values = np.full((len(rows), len(columns)), np.nan)
    for (x, y), value in best.items():
        values[rows.index(y), columns.index(x)] = value / size
    low, high = np.nanmin(values), np.nanmax(values)
    drawn = new_figure(min(11.0, max(6.5, 0.75 * len(columns) + 2.5)), min(9.0, max(4.5, 0.5 * len(rows) + 2.2)))
    panel = drawn.subplots()
    panel.patch.set(hatch="///", edgecolor="0.75", facecolor="white")
    norm = "log" if low > 0 and high > WIDE * low else "linear"
    shown = panel.imshow(values, origin="lower", aspect="auto", cmap="viridis", norm=norm)
    ticks(panel.xaxis, [told(names[0], value) for value in columns], rotation=45, ha="right", rotation_mode="anchor")
    ticks(panel.yaxis, [told(names[1], value) for value in rows])
    panel.set(xlabel=axis_label(names[0]), ylabel=axis_label(names[1]))
    best_pair = (max if more_is_better(objective) else min)(best, key=best.__getitem__)
    _numbers(panel, shown, values, (rows.index(best_pair[1]), columns.index(best_pair[0])))
    bar = drawn.colorbar(shown, ax=panel, label=label)
    if norm == "log":
        log_ticks(bar.ax.yaxis)
    empty = "; hatched: nothing is feasible" if np.isnan(values).any() else ""
    return drawn, f"the best mapping of each pair, the best of all starred{empty}"


def _numbers(panel: Any, shown: Any, values: Any, best_cell: tuple[int, int]) -> None:
    """Writes the value into each cell if there is room, and a star into the best cell."""
    has_numbers = values.size <= MOST_NUMBERS
    for (y, x), value in np.ndenumerate(values):
        is_best = (y, x) == best_cell
        if not np.isnan(value) and (has_numbers or is_best):
            text = f"{human.digits(float(value), 3)}{' *' if is_best else ''}" if has_numbers else "*"
            is_dark = shown.norm(value) < 0.55
            panel.text(x, y, text, ha="center", va="center", fontsize=8 if has_numbers else 16, color="white" if is_dark else "black",
                       fontweight="bold" if is_best else "normal")  # fmt: skip


def pareto(front: Sequence[Row], names: tuple[str, str]) -> tuple[Any, str]:
    """The figure of the Pareto front of two quantities, and a phrase for its title."""
    rows = sorted(front, key=lambda row: (row[names[0]], row[names[1]]))
    drawn = new_figure(7.5, 5.4)
    panel = drawn.subplots()
    sizes, labels = zip(*(scale(name, [row[name] for row in rows]) for name in names), strict=True)
    x, y = ([row[name] / size for row in rows] for name, size in zip(names, sizes, strict=True))
    panel.plot(x, y, color="0.6", linewidth=1, drawstyle="steps-post")
    panel.plot(x, y, color=LINE_COLORS[0], marker="o", markersize=6, linestyle="none", label="Pareto front")
    for place, side in ((0, "left"), (-1, "right"))[: len(rows)]:
        panel.annotate(short_degrees(rows[place]), (x[place], y[place]), xytext=(0, 9), textcoords="offset points",
                       fontsize=8, ha=side, bbox=LABEL_BOX)  # fmt: skip
    panel.margins(0.1)
    panel.set(xlabel=labels[0], ylabel=labels[1])
    grid(panel)
    told_of = f"at the ends: degrees that are not 1 ({SHORT_DEGREES})"
    return drawn, f"{len(rows)} mappings than which none is as good in both; {told_of}"


def distribution(bins: Sequence[tuple[float, float, int]], objective: str, best: float, title: str) -> Any:
    """How many feasible candidates have an objective in each bin; a vertical line marks the best.

    Raises:
        ConfigError: if no candidate is feasible.
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
    panel.set_ylim(0, TOTAL_ROOM * max(counts))
    panel.axvline(best / size, color=BEST, linewidth=1.5)
    panel.annotate("the best", (best / size, 0.97), xycoords=("data", "axes fraction"), xytext=(5, 0), va="top",
                   textcoords="offset points", fontsize=9, color=BEST)  # fmt: skip
    panel.set(xlabel=label, ylabel="feasible candidates")
    panel.yaxis.set_major_formatter("{x:,.0f}")
    grid(panel, axis="y")
    ranked = f"{sum(counts):,} feasible candidates by {axis_label(objective)}"
    titled(drawn, f"{title}\n{ranked}; the best: {human.value(best, unit_of(objective))}", drawn.get_figwidth())
    return drawn
