"""What an estimate stands on: what is assumed, the rows of tables with their sources, and measured runs like it."""

from __future__ import annotations

import math

from amped.estimation.estimation import Estimation
from amped.estimation.uncertainty import TIME_LAW, alike
from amped.estimation.validated import Ground, Validated
from amped.report import human
from amped.report.page.content import Section, Table, said, table
from amped.report.page.numbers import numbers
from amped.report.screen import chosen
from amped.report.summary import validated
from amped.tables.table_files import KERNELS

# The most measured runs that are shown.
NEAREST_SHOWN = 8
DEFAULTS = "Values that nobody gave are amped's defaults. Change one with --set NAME=VALUE."


def assumed(e: Estimation) -> Section:
    """The section on assumed values: defaults with their sources, rows of tables, and values that amped chose."""
    values = [(name, human.value(e[name], f.mark.unit), f.text["source"]) for name, f in e.defaults.items()]
    tables = [_rows(e), table("Defaults", ("name", "value", "source"), values)]
    names = ", ".join(chosen(e))
    choices = f"amped chose: {names}." if names else ""
    return Section("assumed", "What is assumed", said(DEFAULTS, choices), tables=[t for t in tables if t.rows])


def _rows(e: Estimation) -> Table:
    """A table of the rows that an estimate uses, with their unverified columns and their sources."""
    rows = [
        (row.table.replace("_", " "), row.name, ", ".join(name for name in row.unverified if name in e.scenario.catalogue) or "-",
         "; ".join(map(str, row.sources)) or "-")
        for name, row in e.scenario.sources.rows.items() if name != KERNELS or e.uses_kernels
    ]  # fmt: skip
    return table("Rows of lookup tables", ("table", "row", "unverified|not verified", "sources"), rows)


def accuracy(e: Estimation) -> Section:
    """The section on the error band of an estimate, and on the measured runs that are most like the estimate."""
    title, results = "How good it is", numbers(e)
    if e.error_band is None:
        return Section("accuracy", title, said("The closed form is not validated, so that its error is unknown."))
    error_numbers = [results[name] for name in (
        "step_time_error_fraction", "shortest_step_time", "longest_step_time", "number_of_validated_runs",
        "memory_error_fraction", "number_of_memory_readings",
    )]  # fmt: skip
    near = nearest(e)
    sentences = (f"{line}." for line in validated(e))
    return Section("accuracy", title, said(*sentences), error_numbers, tables=[_runs(near)] if near else [])


def nearest(e: Estimation) -> list[Validated]:
    """The validated runs of the class that the error band comes from, the nearest in size first."""
    return sorted(alike(e.ground, law=TIME_LAW), key=lambda run: _distance(run.ground, e.ground))[:NEAREST_SHOWN]


def _distance(one: Ground, other: Ground) -> float:
    """The distance of two configurations in size: the sum of the absolute logarithms of the ratios of their sizes."""
    sizes = ("number_of_accelerators", "number_of_parameters", "context")
    return sum(abs(math.log(getattr(one, name) / getattr(other, name))) for name in sizes)


def _runs(runs: list[Validated]) -> Table:
    """A table of measured runs with the errors of their predictions."""
    columns = (
        "id|run", "error_fraction|predicted / measured - 1|share", "accelerator",
        "software", "number_of_accelerators|accelerators",
        "number_of_parameters|parameters (G)", "context|tokens of a sequence",
    )  # fmt: skip
    rows = [
        (run.id, run.error_fraction, g.accelerator, g.software, g.number_of_accelerators, g.number_of_parameters / human.GIGA, g.context)
        for run in runs if (g := run.ground)
    ]  # fmt: skip
    return table("The nearest validated runs", columns, rows)
