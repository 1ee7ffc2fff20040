"""Tables of the fit to all rows: each number with what is behind it, and the errors of what the fit has not seen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from amped.calibration.all_rows import GROUPS_OF_A_NUMBER, AllRows
from amped.calibration.leave_out import Left, LeftOut
from amped.calibration.step_table import Behind
from amped.estimation.uncertainty import COVERED
from amped.report import human
from amped.report.fitted_numbers import under_their_rows, with_unit
from amped.report.tables import Part, drawn, table
from amped.validation.accuracy import Accuracy, accuracy, by_network
from amped.validation.residuals import Residual

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
def left_out(fit: AllRows, parts: Sequence[LeftOut], by: Left) -> Iterator[Part]:
    """The errors of each source, accelerator or stack if the fit has not seen the part, and of all parts together."""
    lines = ([part.name or "unnamed", *errors(part.rows), _share_inside([part])] for part in parts)
    yield table((f"{by.value} left out", *ERRORS, "in the band"), lines)
    yield ""
    seen = ([name, *errors(rows), ""] for name, rows in before_and_after(fit).items())
    rows = [row for part in parts for row in part.rows]
    together = [f"each {by.value} left out", *errors(rows), _share_inside(parts)]
    yield table(("absolute error", *ERRORS, "in the band"), (*seen, together))
    yield (f"\nin the band: the share of steps whose error lies in the {human.percent(COVERED, 0)} band that the "
               f"other rows give. For the errors, repeats of one configuration weigh as one row. {ONLY}", "dim")  # fmt: skip


def _share_inside(parts: Sequence[LeftOut]) -> str:
    """The share of the rows whose error lies in the band, as text; a dash without such rows."""
    share = share_inside(parts)
    return "-" if share is None else human.percent(share, 0)


def share_inside(parts: Sequence[LeftOut]) -> float | None:
    """The share of the rows whose error lies in the band; None without such rows."""
    inside = [is_inside for part in parts for is_inside in part.inside]
    return sum(inside) / len(inside) if inside else None


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
