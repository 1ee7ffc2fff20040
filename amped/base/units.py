"""The registry of units, and how a value with a unit becomes a bare number in the canonical unit.

Inside amped every number is a float64 in its declared unit; pint is used only where values are read.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal
from functools import lru_cache
from typing import Any

from amped.base.errors import UnitError, quoted
from amped.base.files import shipped_text

PREFIXES = {
    "k": 1e3,
    "K": 1e3,
    "M": 1e6,
    "G": 1e9,
    "T": 1e12,
    "P": 1e15,
    "m": 1e-3,
    "u": 1e-6,
    "µ": 1e-6,
    "μ": 1e-6,
    "n": 1e-9,
}
# Units of the shipped tables and configs. pint gives the same numbers, but takes a third of a second to load.
COMMON = {
    "byte": {"B": 1.0, "MB": 1e6, "GB": 1e9, "TB": 1e12, "MiB": 2.0**20, "GiB": 2.0**30, "TiB": 2.0**40, "bit": 0.125},
    "byte/s": {"GB/s": 1e9, "TB/s": 1e12, "Gbit/s": 1.25e8},
    "s": {"ms": 1e-3, "us": 1e-6, "day": 86400.0},
    "Hz": {"MHz": 1e6, "GHz": 1e9},
    "flop/s": {"TFLOP/s": 1e12},
    "W": {"W": 1.0},
    "flop/byte": {"flop/byte": 1.0},
    "J/byte": {"pJ/byte": 1e-12},
    "dollar/s": {"USD/hour": 1 / 3600},
    "dollar/J": {"USD/kWh": 1 / 3.6e6},
    "gram/J": {"g/kWh": 1 / 3.6e6},
    "liter/J": {"L/kWh": 1 / 3.6e6},
}
# What people write behind a large count.
LARGE_COUNTS = {"B": 1e9, "thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12}
# An amount of money: a number, how many of them, and the currency.
MONEY = re.compile(
    r"\s*\$?\s*(\d+(?:\.\d*)?|\.\d+)\s*(k|K|M|B|T|thousand|million|billion|trillion)?\s*(?:USD|dollars?|\$)?\s*"
)
# A price for a time.
RATE_OF_MONEY = re.compile(r"\s*\$\s*(\d+(?:\.\d*)?|\.\d+)\s*(?:/\s*(?:h|hr|hour))?\s*")
MONEYS = ("dollar", "dollar/s")
# Units in which nobody means a small bare number: the unit that people have in mind, and what is not small.
COARSE, LEAST_COARSE = {"byte": "GB", "byte/s": "GB/s", "flop/s": "TFLOP/s", "Hz": "GHz"}, 1e6
# Units that are plain numbers for pint: those of counts, flags and ratios.
DIMENSIONLESS = ("count", "boolean", "1")
LONGEST_TEXT = 80
_QUANTITY = re.compile(
    r"\s*([+-]?(?:\d+(?:_\d{3})*(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,4})?)\s*([A-Za-zµμ]+(?:/[A-Za-z]+)?|%)?\s*"
)
# For each unit: what it measures, in words, and what to write for a value in it.
_KINDS = {
    "byte": ("memory (byte)", "80 GB"), "byte/s": ("bandwidth (byte/s)", "900 GB/s"), "Hz": ("frequency (Hz)", "1.41 GHz"),
    "s": ("time (s)", "5 us"), "flop/s": ("compute rate (flop/s)", "312 TFLOP/s"), "W": ("power (W)", "400 W"),
    "dollar/s": ("price for a time (dollar/hour)", "2.5 USD/hour"),
    "dollar/J": ("price of energy (dollar/kWh)", "0.08 USD/kWh"), "gram/J": ("emission for energy (gram/kWh)", "400 g/kWh"),
    "gram": ("mass (gram)", "5 kg"), "liter": ("water (liter)", "5 L"), "liter/J": ("water for energy (liter/kWh)", "0.2 L/kWh"), "flop": ("flop", "2 flop"), "J": ("J", "1 kJ"),
    "dollar": ("dollar", "1000 USD"), "1/s": ("1/s", "5 k"), "count": ("a plain count", "8"), "1": ("a plain number", "8"),
}  # fmt: skip


@lru_cache(maxsize=1)
def registry() -> Any:
    """The pint registry of `units.txt`; it is built once, in milliseconds."""
    import pint

    built: Any = pint.UnitRegistry(None, cache_folder=None, autoconvert_offset_to_baseunit=False)
    built.load_definitions(shipped_text("base", "units.txt").splitlines())
    return built


@lru_cache(maxsize=1024)
def factor(unit: str, canonical: str) -> float:
    """The factor from `unit` to `canonical`: one `unit` is so many `canonical`.

    Raises:
        UnitError: for a unit that does not exist or has another dimension.
    """
    if unit in COMMON.get(canonical, {}):
        return COMMON[canonical][unit]
    import pint

    dimension = "" if canonical in DIMENSIONLESS else canonical
    try:
        return float(registry().Quantity(1.0, unit).to(dimension or "dimensionless").magnitude)
    except pint.UndefinedUnitError:
        raise UnitError(f"unknown unit '{unit}'", advice=expected(canonical)) from None
    except pint.DimensionalityError:
        kind, _ = _KINDS.get(canonical, (canonical, ""))
        raise UnitError(f"'{unit}' is not a unit of {kind}", advice=expected(canonical)) from None
    except Exception:  # pint parses with Python's tokenizer, which raises many kinds of errors
        raise UnitError(f"'{unit}' is no unit", advice=expected(canonical)) from None


def parse(value: object, canonical: str, bare: str | None = None) -> float:
    """A number, `"8 GB"`, `"300 G"` or `"1.41 GHz"` as a float in the canonical unit.

    Args:
        value: what the user wrote. Text is matched, never evaluated.
        canonical: the unit of the result.
        bare: the unit of a number without one; the canonical unit if not given.

    Raises:
        UnitError: for a value that is not a finite number in a unit of that dimension.
    """
    if isinstance(value, str | int | float):
        return _parsed(value, canonical, bare)
    raise UnitError(f"{quoted(value)} is not a number", advice=expected(canonical))


@lru_cache(maxsize=4096, typed=True)  # the rows of tables are read again for every estimate
def _parsed(value: str | float, canonical: str, bare: str | None) -> float:
    """The result of `parse`."""
    number, unit = _split(_in_dollars(value, canonical) if canonical in MONEYS else value, canonical)
    if not number.is_finite():
        raise UnitError(f"{quoted(value)} is not a finite number", advice=expected(canonical))
    if unit in PREFIXES:  # "8 G": a prefix alone scales the bare unit
        number, unit = number * Decimal(repr(PREFIXES[unit])), ""
    elif canonical == "1" and unit == "%":
        number, unit = number / 100, ""
    elif canonical == "count" and unit in LARGE_COUNTS:
        number, unit = number * Decimal(repr(LARGE_COUNTS[unit])), ""
    scale = factor(unit or bare or "", canonical) if unit or bare else 1.0
    result = float(number * Decimal(repr(scale)))  # decimal, so that "5 us" is 5e-6 and not its neighbor
    if not math.isfinite(result):
        what = "is too large" if isinstance(value, int) else "is not a finite number"
        raise UnitError(f"{quoted(value)} {what}", advice=expected(canonical))
    return result


def _in_dollars(value: str | float, canonical: str) -> str | float:
    """Money as text ("5M USD", "$2 million" or, for an hour, "$2.50/h") with plain digits and a unit; all else unchanged."""
    if canonical == "dollar/s":
        hourly = RATE_OF_MONEY.fullmatch(value) if isinstance(value, str) and len(value) <= LONGEST_TEXT else None
        return value if hourly is None else f"{hourly[1]} USD/hour"
    match = MONEY.fullmatch(value) if isinstance(value, str) and len(value) <= LONGEST_TEXT else None
    if match is None or match[2] is None:
        return value if match is None else f"{match[1]} USD"
    size = (PREFIXES | LARGE_COUNTS)[match[2]]
    return f"{Decimal(match[1]) * Decimal(repr(size)):f} USD"


def _split(value: str | float, canonical: str) -> tuple[Decimal, str]:
    """The number in a value, and the text of its unit; empty if it has none.

    Raises:
        UnitError: for a value that is no number with a unit.
    """
    if isinstance(value, bool):
        raise UnitError(f"{quoted(value)} is not a number", advice=expected(canonical))
    if isinstance(value, str):
        match = _QUANTITY.fullmatch(value) if len(value) <= LONGEST_TEXT else None
        if match is None:
            raise UnitError(f"{quoted(value)} is not a number with a unit", advice=expected(canonical))
        return Decimal(match[1]), match[2] or ""
    return (Decimal(value) if isinstance(value, int) else Decimal(repr(value))), ""


def expected(canonical: str) -> str:
    """Advice for a message: the kind of value that is expected, with an example."""
    if canonical in DIMENSIONLESS:
        return "expected a plain number" + (', such as 8 or "8 k"' if canonical == "count" else "")
    kind, example = _KINDS.get(canonical, (canonical, f"1 {canonical}"))
    return f'expected {kind}, for example "{example}"'
