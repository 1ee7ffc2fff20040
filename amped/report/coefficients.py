"""Coefficients as a table, and how many of each row were fitted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from amped.calibration.listing import LIMITS, Counted, Listed
from amped.report import human

LEGEND = (
    "bounds: of a fit where marked with *, else of what is accepted. fitted: of how many rows, of those that have it. "
    "selected by: whose row has it."
)


def listed(every: Sequence[Listed], counted: Sequence[Counted]) -> RenderableType:
    """One line a coefficient; below, the rows with fitted numbers."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for head in ("coefficient", "bounds", "values", "fitted", "selected by"):
        table.add_column(head, justify="right" if head == "fitted" else "left", no_wrap=head != "selected by")
    for c in every:
        fitted = "" if list(c.values) == ["default"] else f"{len(c.fitted_in)}/{len(c.values)}"
        table.add_row(c.name, _bounds(c), _span(list(c.values.values()), c.unit), fitted, ", ".join(c.selected_by))
    return Group(table, Text(""), Text(LEGEND, style="dim"), Text(""), *_counts(counted))


def _bounds(c: Listed) -> str:
    mark = "*" if c.fittable else ""
    ends = [None if end is None else _short(end, c.unit) for end in (c.lowest, c.highest)]
    if ends[0] and ends[1]:
        return f"{ends[0]} to {ends[1]}{mark}"
    return f"from {ends[0]}" if ends[0] else f"to {ends[1]}" if ends[1] else ""


def _span(values: Sequence[float], unit: str) -> str:
    """The smallest and the largest of the values."""
    if not values:
        return ""
    low, high = (_short(end, unit) for end in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"


def _short(value: float, unit: str) -> str:
    """A value for a column: two or three digits."""
    return f"{value:.3g}" if unit == "1" else human.scaled(value, {"byte": "B"}.get(unit, unit), 2)


def _counts(counted: Sequence[Counted]) -> Iterator[RenderableType]:
    limits = " and ".join(f"{most} of a row of {table}" for table, most in LIMITS.items())
    if not counted:
        yield Text(f"No number of any row was fitted to measured trainings (at most {limits}).")
        return
    yield Text(f"Numbers fitted to measured trainings, at most {limits}:")
    for c in counted:
        yield Text(f"  {c.row} ({c.table}): {len(c.fitted)} of {c.limit}: {', '.join(c.fitted)}")
