"""How a number is written for a person, and how one is written that a user may give back to amped."""

from __future__ import annotations

import math

_PREFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
# Between these sizes a number is written without a power of ten.
SMALLEST, LARGEST = 1e-6, 1e15


def digits(number: float, significant: int = 4) -> str:
    """A number with a few significant digits and commas between thousands; whole numbers with all their digits."""
    if number == 0 or not math.isfinite(number):
        return f"{number:g}"
    power = math.floor(math.log10(abs(number)))
    if not SMALLEST <= abs(number) < LARGEST:
        return f"{number / 10.0**power:.{significant}g} x 10^{power}"
    return f"{number:,.0f}" if number == int(number) else f"{number:,.{max(0, significant - 1 - power)}f}"


def settable(number: float) -> str:
    """A number as text that amped reads back: a whole number with all digits ("300 G" if it is large), others with ten."""
    if not math.isfinite(number) or number != int(number) or abs(number) < 1e6:
        plain = f"{number:.10g}"
        return plain if "e" not in plain else repr(number)
    for size, prefix in _PREFIXES:
        if abs(number) >= size and number % (size / 1e3) == 0:
            return f"{number / size:.17g} {prefix}"
    return f"{number:.17g}"


def counted(number: float, noun: str) -> str:
    """A number of things: "1 accelerator", "1,024 accelerators"."""
    return f"{digits(number)} {noun}{'' if number == 1 else 's'}"
