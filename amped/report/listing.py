"""Lines with the same keys, as a table."""

from __future__ import annotations

from rich.table import Table


def listed(lines: list[dict[str, str]]) -> Table:
    """One row for each line; the first key's values are not broken."""
    table = Table(box=None, pad_edge=False, header_style="bold", expand=False)
    for position, key in enumerate(lines[0]):
        table.add_column(key.replace("_", " "), no_wrap=position == 0, overflow="fold")
    for line in lines:
        table.add_row(*line.values())
    return table
