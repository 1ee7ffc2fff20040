"""Lines with the same keys, as a table."""

from __future__ import annotations

from rich.table import Table

from amped.report.tables import table


def listed(lines: list[dict[str, str]]) -> Table:
    """One row for each line; the first key's values are not broken."""
    heads = [key.replace("_", " ") for key in lines[0]]
    return table(heads, [[*line.values()] for line in lines], heads, heads[1:])
