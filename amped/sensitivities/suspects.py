"""What would have to be different for a measured step: one parameter at a time, the most likely first.

A run that takes another time than its estimate differs from it in something. Each suspect is one parameter with another
value: a switch, or an amount between what it is and the limit up to which it is plausible. Its rank is what it leaves to
explain, and how far it has to go:

    surprise = |ln(step with it / measured)| / |ln(estimate / measured)| + share of the way to the limit + price of a fit

A switch goes no way and is not fitted. The limits of amounts are assumptions, in `suspects.json` beside this file with the words of each suspect.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import cache
from itertools import pairwise
from typing import Any

from amped.base.errors import AmpedError
from amped.base.files import shipped_json
from amped.base.record import dataclass
from amped.configuring.scenario import Scenario, asked_again
from amped.estimation.estimation import Estimation, estimated_each
from amped.pipeline_layouts.laying_out import LAYOUT

TABLE = "suspects.json"
# What explains less of the difference is no suspect.
LEAST_EXPLAINED = 0.1
# The values of an amount that are tried between what it is and its limit.
VALUES = 8
# The price of an amount: it is fitted to the measured step and so meets every one, where a switch meets it by itself.
FITTED = 0.1
Value = float | str | bool


@dataclass(frozen=True)
class Suspect:
    """One parameter that may be another one in the run than in the estimate.

    Attributes:
        name, value: the parameter, and what it would have to be.
        wrong: what that means, in words.
        shows: what would show whether it is so.
        step_time: seconds of a step with it.
        explained: the share of the difference between estimate and measurement that it explains; above 1 if it explains more.
        reach: for an amount, the share of the way to its limit; 0 for a switch.
    """

    name: str
    value: Value
    wrong: str
    shows: str
    step_time: float
    explained: float
    reach: float

    @property
    def surprise(self) -> float:
        """How surprising the suspect would be: what it leaves to explain, how far it has to go, and the price of a fit."""
        return abs(1 - self.explained) + self.reach + FITTED * (self.reach > 0)

    def to_dict(self) -> dict[str, Any]:
        """The suspect as plain data."""
        return {**asdict(self), "surprise": self.surprise}


def suspects(scenario: Scenario, estimate: Estimation, measured: float) -> list[Suspect]:
    """The parameters that would explain a measured step each alone, the most likely first.

    Args:
        scenario: the configuration.
        estimate: its estimate.
        measured: the seconds of a step of the run.
    """
    if measured == estimate["step_time"]:
        return []
    tried = [*_switches(estimate), *_amounts(estimate, measured)]
    found = _steps(scenario, estimate, [{row["name"]: value} for row, values in tried for value in values])
    suspected, times = list[Suspect](), iter(found)
    for row, values in tried:
        steps = [next(times) for _ in values]
        suspected += _suspect(estimate, measured, row, values, steps)
    return sorted(suspected, key=lambda suspect: suspect.surprise)


@cache
def _table() -> dict[str, list[dict[str, Any]]]:
    """The suspects with their words."""
    table: dict[str, list[dict[str, Any]]] = shipped_json("sensitivities", TABLE)
    return table


def _switches(e: Estimation) -> Iterator[tuple[Mapping[str, Any], Sequence[Value]]]:
    """The switches that have another value in the estimate, each with that of the suspect."""
    for row in _table()["switches"]:
        name, value = row["name"], row["value"]
        is_word = isinstance(value, str)
        if name in (e.choices if is_word else e) and (e.choices[name] if is_word else e[name]) != value:
            yield row, (value,)


def _amounts(e: Estimation, measured: float) -> Iterator[tuple[Mapping[str, Any], Sequence[float]]]:
    """The amounts, each with values on the way to its limit, the nearest first."""
    for row in _table()["amounts"]:
        if row["name"] in e:
            now = e[row["name"]]
            limit = _limit(row, now, measured) if measured > e["step_time"] else float(row["best"])
            if now != limit:
                yield row, [_between(row, now, limit, place / VALUES) for place in range(1, VALUES + 1)]


def _limit(row: Mapping[str, Any], now: float, measured: float) -> float:
    """The worst value of an amount that is plausible."""
    if "worst_of_step" in row:
        return now + float(row["worst_of_step"]) * measured
    return float(row["worst"]) if "worst" in row else now * float(row["worst_share"])


def _between(row: Mapping[str, Any], now: float, limit: float, share: float) -> float:
    """The value at a share of the way to a limit: by equal factors for a rate, by equal steps for any other amount."""
    if "worst_share" in row:
        return float(now * (limit / now) ** share)
    return now + (limit - now) * share


def _steps(scenario: Scenario, e: Estimation, changes: Sequence[Mapping[str, Value]]) -> list[float | None]:
    """The step with each change; None if it breaks a rule. The layout of the stages is kept."""
    held = {name: text for name, text in e.choices.items() if name == LAYOUT}
    asked: list[Scenario | None] = []
    for change in changes:
        try:
            asked.append(asked_again(scenario.question, {**held, **change}))
        except AmpedError:
            asked.append(None)
    found = iter(estimated_each([scenario for scenario in asked if scenario is not None]))
    answers = [None if scenario is None else next(found) for scenario in asked]
    return [answer["step_time"] if isinstance(answer, Estimation) else None for answer in answers]


def _suspect(
    e: Estimation, measured: float, row: Mapping[str, Any], values: Sequence[Value], steps: Sequence[float | None]
) -> Iterator[Suspect]:
    """The suspect of a row, if it explains a part of the difference: an amount as far on its way as explains most."""
    if len(values) == 1:
        (value, step, reach) = (values[0], steps[0], 0.0)
    else:
        reach, step = _reached(e["step_time"], measured, steps)
        value = _between(row, e[row["name"]], float(values[-1]), reach)
    if step is None:
        return
    explained = math.log(step / e["step_time"]) / math.log(measured / e["step_time"])
    if explained >= LEAST_EXPLAINED:
        yield Suspect(row["name"], value, row["wrong"], row["shows"], step, explained, reach)


def _reached(step_time: float, measured: float, steps: Sequence[float | None]) -> tuple[float, float]:
    """The share of the way to its limit at which an amount explains most of a measured step, and the step there.

    Between two values that are tried, the logarithm of the step is taken as a line.
    """
    points = [(0, step_time), *((place, step) for place, step in enumerate(steps, 1) if step is not None)]
    for (before, low), (after, high) in pairwise(points):
        if min(low, high) <= measured <= max(low, high) and low != high:
            share = math.log(measured / low) / math.log(high / low)
            return (before + share * (after - before)) / len(steps), measured
    place, step = min(points, key=lambda point: abs(math.log(point[1] / measured)))
    return place / len(steps), step
