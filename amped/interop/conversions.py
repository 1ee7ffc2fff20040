"""Values on their way between two formats: a pair of functions for each name that fields.json gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class Conversion(NamedTuple):
    """How a value is read from another format, and written in it."""

    read: Callable[[Any], Any]
    write: Callable[[Any], Any]


def same(value: Any) -> Any:
    """A value that both have in the same form."""
    return value


def negated(value: Any) -> Any:
    """A flag that says the opposite."""
    return not value


def switched(value: Any) -> float:
    """A flag for what amped has as a share: all or nothing."""
    return 1.0 if value else 0.0


def zero_for_none(value: Any) -> Any:
    """A number that another format leaves out, or writes as null, where amped has 0."""
    return value or 0


def none_for_zero(value: Any) -> Any:
    """The same in the other direction."""
    return value or None


def at_least_one(value: Any) -> Any:
    """A degree that another format has as 0 where there is none."""
    return max(value, 1)


def zero_for_one(value: Any) -> Any:
    """The same in the other direction."""
    return 0 if value == 1 else value


CONVERSIONS = {
    "degree": Conversion(at_least_one, zero_for_one),
    "same": Conversion(same, same),
    "negated": Conversion(negated, negated),
    "switch": Conversion(switched, bool),
    "optional": Conversion(zero_for_none, none_for_zero),
}
