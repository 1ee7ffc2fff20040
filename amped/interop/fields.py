"""The table of fields: for each quantity its name in every format. Importers and exporters read the same rows."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from importlib import resources
from typing import Any, NamedTuple

from amped.base.errors import ConfigError
from amped.base.files import parse_json
from amped.interop.conversions import CONVERSIONS, Conversion
from amped.interop.records import Reading


class Field(NamedTuple):
    """A quantity in one format: its keys and conversion, or the rule that knows it; and the comment on what is written."""

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
    return {quantity: _field(row[form], row.get("why", "")) for quantity, row in rows.items() if form in row}


def _field(entry: Any, why: str) -> Field:
    """The field of one entry of the table: a key, some keys, a key with a conversion, or a rule."""
    own = entry if isinstance(entry, dict) else {"key": entry}
    keys = own.get("key", ())
    return Field(
        (keys,) if isinstance(keys, str) else tuple(keys),
        CONVERSIONS[own.get("by", "same")],
        own.get("rule"),
        why,
    )


def plain_values(form: str, reading: Reading) -> Iterator[tuple[str, str, Any]]:
    """The quantities that a key gives by itself: quantity, key, value. A family may have other keys for some quantities."""
    for quantity, field in fields(form).items():
        names = reading.family.get("keys", {}).get(quantity, field.keys)
        reading.refuse_section(() if field.rule else names)
        entry = reading.first(names, quantity)
        if entry is not None and field.rule is None:
            key, value = entry[0], _converted(field.by, entry[1], reading.place(entry[0]))
            if value is not None:
                yield quantity, key, reading.checked(quantity, value, key)


def _converted(by: Conversion, value: Any, place: str) -> Any:
    """A value of another format in amped's form.

    Raises:
        ConfigError: with the place, for a value that the conversion does not take.
    """
    try:
        return by.read(value)
    except ConfigError as error:
        raise ConfigError(error.at(place)) from None
