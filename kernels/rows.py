"""A calibration as rows of amped's tables, which are added to the user's own tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from amped.base.errors import FileError
from amped.base.files import read_json, shipped_folder, write_atomically
from amped.kernels.calibration import Calibration
from amped.kernels.formats import FORMATS
from amped.kernels.link_fit import SHARES, Links
from amped.kernels.machine import ACCELERATORS
from amped.kernels.results import Result
from amped.tables.tables import Tables

Row = dict[str, Any]
KERNELS = "kernel_efficiencies"
SYSTEMS, LINKS = "system_specifications", "link_specifications"
ANY_ACCELERATOR = "default"
# The coefficients that have a unit, by it, and its size.
_OF_UNITS = {
    (1e-6, " us"): "kernel_overhead_time kernel_launch_time collective_overhead_time inter_accelerator_latency",
    (1e-9, " ns"): "elementary_function_time random_number_time",
    (1e6, " MB"): "bandwidth_ramp_bytes inter_accelerator_ramp_bytes cached_operand_bytes",
    (1e9, " GB/s"): "inter_accelerator_bandwidth",
}
UNITS = {name: unit for unit, names in _OF_UNITS.items() for name in names.split()}
# The coefficients of a processor that belong in its row of accelerators.
OF_THE_ACCELERATOR = ("vector_flop_rate",)
DESCRIPTION = "Coefficients fitted by `amped bench fit`: each row extends the one that served its accelerator."


def base_row(tables: Tables, machine: str, in_table: bool) -> str:
    """The name of the row that the machine used until now: its own, that of its architecture, or the default.

    `in_table` tells whether the table of accelerators has the machine.
    """
    if not in_table:
        return ANY_ACCELERATOR
    row = tables.row(ACCELERATORS, machine)
    words = str(row.columns.get("architecture") or "").split()
    names = [row.columns.get(KERNELS), row.name, *row.ancestors, *words]
    return next((str(n) for n in names if isinstance(n, str) and tables.has(KERNELS, n)), ANY_ACCELERATOR)


def kernel_row(calibration: Calibration, result: Result, base: str, source: str) -> Row:
    """The row of kernel_efficiencies: the coefficients, which of them were fitted, to what, and how well.

    `base` is the row that this row extends.
    """
    columns = {
        name: as_written(name, value) for name, value in calibration.values.items() if name not in OF_THE_ACCELERATOR
    }
    measured_kernels = f"{len(result['records'])} kernels of {result['device']['name']}"
    origin = {"fitted": [name for name in calibration.fitted if name in columns], "fitted_on": measured_kernels}
    return {"extends": base, **columns, **_columns_of_origin(source, _notes(calibration), **origin)}


def _columns_of_origin(source: str, notes: str, **more: Any) -> Row:
    """The columns that every written row has about its origin: aliases, sources, unverified and notes.

    `more` adds further columns, such as fitted_on.
    """
    return {"aliases": [], "sources": [source], **more, "unverified": [], "notes": notes}


def as_written(name: str, value: float) -> float | str:
    """A value as tables have it: with four digits, and with its unit if it has one."""
    size, unit = UNITS.get(name, (1.0, ""))
    number = float(f"{value / size:.4g}")
    return f"{number:g}{unit}" if unit else number


def source_of(result: Result, command: str, version: str) -> str:
    """A text about the origin of rows: the command, the device and the software."""
    device, software = result["device"], result["software"]
    driver = f", driver {device['driver']}" if device.get("driver") else ""
    return (f"{command} (amped {version}): {len(result['records'])} kernels measured {result['date']} on {device['name']}"
            f"{driver}, {result['host'].get('threads')} threads, torch {software['torch']}")  # fmt: skip


def _notes(calibration: Calibration) -> str:
    """A text about the fit: the errors of each family, and the families that were not fitted."""
    errors = [
        f"{s.family} {s.train:.1%} ({s.held_out:.1%} held out, {s.count} records)"
        for s in calibration.strata
        if s.name == "all"
    ]
    refused = [f"{name}: {reason}" for name, reason in calibration.refused.items()]
    return "; ".join([f"Mean absolute errors of the fit: {'; '.join(errors) or 'nothing was fitted'}", *refused]) + "."


def accelerator_row(calibration: Calibration, result: Result, source: str) -> Row:
    """A row for a processor that no table has: its peaks from instructions and clock, its bandwidth from copies."""
    machine = calibration.machine
    peaks = {FORMATS[dtype].peak: f"{peak / 1e9:.6g} GFLOP/s" for dtype, peak in machine.peaks.items()}
    vector = calibration.values.get("vector_flop_rate", machine.vector_rate)
    return {
        "vendor": result["device"]["name"], "architecture": "CPU", **peaks,
        "vector_flop_rate": f"{vector / 1e9:.4g} GFLOP/s", "memory_bandwidth": f"{machine.bandwidth / 1e9:.4g} GB/s",
        "memory_capacity": f"{(result['device'].get('mem_bytes') or 0) / 1e9:.4g} GB", KERNELS: machine.name,
        **_columns_of_origin(source, "Peaks are instructions times clock, or what was measured where that is more; the "
                 "bandwidth is the fastest large copy; the vector rate is fitted to kernels that work row by row."),
    }  # fmt: skip


def network_name(machine: str, network: Links) -> str:
    """The name of a system whose accelerators are the processes that were measured."""
    return f"{machine} {network.ranks} processes {network.backend}"


def network_settings(network: Links) -> Row:
    """The parameters of an estimate, by name, for a network inside a node."""
    settings = {"inter_accelerator_bandwidth": network.bandwidth, "inter_accelerator_latency": network.latencies[network.typical],
             "inter_accelerator_efficiency": network.share(network.typical)}  # fmt: skip
    return {name: as_written(name, value) for name, value in settings.items()}


def link_row(network: Links, source: str) -> Row:
    """A row for the link between processes: the bandwidth of the fastest collective, and each collective's share of it."""
    shares = {SHARES[kind]: float(f"{network.share(kind):.4g}") for kind in network.rates if kind in SHARES}
    steps = [f"{kind} {as_written('inter_accelerator_latency', value)}" for kind, value in network.latencies.items()]
    errors = [f"{s.name} {s.train:.1%} ({s.held_out:.1%} held out)" for s in network.strata]
    settings = network_settings(network)
    return {
        "link_class": "scale-up", "bandwidth": settings["inter_accelerator_bandwidth"],
        "bandwidth_of": "one process, the fastest kind of collective",
        "latency": settings["inter_accelerator_latency"], **shares,
        "efficiency_basis": f"fitted to {network.ranks} processes, {network.backend}",
        **_columns_of_origin(source,
                 f"Latency of a step: {', '.join(steps)}. Mean absolute errors of the fit: {'; '.join(errors)}."),
    }  # fmt: skip


