"""A sweep as one table: for each value its best mapping with time, cost, energy, utilization and memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from amped.base.aliases import aliases
from amped.configuring.sources import LookedUp
from amped.drafting.each_value import Line
from amped.estimation.estimation import Estimation
from amped.estimation.one_list import costs_not_compared
from amped.estimation.order import memory_left, range_of, tied
from amped.report import human
from amped.report.axes_values import axis_label, scale
from amped.report.ranking import OTHER_BATCHES
from amped.report.rows_formats import as_csv as rows_as_csv
from amped.report.screen import mapping_in_words, plus_minus
from amped.report.tables import Part, drawn, table
from amped.tables.table_files import COMPANIONS
from amped.theory.language.catalogue import catalogue
from amped.theory.language.quantity import ACCELERATOR, MAPPING, NETWORK, SYSTEM

PRICE, SIZE = "accelerator_price", "number_of_accelerators"
# The columns that hold names, which may be wrapped; and the least width of the column of mappings.
TEXTS = ("model", "system", "accelerator", "software")
LEAST_MAPPING = 22
# The results of a line, with the heads of their columns; the last ones are shown if somebody described the grid.
SHOWN = {"training_time": "training", "cost": "cost", "energy": "energy", "electricity_cost": "electricity",
         "carbon_emissions": "CO2", "cooling_water": "water", "model_flops_utilization": "MFU", "memory_per_accelerator_bytes": "memory"}  # fmt: skip
ALWAYS = ("training_time", "cost")
# Who compares these buys a machine: the ends of the cost, the free memory and the evidence stand in the table.
MACHINES = ("system", "accelerator")
FOR_BUYERS = {
    name: head
    for name, head in SHOWN.items()
    if name not in ("model_flops_utilization", "memory_per_accelerator_bytes")
}
# What may differ between the lines without being swept: its head, its value, and how a value is told that all share.
BESIDE: dict[str, tuple[Callable[[Estimation], str], str]] = {
    "model": (lambda e: _row_name(e, NETWORK), "{}"),
    "system": (lambda e: _row_name(e, SYSTEM), "{}"),
    "GPUs": (lambda e: human.digits(e["number_of_accelerators"]), "{} accelerators"),
    "precision": (lambda e: e.precision, "{}"),
    "software": (lambda e: _row_name(e, MAPPING), "{}"),
    "batch": (lambda e: human.digits(e["batch_size"]), "batch of {}"),
    "tokens": (lambda e: human.count(e["tokens_to_train"]), "{} tokens"),
}
# Which of these a swept quantity is, or settles.
ALSO = {"matrix_precision": "precision", "number_of_accelerators": "GPUs", "number_of_nodes": "GPUs", "batch_size": "batch",
        "tokens_to_train": "tokens"}  # fmt: skip


@drawn
def sweep(lines: Sequence[Line], objective: str, seconds: float, hint: str = "") -> Iterator[Part]:
    """The table of a sweep, the fastest and the cheapest value, and notes on prices and batches.

    Args:
        lines: the lines, in the order in which they are shown.
        objective: the quantity by which the mapping of each line is the best.
        seconds: how long the search took.
        hint: a further sentence.
    """
    varied = [name for name in lines[0].values if len({str(line.values[name]) for line in lines}) > 1]
    names = varied or list(lines[0].values)
    estimations = [line.estimation for line in lines if line.estimation]
    differing, alike = _differing_and_alike(estimations, names)
    tried = sum(line.candidates for line in lines)
    search = f" ({tried:,} candidates in {human.duration(seconds)})" if tried > len(lines) else ""
    yield f"The best mapping of each by {axis_label(objective)}{search}", "bold"
    yield f"{', '.join(alike)}\n" if alike else "", "dim"
    columns = _columns(lines, names, differing, objective)
    texts = [head for head in (*map(_head, names), *differing) if head in TEXTS]
    result = table(columns, zip(*columns.values(), strict=True), ("mapping", *texts), ("mapping", *texts))
    result.columns[-1].min_width = LEAST_MAPPING
    yield result
    yield from ((f"{_values_in_words(line, names)}: {line.lacks}", "bold red") for line in lines if line.lacks)
    yield from _verdict([line for line in lines if not line.lacks], names)
    yield from ((n, "yellow") for n in dict.fromkeys(n for e in estimations for n in e.scenario.sources.preliminary))
    yield from _notes(estimations)
    if hint:
        yield hint, "dim"


def _columns(
    lines: Sequence[Line], names: Sequence[str], differing: Sequence[str], objective: str
) -> dict[str, list[str]]:
    """The columns of the table by their heads; the values of a column have one unit, which stands in its head."""
    estimations = [line.estimation for line in lines]
    columns = {_head(name): [_value(name, line.values[name]) for line in lines] for name in names}
    columns |= {head: [BESIDE[head][0](e) if e else "-" for e in estimations] for head in differing}
    is_for_buyers = any(name in MACHINES for name in names)
    shown = FOR_BUYERS if is_for_buyers else SHOWN
    for name, head in (shown | {objective: SHOWN.get(objective) or human.label(objective)}).items():
        values = [e[name] if e is not None and name in e else None for e in estimations]
        if name in ALWAYS or values.count(None) < len(values):
            unit, cells = _column(name, values)
            columns[f"{head}\n{unit}".rstrip()] = cells
        if name == "cost" and is_for_buyers:
            columns |= _ends_of_cost(estimations)
    if is_for_buyers:
        columns |= _how_sure(estimations)
    return columns | {"mapping": [*map(_mapping, estimations)]}


def _ends_of_cost(estimations: Sequence[Estimation | None]) -> dict[str, list[str]]:
    """The column of the least and the highest cost, by the price's range and the error; none without a cost."""
    ranges = [range_of(e, "cost") if e is not None and "cost" in e else None for e in estimations]
    likely = [None if r is None else r.likely for r in ranges]
    if likely.count(None) == len(likely):
        return {}
    size, _ = scale("cost", [cost for cost in likely if cost is not None])
    ends = [None if r is None else [human.digits(end / size, 3) for end in (r.low, r.high)] for r in ranges]
    return {"low to\nhigh": ["-" if pair is None else "-".join(pair) for pair in ends]}


