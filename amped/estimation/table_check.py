"""Checks lookup tables: units, peaks, bandwidths, parameter counts, aliases. Every problem has its row and column."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial

from amped.base.errors import AmpedError, Problem, plain, quoted
from amped.base.units import DIMENSIONLESS, expected, parse
from amped.configuring.gathering import ANY_ACCELERATOR
from amped.configuring.sources import LookedUp, Sources
from amped.configuring.unknown_columns import unknown_columns
from amped.configuring.values import read_value
from amped.engine.evaluate import run
from amped.engine.resolve import plan
from amped.tables.table_files import ACCELERATORS, KERNELS, LINKS, MODELS, SYSTEMS
from amped.tables.table_schema import cell_of, columns, row_problems
from amped.tables.tables import Row, Tables
from amped.theory.language.catalogue import Catalogue

PEAK_TOLERANCE = 0.03
FLOPS_PER_MAC = 2
# How many times the dense peak of units that count 16 bits a peak may be; that in 8 bits is double.
MOST_TIMES = {"fp16_peak_flop_rate": 1, "bf16_peak_flop_rate": 1, "fp8_peak_flop_rate": 2}
# Columns that name a row, and the table of that row.
NAMED_ROWS = {
    ACCELERATORS: {KERNELS: KERNELS},
    SYSTEMS: {"accelerator": ACCELERATORS, "scale_up_link": LINKS, "scale_out_link": LINKS},
}


def table_problems(tables: Tables, catalogue: Catalogue, shipped_too: bool = True) -> Iterator[Problem]:
    """The problems with the rows of all tables, or of all tables but the shipped ones."""
    checks: dict[str, Callable[[Row], Iterator[Problem]]] = {
        ACCELERATORS: _peak_problems, MODELS: partial(_count_problems, catalogue),
        SYSTEMS: partial(_two_way_problems, tables), KERNELS: partial(_missing_coefficients, tables, catalogue),
    }  # fmt: skip
    for table in tables.all_names():
        rows = []
        for name in tables.names(table):
            try:
                rows.append(tables.row(table, name))
            except AmpedError as error:
                yield from error.at(cell_of(table, name, "extends"))
        yield from _alias_problems(table, rows)
        for row in (r for r in rows if shipped_too or not r.is_shipped):
            yield from _cell_problems(row, catalogue)
            yield from _named_row_problems(row, tables)
            if table in checks:
                yield from checks[table](row)


def _where(row: Row, column: str) -> str:
    return cell_of(row.table, row.name, column)


def _alias_problems(table: str, rows: list[Row]) -> Iterator[Problem]:
    """Reports two rows that share a name."""
    owners: dict[str, list[str]] = {}
    for row in rows:
        for name in {plain(n) for n in (row.name, *row.aliases)}:
            is_correction = name == plain(row.name) and owners.get(name, [])[:1] == [*row.ancestors[:1]]
            owners.setdefault(name, []).extend([] if is_correction else [row.name])
        for alias, times in Counter(plain(a) for a in row.aliases).items():
            if times > 1:
                yield Problem(f"the alias {quoted(alias)} stands {times} times", _where(row, "aliases"), "keep one")
    for name, names in owners.items():
        if len(names) > 1:
            where = cell_of(table, names[1], "aliases")
            yield Problem(f"'{name}' is a name of '{names[0]}' too", where, "rows are found by name: keep it at one")


def _cell_problems(row: Row, catalogue: Catalogue) -> Iterator[Problem]:
    """Reports unknown columns, values of a wrong kind, numbers without their unit, and doubts about no column."""
    kinds = columns(row.table)
    cells = {column: value for column, value in row.columns.items() if value is not None}
    yield from row_problems(row.table, {row.name: cells}, kinds)
    yield from unknown_columns(row, catalogue)
    for column, value in cells.items():
        where, quantity = _where(row, column), catalogue.get(column)
        unit = quantity.mark.bare or quantity.mark.unit if quantity else kinds.get(column, {}).get("format")
        if unit is None:
            continue
        try:
            _ = read_value(quantity, value) if quantity else parse(value, unit)
        except AmpedError as error:
            yield from error.at(where)
            continue
        numeric = isinstance(value, int | float) and not isinstance(value, bool)
        if numeric and unit not in (*DIMENSIONLESS, "choice", "layout", "pattern", "blocks", "kernel_table", "bit"):
            yield Problem(f"{quoted(value)} has no unit", where, expected(unit))
    for word, list_name, names in (("doubted", "unverified", row.unverified), ("fitted", "fitted", row.fitted)):
        where = _where(row, list_name)
        yield from (Problem(f"'{c}' is {word} and not there", where) for c in names if c not in row.columns)
    if row.fitted and not row.columns.get("fitted_on"):
        yield Problem("is fitted, to unknown data", _where(row, "fitted"), "name the measurements in 'fitted_on'")
    if not row.sources:
        yield Problem("the row has no source", _where(row, "sources"), "say where its facts come from")


def _number(row: Row, column: str, unit: str) -> float | None:
    value = row.columns.get(column)
    try:
        return None if value is None else parse(value, unit)
    except AmpedError:
        return None


def _named_row_problems(row: Row, tables: Tables) -> Iterator[Problem]:
    """Reports names of rows that other tables do not have."""
    for column, table in NAMED_ROWS.get(row.table, {}).items():
        named = row.columns.get(column)
        if isinstance(named, str):
            try:
                tables.row(table, named)
            except AmpedError as error:
                yield from error.at(_where(row, column))


def _missing_coefficients(tables: Tables, catalogue: Catalogue, row: Row) -> Iterator[Problem]:
    """Reports coefficients that the last of the shipped rows has and the row lacks."""
    for column in tables.row(KERNELS, ANY_ACCELERATOR).columns:
        if column in catalogue and row.columns.get(column) is None:
            yield Problem("is missing", _where(row, column), f"extend a row that has it, '{ANY_ACCELERATOR}' for one")


def _peak_problems(row: Row) -> Iterator[Problem]:
    """Reports peaks with sparsity. A dense peak in 16 bits is clock · cores · units · MACs · 2.

    Twice that, or four times that in 8 bits, is sparse.
    """
    units = ("number_of_cores", "functional_units_per_core", "mac_per_cycle_per_unit")
    factors = [_number(row, "frequency", "Hz"), *(_number(row, column, "1") for column in units)]
    product = math.prod((factor or 0.0 for factor in factors), start=float(FLOPS_PER_MAC))
    of_units = f"{row.columns.get('mac_precision') or 'fp16'}_peak_flop_rate"
    most = MOST_TIMES if MOST_TIMES.get(of_units) == 1 else {}
    for column in dict.fromkeys((of_units, *most)):
        peak, dense_peak = _number(row, column, "flop/s"), product * most.get(column, 1)
        if peak is None or not dense_peak or column in row.inherited:
            continue
        ratio = peak / dense_peak
        is_sparse = abs(ratio / 2 - 1) <= PEAK_TOLERANCE
        above = is_sparse if most.get(column) == 2 else ratio - 1 > PEAK_TOLERANCE
        if above or (column == of_units and 1 - ratio > PEAK_TOLERANCE):
            times = f"{ratio:.3g} times what clock, cores, units and MACs make, {dense_peak / 1e12:.4g} TFLOP/s"
            sparse, other = "this is the sparse peak: write the dense one, half of it", "write the dense peak, or the clock and units that make it"  # fmt: skip
            yield Problem(f"{row.columns[column]} is {times}", _where(row, column), sparse if is_sparse else other)


def _two_way_problems(tables: Tables, row: Row) -> Iterator[Problem]:
    """Reports bandwidths of a system that are twice those of its link or accelerator, which count one direction."""
    inside = [(LINKS, "scale_up_link", "bandwidth"), (ACCELERATORS, "accelerator", "scale_up_bandwidth")]
    across = [(LINKS, "scale_out_link", "bandwidth")]
    for column, places in (("inter_accelerator_bandwidth", inside), ("bandwidth_per_network_card", across)):
        table, naming, of_link = next((p for p in places if isinstance(row.columns.get(p[1]), str)), places[0])
        bandwidth, name = _number(row, column, "byte/s"), row.columns.get(naming)
        if bandwidth is None or not isinstance(name, str) or not tables.has(table, name):
            continue
        one_way = _number(tables.row(table, name), of_link, "byte/s")
        if one_way and abs(bandwidth / one_way - 2) <= 2 * PEAK_TOLERANCE:
            what = f"{row.columns[column]} is twice the {one_way / 1e9:g} GB/s that {name} has per direction"
            yield Problem(what, _where(row, column), "write the bandwidth of one direction")


def _count_problems(catalogue: Catalogue, row: Row) -> Iterator[Problem]:
    """Reports a parameter count that differs from the one of the network's shape."""
    stated, sources = row.columns.get("parameters_computed"), Sources()
    if stated is None:
        return
    try:
        for column, value in row.columns.items():
            if value is not None and column in catalogue and catalogue[column].mark.kind != "records":
                sources.add(column, LookedUp(read_value(catalogue[column], value), value, row, column))
    except AmpedError:
        return  # the problem is reported for its cell
    try:
        counted = run(plan(catalogue, ("number_of_parameters",), sources), sources.given).number("number_of_parameters")
    except AmpedError as error:
        yield from error.at(_where(row, "parameters_computed"))
        return
    if counted != stated:
        yield Problem(f"{quoted(stated)} is not the {counted:.0f} that the shape has", _where(row, "parameters_computed"),
                      "mend the shape, or leave the column out")  # fmt: skip
