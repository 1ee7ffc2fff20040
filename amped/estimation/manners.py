"""The same step as recipes run it, and as a first run on real data does: two times that a network with experts has.

A benchmark switches on what its recipe says, and balances experts by force. A first run has the software's own switches, and a router
that does not yet deal tokens evenly.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from amped.base.errors import AmpedError
from amped.base.numbers import settable
from amped.base.record import dataclass
from amped.configuring.scenario import asked_again
from amped.estimation.estimation import Estimation, estimated
from amped.tables.recipes import BY_FORCE, MANNER, PLAIN, RECIPE, in_manner, is_recipe, notice_of_another_release
from amped.tables.tables import Row, user_tables
from amped.theory.language.quantity import MAPPING

# The tokens of the busiest accelerator of a first run, as a multiple of the average: the least of the published ones.
IMBALANCE, IMBALANCE_OF_A_FIRST_RUN = "expert_imbalance_factor", 1.3
SOURCE = "arXiv 2606.04101: 1.3 to 4 between ranks before balancing"
# A step of the road saves at least a thousandth.
NO_GAIN = 0.999
# A difference of this share of a step is told for a network without experts.
WORTH_TELLING = 0.03


@dataclass(frozen=True)
class Run:
    """A step under other circumstances.

    Attributes:
        name: `recipe`, `plain` or `first_run`.
        software: the row of software.
        step_time: seconds.
        fits: whether it fits in memory.
        switches: what differs from the estimate, as texts.
        values: the values of these switches, by parameter.
        notice: what to know of the software: that recipes of another release are taken.
    """

    name: str
    software: str
    step_time: float
    fits: bool
    switches: tuple[str, ...]
    values: Mapping[str, str | bool]
    notice: str = ""


@dataclass(frozen=True)
class Step:
    """A part of the road from an estimate to the recipe of its software.

    Attributes:
        settings: what it switches on, in the form of `--set`.
        step_time: seconds of a step with this part and all earlier ones.
        gain_fraction: the share of the earlier step's time that it saves; never negative.
    """

    settings: tuple[str, ...]
    step_time: float
    gain_fraction: float


def other_runs(e: Estimation) -> tuple[Run, ...]:
    """The step in the other manner of its software, and as a first run; those that tell nothing new are left out."""
    runs = [_in_other_manner(e), _first_run(e)]
    return tuple(run for run in runs if run is not None)


def road(e: Estimation) -> tuple[Step, ...]:
    """The switches of the recipe one by one, the best first; what only helps together comes last, and what loses is left out.

    Experts that a benchmark balances by force are not on it. Empty if no recipes are known, or if the estimate is one of a recipe.
    """
    run = _in_other_manner(e)
    if run is None or run.name == PLAIN:
        return ()
    left = [name for name in run.values if name not in BY_FORCE]
    taken: list[str] = []
    before, steps = e["step_time"], list[Step]()
    while left:
        times: dict[tuple[str, ...], float] = {(name,): _time(e, run, [*taken, name]) for name in left}
        best = min(times, key=times.__getitem__)
        time = times[best]
        if time >= before * NO_GAIN:
            best, time = tuple(left), _time(e, run, [*taken, *left])
        if time >= before * NO_GAIN:
            break
        steps.append(Step(tuple(_setting(name, run.values[name]) for name in best), time, 1 - time / before))
        before, taken, left = time, [*taken, *best], [name for name in left if name not in best]
    return tuple(steps)


def in_recipe(e: Estimation) -> Mapping[str, str | bool] | None:
    """What recipes of an estimate's software switch otherwise here, by parameter; None if none are known."""
    run = _in_other_manner(e)
    return run.values if run is not None and run.name == RECIPE else None


def values_of(e: Estimation, names: Iterable[str]) -> dict[str, str | bool]:
    """The values that an estimate has for some parameters, as people give them."""
    known = {**e.scenario.sources.given, **e.scenario.sources.choices}
    return {name: _given(name, known.get(name, _unsaid(e, name)), e) for name in names}


