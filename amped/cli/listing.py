"""`amped list`: the rows, parameters, configs and other things to choose from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import typer

from amped.cli import options
from amped.tables.table_files import SYSTEMS, LookupTables
from amped.theory.language.catalogue import catalogue

What = Literal[
    "accelerators",
    "models",
    "systems",
    "links",
    "kernel-efficiencies",
    "software",
    "parameters",
    "configs",
    "measurements",
    "measurement-columns",
    "topologies",
    "grids",
]
# The kinds of networks; for each, the parameters that set it, and what it changes.
TOPOLOGY = {
    "fast domain": (
        ("scale_up_domain_size", "inter_accelerator_bandwidth"),
        "what lies inside it goes at the bandwidth of NVLink and its like, all else through network cards",
    ),
    "full mesh": (
        ("full_mesh_size",),
        "links without a switch: a group of g of n accelerators uses (g - 1)/(n - 1) of its bandwidth inside the node",
    ),
    "segment": (
        ("launched_domain_size", "filled_domain_size"),
        "how many places of a domain a run uses, and so how much of each degree lies inside",
    ),
    "rails": (
        ("rail_optimized", "number_of_network_cards_per_node"),
        "a leaf switch for each card of a server: as many servers as a leaf has ports do without the spine",
    ),
    "leaf": (
        ("leaf_switch_ports",),
        "how many cards are joined below the spine: runs on so few servers are not slowed by it",
    ),
    "spine": (
        ("oversubscription",),
        "a run on more servers than share leaf switches has its bandwidth divided by this",
    ),
    "circuits": (
        ("network_kind", "reconfiguration_time"),
        "no switches across nodes: light paths are set anew for each step of a collective",
    ),
}
# For each table: the columns that distinguish its rows, with their heads where these are other words.
COLUMNS = {
    "accelerators": ("bf16_peak_flop_rate|bf16 peak", "fp16_peak_flop_rate|fp16 peak",
                     "memory_capacity|memory", "memory_bandwidth|bandwidth", "release_year|year"),
    "models": ("parameters_published|parameters", "layers", "dimensionality|width",
               "attention_heads|heads", "context"),
    "systems": ("accelerator", "number_of_accelerators_per_node|per node",
                "inter_accelerator_bandwidth|inside", "number_of_network_cards_per_node|cards",
                "bandwidth_per_network_card|per card"),
    "links": ("link_class|class", "bandwidth", "latency",
              "all_reduce_efficiency|all-reduce", "bandwidth_of|of"),
    "kernel-efficiencies": ("gemm_sustained_fraction|products", "memory_bandwidth_efficiency|bandwidth",
                            "attention_forward_efficiency|attention", "kernel_overhead_time|overhead",
                            "kernel_launch_time|launch"),
    "software": ("attention_kernel|attention", "streaming_traffic_factor|traffic",
                 "weight_gradient_accumulation|accumulation", "zero_stage|ZeRO",
                 "allocator_reserve_fraction|reserve"),
}  # fmt: skip


def listing(
    what: What,
    filter_text: str = "",
    lookup_tables: options.Folders = None,
    as_json: bool = False,
    as_csv: bool = False,
) -> None:
    """List the accelerators, models, systems, links, software, parameters, configs, measurements, topologies or grids there are.

    Example: amped list models --filter llama

    Options:
        what WHAT: What to list.
        filter_text --filter -f TEXT: Only lines with this text.
        as_json --json: Print a JSON list.
        as_csv --csv: Print CSV; of measurements, the whole table.
    """
    form = options.only(json=as_json, csv=as_csv)
    every = _table() if what == "measurements" and form == "csv" else _lines(what, lookup_tables)
    lines = [line for line in every if filter_text.casefold() in " ".join(line.values()).casefold()]
    if form == "json":
        options.show_json(lines)
        return
    if form == "csv":
        from amped.report.rows_formats import as_csv as written

        typer.echo(written([*lines[0]] if lines else ["name"], lines), nl=False)
        return
    if not lines:
        options.tell(f"nothing in {what} has {filter_text!r}")
        return
    from amped.report.tables import listed

    options.show(listed(lines))


def _lines(what: What, lookup_tables: LookupTables) -> Iterator[dict[str, str]]:
    """The lines of a list, each as values by the heads of columns."""
    if what == "configs":
        from amped.configuring.config import read_config, shipped_configs

        for name in shipped_configs():
            yield {"name": name, "description": read_config(name, catalogue()).description}
    elif what == "parameters":
        for quantity in map(catalogue().__getitem__, catalogue().numbers):
            unit = quantity.mark.bare or quantity.mark.unit
            yield {"name": quantity.name, "unit": unit, "meaning": quantity.summary}
    elif what == "measurements":
        yield from _measurements()
    elif what == "measurement-columns":
        yield from _measurement_columns()
    elif what == "grids":
        yield from _grids(lookup_tables)
    elif what == "topologies":
        yield from _topologies(lookup_tables)
    else:
        yield from _rows(what, lookup_tables)


def _topologies(lookup_tables: LookupTables) -> Iterator[dict[str, str]]:
    """A line for each kind of network (its parameters, its effect), and one for the network of each system."""
    for kind, (names, changes) in TOPOLOGY.items():
        yield {"word": kind, "set by": ", ".join(names), "changes": changes}
    tables = options.user_tables(lookup_tables)
    for name in tables.names(SYSTEMS):
        columns = tables.row(SYSTEMS, name).columns
        settings = [
            f"{parameter} {columns[parameter]}"
            for names, _ in TOPOLOGY.values()
            for parameter in names[:1]
            if parameter in columns
        ]
        topologies = [
            str(columns[parameter])
            for parameter in ("scale_up_topology", "scale_out_topology")
            if columns.get(parameter)
        ]
        yield {"word": name, "set by": ", ".join(settings), "changes": "; ".join(topologies)}


def _rows(what: What, lookup_tables: LookupTables) -> Iterator[dict[str, str]]:
    """The lines of a lookup table: name, distinguishing columns and aliases of each row."""
    from amped.tables.tables import LISTED

    tables = options.user_tables(lookup_tables)
    (table,) = (table for table, listed in LISTED.items() if listed == what)
    for name in tables.names(table):
        row = tables.row(table, name)
        cells = {written.rpartition("|")[2]: row.columns.get(written.partition("|")[0]) for written in COLUMNS[what]}
        values = {head: "" if cell is None else str(cell) for head, cell in cells.items()}
        yield {"name": name, **values, "aliases": ", ".join(a for a in row.aliases if isinstance(a, str))}


def _grids(lookup_tables: LookupTables) -> Iterator[dict[str, str]]:
    """A line for each region of a provider: its zone and year, and what is known of its electricity."""
    from amped.tables.grids import VALUES, grids

    for grid in grids(options.user_tables(lookup_tables).folders):
        values = {f"{name} ({unit})" if unit else name: str(grid.values.get(name, "")) for name, unit in VALUES.items()}
        about = {"region": grid.region, "provider": grid.provider, "zone": grid.zone, "year": grid.year}
        yield {**about, **values, "source": grid.source, "unverified": ", ".join(grid.unverified)}


def _measurements() -> Iterator[dict[str, str]]:
    """A line for each measured run or layer that comes with amped."""
    for cells in _table():
        machine = f"{cells['number_of_accelerators']} x {cells['accelerator']}"
        tokens = cells["measured_tokens_per_second_per_accelerator"]
        time = (
            f"{cells['measured_step_time']} s"
            if cells["measured_step_time"]
            else f"{tokens} tokens/s"
            if tokens
            else "-"
        )
        run = f"{cells['network']} on {machine}, {cells['software']}"
        yield {
            "id": cells["id"],
            "source": cells["source"],
            "run": run,
            "step, or rate of one": time,
            "inputs": cells["confidence"],
        }


def _measurement_columns() -> Iterator[dict[str, str]]:
    """A line for each column of the table of measurements: its name, its unit, in how many rows it is filled, and its meaning."""
    from amped.base.files import shipped_json
    from amped.validation.facts import FACTS

    own, rows = shipped_json("validation", "columns.json"), list(_table())
    for column in rows[0]:
        if column in own:
            unit, meaning = own[column].get("unit", ""), own[column]["meaning"]
        elif column in FACTS:
            unit, meaning = "", f"a fact of the run: {FACTS[column]}"
        else:
            quantity = catalogue()[column]
            unit, meaning = quantity.mark.bare or quantity.mark.unit, quantity.summary
        filled = sum(bool(cells[column]) for cells in rows)
        yield {"column": column, "unit": unit, "rows": str(filled), "meaning": meaning}


def _table() -> Iterator[dict[str, str]]:
    """Each row of the table of measurements that comes with amped: its cells, as they are written."""
    from amped.validation.table import shipped_cells

    yield from shipped_cells(blank=True)
