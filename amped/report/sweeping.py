"""A sweep as one table: for each value its best mapping with time, cost, energy, utilization and memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from amped.base.aliases import aliases
from amped.configuring.sources import LookedUp
from amped.drafting.each_value import Line
from amped.estimation.estimation import Estimation
from amped.report import human
from amped.report.axes_values import axis_label, scale
from amped.report.ranking import OTHER_BATCHES
from amped.report.rows_formats import as_csv as rows_as_csv
from amped.report.screen import mapping_in_words
from amped.report.tables import Part, drawn, table
from amped.tables.table_files import COMPANIONS
from amped.theory.language.catalogue import catalogue
from amped.theory.language.quantity import ACCELERATOR, MAPPING, NETWORK, SYSTEM

PRICE, SIZE = "accelerator_price", "number_of_accelerators"
# The columns that hold names, which may be wrapped; and the least width of the column of mappings.
TEXTS = ("model", "system", "accelerator", "software")
LEAST_MAPPING = 28
# The results of a line, with the heads of their columns; the last ones are shown if somebody described the grid.
SHOWN = {"training_time": "training", "cost": "cost", "energy": "energy", "electricity_cost": "electricity",
         "carbon_emissions": "CO2", "model_flops_utilization": "MFU", "memory_per_accelerator_bytes": "memory"}  # fmt: skip
ALWAYS = ("training_time", "cost")
# What may differ between the lines without being swept: its head, its value, and how a value is told that all share.
BESIDE: dict[str, tuple[Callable[[Estimation], str], str]] = {
    "model": (lambda e: _row(e, NETWORK), "{}"),
    "system": (lambda e: _row(e, SYSTEM), "{}"),
    "GPUs": (lambda e: human.digits(e["number_of_accelerators"]), "{} accelerators"),
    "precision": (lambda e: e.precision, "{}"),
    "software": (lambda e: _row(e, MAPPING), "{}"),
    "batch": (lambda e: human.digits(e["batch_size"]), "batch of {}"),
    "tokens": (lambda e: human.count(e["tokens_to_train"]), "{} tokens"),
}
# Which of these a swept quantity is, or settles.
ALSO = {"matrix_precision": "precision", "number_of_accelerators": "GPUs", "number_of_nodes": "GPUs", "batch_size": "batch",
        "tokens_to_train": "tokens"}  # fmt: skip


@drawn
def sweep(lines: Sequence[Line], objective: str, seconds: float, hint: str = "") -> Iterator[Part]:
    """One row for each value, what is best in it, and what it stands on.

    Args:
        lines: the lines, in the order in which they are shown.
        objective: the quantity by which the mapping of each line is the best.
        seconds: how long the search took.
        hint: a further sentence.
    """
    several = [name for name in lines[0].values if len({str(line.values[name]) for line in lines}) > 1]
    names = several or list(lines[0].values)
    estimations = [line.estimation for line in lines if line.estimation]
    differing, alike = _beside(estimations, names)
    tried = sum(line.candidates for line in lines)
    searched = f" ({tried:,} candidates in {human.duration(seconds)})" if tried > len(lines) else ""
    yield f"The best mapping of each by {axis_label(objective)}{searched}", "bold"
    yield f"{', '.join(alike)}\n" if alike else "", "dim"
    columns = _columns(lines, names, differing, objective)
    texts = [head for head in (*map(_head, names), *differing) if head in TEXTS]
    made = table(columns, zip(*columns.values(), strict=True), ("mapping", *texts), ("mapping", *texts))
    made.columns[-1].min_width = LEAST_MAPPING
    yield made
    yield from ((f"{_named(line, names)}: {line.lacks}", "bold red") for line in lines if line.lacks)
    yield from _verdict([line for line in lines if not line.lacks], names)
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
    for name, head in (SHOWN | {objective: SHOWN.get(objective) or human.label(objective)}).items():
        values = [e[name] if e is not None and name in e else None for e in estimations]
        if name in ALWAYS or values.count(None) < len(values):
            unit, cells = _column(name, values)
            columns[f"{head}\n{unit}".rstrip()] = cells
    return columns | {"mapping": [*map(_mapping, estimations)]}


def _mapping(e: Estimation | None) -> str:
    if e is None:
        return "-"
    return mapping_in_words(e) if e["fits_in_memory"] else f"DOES NOT FIT: {mapping_in_words(e)}"


def _column(name: str, values: Sequence[float | None]) -> tuple[str, list[str]]:
    """The unit of a column, and its cells."""
    if name == "model_flops_utilization":
        return "%", ["-" if value is None else f"{value * 100:.1f}" for value in values]
    size, label = scale(name, [value for value in values if value is not None])
    missing = "no price" if name == "cost" else "-"
    return label.partition("(")[2].rstrip(")"), [
        missing if value is None else human.digits(value / size) for value in values
    ]


def _head(name: str) -> str:
    """The head of a swept name: how the user calls it, but for accelerators."""
    return "GPUs" if aliases().canonical(name) == SIZE else human.label(name)


def _value(name: str, value: object) -> str:
    """A swept value as it is written; a number with its unit."""
    unit = catalogue()[name].mark.unit if name in catalogue() else "count"
    return human.value(value, unit) if isinstance(value, float) else str(value)


def _beside(estimations: Sequence[Estimation], names: Sequence[str]) -> tuple[list[str], list[str]]:
    """What differs between the lines and is not swept, and in words what is alike."""
    swept = {ALSO.get(aliases().canonical(name), name) for name in names}
    texts = {head: {tell(e) for e in estimations} for head, (tell, _) in BESIDE.items() if head not in swept}
    alike = [BESIDE[head][1].format(*values) for head, values in texts.items() if len(values) == 1 and values != {""}]
    follows = "system" if "accelerator" in swept else ""
    return [head for head, values in texts.items() if len(values) > 1 and head != follows], alike


def _row(e: Estimation, category: str) -> str:
    row = e.scenario.sources.rows.get(category)
    return row.name if row else ""


def _named(line: Line, names: Sequence[str]) -> str:
    return ", ".join(_value(name, line.values[name]) for name in names)


def _verdict(lines: Sequence[Line], names: Sequence[str]) -> Iterator[Part]:
    """Which value is fastest and which is cheapest, by how much, and whether the difference is more than the error."""
    yield ""
    for word, name in (("fastest", "training_time"), ("cheapest", "cost"), ("least energy", "energy")):
        ranked = sorted(
            ((e[name], place, e) for place, line in enumerate(lines) if (e := line.estimation) and name in e)
        )
        if len(ranked) < 2:
            continue
        (least, first, one), (more, second, other) = ranked[:2]
        error = max((e.error_band.error_fraction for e in (one, other) if e.error_band), default=0.0)
        share = more / least - 1
        doubt = f", but each is known within ± {human.percent(error, 0)} only" if share < error else ""
        some = f" of the {len(ranked)} with a price" if name == "cost" and len(ranked) < len(lines) else ""
        yield (f"{word}{some}: {_named(lines[first], names)} "
                   f"({_named(lines[second], names)} takes {human.percent(share, 0)} more{doubt})")  # fmt: skip


def _notes(estimations: Sequence[Estimation]) -> Iterator[Part]:
    """The price of each accelerator and where it is from, or that none is known; batches that differ."""
    rows = {row.name: (row, e) for e in estimations if (row := e.scenario.sources.rows.get(ACCELERATOR))}
    for name, (row, e) in rows.items():
        if PRICE not in e:
            yield f"{name}: no price known; give it: --set {PRICE}=2.5 (USD an hour)", "yellow"
            continue
        origin = e.scenario.sources.origins.get(PRICE)
        basis = str(row.columns.get(COMPANIONS[PRICE][0], "")) if isinstance(origin, LookedUp) else "given"
        yield f"price of {name}: {human.value(e[PRICE], 'dollar/s')}, {basis.partition(';')[0]}", "dim"
    if len({e["batch_size"] for e in estimations}) > 1:
        yield OTHER_BATCHES, "yellow"


def as_csv(lines: Sequence[Line]) -> str:
    """The lines as CSV: swept values, all results, and what is lacking."""
    rows: list[dict[str, Any]] = [line.to_dict() for line in lines]
    names = list(dict.fromkeys([*lines[0].values, *(name for row in rows for name in row)]))
    return rows_as_csv(names, rows)
