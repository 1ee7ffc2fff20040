"""`amped bench fit`: coefficients from measured kernels, as a row of `kernel_efficiencies`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from amped.base.commands import command, set_option, typed
from amped.base.version import __version__
from amped.cli import options
from amped.tables.table_files import ABOUT, HERE, KERNELS, user_folders
from amped.theory.language.catalogue import catalogue

if TYPE_CHECKING:
    from amped.tables.tables import Tables


def fit(
    file: Path,
    output: Path = HERE,
    name: str | None = None,
    accelerator: str | None = None,
    replace: bool = False,
    dry_run: bool = False,
    as_json: bool = False,
    lookup_tables: options.Folders = None,
) -> None:
    """Fit the coefficients of a device to its measured kernels and write them as a row of kernel_efficiencies.

    The fit changes a few physical coefficients of the equations of estimates, within bounds; each half of the records
    is also predicted by a fit to the other half. With fewer than eight clean records, a family keeps the defaults. A
    processor that no table has also gets a row of accelerator_specifications; collectives (--ranks N) give rows of
    links and systems.

    Example: amped bench fit this_machine.json -o lookup_tables

    Options:
        file FILE: What `amped bench run` wrote.
        --output -o DIR: Folder of lookup tables to write into.
        --name: Name of the row; else the accelerator's.
        --accelerator ROW: Its row of accelerator_specifications.
        --replace: Replace a row of that name.
        --dry-run: Fit and print, but write nothing.
        as_json --json: Print what was found as JSON, SI units.
    """
    from amped.kernels.calibration import as_json as as_plain
    from amped.kernels.results import read_result
    from amped.kernels.rows import write_rows
    from amped.tables.tables import Tables

    result, tables = read_result(file), Tables(user_folders(lookup_tables))
    fitted, rows = _calibrated(result, tables, accelerator, name)
    if as_json:
        options.show_json(as_plain(fitted), allow_nan=False)
    else:
        from amped.report.benching import calibration

        options.show(calibration(fitted))
    if not dry_run:
        for path in write_rows(output, rows, replace):
            options.tell(f"written to {path}")
        device = () if fitted.machine.known else ("--accelerator", fitted.machine.name)
        tables_of_user = options.table_words([*(lookup_tables or ()), output])
        row = f"{KERNELS}={rows[KERNELS][0]}"
        options.tell(f"use it: {command('estimate', *tables_of_user, *device, '--set', row)}")
        _tell_of_the_network(fitted)


def _tell_of_the_network(fitted: Any) -> None:
    """Prints how to use the fitted network between processes in an estimate; nothing if none was measured."""
    if fitted.network is None:
        return
    from amped.kernels.rows import network_name, network_settings

    settings = " ".join(set_option(name, value) for name, value in network_settings(fitted.network).items())
    row = typed("--system", network_name(fitted.machine.name, fitted.network))
    options.tell(f"between {fitted.network.ranks} processes: {row}, or {settings}")


def command_line() -> str:
    """The command that the user typed, as one text for the `source` of a row."""
    return " ".join(["amped", *sys.argv[1:]])


def _calibrated(
    result: dict[str, Any], tables: Tables, accelerator: str | None, name: str | None
) -> tuple[Any, dict[str, tuple[str, dict[str, Any]]]]:
    """The calibration, and the rows to write: for each table, the name of the row and its columns."""
    from amped.kernels import rows
    from amped.kernels.calibration import calibrated
    from amped.kernels.machine import ACCELERATORS, machine_of

    machine = machine_of(result, tables, accelerator)
    base = rows.base_row(tables, machine.name, machine.known)
    fitted = calibrated(result, machine, coefficients_of(tables, base), options.tell, collectives())
    source = rows.source_of(result, command_line(), __version__)
    rows_by_table = {rows.KERNELS: (name or machine.name, rows.kernel_row(fitted, result, base, source))}
    if not machine.known:
        specification = rows.accelerator_row(fitted, result, source)
        rows_by_table[ACCELERATORS] = (machine.name, {**specification, rows.KERNELS: name or machine.name})
    if fitted.network is not None:
        network_row = rows.network_name(machine.name, fitted.network)
        rows_by_table[rows.LINKS] = (network_row, rows.link_row(fitted.network, source))
        rows_by_table[rows.SYSTEMS] = (network_row, rows.system_row(fitted.network, machine.name, source))
    return fitted, rows_by_table


def coefficients_of(tables: Tables, row: str) -> dict[str, float]:
    """The coefficients of a row of kernel_efficiencies by name, in SI units."""
    from amped.configuring.values import read_value

    quantities, columns = catalogue(), tables.row(KERNELS, row).columns
    return {
        column: float(read_value(quantities[column], value))
        for column, value in columns.items()
        if column not in ABOUT and column in quantities and value is not None
    }


def collectives() -> Any:
    """A function that returns the seconds of a collective inside a node, by the equations of estimates.

    Its arguments are the kind, the payload, the number of processes, the rate of a ring, and the latency.
    """
    from amped.theory.links.electrical import RING, TIMES
    from amped.theory.nouns.link_records import Link, Links
    from amped.theory.nouns.records import Collective, Group

    times: Any = TIMES

    def seconds(kind: str, volume: Any, ranks: float, rate: Any, latency: Any) -> Any:
        link, processes = Link("measured", rate, latency), Group("processes", intra=ranks, inter=1.0)
        links = Links("measured", times, (RING,), overhead=0.0, inside=link, across=link, tree=1.0, switch=1.0)
        return times[kind](Collective("measured", kind, group=processes, volume=volume, count=1.0), links)

    return seconds
