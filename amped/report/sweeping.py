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
def sweep(found: Sequence[Line], objective: str, seconds: float, hint: str = "") -> Iterator[Part]:
    """One row for each value, what is best in it, and what it stands on.

    Args:
        found: the lines, in the order in which they are shown.
        objective: the quantity by which the mapping of each line is the best.
        seconds: how long the search took.
        hint: a further sentence.
    """
    several = [name for name in found[0].values if len({str(line.values[name]) for line in found}) > 1]
    names = several or list(found[0].values)
    differing, alike = _beside(found, names)
    tried = sum(line.candidates for line in found)
    searched = f" ({tried:,} candidates in {human.duration(seconds)})" if tried > len(found) else ""
    yield f"The best mapping of each by {axis_label(objective)}{searched}", "bold"
    yield f"{', '.join(alike)}\n" if alike else "", "dim"
    heads, rows = _cells(found, names, differing, objective)
    texts = [head for head in (*map(_head, names), *differing) if head in TEXTS]
    made = table(heads, rows, ("mapping", *texts), ("mapping", *texts))
    made.columns[-1].min_width = LEAST_MAPPING
    yield made
    yield from ((f"{_named(line, names)}: {line.lacks}", "bold red") for line in found if line.lacks)
    yield from _verdict([line for line in found if not line.lacks], names)
    yield from _notes([e for line in found if (e := line.estimation)])
    if hint:
        yield hint, "dim"


def _cells(
    found: Sequence[Line], names: Sequence[str], differing: Sequence[str], objective: str
) -> tuple[list[str], list[list[str]]]:
    """The heads of the table and its cells; the values of a column have one unit, which stands in its head."""
    known = [line.estimation for line in found if line.estimation]
    shown = SHOWN | ({} if objective in SHOWN else {objective: human.label(objective)})
    results = [n for n in shown if n in ALWAYS or any(n in e for e in known)]
    columns = {n: _column(n, [e[n] if e is not None and n in e else None for e in (line.estimation for line in found)])
               for n in results}  # fmt: skip
    heads = [*map(_head, names), *differing, *(f"{shown[n]}\n{columns[n][0]}".rstrip() for n in results), "mapping"]
    rows = []
    for place, line in enumerate(found):
        e = line.estimation
        cells = [_value(name, line.values[name]) for name in names]
        cells += [BESIDE[head][0](e) if e else "-" for head in differing]
        cells += [columns[n][1][place] for n in results]
        rows.append([*cells, _mapping(line)])
    return heads, rows


def _mapping(line: Line) -> str:
    if line.estimation is None:
        return "-"
    fits = "" if line.estimation["fits_in_memory"] else "DOES NOT FIT: "
    return f"{fits}{mapping_in_words(line.estimation)}"


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


def _beside(found: Sequence[Line], names: Sequence[str]) -> tuple[list[str], list[str]]:
    """What differs between the lines and is not swept, and in words what is alike."""
    known = [line.estimation for line in found if line.estimation]
    swept = {ALSO.get(aliases().canonical(name), name) for name in names}
    told = {head: {tell(e) for e in known} for head, (tell, _) in BESIDE.items() if head not in swept}
    alike = [BESIDE[head][1].format(*values) for head, values in told.items() if len(values) == 1 and values != {""}]
    follows = {"system"} if "accelerator" in swept else set[str]()
    return [head for head, values in told.items() if len(values) > 1 and head not in follows], alike


def _row(e: Estimation, category: str) -> str:
    row = e.scenario.sources.rows.get(category)
    return row.name if row else ""


def _named(line: Line, names: Sequence[str]) -> str:
    return ", ".join(_value(name, line.values[name]) for name in names)


def _verdict(told: Sequence[Line], names: Sequence[str]) -> Iterator[Part]:
    """Which value is fastest and which is cheapest, by how much, and whether the difference is more than the error."""
    yield ""
    for word, name in (("fastest", "training_time"), ("cheapest", "cost"), ("least energy", "energy")):
        ranked = sorted(
            ((e[name], place, e) for place, line in enumerate(told) if (e := line.estimation) and name in e)
        )
        if len(ranked) < 2:
            continue
        (least, first, one), (more, second, other) = ranked[:2]
        error = max((e.error_band.error_fraction for e in (one, other) if e.error_band), default=0.0)
        share = more / least - 1
        doubt = f", but each is known within ± {human.percent(error, 0)} only" if share < error else ""
        some = f" of the {len(ranked)} with a price" if name == "cost" and len(ranked) < len(told) else ""
        yield (f"{word}{some}: {_named(told[first], names)} "
                   f"({_named(told[second], names)} takes {human.percent(share, 0)} more{doubt})")  # fmt: skip


def _notes(told: Sequence[Estimation]) -> Iterator[Part]:
    """The price of each accelerator and where it is from, or that none is known; batches that differ."""
    rows = {row.name: (row, e) for e in told if (row := e.scenario.sources.rows.get(ACCELERATOR))}
    for name, (row, e) in rows.items():
        if PRICE not in e:
            yield f"{name}: no price known; give it: --set {PRICE}=2.5 (USD an hour)", "yellow"
            continue
        origin = e.scenario.sources.origins.get(PRICE)
        basis = str(row.columns.get(COMPANIONS[PRICE][0], "")) if isinstance(origin, LookedUp) else "given"
        yield f"price of {name}: {human.value(e[PRICE], 'dollar/s')}, {basis.partition(';')[0]}", "dim"
    if len({e["batch_size"] for e in told}) > 1:
        yield OTHER_BATCHES, "yellow"


def as_csv(found: Sequence[Line]) -> str:
    """The lines as CSV: swept values, all results, and what is lacking."""
    rows: list[dict[str, Any]] = [line.to_dict() for line in found]
    names = list(dict.fromkeys([*found[0].values, *(name for row in rows for name in row)]))
    return rows_as_csv(names, rows)
