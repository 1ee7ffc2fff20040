"""How well small runs anchor larger ones, and what an anchor of steps changed, as tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from statistics import mean
from typing import Any

from amped.calibration.anchored_check import AnchoredStep, Family
from amped.calibration.step_anchor import StepAnchor, label
from amped.calibration.step_numbers import Key
from amped.report import human
from amped.report.tables import Part, drawn, table


def summary(families: Sequence[Family]) -> dict[str, float]:
    """The errors and bands of all families: errors are means of the families' means, shares are those of all runs."""
    steps = _steps(families)
    return {
        "families": float(len(families)), "runs": float(len(steps)),
        "mean_absolute_error_without": mean(family.error_without for family in families),
        "mean_absolute_error_with": mean(family.error_with for family in families),
        "mean_error_fraction_without": mean(step.band_without for step in steps),
        "mean_error_fraction_with": mean(step.band_with for step in steps),
        "share_inside": mean(float(step.is_inside) for step in steps),
    }  # fmt: skip


def as_json(families: Sequence[Family]) -> dict[str, Any]:
    """The families and their summary as plain data."""
    return {"summary": summary(families) if families else {}, "families": [asdict(family) for family in families]}


def _steps(families: Sequence[Family]) -> list[AnchoredStep]:
    """The runs of all families that an anchor predicts."""
    return [step for family in families for step in family.others]


@drawn
def anchored(families: Sequence[Family]) -> Iterator[Part]:
    """A line for each family, and the errors and bands of all."""
    if not families:
        yield "no network ran on several numbers of accelerators, with one software and in one precision"
        return
    heads = ("network", "accelerator", "as", "sizes", "without", "with", "held")
    yield table(heads, [_line(family) for family in families])
    told = summary(families)
    yield ""
    yield (f"{told['runs']:.0f} runs of {told['families']:.0f} networks, each predicted from the smallest run: mean error "
           f"{human.percent(told['mean_absolute_error_without'])} without the anchor, {human.percent(told['mean_absolute_error_with'])} with it; "
           f"bands of {human.percent(told['mean_error_fraction_without'])} become {human.percent(told['mean_error_fraction_with'])}, "
           f"and hold {human.percent(told['share_inside'])} of the runs")  # fmt: skip


def _line(family: Family) -> tuple[str, ...]:
    """The cells of a family."""
    inside = sum(step.is_inside for step in family.others)
    return (
        family.network, family.accelerator, family.precision, f"{family.accelerators:g}-{family.others[-1].accelerators:g}",
        human.percent(family.error_without), human.percent(family.error_with), f"{inside}/{len(family.others)}",
    )  # fmt: skip


@drawn
def step_anchor(found: StepAnchor) -> Iterator[Part]:
    """The numbers that the measured steps of an anchor moved, and these steps."""
    yield f"anchored on {label(found)}", "bold"
    before = {number.key: number.value for number in found.numbers}
    now = dict(zip(before, found.values.tolist(), strict=True))
    keys = sorted((Key(told.table, told.row, told.column) for told in found.told), key=lambda key: key.row)
    yield table(
        ("number", "row", "before", "anchored"),
        [(key.column, key.row, human.digits(before[key]), human.digits(now[key])) for key in keys],
    )
    yield ""
    yield table(
        ("step of", "measured", "before", "anchored"),
        [(run.name, *(human.value(time, "s") for time in (run.measured, run.before, run.now))) for run in found.runs],
    )


def as_data(found: StepAnchor) -> dict[str, Any]:
    """An anchor of steps as plain data."""
    values = zip(found.numbers, found.values.tolist(), strict=True)
    numbers = [{**asdict(number.key), "before": number.value, "anchored": value} for number, value in values]
    return {"anchored_on": label(found), "numbers": numbers, "runs": [asdict(run) for run in found.runs]}
