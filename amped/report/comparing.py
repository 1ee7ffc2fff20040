"""Two configurations side by side, as a table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.table import Table

from amped.estimation.comparison import Difference, inputs_that_differ, results, step_parts
from amped.estimation.estimation import FORMAT, PRECISION, Estimation
from amped.estimation.one_list import costs_not_compared
from amped.report import human
from amped.report.screen import heading
from amped.report.tables import Part, drawn, table

# The results that a change is judged by, and the most lines that are shown of them and of the parts of a step.
ASKED = (
    "step_time",
    "training_time",
    "cost",
    "model_flops_utilization",
    "memory_per_accelerator_bytes",
    "fits_in_memory",
)
MOST_ROWS = 12
ORDER = ("experiment", "model", "mapping", "system", "accelerator", "formulas")


@drawn
def comparison(one: Estimation, other: Estimation) -> Iterator[Part]:
    """The inputs that differ, by category; the parts of a step, largest change first; ratios of the other results."""
    differences = inputs_that_differ(one, other)
    for letter, e in (("A", one), ("B", other)):
        yield f"{letter}  {e.scenario.title}", "bold"
        yield from ((notice, "yellow") for notice in e.scenario.sources.preliminary)
    names = ", ".join(d.name for d in differences if d.kind == "experiment")
    if names:
        yield f"Not the same experiment: {names} differ, not only the way to run it.", "bold yellow"
    yield ""
    inputs = ((d.name, d.kind, *_both_values(d)) for d in sorted(differences, key=lambda d: ORDER.index(d.kind)))
    yield _table(("input", "kind", "A", "B"), inputs) if differences else "The inputs are the same."
    steps = step_parts(one, other)
    yield f"\n{_pace(one['step_time'], other['step_time'])}\n", "bold"
    yield _table(
        ("part of a step", "A", "B", "B / A", "B - A"),
        ((d.name, *_both_values(d), _ratio(d), _change(d)) for d in steps),
    )
    yield ""
    parts = {d.name for d in steps}
    other_results = [d for d in results(one, other) if d.name not in parts and (d.one or d.other)]
    reason = costs_not_compared((one, other))
    yield _table(("result", "A", "B", "B / A"), ((d.name, *_both_values(d), _ratio(d, reason)) for d in other_results))
    yield from [(reason, "yellow")] if reason else []


@drawn
def changed(one: Estimation, other: Estimation) -> Iterator[Part]:
    """A dozen lines on what a change does: the results that most users ask for, and the parts of a step that move."""
    yield from heading(one)
    yield from ((notice, "yellow") for notice in other.scenario.sources.preliminary)
    yield f"{', '.join(_inputs_in_words(one, other)) or 'the change is what it was'}\n", "bold"
    by_name = {d.name: d for d in results(one, other)}
    rows = [by_name[name] for name in ASKED if name in by_name]
    rows += [d for d in step_parts(one, other) if d.change][: MOST_ROWS - len(rows)]
    reason = costs_not_compared((one, other))
    yield _table(
        ("result", "now", "then", "then / now"),
        ((human.label(d.name), *_both_values(d), _ratio(d, reason)) for d in rows),
    )
    yield from [(reason, "yellow")] if reason else []


def _inputs_in_words(one: Estimation, other: Estimation) -> Iterator[str]:
    """Each changed input, from which value to which. Formats of products have the names that users give them."""
    inputs = [d for d in inputs_that_differ(one, other) if d.name in other.scenario.question.overrides]
    if one.precision != other.precision:
        yield f"{human.label(PRECISION)} {one.precision} -> {other.precision}"
        inputs = [d for d in inputs if d.name not in FORMAT]
    yield from (f"{human.label(d.name)} {' -> '.join(_both_values(d))}" for d in inputs)


def _pace(one: float, other: float) -> str:
    """A sentence: how much faster or slower a step of the other configuration is."""
    if one == other:
        return "A step takes as long in both."
    times, word = (one / other, "fast") if other < one else (other / one, "long")
    return f"A step of B is {times:.3g} times as {word} as one of A."


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """A table with the kind of each input aligned as text; every column may wrap."""
    return table(heads, rows, text=("kind",), wrapped=heads)


def _both_values(difference: Difference) -> list[str]:
    """Both values with their unit; a utilization in percent."""
    values = (difference.one, difference.other)
    return ["-" if value is None else human.result(difference.name, value, difference.unit) for value in values]


def _ratio(difference: Difference, no_costs: str = "") -> str:
    """The ratio of both values as text; empty for a switch, where there is no ratio, and for costs that are not compared."""
    if difference.name == "cost" and no_costs:
        return ""
    return "" if difference.ratio is None or difference.unit == "boolean" else f"{difference.ratio:.3g}"


def _change(part: Difference) -> str:
    """The change of a time from A to B with its sign; 0 if there is none."""
    return f"{'-' if part.change < 0 else '+'}{human.value(abs(part.change), 's')}" if part.change else "0"
