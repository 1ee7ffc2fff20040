"""Several configurations side by side: results, inputs that differ, and the parts of a step."""

from __future__ import annotations

from collections.abc import Sequence

from amped.estimation.comparison import inputs_that_differ
from amped.estimation.estimation import Estimation
from amped.report import human
from amped.report.page.content import Column, Picture, Plain, Section, Table, plain, said, table
from amped.report.page.numbers import HEADLINE, numbers
from amped.report.page.step import parts_table

# The names of the configurations of a page, which are the most that it has.
LETTERS = "ABCDEF"


def beside(estimations: Sequence[Estimation]) -> Section:
    """The answers of all configurations in one table, and their steps as bars."""
    told = _in_words(estimations)
    letters = LETTERS[: len(estimations)]
    parts = parts_table(estimations, tuple(letters))
    names = [str(plain(row[0])) for row in parts.rows]
    kinds = {str(plain(row[0])): str(plain(row[1])) for row in parts.rows}
    columns = [Column("config", "config"), *(Column(name, name, "s") for name in names)]
    rows = [(letter, *parts.column(letter)) for letter in letters]
    picture = Picture(
        "beside", "Time of one step by part", "stacked", told, parts,
        {"along": "config", "values": names, "kinds": kinds, "lying": True, "head": "time of one step"}, table("Steps", columns, rows),
    )  # fmt: skip
    return Section(
        "beside", "Side by side", said(told), pictures=[picture], tables=[_results(estimations), _inputs(estimations)]
    )


def _in_words(estimations: Sequence[Estimation]) -> str:
    """The time of a step of each configuration, and how much longer it is than the shortest."""
    least = min(e["step_time"] for e in estimations)
    told = []
    for letter, e in zip(LETTERS, estimations, strict=False):
        more = e["step_time"] / least - 1
        told.append(
            f"{letter} {human.duration(e['step_time'])}" + (f" ({human.percent(more, 0)} more)" if more else "")
        )
    return f"A step takes: {', '.join(told)}."


def _results(estimations: Sequence[Estimation]) -> Table:
    """What is told first, of every configuration."""
    every = [numbers(e, place) for place, e in enumerate(estimations)]
    columns = [Column("name", "result"), *(Column(letter, letter) for letter in LETTERS[: len(every)])]
    return table("Results", columns, [[every[0][name].label, *(found[name] for found in every)] for name in HEADLINE])


def _inputs(estimations: Sequence[Estimation]) -> Table:
    """The inputs that are not the same in all configurations."""
    first, *others = estimations
    found = [{d.name: d for d in inputs_that_differ(first, other)} for other in others]
    every = {name: d for each in found for name, d in each.items()}
    rows: list[list[Plain]] = []
    for name, d in every.items():
        values = [d.one, *(each[name].other if name in each else d.one for each in found)]
        rows.append([name.replace("_", " "), d.kind, *("-" if v is None else human.value(v, d.unit) for v in values)])
    letters = (Column(letter, letter) for letter in LETTERS[: len(estimations)])
    return table("Inputs that differ", (Column("name", "input"), Column("kind", "kind"), *letters), rows)
