"""A section of a page as JSON: the page in the browser draws it as a report draws it."""

from __future__ import annotations

from typing import Any

from amped.report.page.content import Cell, Section, Table


def section_as_json(section: Section) -> dict[str, Any]:
    """A section of a report page as JSON: id, title, lines, numbers, pictures (each with its table), tables and blocks."""
    return {
        "id": section.id, "title": section.title, "lines": list(section.lines),
        "numbers": [{"name": n.name, "label": n.label, "told": n.told, "exact": n.exact} for n in section.numbers],
        "pictures": [picture.data | {"table": _table(picture.table)} for picture in section.pictures],
        "tables": [_table(table) for table in section.tables], "blocks": dict(section.blocks),
    }  # fmt: skip


def _table(table: Table) -> dict[str, Any]:
    return {
        "caption": table.caption,
        "heads": table.heads,
        "rows": [[_cell(cell) for cell in row] for row in table.cells],
    }


def _cell(cell: Cell) -> list[Any]:
    """A cell as a list: text, exact value, name and configuration (if `--json` has the value), and whether it is a number."""
    return [cell.told, cell.exact, cell.name, cell.config, cell.is_number]
