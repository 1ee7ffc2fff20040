"""Checks lookup tables: units, peaks, bandwidths, parameter counts, aliases; every problem with its row and column."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from amped.base.errors import AmpedError, Problem, did_you_mean, plain, quoted
from amped.base.units import DIMENSIONLESS, expected, parse
from amped.configuring.gathering import ANY_ACCELERATOR
from amped.configuring.sources import Sources
from amped.configuring.values import read_value
from amped.engine.evaluate import run
from amped.engine.resolve import plan
from amped.tables.table_files import ABOUT, ACCELERATORS, KERNELS, LINKS, MODELS, SOFTWARE, SYSTEMS
from amped.tables.tables import Row, Tables
from amped.theory.catalogue import Catalogue

PEAK_TOLERANCE = 0.03
FLOPS_PER_MAC = 2
# Columns that are not parameters but have a unit.
UNITS = {
    "boost_frequency": "Hz", "fp64_peak_flop_rate": "flop/s", "fp64_matrix_peak_flop_rate": "flop/s",
    "fp32_matrix_peak_flop_rate": "flop/s", "fp16_fp16_accumulate_peak_flop_rate": "flop/s",
    "fp8_fp16_accumulate_peak_flop_rate": "flop/s", "fp6_peak_flop_rate": "flop/s",
    "fp16_vector_flop_rate": "flop/s", "measured_matmul_flop_rate": "flop/s", "l2_cache": "byte",
    "shared_memory_per_core": "byte", "scale_up_bandwidth": "byte/s",
    "node_power_maximum": "W", "bandwidth": "byte/s", "latency": "s", "list_price": "dollar",
}  # fmt: skip
# Columns that describe, for reading and not for computing.
TEXTS = {
    ACCELERATORS: ("vendor", "release_year", "architecture", "form_factor", "core_kind", "functional_unit_kind",
                   "mac_precision", "int8_peak_operation_rate", "int4_peak_operation_rate", "memory_type",
                   "structured_sparsity_speedup", "scale_up_link", "scale_up_topology", "host_link", "price_basis",
                   "measured_matmul_fraction", "measured_matmul_source", KERNELS),
    SYSTEMS: ("accelerator", "year", "devices_seen_by_software", "scale_up_link", "scale_up_topology", "scale_out_link",
              "scale_out_topology", "inter_accelerator_efficiency_basis", "inter_node_efficiency_basis", "host_link",
              "cpu", "spine_oversubscription"),
    MODELS: ("family", "release_year", "architecture", "activation_function", "maximum_context", "normalization",
             "positions", "parallel_blocks", "MoE_layer_pattern", "parameters_computed",
             "parameters_published", "parameters_exact", "active_parameters_published"),
    SOFTWARE: ("network_family", "selective_recomputation", "vocabulary_padding", "offers", "bf16_gradient_precision",
               "local_batch_cut_into"),
    LINKS: ("link_class", "bandwidth_of", "lanes_or_links", "all_reduce_efficiency", "all_gather_efficiency",
            "reduce_scatter_efficiency", "all_to_all_efficiency", "point_to_point_efficiency", "efficiency_basis"),
}  # fmt: skip


def table_problems(tables: Tables, known: Catalogue, shipped_too: bool = True) -> Iterator[Problem]:
    """Everything that is wrong with the rows of all tables, or of all but the shipped ones."""
    for table in tables.all_names():
        rows = []
        for name in tables.names(table):
            try:
                rows.append(tables.row(table, name))
            except AmpedError as error:
                yield from error.at(f"{table}, row '{name}', column 'extends'")
        yield from _alias_problems(table, rows)
        for row in (r for r in rows if shipped_too or not r.is_shipped):
            yield from _cell_problems(row, known)
            check = {ACCELERATORS: _accelerator_problems, MODELS: _count_problems, SYSTEMS: _network_problems,
                     KERNELS: _kernel_problems}.get(table)  # fmt: skip
            if check:
                yield from check(row, tables, known)


def _where(row: Row, column: str) -> str:
    return f"{row.table}, row '{row.name}', column '{column}'"


def _alias_problems(table: str, rows: list[Row]) -> Iterator[Problem]:
    """Two rows that go by one name."""
    owners: dict[str, list[str]] = {}
    for row in rows:
        for name in {plain(n) for n in (row.name, *row.aliases)}:
            owners.setdefault(name, []).append(row.name)
        for alias, times in Counter(plain(a) for a in row.aliases).items():
            if times > 1:
                yield Problem(f"the alias {quoted(alias)} stands {times} times", _where(row, "aliases"), "keep one")
    for name, names in owners.items():
        if len(names) > 1:
            where = f"{table}, row '{names[1]}', column 'aliases'"
            yield Problem(f"'{name}' is a name of '{names[0]}' too", where, "rows are found by name: keep it at one")


def _cell_problems(row: Row, known: Catalogue) -> Iterator[Problem]:
    """Unknown columns, values of the wrong kind, bare numbers where a unit belongs, doubts about nothing."""
    texts = TEXTS.get(row.table, ())
    for column, value in row.columns.items():
        where = _where(row, column)
        if value is None or column in ABOUT or column in texts:
            continue
        unit = known[column].mark.bare or known[column].mark.unit if column in known else UNITS.get(column)
        if unit is None:
            yield Problem("is no column amped knows", where, did_you_mean(column, (*known, *UNITS, *texts)))
            continue
        try:
            _ = read_value(known[column], value) if column in known else parse(value, unit)
        except AmpedError as error:
            yield from error.at(where)
            continue
        numeric = isinstance(value, int | float) and not isinstance(value, bool)
        if numeric and unit not in (*DIMENSIONLESS, "choice", "layout", "bit"):
            yield Problem(f"{quoted(value)} has no unit", where, expected(unit))
    for told, names in (("doubted", row.unverified), ("fitted", row.fitted)):
        where = _where(row, "unverified" if told == "doubted" else "fitted")
        yield from (Problem(f"'{c}' is {told} and not there", where) for c in names if c not in row.columns)
    if row.fitted and not row.columns.get("fitted_on"):
        yield Problem("nobody says on what", _where(row, "fitted"), "name the measurements in 'fitted_on'")
    if not row.sources:
        yield Problem("the row has no source", _where(row, "sources"), "say where its facts come from")


def _number(row: Row, column: str, unit: str) -> float | None:
    value = row.columns.get(column)
    try:
        return None if value is None else parse(value, unit)
    except AmpedError:
        return None


def _accelerator_problems(row: Row, tables: Tables, known: Catalogue) -> Iterator[Problem]:
    """The peaks are dense, and the row of kernel efficiencies that it names is there."""
    del known
    yield from _peak_problems(row)
    named = row.columns.get(KERNELS)
    if isinstance(named, str):
        try:
            tables.row(KERNELS, named)
        except AmpedError as error:
            yield from error.at(_where(row, KERNELS))


def _kernel_problems(row: Row, tables: Tables, known: Catalogue) -> Iterator[Problem]:
    """A row has every coefficient that the last of the shipped rows has."""
    for column in tables.row(KERNELS, ANY_ACCELERATOR).columns:
        if column in known and row.columns.get(column) is None:
            yield Problem("is missing", _where(row, column), f"extend a row that has it, '{ANY_ACCELERATOR}' for one")


def _peak_problems(row: Row) -> Iterator[Problem]:
    """A dense peak is clock · cores · units · MACs · 2 with 16 bits; what is twice that, or four times with 8, is sparse."""
    parts = [_number(row, "frequency", "Hz")]
    parts += [_number(row, c, "1") for c in ("number_of_cores", "functional_units_per_core", "mac_per_cycle_per_unit")]
    product = float(FLOPS_PER_MAC)
    for part in parts:
        product *= part or 0.0
    own = f"{row.columns.get('mac_precision') or 'fp16'}_peak_flop_rate"
    sixteen_bits = own in ("fp16_peak_flop_rate", "bf16_peak_flop_rate")
    most = {"fp16_peak_flop_rate": 1, "bf16_peak_flop_rate": 1, "fp8_peak_flop_rate": 2} if sixteen_bits else {}
    for column in dict.fromkeys((own, *most)):
        peak, units = _number(row, column, "flop/s"), product * most.get(column, 1)
        if peak is None or not units:
            continue
        ratio = peak / units
        above = abs(ratio / 2 - 1) <= PEAK_TOLERANCE if most.get(column) == 2 else ratio - 1 > PEAK_TOLERANCE
        if above or (column == own and 1 - ratio > PEAK_TOLERANCE):
            yield _wrong_peak(row, column, ratio, units)


def _wrong_peak(row: Row, column: str, ratio: float, units: float) -> Problem:
    told = (
        f"{row.columns[column]} is {ratio:.3g} times what clock, cores, units and MACs make, {units / 1e12:.4g} TFLOP/s"
    )
    if abs(ratio / 2 - 1) <= PEAK_TOLERANCE:
        return Problem(told, _where(row, column), "this is the sparse peak: write the dense one, half of it")
    return Problem(told, _where(row, column), "write the dense peak, or the clock and units that make it")


def _network_problems(row: Row, tables: Tables, known: Catalogue) -> Iterator[Problem]:
    """A system's accelerator exists, and its bandwidths are those of its links per direction."""
    del known
    accelerator = row.columns.get("accelerator")
    if isinstance(accelerator, str):
        try:
            tables.row(ACCELERATORS, accelerator)
        except AmpedError as error:
            yield from error.at(_where(row, "accelerator"))
    yield from _two_way(row, tables, "scale_up_link", "inter_accelerator_bandwidth", accelerator)
    yield from _two_way(row, tables, "scale_out_link", "bandwidth_per_network_card", None)