def _time(e: Estimation, run: Run, names: Sequence[str]) -> float:
    """The seconds of a step with some switches of a run; infinite if they are not possible or do not fit."""
    try:
        other = estimated(asked_again(e.scenario.question, {name: run.values[name] for name in names}))
    except AmpedError:
        return math.inf
    return other["step_time"] if other["fits_in_memory"] >= e["fits_in_memory"] else math.inf


def _in_other_manner(e: Estimation) -> Run | None:
    """The step as recipes run it, or without them if they do; None if no recipes are known, or if they change little."""
    row = e.scenario.sources.rows.get(MAPPING)
    if row is None or row.is_a_file:
        return None
    manner = PLAIN if is_recipe(row) else RECIPE
    try:
        software = _software(e, row, manner)
        other = estimated(asked_again(e.scenario.question, {"software": software, MANNER: None}))
    except AmpedError:  # no recipes are known, or they rule this mapping out
        return None
    if other["number_of_experts"] <= 1 and abs(other["step_time"] / e["step_time"] - 1) < WORTH_TELLING:
        return None
    values = _differing(e, other)
    switches = tuple(_setting(name, value) for name, value in values.items())
    notice = notice_of_another_release(_typed(e, row), other.scenario.sources.rows[MAPPING])
    return Run(manner, software, other["step_time"], bool(other["fits_in_memory"]), switches, values, notice)


def _first_run(e: Estimation) -> Run | None:
    """The step with experts as unequal as they are before balancing; None if somebody says how unequal they are, or none waits."""
    is_given = IMBALANCE in e.scenario.sources.named() and e[IMBALANCE] != 1
    if e["number_of_experts"] <= 1 or e["expert_parallel_degree"] == 1 or is_given:
        return None
    if e.scenario.sources.given.get("expert_capacity_factor"):
        return None
    row = e.scenario.sources.rows.get(MAPPING)
    software = {"software": _software(e, row, PLAIN)} if row is not None and is_recipe(row) else {}
    try:
        other = estimated(
            asked_again(e.scenario.question, {IMBALANCE: IMBALANCE_OF_A_FIRST_RUN, **software, MANNER: None})
        )
    except AmpedError:
        return None
    name = software.get("software", row.name if row else "")
    switches = (f"{IMBALANCE} {IMBALANCE_OF_A_FIRST_RUN} ({SOURCE})",)
    return Run("first_run", name, other["step_time"], bool(other["fits_in_memory"]), switches, {})


def _software(e: Estimation, row: Row, manner: str) -> str:
    """The name of a row of software in a manner.

    Raises:
        ConfigError: if no recipes of it are known.
    """
    return in_manner(user_tables(e.scenario.question.lookup_tables), _typed(e, row), manner)


def _typed(e: Estimation, row: Row) -> str:
    """The software as it is typed, with its release; else the name of its row."""
    question = e.scenario.question
    typed = question.overrides.get("software") or question.config.lookups.get(MAPPING, (None, None))[1]
    return typed if isinstance(typed, str) else row.name


def _differing(e: Estimation, other: Estimation) -> dict[str, str | bool]:
    """The values of another estimate that differ from those of the first one, by parameter, as people give them."""
    before, after = ({**x.scenario.sources.given, **x.scenario.sources.choices} for x in (e, other))
    unsaid = {name: _unsaid(e, name) for name in after if name not in BY_FORCE}  # what is forced is always told
    changed = sorted(name for name in after if before.get(name, unsaid.get(name)) != after[name])
    return {name: _given(name, after[name], other) for name in changed}


def _unsaid(e: Estimation, name: str) -> Any:
    """What an estimate takes for a parameter that nothing gives; None if it needs none."""
    return e.choices.get(name) if name in e.choices or name not in e else e[name]


def _given(name: str, value: Any, e: Estimation) -> str | bool:
    """A value as people give it."""
    if e.scenario.catalogue[name].mark.unit == "boolean":
        return bool(value)
    return value if isinstance(value, str) else settable(float(value))


def _setting(name: str, value: str | bool) -> str:
    """A parameter and its value, as `--set` takes them."""
    return f"{name}={str(value).lower() if isinstance(value, bool) else value}"
