"""An imported file as a config of amped; each parameter says where it comes from."""

from __future__ import annotations

from typing import Any

from amped.configuring.config_writing import schema_uri
from amped.interop.records import Imported
from amped.tables.table_files import SOFTWARE
from amped.theory.catalogue import catalogue
from amped.theory.quantity import CATEGORIES, MAPPING


def as_config(found: Imported) -> dict[str, Any]:
    """The config with every value of the file, in the sections where the catalogue lists them."""
    known = catalogue()
    sections: dict[str, dict[str, Any]] = {category: {} for category in CATEGORIES}
    for name, value in found.values.items():
        entry = {"value": value, "description": f"from {found.told.get(name, found.source)}"}
        sections[known[name].category or MAPPING][name] = entry
    head = {"$schema": schema_uri(), "description": f"{found.name}; imported by amped from {found.source}"}
    rows = (
        {MAPPING: {"lookup_config": {"lookup_table_name": SOFTWARE, "lookup_table_row": found.software}}}
        if found.software
        else {}
    )
    return {**head, **{category: {**rows.get(category, {}), "parameters": own} for category, own in sections.items()}}