def system_row(network: Links, machine: str, source: str) -> Row:
    """A row for a node whose accelerators are the processes that were measured."""
    return {
        "accelerator": machine, "number_of_accelerators_per_node": network.ranks,
        "scale_up_link": network_name(machine, network), **network_settings(network),
        "inter_accelerator_efficiency_basis": f"{network.typical} of {network.ranks} processes, {network.backend}",
        **_columns_of_origin(source,
                 "Latency and bandwidth are fitted to collectives; the latency is that of each step, ramps are in it."),
    }  # fmt: skip


def write_rows(folder: Path, rows: dict[str, tuple[str, Row]], replace: bool = False) -> list[Path]:
    """Adds one row to the file of each table in a folder, and returns the files; their other rows are kept.

    `rows` has the name of the row and the row by table.

    Raises:
        FileError: for amped's own tables, a file of another table, or a row that exists and may not be replaced.
    """
    if folder.resolve() == shipped_folder("lookup_tables").resolve():
        raise FileError(
            "holds the tables that come with amped", "choose another -o, and --lookup-tables with it", str(folder)
        )
    contents = {table: _added(folder / f"{table}.json", table, *row, replace) for table, row in rows.items()}
    return [write_atomically(folder / f"{table}.json", text, overwrite=True) for table, text in contents.items()]


def _added(path: Path, table: str, name: str, row: Row, replace: bool) -> str:
    """The text of a table's file with a row added.

    Raises:
        FileError: if the file is not this table, or has the row already and it may not be replaced.
    """
    content: Any = read_json(path) if path.exists() else {"table": table, "description": DESCRIPTION, "rows": {}}
    if (
        not isinstance(content, dict)
        or not isinstance(content.get("rows"), dict)
        or content.get("table", table) != table
    ):
        raise FileError(f"is not a table {table}", "choose another -o", str(path))
    if name in content["rows"] and not replace:
        raise FileError(
            f"has a row {name!r} already", "replace it with --replace, or choose another --name or -o", str(path)
        )
    content["rows"][name] = row
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"
