"""Values at random: such as people give, and such as nobody should."""

import copy
import math
from collections.abc import Mapping
from functools import cache
from random import Random
from typing import Any

from amped.base.aliases import aliases
from amped.base.files import shipped_json
from amped.configuring.config import shipped_configs
from amped.tables.table_files import SHIPPED, shipped
from amped.theory.language.catalogue import Quantity, catalogue

NASTY: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2, 1.5, 1e308, 1e-308, -0.0, 10**20, 2**53, math.nan, math.inf, "", " ", "0", "-1", "1e400", "nan",
    "some words", "[b]loud[/b]", "X [/b]", "\x1b[31mred", "=1+1", "8 GB", "8 GB/s", "8 parsecs", "3 us", "1,2", "1:8:x2", "[1, 2]",
    "9" * 400, "٣", "1_000", "0x10", "1/0", "\ud800", "a\0b", "x" * 2000, "../..", "/dev/null", [], [1], [1, 2], ["a"], [[1]], {}, {"a": 1},
    {"value": 1}, {"value": None},
)  # fmt: skip
FACTORS = (0.001, 0.1, 0.5, 0.9, 1.1, 2, 3, 10, 1000)
COUNTS = (1, 1, 2, 2, 3, 4, 4, 5, 6, 7, 8, 8, 12, 16, 24, 32, 64, 96, 100, 128, 1024, 4096, 5120, 65536, 10**6)
# Sizes of what has no example: a value of each unit.
SIZES = {
    "s": 1e-5,
    "byte": 1e9,
    "byte/s": 1e11,
    "flop/s": 1e14,
    "Hz": 1e9,
    "1": 0.5,
    "W": 500.0,
    "J": 1e3,
    "dollar": 1e4,
}


def nasty(random: Random) -> Any:
    """A value that few names can have."""
    return copy.deepcopy(random.choice(NASTY))


@cache
def examples() -> Mapping[str, tuple[Any, ...]]:
    """The values that a name has in shipped tables and configs, and its default."""
    found: dict[str, list[Any]] = {}
    for table in SHIPPED:
        for row in shipped(table).values():
            for name, value in row.items():
                found.setdefault(aliases().canonical(name), []).append(value)
    for quantity in catalogue().values():
        for formula in quantity.formulas:
            if formula.mark.kind == "parameter" and formula.function() is not None:
                found.setdefault(quantity.name, []).append(formula.function())
    for config in map(config_of, shipped_configs()):
        for section in config.values():
            for name, entry in section.get("parameters", {}).items() if isinstance(section, dict) else ():
                found.setdefault(aliases().canonical(name), []).append(entry.get("value"))
    return {name: tuple(values) for name, values in found.items()}


def config_of(name: str) -> Any:
    """A shipped config."""
    return shipped_json("configs", f"{name}.json")


def fitting(random: Random, quantity: Quantity) -> Any:
    """A value that the quantity may have, often one that a shipped row has."""
    mark, known = quantity.mark, examples().get(quantity.name, ())
    if quantity.is_selector:
        return random.choice(mark.choices)
    if mark.unit == "boolean":
        return random.random() < 0.5
    if mark.unit == "count" and mark.at_most is not None:
        return random.randint(int(mark.at_least or 0), int(mark.at_most))
    if mark.unit == "count" and (not known or random.random() < 0.7):
        return random.choice(COUNTS)
    if known and random.random() < 0.5:
        return copy.deepcopy(random.choice(known))
    numbers = [value for value in known if isinstance(value, int | float) and not isinstance(value, bool)]
    size = (random.choice(numbers) if numbers else 0) or SIZES.get(mark.unit, 1.0)
    number = size * random.choice(FACTORS)
    if mark.unit == "count":
        return max(round(number), 1)
    most = (
        mark.at_most
        if mark.at_most is not None
        else 1.0
        if quantity.name.endswith(("_efficiency", "_fraction"))
        else math.inf
    )
    return min(max(number, mark.at_least or 0.0), most)


def drawn_value(random: Random, name: str) -> Any:
    """A value for a name, fitting in most cases."""
    known = catalogue()
    return fitting(random, known[name]) if name in known and random.random() < 0.75 else nasty(random)


@cache
def inputs() -> tuple[str, ...]:
    """The names that a section of a config lists."""
    return tuple(name for name, quantity in catalogue().items() if quantity.category)


@cache
def all_names() -> tuple[str, ...]:
    """Every name of a quantity, also those that are calculated, and other names."""
    return (*catalogue(), *aliases().names())


def row_of(random: Random, table: str) -> str:
    """A row of a shipped table."""
    return random.choice([*shipped(table)])
