"""The machines that a provider rents: a system for each accelerator that it has a price for."""

from __future__ import annotations

from collections.abc import Iterable

from amped.base.errors import plain
from amped.base.units import parse
from amped.tables.prices import priced_rows, prices
from amped.tables.table_files import ACCELERATORS, SYSTEMS
from amped.tables.tables import Row, Tables

# So many machines are tried: those with the highest peak rates.
MOST = 4
PEAKS = ("bf16_peak_flop_rate", "fp16_peak_flop_rate")


def machines_of(tables: Tables, provider: str, term: object = None) -> list[str]:
    """The names of the systems of a provider that have the highest peak rates, the highest first.

    Args:
        tables: the lookup tables.
        provider: who rents them.
        term: the term of the prices; on demand without it.
    """
    sources = priced_rows(prices(tables.folders), provider, str(term) if term else None)
    rows = {name: tables.row(ACCELERATORS, name) for name in sources if tables.has(ACCELERATORS, name)}
    fastest = sorted(rows, key=lambda name: -_peak(rows[name]))
    systems = [tables.row(SYSTEMS, name) for name in tables.names(SYSTEMS)]
    found = (_system(name, sources[name], provider, systems) for name in fastest)
    return [name for name in dict.fromkeys(found) if name][:MOST]


def _peak(row: Row) -> float:
    """The peak rate of products in 16 bits; 0 if the row has none."""
    texts = (row.columns[name] for name in PEAKS if name in row.columns)
    return max((float(parse(str(text), "flop/s")) for text in texts), default=0.0)


def _system(accelerator: str, source: str, provider: str, systems: Iterable[Row]) -> str:
    """The system with an accelerator: the one whose shape the price names, else one of the provider, else the first; or none."""
    having = [row for row in systems if row.columns.get("accelerator") == accelerator]
    named = [row for row in having if any(plain(alias) in plain(source) for alias in row.aliases)]
    own = [row for row in having if plain(row.name).startswith(plain(provider))]
    return next((row.name for row in (*named, *own, *having)), "")
