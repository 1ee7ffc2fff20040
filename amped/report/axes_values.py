"""Values on the axes of a plot: in order of size, in a unit that fits, with few digits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from amped.configuring.scenario import Scenario
from amped.exploration.results import Row
from amped.report import human
from amped.theory.language.catalogue import catalogue

# For each unit, the sizes in which a value can be shown, the largest first.
_TOLD = {
    "s": ((human.YEAR, "years"), (human.DAY, "days"), (human.HOUR, "hours"), (1.0, "s"), (1e-3, "ms"), (1e-6, "us")),
    "byte": ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1.0, "B")),
    "dollar": ((1e6, "million USD"), (1e3, "thousand USD"), (1.0, "USD")),
    "gram": ((1e6, "t"), (1e3, "kg"), (1.0, "g")),
    "liter": ((1e6, "million L"), (1e3, "thousand L"), (1.0, "L")),
    "J": ((3.6e12, "GWh"), (3.6e9, "MWh"), (3.6e6, "kWh"), (1.0, "J")),
    "flop/s": ((1e15, "PFLOP/s"), (1e12, "TFLOP/s"), (1.0, "FLOP/s")),
    "byte/s": ((1e12, "TB/s"), (1e9, "GB/s"), (1.0, "B/s")),
}
MOST_TICKS = 14
# How many values a title lists one by one.
MOST_TOLD = 4


def unit_of(name: str) -> str:
    """The canonical unit of a quantity; empty if the name is that of a row."""
    return catalogue()[name].mark.unit if name in catalogue() else ""


def axis_label(name: str) -> str:
    """A name as words."""
    return name.removesuffix("_bytes").replace("_", " ")


def scale(name: str, values: Iterable[float]) -> tuple[float, str]:
    """The divisor that makes the largest value easy to read, and the axis label with the unit after division."""
    size, unit = size_for(unit_of(name), values)
    return size, f"{axis_label(name)} ({unit})" if unit else axis_label(name)


def size_for(unit: str, values: Iterable[float]) -> tuple[float, str]:
    """The divisor that makes the largest value easy to read, and the unit after division."""
    sizes, largest = _TOLD.get(unit, ()), max(map(abs, values), default=0.0)
    least = 2.0 if unit == "s" else 1.0  # so that 30 hours are not shown as 1.2 days
    return next((step for step in sizes if largest >= least * step[0]), sizes[-1] if sizes else (1.0, ""))


def told(name: str, value: Any) -> str:
    """A value of a swept name as text for a tick or a legend."""
    is_count = unit_of(name) == "count" and not isinstance(value, str)
    return f"{value:,.0f}" if is_count else human.value(value, unit_of(name))


def words(names: Sequence[str], values: Sequence[Any]) -> str:
    """Values of several names for a legend: texts alone, numbers with their name."""
    pairs = zip(names, values, strict=True)
    return ", ".join(
        value if isinstance(value, str) else f"{axis_label(name)} {told(name, value)}" for name, value in pairs
    )


def title(scenario: Scenario, swept: Mapping[str, Sequence[Any]]) -> str:
    """The title of the config; if more is swept, the swept names and values, and the config that fixes the rest."""
    config = scenario.title
    sweeps = "; ".join(f"{axis_label(name)} {_several(name, values)}" for name, values in swept.items())
    return f"{sweeps}\nall else as in: {config}" if swept else config


def _several(name: str, values: Sequence[Any]) -> str:
    """The values one by one; of more than `MOST_TOLD`, only the first and the last."""
    texts = [told(name, value) for value in values]
    return ", ".join(texts) if len(texts) <= MOST_TOLD else f"{texts[0]} … {texts[-1]}"


def in_order(value: Any) -> tuple[bool, Any]:
    """The sort key of a value: numbers before texts."""
    return isinstance(value, str), value


def by_values(groups: Iterable[Sequence[Row]], names: Sequence[str]) -> dict[tuple[Any, ...], list[Row]]:
    """The rows of each group by the values of `names` that the group shares, in the order of those values."""
    by_value = {tuple(rows[0][name] for name in names): list(rows) for rows in groups if rows}
    return dict(sorted(by_value.items(), key=lambda item: [*map(in_order, item[0])]))


def ticks(axis: Any, labels: Sequence[str], **how: Any) -> None:
    """Puts labels at 0, 1, 2 …; if there are more than `MOST_TICKS`, only at every n-th place."""
    step = -(-len(labels) // MOST_TICKS)
    axis.set_ticks(range(0, len(labels), step), labels[::step], **how)
