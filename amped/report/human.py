"""Numbers as people read them: a few digits and a unit that fits."""

from __future__ import annotations

from collections.abc import Callable

from amped.base.numbers import counted as counted
from amped.base.numbers import digits as digits

_STEPS = ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))
_SMALL = ((1.0, ""), (1e-3, "m"), (1e-6, "u"), (1e-9, "n"))
MINUTE, HOUR, DAY, YEAR = 60.0, 3600.0, 86400.0, 31557600.0
JOULES_PER_WATT_HOUR = 3600.0
KILOWATT_HOUR, TONNE = 3.6e6, 1e6
GIGA = 1e9


def scaled(number: float, unit: str, significant: int = 4) -> str:
    """A number with the SI prefix that leaves one to three digits before the point, and `significant` digits in all."""
    prefixes = _STEPS if abs(number) >= 1 or number == 0 else _SMALL
    size, prefix = next((pair for pair in prefixes if abs(number) >= pair[0] * (1 - 1e-12)), prefixes[-1])
    return f"{digits(number / size + 0.0, significant)} {prefix}{unit}".rstrip()  # + 0.0: no minus before a zero


def duration(seconds: float) -> str:
    """Seconds in the unit that people would use: 30.0 s, 5.2 hours, 33.1 days, 2.4 years."""
    for size, name in ((YEAR, "years"), (DAY, "days"), (HOUR, "hours"), (MINUTE, "minutes")):
        if seconds >= 2 * size:
            return f"{digits(seconds / size, 3)} {name}"
    return scaled(seconds, "s")


def count(number: float) -> str:
    """A large count in words: 174.6 billion."""
    for size, name in ((1e12, "trillion"), (1e9, "billion"), (1e6, "million")):
        if abs(number) >= size:
            return f"{digits(number / size)} {name}"
    return digits(number, 6)


def money(number: float) -> str:
    """An amount of money: 10.47 million, 24,380, 25.29."""
    return count(number) if abs(number) >= 1e6 else f"{number:,.0f}" if abs(number) >= 1e3 else f"{number:,.2f}"


def ratio(number: float) -> str:
    """A plain number with four digits, without zeros at its end."""
    short = f"{number:.4g}"
    return digits(number) if "e" in short else short


# How numbers of a unit are shown, if not with an SI prefix before the unit itself.
_TOLD: dict[str, Callable[[float], str]] = {
    "boolean": lambda number: "yes" if number else "no",
    "s": duration,
    "1": ratio,
    "count": count,
    "dollar": lambda number: f"{money(number)} USD",
    "dollar/s": lambda number: f"{digits(number * HOUR)} USD/hour",
    "dollar/J": lambda number: f"{digits(number * KILOWATT_HOUR)} USD/kWh",
    "gram/J": lambda number: f"{digits(number * KILOWATT_HOUR)} g/kWh",
    "liter/J": lambda number: f"{digits(number * KILOWATT_HOUR)} L/kWh",
    "liter": lambda number: f"{digits(number / 1000)} m3",
    "gram": lambda number: f"{digits(number / TONNE)} t" if number >= TONNE else scaled(number, "g"),
    "J": lambda number: scaled(number / JOULES_PER_WATT_HOUR, "Wh"),
    "1/s": lambda number: f"{digits(number)} /s" if number < 1e7 else scaled(number, "/s"),
}
_NAMES = {"byte": "B", "byte/s": "B/s", "flop": "FLOP", "flop/s": "FLOP/s"}


def value(number: float | str, unit: str) -> str:
    """A quantity in its canonical unit, as readable text; a text stays unchanged."""
    if isinstance(number, str):
        return number
    return _TOLD[unit](number) if unit in _TOLD else scaled(number, _NAMES.get(unit, unit))


def result(name: str, number: float | str, unit: str) -> str:
    """A result as readable text: a utilization in percent, all else in its canonical unit."""
    if isinstance(number, str) or not name.endswith("_utilization"):
        return value(number, unit)
    return percent(number)


def percent(fraction: float, places: int = 1) -> str:
    """A fraction as a percentage."""
    return f"{fraction * 100:.{places}f} %"


# What names are called where people read them. AMPeD's "weight update" computes the gradients of weights.
_SAID = {
    "weight_update_time": "weight gradients", "matrix_precision": "precision",
    "model_flops_utilization": "MFU", "hardware_flops_utilization": "HFU",
}  # fmt: skip


def label(name: str) -> str:
    """A canonical name in words for a table: `exposed_tensor_communication_time` is "exposed tensor communication"."""
    return _SAID.get(name) or name.removesuffix("_time").removesuffix("_bytes").replace("_", " ")
