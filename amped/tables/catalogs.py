"""A public catalog of machines to rent as a list of prices: a file `vms.csv` of the SkyPilot catalog."""

from __future__ import annotations

import csv
import io
import statistics
from collections.abc import Iterator, Mapping

from amped.base.errors import FileError
from amped.tables.prices import Price
from amped.tables.table_files import ACCELERATORS
from amped.tables.tables import Tables

# Columns of the catalog: how many accelerators a machine has, and its prices for an hour by the term.
NAME, COUNT, TERMS = "AcceleratorName", "AcceleratorCount", {"on_demand": "Price", "spot": "SpotPrice"}
NEEDED = (NAME, COUNT, "Region", *TERMS.values())
# A name of the catalog that means another row in amped's tables. Source: skypilot-catalog v8, common/accelerators.csv, recalled.
MEANT = {"A100": "A100 SXM 40GB"}
Machine = Mapping[str, str]


def prices_in(text: str, file: str, provider: str, date: str, tables: Tables) -> tuple[list[Price], list[str]]:
    """The prices of a catalog, and the names of accelerators that no row of the tables has.

    The machines with most accelerators count: a training takes whole machines. Several of them in one region make one price.

    Args:
        text: the content of the catalog's file.
        file: its name.
        provider: whose machines they are.
        date: when the catalog was written.
        tables: the lookup tables.

    Raises:
        FileError: if it lacks a column.
    """
    reader = csv.DictReader(io.StringIO(text, newline=""))
    if missing := [name for name in NEEDED if name not in (reader.fieldnames or ())]:
        raise FileError(f"has no column {', '.join(missing)}", "give a vms.csv of the SkyPilot catalog", file)
    machines = [cells for cells in reader if cells[NAME] and float(cells[COUNT] or 0) >= 1]
    rows = {name: _row(name, tables) for name in dict.fromkeys(cells[NAME] for cells in machines)}
    source = f"SkyPilot catalog, {provider}"
    found = [
        Price(provider, row, region, term, date, min(each), statistics.median(each), max(each), source)
        for name, row in rows.items() if row
        for (region, term), each in sorted(_by_region([cells for cells in machines if cells[NAME] == name]))
    ]  # fmt: skip
    return found, [name for name, row in rows.items() if not row]


def _row(name: str, tables: Tables) -> str:
    """The name of the row of an accelerator of the catalog; empty if there is none."""
    meant = MEANT.get(name, name)
    return tables.row(ACCELERATORS, meant).name if tables.has(ACCELERATORS, meant) else ""


def _by_region(machines: list[Machine]) -> Iterator[tuple[tuple[str, str], list[float]]]:
    """The prices of one accelerator by region and term, from the machines with most accelerators of each region."""
    for region in dict.fromkeys(cells["Region"] for cells in machines):
        here = [cells for cells in machines if cells["Region"] == region]
        most = max(float(cells[COUNT]) for cells in here)
        for term, column in TERMS.items():
            each = [float(cells[column]) / most for cells in here if cells[column] and float(cells[COUNT]) == most]
            if each := [price for price in each if price > 0]:
                yield (region, term), each
