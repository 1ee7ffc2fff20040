"""What a quick search finds: the best mapping on fewer and on more accelerators, and what is best in time, cost and energy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from amped.base.errors import AmpedError, one_line
from amped.configuring.scenario import Scenario
from amped.drafting.each_value import Line, lines
from amped.estimation.estimation import Estimation
from amped.exploration.answer import explored
from amped.exploration.request import Options
from amped.exploration.results import Row
from amped.report import human
from amped.report.axes_values import unit_of
from amped.report.page.content import SHORT_HEADS, Picture, Plain, Section, Table, of_results, said, table
from amped.report.screen import mapping_in_words

SIZE, SPACE = "number_of_accelerators", "quick"
SIZES = f"{SIZE}|accelerators"
# The sizes that are tried, as multiples of that of the estimate.
MULTIPLES = (0.25, 0.5, 1.0, 2.0, 4.0)
COMPARED = ("training_time", "cost", "energy")
# Gives the scenario of some values, with its mapping left to a search.
Asks = Callable[[Mapping[str, object]], Scenario]


@dataclass(frozen=True)
class QuickSearch:
    """The result of a quick search around an estimate.

    Attributes:
        lines: the best mapping of each size.
        fronts: for cost and for energy, the Pareto front of that result and of training time over all sizes.
        problem: why there is no result, in words.
        given: settings of the mapping that a row of a search lacks if the user gave them.
    """

    lines: Sequence[Line] = ()
    fronts: Mapping[str, Sequence[Row]] | None = None
    problem: str = ""
    given: Mapping[str, float | str] = field(default_factory=dict)


def quick_search(e: Estimation, asks: Asks) -> QuickSearch:
    """Searches the best mapping of each size, and the Pareto fronts over all sizes that have one."""
    sizes = [
        float(int(size)) for size in (multiple * e[SIZE] for multiple in MULTIPLES) if size >= 1 and size == int(size)
    ]
    try:
        best = lines(asks, {SIZE: sizes}, Options(top=1, space=SPACE))
        feasible_sizes = [line.values[SIZE] for line in best if line.feasible]
        fronts = {
            result: explored(asks({}), Options(top=1, space=SPACE, pareto=("training_time", result)), {SIZE: feasible_sizes}).front
            for result in ("cost", "energy") if feasible_sizes and not e.plan.lacking.get(result)
        }  # fmt: skip
    except AmpedError as error:
        return QuickSearch(problem=one_line(error))
    recomputation = "activation_recomputation"
    return QuickSearch(best, fronts, given={"zero_stage": e["zero_stage"], recomputation: e.choices[recomputation]})


def scaling(e: Estimation, search: QuickSearch) -> Section:
    """The section on the best mapping of each size: time, cost, energy, utilization and memory."""
    title = "Scaling over accelerators"
    if search.problem:
        return Section("scaling", title, said(f"There is no search here: {search.problem}"))
    sentence = _scaling_in_words(search.lines)
    how = {"x": SIZE, "y": "training_time", "name": "mapping", "line": True, "logarithmic": ["x", "y"]}
    rows = _by_size(search.lines)
    feasible = replace(rows, rows=[row for row in rows.rows if row[1] is not None])
    picture = Picture("scaling", title, "points", sentence, rows, how, feasible)
    given = (
        f"This estimate has {human.digits(e[SIZE])} accelerators. Every size has the best mapping of a quick search."
    )
    lacks = [f"{human.digits(_size(line))} accelerators: {line.lacks}." for line in search.lines if line.lacks]
    return Section("scaling", title, said(sentence, given, *lacks), pictures=[picture])


def _size(line: Line) -> float:
    """The number of accelerators of a line."""
    return float(str(line.values[SIZE]))


def _by_size(lines: Sequence[Line]) -> Table:
    """A table with a row for each number of accelerators: its best mapping with results, or why no mapping fits."""
    names = (*COMPARED, *SHORT_HEADS)
    rows: list[list[Plain]] = []
    for line in lines:
        e = line.estimation if line.feasible else None
        values = [e[name] if e is not None and name in e else None for name in names]
        rows.append([_size(line), *values, mapping_in_words(e) if e is not None else line.lacks])
    return table("The best mapping of each size", (SIZES, *of_results(names), "mapping"), rows)


def _scaling_in_words(lines: Sequence[Line]) -> str:
    """A sentence: how much shorter training is on the largest machine than on the smallest with a mapping that fits."""
    feasible = [(line, line.estimation) for line in lines if line.feasible and line.estimation is not None]
    if len(feasible) < 2:
        return "No more than one of the sizes has a mapping that fits."
    (small, smallest), (large, largest) = feasible[0], feasible[-1]
    size_ratio, speedup = _size(large) / _size(small), smallest["training_time"] / largest["training_time"]
    return (f"From {human.digits(_size(small))} to {human.digits(_size(large))} accelerators, {human.digits(size_ratio)} times as many, "
            f"training takes {human.duration(largest['training_time'])} instead of {human.duration(smallest['training_time'])}: "
            f"{human.digits(speedup, 3)} times as fast.")  # fmt: skip


def pareto(search: QuickSearch) -> Section:
    """The section on the Pareto fronts of training time with cost, and with energy."""
    title = "Best in time, cost and energy"
    if not search.fronts:
        sentence = search.problem or "neither the cost nor the energy of this machine is known, or nothing fits"
        return Section("pareto", title, said(f"There is no Pareto front here: {sentence}."))
    pictures = [_front(other, [{**search.given, **row} for row in rows]) for other, rows in search.fronts.items()]
    sentence = "Each point is a mapping that no other of a quick search over all sizes beats in both results."
    return Section("pareto", title, said(sentence), pictures=pictures)


def _front(other: str, rows: Sequence[Row]) -> Picture:
    """The Pareto front of training time and another result."""
    names = [*dict.fromkeys(("training_time", other, *COMPARED, "memory_per_accelerator_bytes"))]
    points = [[row[SIZE], *map(row.get, names), mapping_in_words(row)] for row in rows]
    caption = f"Pareto front of training time and {other}"
    ends = [
        f"{human.duration(row['training_time'])} for {human.value(row[other], unit_of(other))}"
        for row in (rows[0], rows[-1])
    ]
    sentence = f"Training time against {other}: from {ends[0]} to {ends[1]}, {len(rows)} mappings."
    how = {"x": "training_time", "y": other, "name": "mapping", "group": SIZE, "logarithmic": []}
    values = table(caption, (SIZES, *of_results(names), "mapping"), points)
    return Picture(f"pareto-{other}", f"Training time and {other}", "points", sentence, values, how)
