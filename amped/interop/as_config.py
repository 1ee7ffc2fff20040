"""An imported file as a config of amped; each parameter says where it comes from."""

from __future__ import annotations

from typing import Any

from amped.base.printable import printable
from amped.configuring.config_writing import schema_uri
from amped.configuring.not_modeled import KEY
from amped.interop.records import Imported
from amped.interop.sections import NO_SIZES
from amped.tables.table_files import MODELS, SOFTWARE
from amped.theory.language.catalogue import catalogue
from amped.theory.language.quantity import CATEGORIES, MAPPING, NETWORK


def as_config(imported: Imported, model: str | Imported | None = None) -> dict[str, Any]:
    """A config of amped with every value of an imported file, in the sections where the catalogue lists the quantities.

    Each parameter says which key it comes from. What amped cannot express stands under `not_modeled`, if there is anything.

    Args:
        imported: the file.
        model: the network, if the file does not name the wanted one: the name of a row of the table, or an imported config.json.
    """
    model = imported.network if model is None else model
    sections: dict[str, dict[str, Any]] = {category: {"parameters": {}} for category in CATEGORIES}
    if imported.software:
        sections[MAPPING] = {**_row_reference(SOFTWARE, imported.software), **sections[MAPPING]}
    if isinstance(model, str):
        sections[NETWORK] = {**_row_reference(MODELS, model), **sections[NETWORK]}
    files = [file for file in (model, imported) if isinstance(file, Imported)]
    for file in files:
        for name, value in file.values.items():
            entry = {"value": value, "description": printable(f"from {file.origins.get(name, file.source)}")}
            sections[catalogue()[name].category or MAPPING]["parameters"][name] = entry
    about = printable(f"{imported.name}; imported by amped from {imported.source}")
    entries = (entry for file in files for entry in file.report.not_modeled())
    not_modeled = [entry for entry in entries if model is None or entry["what"] != str(NO_SIZES)]
    return {"$schema": schema_uri(), "description": about} | ({KEY: not_modeled} if not_modeled else {}) | sections


def _row_reference(table: str, row: str) -> dict[str, Any]:
    """The reference to a row of a lookup table, in the form that a section of a config has."""
    return {"lookup_config": {"lookup_table_name": table, "lookup_table_row": row}}
