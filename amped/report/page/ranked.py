"""What a search found: how many mappings there are, the best of them with the parts of their steps, and the Pareto front."""

from __future__ import annotations

from amped.base.aliases import aliases
from amped.estimation.parts import STEP_PARTS
from amped.exploration.answer import Exploration
from amped.exploration.results import Row
from amped.report import human
from amped.report.axes_values import axis_label
from amped.report.page.content import SHORT_HEADS, Picture, Plain, Section, Table, of_results, said, table
from amped.report.plots import KINDS
from amped.report.ranking import NO_HEADROOM
from amped.report.screen import mapping_in_words
from amped.report.verdicts import kind_of


def ranked(exploration: Exploration) -> Section:
    """The ranking of a search, as `amped explore` prints it, with the steps of the best mappings as bars."""
    lines = said(tried(exploration), f"Not searched: {exploration.held}.")
    pictures = [_steps(exploration), *([_front(exploration)] if len(exploration.front) > 1 else [])]
    return Section("ranked", "The search", lines, pictures=pictures, tables=[best(exploration), *_removed(exploration)])


def tried(exploration: Exploration) -> str:
    """The numbers of tried and of feasible mappings; if none is feasible, what the nearest one needs."""
    counts = f"{exploration.candidates:,} mappings were tried, and {exploration.feasible:,} keep every rule and fit in memory."
    counts += f" {NO_HEADROOM}" if exploration.lacks_headroom else ""
    return counts if exploration.feasible else f"{counts} Of the nearest one: {exploration.needs}."


def best(exploration: Exploration) -> Table:
    """A table of the best mappings with their results."""
    by_user = map(aliases().canonical, exploration.search.sweeps.by_user)
    swept = [name for name in by_user if exploration.best and name in exploration.best[0]]
    columns = (
        *(f"{name}|{axis_label(name)}" for name in swept), "mapping",
        "step_time|step|s", "training_time|training", *of_results(SHORT_HEADS), "chunks|virtual stages",
    )  # fmt: skip
    rows = [
        (*map(row.get, swept), _in_words(exploration, row), row["step_time"], human.duration(row["training_time"]),
         *map(row.get, SHORT_HEADS), row.get("virtual_pipeline_stages", 1.0)) for row in exploration.best
    ]  # fmt: skip
    return table("The best mappings", columns, rows)


def _steps(exploration: Exploration) -> Picture:
    """A picture of the steps of the best mappings by part, side by side."""
    names = [name for name in STEP_PARTS if any(row.get(name, 0) > 0 for row in exploration.best)]
    columns = ("place", "mapping", *(f"{name}|{human.label(name)}|s" for name in names))
    rows: list[list[Plain]] = [
        [str(place), _in_words(exploration, row), *(row.get(name, 0.0) for name in names)]
        for place, row in enumerate(exploration.best, 1)
    ]
    first = exploration.best[0]
    sentence = f"The first one takes {human.duration(first['step_time'])} a step: {_in_words(exploration, first)}."
    how = {"along": "place", "values": names, "kinds": {name: KINDS[kind_of(name)] for name in names}, "lying": True,
           "head": "time of one step"}  # fmt: skip
    return Picture("steps", "Steps of the best mappings", "stacked", sentence, table("Steps", columns, rows), how)


def _front(exploration: Exploration) -> Picture:
    """A picture of the mappings that no other mapping beats in both results that the user named."""
    one, other = (objective.name for objective in exploration.search.front)
    columns = (*of_results((one, other)), "mapping")
    rows = [(row[one], row[other], _in_words(exploration, row)) for row in exploration.front]
    sentence = f"{len(rows)} mappings that no other beats in both {axis_label(one)} and {axis_label(other)}."
    how = {"x": one, "y": other, "name": "mapping", "line": True, "logarithmic": []}
    return Picture(
        "front", f"{axis_label(one)} and {axis_label(other)}", "points", sentence, table("Front", columns, rows), how
    )


def _removed(exploration: Exploration) -> list[Table]:
    """A table of the number of mappings that each rule and wish removes; empty if none is removed."""
    rows = [(name.replace("_", " "), float(number)) for name, number in exploration.removed.items()]
    removed = table("What removes mappings", ("rule", "removed|mappings that break it"), rows)
    return [removed] if rows else []


def _in_words(exploration: Exploration, row: Row) -> str:
    """The mapping of a row in words; settings that the row lacks because the user gave them are added."""
    sources = exploration.search.scenario.sources
    given = {name: value for name, value in sources.given.items() if isinstance(value, float)}
    return mapping_in_words({"zero_stage": 0.0, **sources.choices, **given, **row})
