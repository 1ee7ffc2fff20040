"""How wide error bands are, and whether they hold, for each class of what is new in an estimate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from amped.calibration.leave_out import Checked, bands_checked
from amped.estimation.uncertainty import COVERED, ERROR_LAWS
from amped.estimation.validated import STEP_TIME, Left, Validated
from amped.report import human
from amped.report.tables import Part, drawn, table

# A class with fewer configurations is counted together with other such classes.
FEWEST_GROUPS = 15
NEW = {
    Left.SOURCE: "the source",
    Left.ACCELERATOR: "source, accelerator",
    Left.STACK: "source, stack",
    Left.ALL: "all three",
}
HEADS = ("rows", "groups", "error", "inside", "±, median", "±, least", "±, most")
INSIDE = (
    f"error: mean error in a fit without what is new. inside: the share of runs whose error there lies in the {COVERED:.0%} band (±) that "
    "other runs give. An accelerator or a stack of one source counts as new."
)


@drawn
def bands(runs: Sequence[Validated]) -> Iterator[Part]:
    """The bands of the step's time and of memory by what is new, each from the runs that are left without it."""
    for law in ERROR_LAWS:
        name = "step time" if law.quantity == STEP_TIME else "memory"
        yield bands_table(bands_checked(runs, law), f"{name}; new is")
        yield ""
    yield INSIDE, "dim"


def bands_table(checked: Sequence[Checked], head: str) -> Part:
    """The table of some checked bands, a line for each class."""
    return table((head, *HEADS), ([name, *_cells(part)] for name, part in by_newness(checked).items()))


def by_newness(checked: Sequence[Checked]) -> dict[str, list[Checked]]:
    """The checked bands by what is new, in words; classes of too few configurations are one."""
    classes = {name: [each for each in checked if each.left is left] for left, name in NEW.items()}
    large = {name: part for name, part in classes.items() if _groups(part) >= FEWEST_GROUPS}
    small = {name: part for name, part in classes.items() if part and name not in large}
    pooled = {" or ".join(small): [each for part in small.values() for each in part]} if small else {}
    return large | pooled


def _groups(checked: Sequence[Checked]) -> int:
    """The number of configurations."""
    return len({each.group for each in checked})


def plain(checked: Sequence[Checked]) -> Mapping[str, Mapping[str, float]]:
    """The classes of checked bands as plain data for JSON."""
    return {name: _numbers(part) for name, part in by_newness(checked).items()}


def _numbers(checked: Sequence[Checked]) -> dict[str, Any]:
    """The numbers of a class of checked bands; repeats of one configuration weigh as one in the error and the share."""
    widths = [each.error_fraction for each in checked]
    return {
        "rows": len(checked), "groups": _groups(checked),
        "mean_absolute_error_fraction": _mean_of_groups([(each.group, each.absolute_error) for each in checked]),
        "share_inside": _mean_of_groups([(each.group, float(each.is_inside)) for each in checked]),
        "median_error_fraction": float(np.median(widths)), "least_error_fraction": min(widths), "most_error_fraction": max(widths),
    }  # fmt: skip


def _mean_of_groups(values: Sequence[tuple[str, float]]) -> float:
    """The mean over groups of the mean value of each."""
    groups: dict[str, list[float]] = {}
    for group, value in values:
        groups.setdefault(group, []).append(value)
    return float(np.mean([np.mean(of_group) for of_group in groups.values()]))


def _cells(checked: Sequence[Checked]) -> list[str]:
    """The cells of a class: how many runs and configurations, the error, the share inside, and how wide the bands are."""
    rows, groups, error, *shares = _numbers(checked).values()
    return [f"{rows}", f"{groups}", human.percent(error), *(human.percent(share, 0) for share in shares)]
