"""The table of fields: for each quantity its name in every format. Importers and exporters read the same rows."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from importlib import resources
from typing import Any, NamedTuple

from amped.base.files import parse_json
from amped.interop.conversions import CONVERSIONS, Conversion
from amped.interop.records import Keys, checked


class Field(NamedTuple):
    """A quantity in one format: its keys and conversion, or the rule that knows it; and the comment on what is written."""

    quantity: str
    keys: tuple[str, ...]
    by: Conversion
    rule: str | None
    why: str


@lru_cache(maxsize=16)
def table(name: str) -> Any:
    """One of the tables beside this file."""
    text = resources.files("amped.interop").joinpath(f"{name}.json").read_text("utf-8")
    return parse_json(text, f"{name}.json")


@lru_cache(maxsize=16)
def fields(form: str) -> dict[str, Field]:
    """The quantities that a format can express."""
    rows: dict[str, dict[str, Any]] = table("fields")["rows"]
    return {quantity: _field(quantity, row[form], row.get("why", "")) for quantity, row in rows.items() if form in row}


def _field(quantity: str, entry: Any, why: str) -> Field:
    """The field of one entry of the table: a key, some keys, a key with a conversion, or a rule."""
    own = entry if isinstance(entry, dict) else {"key": entry}
    keys = own.get("key", ())
    return Field(
        quantity,
        (keys,) if isinstance(keys, str) else tuple(keys),
        CONVERSIONS[own.get("by", "same")],
        own.get("rule"),
        why,
    )


def plain_values(form: str, keys: Keys, other: dict[str, list[str]] | None = None) -> Iterator[tuple[str, str, Any]]:
    """The quantities that a key gives by itself: quantity, key, value. `other` has other keys for some quantities."""
    for quantity, field in fields(form).items():
        found = keys.first((other or {}).get(quantity, field.keys), quantity)
        if found is not None and field.rule is None:
            key, value = found
            yield quantity, key, checked(quantity, field.by.read(value), key)
