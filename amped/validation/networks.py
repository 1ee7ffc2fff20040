"""Networks as tables write them in words: bandwidths, and the system whose networks stand in where nobody says."""

from __future__ import annotations

import re
from collections.abc import Iterator

from amped.base.errors import TableError, plain
from amped.base.units import parse
from amped.tables.table_files import LINKS, SYSTEMS
from amped.tables.tables import Row, Tables

RATE = r"([\d.]+)\s*(TB|GB|Tb|Gb|Gbit|Tbit)(?:/s|ps)"
PER_ACCELERATOR = re.compile(RATE + r"\s*(?:/|per\s+)(?:GPU|accelerator|device)", re.IGNORECASE)
PER_NODE = re.compile(r"(?:(\d+)\s*x[^\d]*)?" + RATE + r"\s*(?:/|per\s+)(?:node|server)", re.IGNORECASE)
PREFIX = {"T": 1e12, "G": 1e9}
BITS = 8
NO_WORD = ("", "single node", "none", "n/a", "not stated")


def bandwidth_per_accelerator(text: str, accelerators_per_node: float, tables: Tables) -> float | None:
    """Bandwidth of one accelerator in byte/s and per direction, of a network described in words; None if none is said.

    "... = 25 GB/s/GPU" and "8x200Gb/s per node" are read as they stand, else the first word that is a link of
    `link_specifications`. What follows the last sign of equality is what the rest comes to.
    """
    for part in (text.rpartition("=")[2], text):
        if found := PER_ACCELERATOR.search(part):
            return _rate(*found.groups())
        if found := PER_NODE.search(part):
            return float(found[1] or 1) * _rate(found[2], found[3]) / accelerators_per_node
    for name in (part.strip() for part in re.split(r"[+,;(]", text)):
        if tables.has(LINKS, name):
            return parse(tables.row(LINKS, name).column("bandwidth"), "byte/s")
    return None


def _rate(number: str, unit: str) -> float:
    size = PREFIX[unit[0].upper()] * float(number)
    return size if unit[1] == "B" else size / BITS


def says_something(text: str) -> bool:
    """Whether a network is described at all."""
    return text.strip().casefold() not in NO_WORD and "not stated" not in text


def systems_of(accelerator: Row, accelerators_per_node: float, tables: Tables) -> Iterator[Row]:
    """Systems built with an accelerator, or with one that it derives from: those with nodes of that size first."""
    names = {plain(name) for name in (accelerator.name, *accelerator.ancestors)}
    rows = []
    for name in tables.names(SYSTEMS):
        try:
            rows.append(tables.row(SYSTEMS, name))
        except TableError:
            continue  # `amped check-tables` tells what is wrong with it
    built = [row for row in rows if plain(str(row.columns.get("accelerator", ""))) in names]
    same = [row for row in built if row.columns.get("number_of_accelerators_per_node") == accelerators_per_node]
    yield from (*same, *(row for row in built if row not in same))
