"""Several configurations side by side: results, inputs that differ, and the parts of a step."""

from __future__ import annotations

from collections.abc import Sequence

from amped.estimation.comparison import inputs_that_differ
from amped.estimation.estimation import Estimation
from amped.report import human
from amped.report.page.content import Picture, Plain, Section, Table, said, table
from amped.report.page.numbers import HEADLINE, numbers
from amped.report.page.step import parts_table

# The names of the configurations of a page, which are the most that it has.
LETTERS = "ABCDEF"


def beside(estimations: Sequence[Estimation]) -> Section:
    """The answers of all configurations in one table, and their steps as bars."""
    sentence = _in_words(estimations)
    letters = LETTERS[: len(estimations)]
    parts = parts_table(estimations, tuple(letters))
    kinds = dict(zip(parts.column("part"), parts.column("kind"), strict=True))
    columns = ["config", *(f"{name}||s" for name in kinds)]
    rows = [(letter, *parts.column(letter)) for letter in letters]
    picture = Picture(
        "beside", "Time of one step by part", "stacked", sentence, parts,
        {"along": "config", "values": [*kinds], "kinds": kinds, "lying": True, "head": "time of one step"}, table("Steps", columns, rows),
    )  # fmt: skip
    return Section(
        "beside",
        "Side by side",
        said(sentence),
        pictures=[picture],
        tables=[_results(estimations), _inputs(estimations)],
    )


def _in_words(estimations: Sequence[Estimation]) -> str:
    """The time of a step of each configuration, and how much longer it is than the shortest."""
    least = min(e["step_time"] for e in estimations)
    times = [
        f"{letter} {human.duration(time)}" + (f" ({human.percent(time / least - 1, 0)} more)" if time > least else "")
        for letter, time in zip(LETTERS, (e["step_time"] for e in estimations), strict=False)
    ]
    return f"A step takes: {', '.join(times)}."


def _results(estimations: Sequence[Estimation]) -> Table:
    """What is told first, of every configuration."""
    results = [numbers(e, place) for place, e in enumerate(estimations)]
    columns = ["name|result", *LETTERS[: len(results)]]
    return table("Results", columns, [[results[0][n].label, *(of_one[n] for of_one in results)] for n in HEADLINE])


def _inputs(estimations: Sequence[Estimation]) -> Table:
    """The inputs that are not the same in all configurations."""
    first, *others = estimations
    differences = [{d.name: d for d in inputs_that_differ(first, other)} for other in others]
    rows: list[list[Plain]] = []
    for name, d in {name: d for of_one in differences for name, d in of_one.items()}.items():
        values = [d.one, *(of_one[name].other if name in of_one else d.one for of_one in differences)]
        rows.append([name.replace("_", " "), d.kind, *("-" if v is None else human.value(v, d.unit) for v in values)])
    return table("Inputs that differ", ("name|input", "kind", *LETTERS[: len(estimations)]), rows)
