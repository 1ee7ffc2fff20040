"""The syntax of sweeps, such as `batch_size=512:4096:x2`: from text to lists of values.

Text is parsed, never evaluated.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterable
from contextlib import suppress

from amped.base.errors import ConfigError, quoted

LONGEST_SWEEP = 100_000
_RANGE = re.compile(r"([^:]+):([^:]+):(x?)([^:]+?)(?::([A-Za-z/]+))?")


def parse_vary(texts: Iterable[str], is_row: Callable[[str, str], bool] = lambda *_: False) -> dict[str, list[object]]:
    """`NAME=A,B,C`, `NAME=LOW:HIGH:STEP` or `NAME=LOW:HIGH:xFACTOR`, each with an optional `:UNIT` at the end.

    A name that is given again has the further values, too. A value with a comma stands in quotes, or is the name of a row.

    Args:
        texts: the texts, as they are written.
        is_row: whether a text is the name of a row of the kind ("system", "model", ...) that is swept.

    Raises:
        ConfigError: for a text of another form, an empty range, or a step or factor that never reaches the end.
    """
    sweeps: dict[str, list[object]] = {}
    for text in texts:
        name, _, values = map(str.strip, text.partition("="))
        if not name or not values:
            raise ConfigError(f"--vary {text!r} is not NAME=VALUES", "for example --vary batch_size=512:4096:x2")
        match = _RANGE.fullmatch(values)
        sweep = sweeps.setdefault(name, [])
        sweep += _span(text, *match.groups()) if match else _listed(name, values, is_row)
        if len({*map(str, sweep)}) < len(sweep):
            raise ConfigError(f"--vary {text!r} has a value twice", "give each value once")
    return sweeps


def _listed(name: str, values: str, is_row: Callable[[str, str], bool]) -> list[object]:
    """The values between commas; a comma in quotes, or in the name of a row, separates nothing."""
    pieces, rows = _pieces(values), list[str]()
    while pieces:
        longest = next(n for n in range(len(pieces), 0, -1) if n == 1 or is_row(name, ", ".join(pieces[:n])))
        rows.append(", ".join(pieces[:longest]).strip())
        del pieces[:longest]
    if any(is_row(name, row) for row in rows):
        return [*rows]
    values, _, unit = values.partition(":")
    return [_number(v.strip(), unit) for v in _pieces(values)]


def _pieces(values: str) -> list[str]:
    """The texts between commas; a comma in quotes separates nothing."""
    try:
        return next(csv.reader([values], skipinitialspace=True))
    except csv.Error as error:
        raise ConfigError(f"--vary cannot read {quoted(values)}: {error}", "write the values with commas") from None


def _number(text: str, unit: str) -> object:
    """A bare number as a number; any other text unchanged, for the reader of values."""
    if unit:
        return f"{text} {unit}"
    words = {"true": True, "false": False}
    with suppress(ValueError):
        return words[text.lower()] if text.lower() in words else float(text)
    return text


def _span(text: str, low: str, high: str, times: str, step: str, unit: str | None) -> list[object]:
    try:
        start, stop, by = float(low), float(high), float(step)
    except ValueError:
        raise ConfigError(f"--vary {text!r}: a range has numbers", "for example 512:4096:x2 or 2:16:2:TB/s") from None
    grows = by > 1 and start > 0 if times else by > 0
    if not (grows and start <= stop < float("inf")):
        raise ConfigError(f"--vary {text!r} is an empty range",
                          "LOW:HIGH:STEP needs STEP > 0, LOW:HIGH:xFACTOR needs FACTOR > 1, and LOW at most HIGH")  # fmt: skip
    values, value = [], start
    while value <= stop * (1 + 1e-12):
        values.append(_number(repr(value), unit or ""))
        value = value * by if times else start + len(values) * by
        if len(values) > LONGEST_SWEEP:
            raise ConfigError(f"--vary {text!r} has more than {LONGEST_SWEEP} values", "use a larger step")
    return values
