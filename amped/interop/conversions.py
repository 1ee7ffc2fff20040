"""Values on their way between two formats: a pair of functions for each name that fields.json gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from amped.base.errors import ConfigError, quoted


class Conversion(NamedTuple):
    """How a value is read from another format, and written in it."""

    read: Callable[[Any], Any]
    write: Callable[[Any], Any]


def same(value: Any) -> Any:
    """A value that both have in the same form."""
    return value


def truth(value: Any) -> bool:
    """A flag.

    Raises:
        ConfigError: for another value, without its place.
    """
    if not isinstance(value, bool):
        raise ConfigError(f"{quoted(value)} is neither true nor false")
    return value


def negated(value: Any) -> bool:
    """A flag that says the opposite."""
    return not truth(value)


def switched(value: Any) -> float:
    """A flag for what amped has as a share: all or nothing."""
    return float(truth(value))


def is_zero(value: Any) -> bool:
    """Whether a value is the number 0, and not false."""
    return value == 0 and not isinstance(value, bool)


def unless_zero(value: Any) -> Any:
    """A number that is 0 in another format where amped has none; 0 is not taken."""
    return None if is_zero(value) else value


def none_for_zero(value: Any) -> Any:
    """The same in the other direction."""
    return value or None


def unless_one(value: Any) -> Any:
    """A number that says nothing where it is 0 or 1, in both directions."""
    return None if value in (0, 1) and not isinstance(value, bool) else value


def at_least_one(value: Any) -> Any:
    """A degree that another format has as 0 where there is none."""
    return 1 if is_zero(value) else value


def zero_for_one(value: Any) -> Any:
    """The same in the other direction."""
    return 0 if value == 1 else value


CONVERSIONS = {
    "degree": Conversion(at_least_one, zero_for_one),
    "same": Conversion(same, same),
    "negated": Conversion(negated, negated),
    "switch": Conversion(switched, bool),
    "optional": Conversion(same, none_for_zero),
    "unless_zero": Conversion(unless_zero, none_for_zero),
    "unless_one": Conversion(unless_one, unless_one),
}
