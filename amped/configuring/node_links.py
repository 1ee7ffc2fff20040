"""The link between nodes by name: a row of the table of links says what the network across nodes can do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from amped.base.errors import Problem, TableError
from amped.configuring.values import read_value
from amped.tables.table_files import LINKS
from amped.tables.tables import Row, Tables
from amped.theory.language.catalogue import Catalogue

# The setting that names a row of links.
NAME = "inter_node_link"
CARD, SERVER = "bandwidth_per_network_card", "inter_node_bandwidth"
# For each parameter of the network: the column of a link's row that gives it.
COLUMNS = {CARD: "bandwidth", "inter_node_latency": "latency", "inter_node_efficiency": "all_reduce_efficiency"}
# How far bandwidths may differ that mean the same: 12.5 and 12.3 GB/s, as sources round them.
ROUNDED = 0.05


def link_settings(name: str, given: Mapping[str, object], tables: Tables, catalogue: Catalogue) -> dict[str, object]:
    """The settings of the network across nodes that the row of a link gives: all that nobody gives by its own name.

    The bandwidth of a card is left out if the bandwidth of the whole server is given, as this is that of all its cards.

    Args:
        name: the row of the link, or one of its aliases.
        given: what the config and the caller give, by name.
        tables: the lookup tables.
        catalogue: all quantities.

    Raises:
        TableError: for an unknown row, with the nearest; for a link whose bandwidth contradicts a given one.
    """
    row = tables.row(LINKS, name)
    if problems := [*_contradictions(row, given, catalogue)]:
        raise TableError(problems)
    left_out = {*given, *([CARD] if SERVER in given else [])}
    return {parameter: row.columns[column] for parameter, column in COLUMNS.items()
            if column in row.columns and parameter not in left_out}  # fmt: skip


def _contradictions(row: Row, given: Mapping[str, object], catalogue: Catalogue) -> Iterator[Problem]:
    """A problem if a given bandwidth is not that of the link: that of a card, or, for a server, of a whole number of cards."""
    link = read_value(catalogue[CARD], row.column("bandwidth"))
    for parameter in {CARD, SERVER} & given.keys():
        written = given[parameter]
        bandwidth = read_value(catalogue[parameter], written)
        links = float(bandwidth) / float(link)
        whole = 1 if parameter == CARD else max(round(links), 1)
        if abs(links / whole - 1) > ROUNDED:
            what = f"{parameter} is {written}, and one link of '{row.name}' has {row.columns['bandwidth']}"
            yield Problem(f"{what}: this is no whole number of links", f"--set {NAME}", "leave one of the two out")
