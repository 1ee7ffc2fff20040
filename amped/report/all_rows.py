"""Tables of the fit to all rows: each number with what is behind it, and the errors of what the fit has not seen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from amped.calibration.all_rows import GROUPS_OF_A_NUMBER, AllRows
from amped.calibration.leave_out import Left, LeftOut
from amped.calibration.step_table import Behind
from amped.estimation.uncertainty import COVERED
from amped.estimation.validated import DENSE, MIXTURE
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
def all_rows(found: AllRows, numbers: Sequence[Behind]) -> Iterator[Part]:
    """The fit to all rows: each number, the errors before and after, and the numbers that it leaves alone."""
    heads = ("number", "before", "after", "rows", "groups", "sources", "error", "without it")
    yield table(heads, under_their_rows(numbers, _cells))
    yield f"\n{LEGEND}\n", "dim"
    yield table(("absolute error", *ERRORS), ((name, *errors(rows)) for name, rows in before_and_after(found).items()))
    yield f"\n{ONLY}\n", "dim"
    yield from (f"kept as it is: {key.row}, {key.column}: {why}" for key, why in found.kept.items())
    yield counted(found)


def before_and_after(found: AllRows) -> dict[str, Sequence[Residual]]:
    """The rows as they are predicted before any fit to steps, by the tables, and by the fitted numbers."""
    return {
        "with kernels only": found.unfitted,
        "with the tables' values": found.before,
        "with the fitted values": found.after,
    }


def counted(found: AllRows) -> str:
    """How many numbers there are for how many configurations."""
    within = "at most" if len(found.numbers) <= found.most_numbers else "MORE THAN"
    return (f"{len(found.numbers)} numbers, {found.groups} different configurations: {within} one number for "
            f"{GROUPS_OF_A_NUMBER} of them ({found.most_numbers})")  # fmt: skip


def _cells(each: Behind) -> list[str]:
    """The line of one number."""
    values = (with_unit(each.column, value) for value in (each.value, each.fitted))
    return [f"  {each.column}", *values, f"{each.rows}", f"{each.groups}", f"{len(each.sources)}",
            human.percent(each.error_fraction), human.percent(each.error_fraction_without)]  # fmt: skip


@drawn
def left_out(found: AllRows, told: Sequence[LeftOut], by: Left) -> Iterator[Part]:
    """The errors of each source, accelerator or stack if the fit has not seen it, and of all of them together."""
    lines = ([each.name or "unnamed", *errors(each.rows), _inside([each])] for each in told)
    yield table((f"{by.value} left out", *ERRORS, "in the band"), lines)
    yield ""
    seen = ([name, *errors(rows), ""] for name, rows in before_and_after(found).items())
    together = [f"each {by.value} left out", *errors(_rows(told)), _inside(told)]
    yield table(("absolute error", *ERRORS, "in the band"), (*seen, together))
    yield (f"\nin the band: the share of steps whose error lies in the {human.percent(COVERED, 0)} band that the "
               f"other rows give. For the errors, repeats of one configuration weigh as one row. {ONLY}", "dim")  # fmt: skip


def _rows(told: Sequence[LeftOut]) -> list[Residual]:
    return [row for each in told for row in each.rows]


def _inside(told: Sequence[LeftOut]) -> str:
    share = share_inside(told)
    return "-" if share is None else human.percent(share, 0)


def share_inside(told: Sequence[LeftOut]) -> float | None:
    """The share of the rows whose error lies in the band; None without such rows."""
    every = [inside for each in told for inside in each.inside]
    return sum(every) / len(every) if every else None


def by_kind(rows: Sequence[Residual]) -> dict[str, Accuracy]:
    """The errors of all rows, of dense networks and of mixtures of experts."""
    return {"all": accuracy(rows)} | {kind: accuracy(own) for kind, own in by_network(rows).items()}


def errors(rows: Sequence[Residual]) -> list[str]:
    """The errors of some rows, in the order of `ERRORS`."""
    found = by_kind(rows)
    every = found["all"]
    sizes = (every.mean_absolute_error_fraction, every.median_absolute_error_fraction,
             *(found[kind].mean_absolute_error_fraction for kind in (DENSE, MIXTURE)))  # fmt: skip
    return [f"{every.compared}", *("-" if size is None else human.percent(size) for size in sizes)]


def plain_errors(rows: Sequence[Residual]) -> Mapping[str, Mapping[str, float | None]]:
    """The errors of some rows as plain data for JSON."""
    return {
        kind: {"rows": each.compared, "groups": each.groups,
               "mean_absolute_error_fraction": each.mean_absolute_error_fraction,
               "median_absolute_error_fraction": each.median_absolute_error_fraction}
        for kind, each in by_kind(rows).items()
    }  # fmt: skip