def _how_sure(estimations: Sequence[Estimation | None]) -> dict[str, list[str]]:
    """The columns of the free memory, the error and the evidence."""
    return {
        "memory\nfree": ["-" if e is None else human.percent(memory_left(e), 0) for e in estimations],
        "sure": ["-" if e is None else _sure(e) for e in estimations],
    }


def _sure(e: Estimation) -> str:
    """The error of the time, and the evidence for it."""
    grade = e.grade.removeprefix("validated ").removesuffix(" only")
    return f"{plus_minus(e.error_band.error_fraction)} {grade}" if e.error_band else grade


def _mapping(e: Estimation | None) -> str:
    """The mapping in words; a dash without an estimate."""
    if e is None:
        return "-"
    return mapping_in_words(e) if e["fits_in_memory"] else f"DOES NOT FIT: {mapping_in_words(e)}"


def _column(name: str, values: Sequence[float | None]) -> tuple[str, list[str]]:
    """The unit of a column, and its cells; a missing value is a dash, or says that there is no price."""
    if name == "model_flops_utilization":
        return "%", ["-" if value is None else f"{value * 100:.1f}" for value in values]
    size, label = scale(name, [value for value in values if value is not None])
    missing = "no price" if name == "cost" else "-"
    return label.partition("(")[2].rstrip(")"), [
        missing if value is None else human.digits(value / size) for value in values
    ]


def _head(name: str) -> str:
    """The head of the column of a swept name; GPUs for the number of accelerators."""
    return "GPUs" if aliases().canonical(name) == SIZE else human.label(name)


def _value(name: str, value: object) -> str:
    """A swept value as text; a number with its unit."""
    unit = catalogue()[name].mark.unit if name in catalogue() else "count"
    return human.value(value, unit) if isinstance(value, float) else str(value)


