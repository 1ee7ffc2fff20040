"""The best mapping of each value of a sweep: one exploration and one estimate for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from amped.base.errors import AmpedError, one_line
from amped.configuring.scenario import Scenario, asked_again
from amped.estimation.estimation import Estimation, estimated
from amped.estimation.order import range_of
from amped.estimation.remedies import smallest_change
from amped.exploration.answer import Exploration, explored, settings
from amped.exploration.request import Options
from amped.exploration.running import ALONE, Run

# A sweep with more combinations of values is ranked as one space, because one exploration for each would take long.
MOST_LINES = 24
Values = Mapping[str, object]


@dataclass(frozen=True)
class Line:
    """One combination of swept values.

    Attributes:
        values: the swept values, by the names that the user wrote.
        estimation: the estimate of the best mapping; of the mapping that lacks least if none is feasible; else None.
        candidates: how many mappings were tried.
        feasible: how many of them keep every rule and wish, and fit in memory.
        lacks: why there is no feasible mapping, in words; empty if there is one.
    """

    values: Values
    estimation: Estimation | None
    candidates: int
    feasible: int
    lacks: str

    def to_dict(self) -> dict[str, Any]:
        """The values, all results, the ends of the cost and what is lacking, as plain data."""
        e = self.estimation
        results = e.to_dict() if e else {}
        if e and "cost" in e:
            results |= {"cost_low": range_of(e, "cost").low, "cost_high": range_of(e, "cost").high}
        if e and e.scenario.sources.preliminary:
            results["notices"] = e.scenario.sources.preliminary
        return {**results, **self.values, "candidates": self.candidates, "feasible": self.feasible, "lacks": self.lacks}


def lines(
    scenario_of: Callable[[Values], Scenario], vary: Mapping[str, Sequence[object]], options: Options, run: Run = ALONE
) -> list[Line]:
    """The best mapping of each combination of values, in the order in which they are written.

    Args:
        scenario_of: gives the scenario of some values.
        vary: the swept names with their values.
        options: what is searched, and how it is ranked.
        run: evaluates the parts of the search, and shows its progress.

    Raises:
        AmpedError: for a value that cannot be read, or if no value has a mapping.
    """
    ranked: list[Line] = []
    refusals: list[AmpedError] = []
    for values in combinations(vary):
        scenario = scenario_of(values)
        try:
            ranked.append(_line(values, explored(scenario, replace(options, top=1), None, replace(run, findings=None))))
        except AmpedError as error:
            refusals.append(error)
            ranked.append(Line(values, None, candidates=0, feasible=0, lacks=one_line(error)))
    if len(refusals) == len(ranked):
        raise refusals[0]
    return ranked


def chosen_lines(scenario_of: Callable[[Values], Scenario], vary: Mapping[str, Sequence[object]]) -> list[Line]:
    """The line of each combination of values whose scenario is complete: its mapping is chosen already.

    Raises:
        AmpedError: for a value that cannot be read or estimated.
    """
    estimates = [(values, estimated(scenario_of(values))) for values in combinations(vary)]
    return [
        Line(values, e, candidates=1, feasible=int(e["fits_in_memory"]), lacks=_lacks(e)) for values, e in estimates
    ]


def _lacks(e: Estimation, otherwise: str = "") -> str:
    """A sentence on an estimate that does not fit in memory and the change with which it would; if it fits, `otherwise`."""
    return otherwise if e["fits_in_memory"] else f"does not fit in memory; it would with {smallest_change(e)}"


def combinations(vary: Mapping[str, Sequence[object]]) -> Iterator[dict[str, object]]:
    """Each combination of the values, the last name varying fastest."""
    yield from (dict(zip(vary, values, strict=True)) for values in product(*vary.values()))


def _line(values: Values, ranking: Exploration) -> Line:
    """The line of some swept values, with the estimate of the best mapping that an exploration found."""
    e, lacks = None, "no mapping keeps every rule"
    if ranking.best and ranking.search is not None:
        e = estimated(asked_again(ranking.search.scenario.question, settings(ranking.search, ranking.best[0])))
        lacks = "" if ranking.feasible else _lacks(e, "no mapping keeps every wish")
    return Line(values, e, candidates=ranking.candidates, feasible=ranking.feasible, lacks=lacks)