def _two_way(row: Row, tables: Tables, link_column: str, column: str, accelerator: object) -> Iterator[Problem]:
    """A bandwidth that is twice what its link, or else its accelerator, has per direction."""
    own, link, one_way, name = _number(row, column, "byte/s"), row.columns.get(link_column), None, ""
    if own is None:
        return
    if isinstance(link, str):
        try:
            one_way, name = _number(tables.row(LINKS, link), "bandwidth", "byte/s"), link
        except AmpedError as error:
            yield from error.at(_where(row, link_column))
    elif isinstance(accelerator, str) and tables.has(ACCELERATORS, accelerator):
        one_way, name = _number(tables.row(ACCELERATORS, accelerator), "scale_up_bandwidth", "byte/s"), accelerator
    if one_way and abs(own / one_way - 2) <= 2 * PEAK_TOLERANCE:
        told = f"{row.columns[column]} is twice the {one_way / 1e9:g} GB/s that {name} has per direction"
        yield Problem(told, _where(row, column), "write the bandwidth of one direction")


def _count_problems(row: Row, tables: Tables, known: Catalogue) -> Iterator[Problem]:
    """The parameter count that the row states is the one its shape has."""
    del tables
    stated = row.columns.get("parameters_computed")
    if stated is None:
        return
    sources = Sources()
    for column, value in row.columns.items():
        if value is not None and column in known and known[column].mark.kind != "records":
            try:
                read = read_value(known[column], value)
            except AmpedError:
                return  # told with its cell
            if isinstance(read, str):
                sources.choices[column] = read
            else:
                sources.given[column] = read
    try:
        counted = run(plan(known, ("number_of_parameters",), sources), sources.given).number("number_of_parameters")
    except AmpedError as error:
        yield from error.at(_where(row, "parameters_computed"))
        return
    if counted != stated:
        yield Problem(f"{quoted(stated)} is not the {counted:.0f} that the shape has", _where(row, "parameters_computed"),
                      "mend the shape, or leave the column out")  # fmt: skip
