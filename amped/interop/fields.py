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


def _has_experts(values: Mapping[str, Any]) -> bool:
    """Whether a network is a mixture of experts."""
    return (values.get("number_of_experts") or 1) > 1


def _is_latent(values: Mapping[str, Any]) -> bool:
    """Whether attention has latent vectors."""
    return values.get("attention_kind") == "multi_latent"


def _chooses_sinks(values: Mapping[str, Any]) -> bool:
    """Whether attention may have sinks or not; attention to compressed keys always has them."""
    return values.get("attention_kind") != "compressed"


# When a field says something, by the values of the network.
CONDITIONS = {"always": lambda _: True, "experts": _has_experts, "latent": _is_latent, "sinks": _chooses_sinks}


class Field(NamedTuple):
    """How one format expresses a quantity.

    Attributes:
        keys: the names of the quantity in the format; the first one is written.
        by: how a value is converted.
        rule: the name of the rule that reads and writes the quantity together with others; None for a field that stands alone.
        why: the comment on the written field.
        words: pairs of the format's word or switch and amped's value; empty for a value that `by` converts.
        missing: the value that the format takes without the key.
        unknown: the word as which an unknown word is read.
        lost: the reason why a value without a word cannot be expressed.
        applies: whether the field says something, by the values of the network.
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
    """The content of a JSON file in this folder, by its name without the suffix."""
    text = resources.files("amped.interop").joinpath(f"{name}.json").read_text("utf-8")
    return parse_json(text, f"{name}.json")


@lru_cache(maxsize=16)
def fields(form: str) -> dict[str, Field]:
    """The fields of a format by quantity, for all quantities that the format can express."""
    rows: dict[str, dict[str, Any]] = table("fields")["rows"]
    return {quantity: _field(row[form], row.get("why", "")) for quantity, row in rows.items() if form in row}


def _field(entry: Any, why: str) -> Field:
    """The field of one cell of the table.

    Args:
        entry: a key as text; or a record with a key or a list of keys, and a conversion, words or a rule.
        why: the comment on the written field.
    """
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


def plain_values(
    form: str, reading: Reading, key_in_file: Callable[[str], str] = str
) -> Iterator[tuple[str, str, Any]]:
    """Each quantity that a single key gives without a rule, with the key and amped's value.

    A missing key gives the value that the format takes without it, if there is one. A family of networks may have other keys.

    Args:
        form: the name of the format.
        reading: the file, and the values so far.
        key_in_file: how a key is written in the file, such as `--num-layers` for `num_layers`.
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
            value = _value_of_word(field, reading, quantity, key, key_in_file)
        else:
            value = _converted(field.by, written, reading.place(key))
        if value is not None:
            yield quantity, key, reading.checked(quantity, value, key)


def _value_of_word(field: Field, reading: Reading, quantity: str, key: str, key_in_file: Callable[[str], str]) -> Any:
    """The value that a word or a switch of the file means; an unknown word is reported and read as `field.unknown`.

    The class before a word, as in AttnBackend.flash, is left out.
    """
    read_key = reading.flag if isinstance(field.words[0][0], bool) else reading.word
    word = str(read_key(key, quantity, field.missing)).rpartition(".")[2]
    values = {str(theirs).lower(): value for theirs, value in field.words if theirs is not None}
    if word.lower() not in values:
        reading.unsupported(key_in_file(key), f"{word}, read as {field.unknown}")
    return values.get(word.lower(), values[str(field.unknown).lower()])


def _converted(by: Conversion, value: Any, place: str) -> Any:
    """A value of another format, converted to amped's value.

    Raises:
        ConfigError: with the place, for a value that the conversion refuses.
    """
    try:
        return by.read(value)
    except ConfigError as error:
        raise ConfigError(error.at(place)) from None
