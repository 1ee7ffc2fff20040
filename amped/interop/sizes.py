"""How large something is that amped does not model: sums of products of numbers, of keys of a file and of amped's quantities."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeGuard

from amped.interop.fields import table
from amped.interop.records import LARGEST, Reading

INTO = "not_modeled"


def sum_of(reading: Reading, terms: Iterable[Sequence[Any]], into: str = INTO) -> float | None:
    """A sum of products of numbers, keys of the file and quantities; None if the file lacks one of them.

    Args:
        reading: the file.
        terms: for each product its factors. A factor is a number, a name, "1/name", a list of factors, "@size" (a row of the sizes
            in `not_modeled.json`), or "name|other|2", the first of them that has a value.
        into: what the keys are marked as used for.
    """
    total = 0.0
    for factors in terms:
        product = 1.0
        for factor in factors:
            value = _factor(reading, factor, into)
            if value is None:
                return None
            product *= value
        total += product
    return total


def _factor(reading: Reading, written: Any, into: str) -> float | None:
    """The value of one factor, in one of the forms that `sum_of` lists; None if it is not known."""
    if isinstance(written, int | float):
        return float(written)
    if isinstance(written, list):
        return sum_of(reading, [written], into)
    if written.startswith("1/"):
        divisor = _factor(reading, written.removeprefix("1/"), into)
        return 1 / divisor if divisor else None
    if written.startswith("@"):
        return _first_known(reading, table("not_modeled")["sizes"][written.removeprefix("@")], into)
    if "|" in written:
        return _first_known(reading, written.split("|"), into)
    if written.replace(".", "", 1).isdigit():
        return float(written)
    return _value(reading, written, into)


def _first_known(reading: Reading, names: Iterable[Any], into: str) -> float | None:
    """The value of the first of several factors that is known; None if none is."""
    return next((value for name in names if (value := _factor(reading, name, into)) is not None), None)


def _value(reading: Reading, name: str, into: str) -> float | None:
    """The value of a quantity or a key; None if it is no size.

    Of a list it is the largest number; with a # before the key, the length of the list.
    """
    key = name.removeprefix("#")
    outer, _, inner = key.partition(".")
    value = reading.values.get(key, reading.raw.get(key, reading.raw.get(outer)))
    value = value.get(inner) if inner and isinstance(value, Mapping) else value
    if isinstance(value, list):
        value = len(value) if name.startswith("#") else max(filter(is_size, value), default=None)
    if not is_size(value):
        return None
    if key not in reading.values:
        reading.get(key if key in reading.raw else outer, into)
    return float(value)


def is_size(value: Any) -> TypeGuard[float]:
    """Whether a value of a file can be a size: a number from 0 to LARGEST, and no truth value."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= LARGEST
