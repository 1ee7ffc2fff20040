"""Several configurations side by side: results, inputs that differ, and the parts of a step."""

from __future__ import annotations

from collections.abc import Sequence

from amped.estimation.comparison import inputs_that_differ
from amped.estimation.estimation import Estimation
from amped.report import human
from amped.report.page.content import Number, Picture, Plain, Section, Table, said, table
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
    """A sentence: the time of a step of each configuration, and how much longer than the shortest."""
    least = min(e["step_time"] for e in estimations)
    times = [
        f"{letter} {human.duration(time)}" + (f" ({human.percent(time / least - 1, 0)} more)" if time > least else "")
        for letter, time in zip(LETTERS, (e["step_time"] for e in estimations), strict=False)
    ]
    return f"A step takes: {', '.join(times)}."


def _results(estimations: Sequence[Estimation]) -> Table:
    """The results of `HEADLINE`, a column for each configuration."""
    results = [numbers(e, place) for place, e in enumerate(estimations)]
    columns = ["name|result", *LETTERS[: len(results)]]
    rows: list[list[Plain | Number]] = [
        [results[0][name].label, *(by_name[name] for by_name in results)] for name in HEADLINE
    ]
    return table("Results", columns, rows)


def _inputs(estimations: Sequence[Estimation]) -> Table:
    """The inputs that are not the same in all configurations, a column for each configuration."""
    first, *others = estimations
    differences = [{d.name: d for d in inputs_that_differ(first, other)} for other in others]
    rows: list[list[Plain]] = []
    for name, d in {name: d for by_name in differences for name, d in by_name.items()}.items():
        values = [d.one, *(by_name[name].other if name in by_name else d.one for by_name in differences)]
        texts = ("-" if value is None else human.value(value, d.unit) for value in values)
        rows.append([name.replace("_", " "), d.kind, *texts])
    return table("Inputs that differ", ("name|input", "kind", *LETTERS[: len(estimations)]), rows)
