"""A table of coefficients, and how many numbers of each row were fitted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from amped.calibration.listing import LIMITS, Counted, Listed
from amped.calibration.provenance import Origin
from amped.calibration.step_table import Behind
from amped.report import human
from amped.report.fitted_numbers import span_without_a_source, under_their_rows, with_unit
from amped.report.tables import Part, drawn, table

LEGEND = (
    "bounds: the bounds of a fit if marked with *, else those of accepted values. fitted: in how many of the rows that "
    "have it, it was fitted. selected by: what decides which row it comes from."
)

BEHIND = ("number", "value", "fit", "rows", "sources", "a source less", "error", "without")
ABOUT_NUMBERS = (
    "value: in the tables. fit: in the fit to all rows at once. a source less: in fits without one of its sources. error, "
    "without: mean absolute error of its rows in the fit to all rows, and with the value of the row that it extends, "
    "or the mean of its kin, in its place."
)

ABOUT_ORIGINS = (
    "how: measured on kernels or copied from a datasheet, fitted to training steps, or assumed. row: which row of kernel "
    "efficiencies writes it. kin: from which accelerator it is taken, if it is not the accelerator's own."
)


@drawn
def listed(coefficients: Sequence[Listed], counted: Sequence[Counted], numbers: Sequence[Behind]) -> Iterator[Part]:
    """A line for each coefficient; below, the rows with fitted numbers, and the evidence for each fitted number."""
    heads = ("coefficient", "bounds", "values", "fitted", "selected by")
    yield table(heads, map(_line, coefficients), ("bounds", "values", "selected by"), ("selected by",))
    yield f"\n{LEGEND}\n", "dim"
    limits = " and ".join(f"{most} of a row of {name}" for name, most in LIMITS.items())
    if not counted:
        yield f"No number of any row was fitted to measured trainings (at most {limits})."
        return
    yield f"Numbers fitted to measured trainings, at most {limits}:"
    for c in counted:
        yield f"  {c.row} ({c.table}): {len(c.fitted)} of {c.limit}: {', '.join(c.fitted)}"
    if numbers:
        yield "\nWhat is behind each number that is fitted to steps (amped calibrate --all):\n"
        yield table(BEHIND, under_their_rows(numbers, _cells), (), BEHIND[:1])
        yield f"\n{ABOUT_NUMBERS}", "dim"


@drawn
def of_accelerator(origins: Sequence[Origin]) -> Iterator[Part]:
    """A line for each coefficient of an accelerator: its value, how it came about, and which row writes it; below, who its kin is."""
    heads = ("coefficient", "value", "how", "row", "kin")
    kin = list(dict.fromkeys(origin.kin for origin in origins if origin.kin))
    numbers = {text: f"({number})" for number, text in enumerate(kin, 1)}
    lines = ((o.name, _short(o.value, o.unit), o.how, o.row, numbers.get(o.kin, "")) for o in origins)
    yield table(heads, lines, heads[2:], heads[:1])
    yield f"\n{ABOUT_ORIGINS}", "dim"
    for text, number in numbers.items():
        yield f"{number} {text}"


def _cells(number: Behind) -> list[str]:
    """The cells of one number that is fitted to steps."""
    values = (with_unit(number.column, value) for value in (number.value, number.fitted))
    errors = map(human.percent, (number.error_fraction, number.error_fraction_without))
    return [number.column, *values, f"{number.rows}", f"{len(number.sources)}", span_without_a_source(number), *errors]


def _line(c: Listed) -> tuple[str, ...]:
    """The cells of a coefficient: its bounds, its values, the rows in which it is fitted, and what selects the row."""
    fitted = "" if list(c.values) == ["default"] else f"{len(c.fitted_in)}/{len(c.values)}"
    return c.name, _bounds(c), _span(list(c.values.values()), c.unit), fitted, ", ".join(c.selected_by)


def _bounds(c: Listed) -> str:
    """The bounds of a coefficient as text, with a star if these are bounds of a fit; empty without bounds."""
    low, high = ("" if end is None else _short(end, c.unit) for end in (c.lowest, c.highest))
    if low and high:
        return f"{_between(low, high)}{'*' * c.fittable}"
    return f"from {low}" if low else high and f"to {high}"


def _span(values: Sequence[float], unit: str) -> str:
    """The smallest and the largest of the values as text; one value if both are shown alike, empty without values."""
    if not values:
        return ""
    low, high = (_short(end, unit) for end in (min(values), max(values)))
    return low if low == high else _between(low, high)


def _between(low: str, high: str) -> str:
    """A range of two values as text; a common unit is written once."""
    number, _, unit = low.partition(" ")
    return f"{number if unit and high.endswith(f' {unit}') else low} to {high}"


def _short(value: float, unit: str) -> str:
    """A value for a column, with two or three digits."""
    return f"{value:.3g}" if unit == "1" else human.scaled(value, {"byte": "B"}.get(unit, unit), 2)
