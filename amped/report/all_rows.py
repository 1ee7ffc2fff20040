"""Tables of the fit to all rows: each number with what is behind it, and the errors of what the fit has not seen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from amped.calibration.all_rows import GROUPS_OF_A_NUMBER, AllRows
from amped.calibration.leave_out import Checked, LeftOut, traits
from amped.calibration.step_table import Behind
from amped.estimation.validated import Left
from amped.report import human
from amped.report.bands import INSIDE, NEW, bands_table, plain
from amped.report.fitted_numbers import under_their_rows, with_unit
from amped.report.tables import Part, drawn, table
from amped.validation.accuracy import Accuracy, accuracy, by_network, split
from amped.validation.residuals import Residual

BETWEEN = ", "
ERRORS = ("rows", "mean", "median", "dense", "mixtures")
LEGEND = (
    "error, without it: mean absolute error of the step's time over its rows, with all numbers fitted, and with the value "
    "of the row that it extends, or the mean of its kin, in its place. Repeats of one configuration weigh as one row."
)

ONLY = (
    "with kernels only: before any fit to steps; each number is that of the row that it extends, or the mean of its kin "
    "whose value is in no doubt."
)


@drawn
def all_rows(fit: AllRows, numbers: Sequence[Behind]) -> Iterator[Part]:
    """The fit to all rows: each number, the errors before and after the fit, and the numbers that are not fitted."""
    heads = ("number", "before", "after", "rows", "groups", "sources", "error", "without it")
    yield table(heads, under_their_rows(numbers, _cells))
    yield f"\n{LEGEND}\n", "dim"
    yield table(("absolute error", *ERRORS), ((name, *errors(rows)) for name, rows in before_and_after(fit).items()))
    yield f"\n{ONLY}\n", "dim"
    yield from (f"kept as it is: {key.row}, {key.column}: {why}" for key, why in fit.kept.items())
    within = "at most" if len(fit.numbers) <= fit.most_numbers else "MORE THAN"
    yield (f"{len(fit.numbers)} numbers, {fit.groups} different configurations: {within} one number for "
           f"{GROUPS_OF_A_NUMBER} of them ({fit.most_numbers})")  # fmt: skip


def before_and_after(fit: AllRows) -> dict[str, Sequence[Residual]]:
    """The rows as they are predicted before any fit to steps, with the tables' values, and with the fitted values."""
    return {
        "with kernels only": fit.unfitted,
        "with the tables' values": fit.before,
        "with the fitted values": fit.after,
    }


def _cells(number: Behind) -> list[str]:
    """The cells of a fitted number: the values, the rows behind the number, and the errors with and without the fit."""
    values = (with_unit(number.column, value) for value in (number.value, number.fitted))
    return [f"  {number.column}", *values, f"{number.rows}", f"{number.groups}", f"{len(number.sources)}",
            human.percent(number.error_fraction), human.percent(number.error_fraction_without)]  # fmt: skip


@drawn
def left_out(found: LeftOut, left: Left, checked: Sequence[Checked]) -> Iterator[Part]:
    """The errors of rows that a fit has not seen, by what was left out; and of each class of what may be new, its bands."""
    fit, rows = found.fit, found.rows(left)
    parts = split(rows, lambda row: traits(row, left)[0 if left is Left.ALL else -1] or "unnamed")
    yield table((LEFT_OUT[left], *ERRORS), ([name, *errors(part)] for name, part in parts.items()))
    yield ""
    seen = ([name, *errors(part)] for name, part in before_and_after(fit).items())
    without = ([f"without {NEW[other]}", *errors(found.rows(other))] for other in Left)
    yield table(("absolute error", *ERRORS), (*seen, *without))
    yield f"\nRepeats of one configuration weigh as one row. {ONLY}\n", "dim"
    yield bands_table(checked, "80 % bands; new is")
    yield f"\n{INSIDE}", "dim"


# What is left out, in words, over the names of its rows.
LEFT_OUT = {
    Left.SOURCE: "source left out", Left.ACCELERATOR: "accelerator left out", Left.STACK: "stack left out",
    Left.ALL: "source left out with all",
}  # fmt: skip


def plain_left_out(found: LeftOut, left: Left, checked: Sequence[Checked]) -> dict[str, Any]:
    """What `left_out` prints, and the numbers of each fit, as plain data for JSON."""
    keys, rows = [number.key for number in found.fit.numbers], found.rows(left)
    parts = split(rows, lambda row: BETWEEN.join(traits(row, left)))
    values = {BETWEEN.join(names): each for names, each in found.refitted[left].items()}
    return {
        "left_out": [
            {"without": name, "errors": plain_errors(part),
             "numbers": [{**asdict(key), "value": value} for key, value in zip(keys, values[name].tolist(), strict=True)]}
            for name, part in parts.items()
        ],
        "errors_without_steps": plain_errors(found.fit.unfitted), "errors_before": plain_errors(found.fit.before),
        "errors_of_the_fit": plain_errors(found.fit.after), "errors": plain_errors(rows),
        "bands": plain(checked),
    }  # fmt: skip


def by_kind(rows: Sequence[Residual]) -> dict[str, Accuracy]:
    """The errors of all rows, of dense networks and of mixtures of experts, by the name of the kind of network."""
    return {kind: accuracy(kind_rows) for kind, kind_rows in {"all": rows, **by_network(rows)}.items()}


def errors(rows: Sequence[Residual]) -> list[str]:
    """The cells for the errors of some rows, in the order of `ERRORS`."""
    all_kinds, *kinds = by_kind(rows).values()
    fractions = (all_kinds.mean_absolute_error_fraction, all_kinds.median_absolute_error_fraction,
             *(kind.mean_absolute_error_fraction for kind in kinds))  # fmt: skip
    return [f"{all_kinds.compared}", *("-" if fraction is None else human.percent(fraction) for fraction in fractions)]


def plain_errors(rows: Sequence[Residual]) -> Mapping[str, Mapping[str, float | None]]:
    """The errors of some rows as plain data for JSON: by kind of network, the counts and the errors by their name.

    The kinds are `all`, and those of `by_network`. An error is None if no row of the kind has one.
    """
    return {
        kind: {"rows": errors.compared, "groups": errors.groups,
               "mean_absolute_error_fraction": errors.mean_absolute_error_fraction,
               "median_absolute_error_fraction": errors.median_absolute_error_fraction}
        for kind, errors in by_kind(rows).items()
    }  # fmt: skip
