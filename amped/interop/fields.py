"""The table of fields: for each quantity its name in every format. Importers and exporters read the same rows."""

from __future__ import annotations

from functools import lru_cache
from importlib import resources
from typing import Any

from amped.base.files import parse_json


@lru_cache(maxsize=16)
def table(name: str) -> Any:
    """One of the tables beside this file."""
    text = resources.files("amped.interop").joinpath(f"{name}.json").read_text("utf-8")
    return parse_json(text, f"{name}.json")


def names(form: str) -> dict[str, list[str]]:
    """For each quantity that a format has, its names there; the first one that a file has counts."""
    rows: dict[str, dict[str, Any]] = table("fields")["rows"]
    return {
        quantity: [row[form]] if isinstance(row[form], str) else row[form]
        for quantity, row in rows.items()
        if form in row
    }
