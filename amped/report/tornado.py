"""A tornado plot: how a result changes with each parameter, the largest effect on top."""

from __future__ import annotations

from typing import Any

from amped.report import human, plots
from amped.report.axes_values import axis_label
from amped.report.elasticities import change, elasticity
from amped.sensitivities.effects import Effect, Sensitivity

# The look of each kind of parameter and of each side: other colors than those of the parts of a step, and hatches for print in gray.
LOOKS = {
    "mapping": ("#D55E00", "//"), "system": ("#56B4E9", ".."), "accelerator": ("#009E73", ""), "model": ("#CC79A7", "xx"),
    "experiment": ("#dddddd", "--"), "smaller value": ("#dddddd", ""), "larger value": ("#888888", "//"),
}  # fmt: skip
WIDTH, ROW, FRAME = 9.0, 0.36, 1.0
# Room for the labels beside the longest bar, as a share of the span of all bars.
MARGIN = 0.3


def tornado_plot(analysis: Sensitivity, top: int) -> bytes:
    """Elasticities and changes, as a PNG."""
    return plots.image(tornado_figure(analysis, top), "png")


def tornado_figure(analysis: Sensitivity, top: int) -> Any:
    """Elasticities, and below them the changes by neighboring values, the largest `top` of each, as a figure."""
    drawn = ((_elasticities, analysis.elasticities[:top]), (_changes, analysis.changes[:top]))
    kinds = [(draw, effects) for draw, effects in drawn if effects]
    heights = [FRAME + ROW * len(effects) for _, effects in kinds] or [FRAME]
    figure = plots.new_figure(WIDTH, sum(heights))
    panels = figure.subplots(len(heights), 1, height_ratios=heights, squeeze=False)[:, 0]
    for panel, (draw, effects) in zip(panels, kinds, strict=False):
        draw(panel, analysis, effects)
    if not kinds:
        plots.nothing(panels[0], f"nothing that was varied changes {axis_label(analysis.of)}")
    plots.titled(
        figure, f"{analysis.title}\n{axis_label(analysis.of)} {human.value(analysis.value, analysis.unit)}", WIDTH
    )
    return figure


def _elasticities(panel: Any, analysis: Sensitivity, effects: list[Effect]) -> None:
    """Draws one bar for each parameter; the color shows the kind of the parameter."""
    sizes = [e.elasticity or 0.0 for e in effects]
    for place, (e, size) in enumerate(zip(effects, sizes, strict=True)):
        text = elasticity(e) + ("" if e.smooth is not False else " (bends)")
        _bar(panel, size, place, text, 0.7, e.kind)
    _frame(panel, effects, sizes, f"elasticity of {axis_label(analysis.of)}")


def _changes(panel: Any, analysis: Sensitivity, effects: list[Effect]) -> None:
    """Draws two thin bars per parameter: for its next smaller and larger value, or for the extremes of a list."""
    sizes = []
    for place, e in enumerate(effects):
        trials = [e.told[0], e.told[-1]] if len(e.told) > 1 else e.told  # those of the smallest and the largest value
        for trial, offset in zip(trials, (-0.19, 0.19) if len(trials) > 1 else (0.0,), strict=True):
            side = "smaller" if trial.value < e.value else "larger"
            sizes.append(e.change(trial) * (100 if e.base else 1))
            text = f"{human.value(trial.value, e.unit)}: {change(analysis, e, trial)}"
            _bar(panel, sizes[-1], place + offset, text, 0.36, f"{side} value")
    _frame(panel, effects, sizes, f"change of {axis_label(analysis.of)} ({'%' if effects[0].base else analysis.unit})")


def _bar(panel: Any, size: float, place: float, text: str, height: float, label: str) -> None:
    """Draws a bar and a text beyond its end."""
    color, hatch = LOOKS[label]
    panel.barh(place, size, height, label=label, facecolor=color, hatch=hatch, **plots.EDGE)
    side, gap = ("left", 4) if size >= 0 else ("right", -4)
    panel.annotate(text, (size, place), (gap, 0), textcoords="offset points", ha=side, va="center", fontsize=8)


def _frame(panel: Any, effects: list[Effect], sizes: list[float], title: str) -> None:
    """Writes the names at the side, the largest effect on top, and leaves room for the texts beside the bars."""
    names = [f"{human.label(e.name)}  {human.value(e.value, e.unit)}" for e in effects]
    panel.set_yticks(range(len(effects)), names, fontsize=9)
    low, high = min(0.0, *sizes), max(0.0, *sizes)
    room = MARGIN * ((high - low) or 1.0)
    panel.set(xlim=(low - room * (low < 0), high + room * (high > 0)), ylim=(len(effects) - 0.4, -0.6))
    panel.axvline(0.0, color="black", linewidth=0.8)
    panel.set_xlabel(title, fontsize=9)
    handles, labels = plots.once(panel)
    panel.legend(handles, labels, fontsize=8, ncols=len(labels), frameon=False, borderaxespad=0.2, loc="lower right",
                 bbox_to_anchor=(1, 1))  # fmt: skip
