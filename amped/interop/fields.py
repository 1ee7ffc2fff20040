"""The table of fields: for each quantity its name in every format. Importers and exporters read the same rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from importlib import resources
from typing import Any, NamedTuple

from amped.base.errors import ConfigError
from amped.base.files import parse_json
from amped.interop.conversions import CONVERSIONS, Conversion
from amped.interop.records import Reading


def _always(_: Mapping[str, Any]) -> bool:
    """No condition."""
    return True


def _has_experts(values: Mapping[str, Any]) -> bool:
    """Whether a network is a mixture of experts."""
    return (values.get("number_of_experts") or 1) > 1


def _is_latent(values: Mapping[str, Any]) -> bool:
    """Whether attention has latent vectors."""
    return values.get("attention_kind") == "multi_latent"


CONDITIONS = {"always": _always, "experts": _has_experts, "latent": _is_latent}


class Field(NamedTuple):
    """A quantity in one format: its keys with their conversion or their words, or the rule that knows it; and its comment.

    Attributes:
        keys: the names that it has there; the first is written.
        by: how a value is converted.
        rule: what reads and writes it with other quantities.
        why: the comment on what is written.
        words: pairs of a word or a switch there and the value here; empty for a value that `by` converts.
        missing: what the format takes without the key.
        unknown: the word as which another one is read.
        lost: why a value without a word cannot be expressed.
        applies: whether the key says something, by the values of the network.
    """

    keys: tuple[str, ...]
    by: Conversion
    rule: str | None
    why: str
    words: Sequence[tuple[Any, Any]]
    missing: Any
    unknown: Any
    lost: str
    applies: Callable[[Mapping[str, Any]], bool]


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
    """The field of one entry of the table: a key, some keys, a key with a conversion or words, or a rule."""
    row = entry if isinstance(entry, dict) else {"key": entry}
    keys, words = row.get("key", ()), row.get("words", ())
    return Field(
        keys=(keys,) if isinstance(keys, str) else tuple(keys),
        by=CONVERSIONS[row.get("by", "same")],
        rule=row.get("rule"),
        why=why,
        words=words,
        missing=row.get("missing"),
        unknown=row.get("unknown", words[-1][0] if words else None),
        lost=row.get("lost", ""),
        applies=CONDITIONS[row.get("if", "always")],
    )


def plain_values(form: str, reading: Reading, shown: Callable[[str], str] = str) -> Iterator[tuple[str, str, Any]]:
    """The quantities that a key gives by itself: quantity, key, value. A family may have other keys for some quantities.

    Args:
        form: the format.
        reading: the file.
        shown: how a key is written in the file.
    """
    for quantity, field in fields(form).items():
        if not field.applies(reading.values):
            continue
        names = reading.family.get("keys", {}).get(quantity, field.keys)
        reading.refuse_section(() if field.rule else names)
        entry = reading.first(names, quantity)
        if field.rule or (entry is None and field.missing is None):
            continue
        key, written = entry or (names[0], field.missing)
        if field.words:
            value = _of_word(field, reading, quantity, key, shown)
        else:
            value = _converted(field.by, written, reading.place(key))
        if value is not None:
            yield quantity, key, reading.checked(quantity, value, key)


def _of_word(field: Field, reading: Reading, quantity: str, key: str, shown: Callable[[str], str]) -> Any:
    """The value that a word or a switch means; an unknown word is told. The class before a word (AttnBackend.flash) says nothing."""
    read = reading.flag if isinstance(field.words[0][0], bool) else reading.word
    word = str(read(key, quantity, field.missing)).rpartition(".")[2]
    values = {str(theirs).lower(): value for theirs, value in field.words if theirs is not None}
    if word.lower() not in values:
        reading.unsupported(shown(key), f"{word}, read as {field.unknown}")
    return values.get(word.lower(), values[str(field.unknown).lower()])


def _converted(by: Conversion, value: Any, place: str) -> Any:
    """A value of another format in amped's form.

    Raises:
        ConfigError: with the place, for a value that the conversion does not take.
    """
    try:
        return by.read(value)
    except ConfigError as error:
        raise ConfigError(error.at(place)) from None
