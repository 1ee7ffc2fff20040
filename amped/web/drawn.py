"""A section of a page as JSON: the page in the browser draws it as a report draws it."""

from __future__ import annotations

from typing import Any

from amped.report.page.content import Cell, Section, Table


def section(of: Section) -> dict[str, Any]:
    """All that stands in a section."""
    return {
        "id": of.id, "title": of.title, "lines": list(of.lines),
        "numbers": [{"name": n.name, "label": n.label, "told": n.told, "exact": n.exact} for n in of.numbers],
        "pictures": [picture.data | {"table": _table(picture.table)} for picture in of.pictures],
        "tables": [_table(table) for table in of.tables], "blocks": dict(of.blocks),
    }  # fmt: skip


def _table(of: Table) -> dict[str, Any]:
    return {"caption": of.caption, "heads": of.heads, "rows": [[_cell(cell) for cell in row] for row in of.cells]}


def _cell(of: Cell) -> list[Any]:
    """The text of a cell, its exact value, its name and its configuration if it is a value of `--json`, and whether it is a number."""
    return [of.told, of.exact, of.name, of.config, of.is_number]
