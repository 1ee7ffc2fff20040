"""Reads one value: from what the user wrote to a bare float64 or to a choice, as the mark of its name says."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from amped.base.errors import ConfigError, did_you_mean, plain, quoted
from amped.base.units import parse
from amped.configuring.kernel_tables import KernelTable, read_kernel_table
from amped.configuring.layout_text import Blocks, Layout, Pattern, read_blocks, read_layout, read_pattern
from amped.theory.language.catalogue import Quantity

Value = float | str | Layout | Pattern | Blocks | KernelTable
RATES = ("Hz", "1/s", "byte/s", "flop/s")
TEXTS: Mapping[str, Callable[[str, object], Value]] = {
    "layout": read_layout, "pattern": read_pattern, "blocks": read_blocks, "kernel_table": read_kernel_table,
}  # fmt: skip
# Above this, neighboring whole numbers have the same float64.
LARGEST_COUNT = 2.0**53


def read_value(quantity: Quantity, written: object, old_style: bool = False) -> Value:
    """The value of `quantity` that the user wrote as `written`, in its canonical unit.

    Args:
        quantity: the quantity that gets the value.
        written: a number, text with a unit, a choice, true or false.
        old_style: whether the file is in AMPeD's older style, where bandwidths without a byte are in bits per second.

    Raises:
        UnitError, ConfigError: for a text or number that cannot be a value of the quantity.
    """
    mark, written = quantity.mark, _unwrapped(written)
    if mark.kind == "records":
        raise ConfigError(f"'{quantity.name}' is a list of records and cannot be given",
                          did_you_mean(quantity.name, ()) or "give the quantities it is made of")  # fmt: skip
    if quantity.is_selector:
        return _choice(quantity, written)
    if mark.unit in TEXTS:
        return TEXTS[mark.unit](quantity.name, written)
    if mark.unit == "boolean":
        return _boolean(quantity, written)
    if isinstance(written, bool) and mark.or_boolean:
        return float(written)
    if isinstance(written, bool):
        raise ConfigError(f"{quoted(written)} is not a number", f"{quantity.name} takes a number")
    if old_style and mark.unit == "byte/s":
        return _within(quantity, parse(_bits(written), mark.unit, "bit/s"), written)
    return _within(quantity, parse(written, mark.unit, mark.bare), written)


def read_values(quantity: Quantity, written: Sequence[object], old_style: bool = False) -> tuple[Value, ...]:
    """The values of a sweep, each read as `read_value` does.

    Raises:
        ConfigError: for an empty list or a repeated value; UnitError for a wrong value.
    """
    if not written:
        raise ConfigError("the list is empty", "a sweep needs at least one value")
    values = tuple(read_value(quantity, value, old_style) for value in written)
    if len(set(values)) < len(values):
        raise ConfigError("a value stands twice in the list", "keep one of each")
    return values


def _choice(quantity: Quantity, written: object) -> str:
    """The choice of a selector that a text means, whatever its case and hyphens.

    Raises:
        ConfigError: for another text.
    """
    options, hint = quantity.mark.choices, ""
    if isinstance(written, str):
        for option in options:
            if plain(option) == plain(written):
                return option
        hint = did_you_mean(written, options)
    raise ConfigError(f"{quoted(written)} is no choice of '{quantity.name}'",
                      f"{hint}{'' if hint.endswith('?') or not hint else ';'} it is one of {', '.join(options)}".strip())  # fmt: skip


def _boolean(quantity: Quantity, written: object) -> float:
    """1.0 for true or 1, 0.0 for false or 0.

    Raises:
        ConfigError: for another value.
    """
    if isinstance(written, bool) or (isinstance(written, int | float) and written in (0, 1)):
        return float(written)
    raise ConfigError(f"{quoted(written)} is neither true nor false", f"'{quantity.name}' is true or false")


def _within(quantity: Quantity, number: float, written: object) -> float:
    """The number, unchanged, if it is within the bounds of the mark.

    By default a rate must be above 0, a count must be whole (unless it is a mean) and at least 1, and others at least 0.

    Raises:
        ConfigError: for a number out of bounds, with the text that was written.
    """
    mark, shown, name = quantity.mark, quoted(written), quantity.name
    if mark.unit == "count" and number > LARGEST_COUNT:
        raise ConfigError(f"{shown} is too large to be counted", f"'{name}' is at most {LARGEST_COUNT:.0f}")
    if mark.unit == "count" and number != int(number) and not mark.mean:
        raise ConfigError(f"{shown} is not a whole number", f"'{name}' is a count")
    least = mark.at_least if mark.at_least is not None else 1.0 if mark.unit == "count" else 0.0
    above = mark.above if mark.above is not None else 0.0 if mark.unit in RATES else None
    if above is not None and number <= above:
        raise ConfigError(
            f"{shown} is not above {above:g}", f"'{name}' must be " + (f"above {above:g}" if above else "positive")
        )
    if number < least:
        raise ConfigError(f"{shown} is below {least:g}", f"'{name}' must be at least {least:g}")
    if mark.at_most is not None and number > mark.at_most:
        raise ConfigError(f"{shown} is above {mark.at_most:g}", f"'{name}' must be at most {mark.at_most:g}")
    return number


def _unwrapped(written: object) -> object:
    """A numpy number, or an array of one, as a Python number; all else unchanged."""
    item = getattr(written, "item", None)
    return item() if callable(item) and getattr(written, "size", 0) == 1 else written


def _bits(written: object) -> object:
    """A bandwidth in AMPeD's form, "200 Gb", with "/s" added; all else unchanged."""
    if isinstance(written, str) and written.strip()[-1:] in ("b", "B"):
        return f"{written.strip()}/s"
    return written
