"""Values on their way between two formats: a pair of functions for each name that fields.json gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from amped.base.errors import ConfigError, quoted


class Conversion(NamedTuple):
    """A pair of functions for a value.

    Attributes:
        read: from a value of another format to amped's value.
        write: from amped's value to the value in the other format.
    """

    read: Callable[[Any], Any]
    write: Callable[[Any], Any]


def same(value: Any) -> Any:
    """The value itself, for a quantity that has the same form in both formats."""
    return value


def truth(value: Any) -> bool:
    """A value that must be true or false, unchanged.

    Raises:
        ConfigError: for any other value; the message does not say its place.
    """
    if not isinstance(value, bool):
        raise ConfigError(f"{quoted(value)} is neither true nor false")
    return value


def negated(value: Any) -> bool:
    """The opposite of a switch, for a quantity that another format switches off."""
    return not truth(value)


def share_of_switch(value: Any) -> float:
    """1.0 for true and 0.0 for false, for a share in amped that another format has as a switch."""
    return float(truth(value))


def is_zero(value: Any) -> bool:
    """Whether a value is the number 0 (false is not)."""
    return value == 0 and not isinstance(value, bool)


def unless_zero(value: Any) -> Any:
    """A number as amped reads it, or None for 0, by which the other format says that nothing is given."""
    return None if is_zero(value) else value


def none_for_zero(value: Any) -> Any:
    """A value as the other format has it, or None for 0 and for an empty value, so that no key is written."""
    return value or None


def unless_one(value: Any) -> Any:
    """A number, or None for 0 and 1, which change nothing, so that it is neither read nor written."""
    return None if value in (0, 1) and not isinstance(value, bool) else value


def at_least_one(value: Any) -> Any:
    """A degree of parallelism as amped reads it: 1 for 0, by which the other format says that nothing is split."""
    return 1 if is_zero(value) else value


def zero_for_one(value: Any) -> Any:
    """A degree of parallelism as the other format has it: 0 for 1, as nothing is split."""
    return 0 if value == 1 else value


CONVERSIONS = {
    "degree": Conversion(at_least_one, zero_for_one),
    "same": Conversion(same, same),
    "negated": Conversion(negated, negated),
    "switch": Conversion(share_of_switch, bool),
    "optional": Conversion(same, none_for_zero),
    "unless_zero": Conversion(unless_zero, none_for_zero),
    "unless_one": Conversion(unless_one, unless_one),
}