def _differing_and_alike(estimations: Sequence[Estimation], names: Sequence[str]) -> tuple[list[str], list[str]]:
    """The heads of `BESIDE` whose values differ between the lines, and the common values of the others, in words."""
    swept = {ALSO.get(aliases().canonical(name), name) for name in names}
    texts = {head: {text_of(e) for e in estimations} for head, (text_of, _) in BESIDE.items() if head not in swept}
    alike = [BESIDE[head][1].format(*values) for head, values in texts.items() if len(values) == 1 and values != {""}]
    determined = "system" if "accelerator" in swept else ""
    return [head for head, values in texts.items() if len(values) > 1 and head != determined], alike


def _row_name(e: Estimation, category: str) -> str:
    """The name of the row of a category; empty if the estimate uses none."""
    row = e.scenario.sources.rows.get(category)
    return row.name if row else ""


def _values_in_words(line: Line, names: Sequence[str]) -> str:
    """The swept values of a line as text."""
    return ", ".join(_value(name, line.values[name]) for name in names)


def _verdict(lines: Sequence[Line], names: Sequence[str]) -> Iterator[Part]:
    """Sentences on the fastest and the cheapest value, the next best one, and whether the error exceeds the difference."""
    yield ""
    for word, name in (("fastest", "training_time"), ("cheapest", "cost"), ("least energy", "energy")):
        ranked = sorted(
            ((e[name], place, e) for place, line in enumerate(lines) if (e := line.estimation) and name in e)
        )
        if len(ranked) < 2:
            continue
        if name == "cost" and (reason := costs_not_compared(e for _, _, e in ranked)):
            yield reason, "yellow"
            continue
        of_priced = f" of the {len(ranked)} with a price" if name == "cost" and len(ranked) < len(lines) else ""
        yield f"{word}{of_priced}: {_first(name, [(_values_in_words(lines[place], names), e) for _, place, e in ranked])}"


def _first(name: str, ranked: Sequence[tuple[str, Estimation]]) -> str:
    """Which is the first of a ranking in words; those that the bands do not tell apart are a tie."""
    (first, best), (second, next_best) = ranked[:2]
    ties = [ranked[place] for place in tied([e for _, e in ranked], name)]
    if len(ties) == 1:
        return f"{first} ({second} takes {human.percent(next_best[name] / best[name] - 1, 0)} more)"
    names = " or ".join(words for words, _ in ties)
    others = ", ".join(f"{words} takes {human.percent(e[name] / best[name] - 1, 0)} more" for words, e in ties[1:])
    error = max((e.error_band.error_fraction for _, e in ties if e.error_band), default=0.0)
    prices = ", and prices have a range" if name == "cost" and any(_has_range(e) for _, e in ties) else ""
    return f"{names}, a tie ({others}, but each is known within {plus_minus(error)} only{prices})"


def _has_range(e: Estimation) -> bool:
    """Whether the price of an estimate's list has a low and a high end."""
    price = e.scenario.sources.price
    return price is not None and price.low < price.high


def _notes(estimations: Sequence[Estimation]) -> Iterator[Part]:
    """The price of each accelerator and its source, or that no price is known; a note if the batches differ."""
    rows = {row.name: e for e in estimations if (row := e.scenario.sources.rows.get(ACCELERATOR))}
    for name, e in rows.items():
        if PRICE not in e:
            yield f"{name}: no price known; give it: --set {PRICE}=2.5 (USD an hour)", "yellow"
            continue
        origin, price = e.scenario.sources.origins.get(PRICE), e.scenario.sources.price
        basis = origin.row.columns.get(COMPANIONS[PRICE][0]) if isinstance(origin, LookedUp) else ""
        told = [price.in_words if price else "given", *([str(basis)] if basis else [])]
        yield f"price of {name}: {human.value(e[PRICE], 'dollar/s')}, {'; '.join(told)}", "dim"
    if len({e["batch_size"] for e in estimations}) > 1:
        yield OTHER_BATCHES, "yellow"


def as_csv(lines: Sequence[Line]) -> str:
    """The lines as CSV: swept values, all results, and the reason if a line has no mapping."""
    rows: list[dict[str, Any]] = [line.to_dict() for line in lines]
    names = list(dict.fromkeys([*lines[0].values, *(name for row in rows for name in row)]))
    return rows_as_csv(names, rows)
