"""How large something is that amped does not model: sums of products of numbers, of keys of a file and of amped's quantities."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from amped.interop.records import Reading

INTO = "not_modeled"


def total(own: Reading, terms: Iterable[Sequence[Any]]) -> float | None:
    """A sum of products of numbers, keys and quantities; None if one of them is not known.

    A factor is a number, a name, "1/name", or "name|2", which is 2 where the file does not say the name.
    """
    whole = 0.0
    for factors in terms:
        product = 1.0
        for factor in factors:
            value = _factor(own, factor)
            if value is None:
                return None
            product *= value
        whole += product
    return whole


def _factor(own: Reading, written: Any) -> float | None:
    """One factor of a product."""
    if isinstance(written, int | float):
        return float(written)
    name, _, default = written.partition("|")
    if name.startswith("1/"):
        divisor = _factor(own, written.removeprefix("1/"))
        return 1 / divisor if divisor else None
    value = _said(own, name)
    if value is None and default:
        return float(default)
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        return None
    if name not in own.values:
        own.keys.get(name if name in own.keys.raw else name.partition(".")[0], INTO)
    return float(value)


def _said(own: Reading, name: str) -> Any:
    """What a file says under a name: a quantity that was read, a key, or a key of a section."""
    outer, _, inner = name.partition(".")
    value = own.values.get(name, own.keys.raw.get(name, own.keys.raw.get(outer)))
    return value.get(inner) if inner and isinstance(value, Mapping) else value
