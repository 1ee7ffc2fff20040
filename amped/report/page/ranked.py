"""What a search found: how many mappings there are, the best of them with the parts of their steps, and the Pareto front."""

from __future__ import annotations

from collections.abc import Sequence

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


def ranked(found: Exploration) -> Section:
    """The ranking of a search, as `amped explore` prints it, with the steps of the best mappings as bars."""
    lines = said(tried(found), f"Not searched: {found.held}.")
    pictures = [_steps(found), *([_front(found)] if len(found.front) > 1 else [])]
    return Section("ranked", "The search", lines, pictures=pictures, tables=[best(found), *_removed(found)])


def tried(found: Exploration) -> str:
    """How many mappings were tried and how many fit; where none does, what the nearest one needs."""
    told = f"{found.candidates:,} mappings were tried, and {found.feasible:,} keep every rule and fit in memory."
    told += f" {NO_HEADROOM}" if found.lacks_headroom else ""
    return told if found.feasible else f"{told} Of the nearest one: {found.needs}."


def best(found: Exploration) -> Table:
    """The best mappings with their results."""
    columns = (
        *(f"{name}|{axis_label(name)}" for name in _swept(found)), "mapping",
        "step_time|step|s", "training_time|training", *of_results(SHORT_HEADS), "chunks|virtual stages",
    )  # fmt: skip
    rows = [
        (*(row.get(name) for name in _swept(found)), _in_words(found, row), row["step_time"], human.duration(row["training_time"]),
         *map(row.__getitem__, SHORT_HEADS), row.get("virtual_pipeline_stages", 1.0)) for row in found.best
    ]  # fmt: skip
    return table("The best mappings", columns, rows)


def _swept(found: Exploration) -> Sequence[str]:
    """The names that the user sweeps."""
    own = found.search.sweeps.by_user if found.search else {}
    return [name for name in map(aliases().canonical, own) if found.best and name in found.best[0]]


def _steps(found: Exploration) -> Picture:
    """The steps of the best mappings by part, side by side."""
    names = [name for name in STEP_PARTS if any(row.get(name, 0) > 0 for row in found.best)]
    columns = ("place", "mapping", *(f"{n}|{human.label(n)}|s" for n in names))
    rows: list[list[Plain]] = [
        [str(place), _in_words(found, row), *(row.get(name, 0.0) for name in names)]
        for place, row in enumerate(found.best, 1)
    ]
    first = found.best[0]
    told = f"The first one takes {human.duration(first['step_time'])} a step: {_in_words(found, first)}."
    how = {"along": "place", "values": names, "kinds": {n: KINDS[kind_of(n)] for n in names}, "lying": True,
           "head": "time of one step"}  # fmt: skip
    return Picture("steps", "Steps of the best mappings", "stacked", told, table("Steps", columns, rows), how)


def _front(found: Exploration) -> Picture:
    """The mappings that no other beats in both results that the user named."""
    one, other = (objective.name for objective in found.search.front) if found.search else ("", "")
    columns = (*of_results((one, other)), "mapping")
    rows = [(row[one], row[other], _in_words(found, row)) for row in found.front]
    told = f"{len(rows)} mappings that no other beats in both {axis_label(one)} and {axis_label(other)}."
    how = {"x": one, "y": other, "name": "mapping", "line": True, "logarithmic": []}
    return Picture(
        "front", f"{axis_label(one)} and {axis_label(other)}", "points", told, table("Front", columns, rows), how
    )


def _removed(found: Exploration) -> list[Table]:
    """How many mappings each rule and wish removes."""
    if not found.removed:
        return []
    rows = [(name.replace("_", " "), float(number)) for name, number in found.removed.items()]
    return [table("What removes mappings", ("rule", "removed|mappings that break it"), rows)]


def _in_words(found: Exploration, row: Row) -> str:
    """The mapping of a row; the sharding and the recomputation that somebody gave are not in it."""
    given: Row = {"zero_stage": 0.0}
    if found.search:
        sources = found.search.scenario.sources
        given |= sources.choices
        given |= {name: value for name, value in sources.given.items() if isinstance(value, float)}
    return mapping_in_words({**given, **row})
