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
    """The config with every value of the file, in the sections where the catalogue lists them.

    Args:
        imported: the file.
        model: the network where the file says none: a row of the table, or a config.json.
    """
    sections: dict[str, dict[str, Any]] = {category: {"parameters": {}} for category in CATEGORIES}
    if imported.software:
        sections[MAPPING] = {**_row(SOFTWARE, imported.software), **sections[MAPPING]}
    if isinstance(model, str):
        sections[NETWORK] = {**_row(MODELS, model), **sections[NETWORK]}
    files = [file for file in (model, imported) if isinstance(file, Imported)]
    for file in files:
        for name, value in file.values.items():
            entry = {"value": value, "description": printable(f"from {file.origins.get(name, file.source)}")}
            sections[catalogue()[name].category or MAPPING]["parameters"][name] = entry
    about = printable(f"{imported.name}; imported by amped from {imported.source}")
    entries = (entry for file in files for entry in file.report.not_modeled())
    missing = [entry for entry in entries if model is None or entry["what"] != str(NO_SIZES)]
    return {"$schema": schema_uri(), "description": about} | ({KEY: missing} if missing else {}) | sections


def _row(table: str, name: str) -> dict[str, Any]:
    """A row of a table, as a category of a config names it."""
    return {"lookup_config": {"lookup_table_name": table, "lookup_table_row": name}}
