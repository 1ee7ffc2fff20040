"""The same step as recipes run it, and as a first run on real data does: two times that a network with experts has.

A benchmark switches on what its recipe says, and balances experts by force. A first run has the software's own switches, and a router
that does not yet deal tokens evenly.
"""

from __future__ import annotations

from amped.base.errors import AmpedError
from amped.base.record import dataclass
from amped.configuring.scenario import asked_again
from amped.estimation.estimation import Estimation, estimated
from amped.tables.recipes import MANNER, PLAIN, RECIPE, in_manner, is_recipe
from amped.tables.tables import user_tables
from amped.theory.language.quantity import MAPPING

# The tokens of the busiest accelerator of a first run, as a multiple of the average: the least of the published ones.
IMBALANCE, IMBALANCE_OF_A_FIRST_RUN = "expert_imbalance_factor", 1.3
SOURCE = "arXiv 2606.04101: 1.3 to 4 between ranks before balancing"
# What only a benchmark does.
BY_FORCE = ("expert_imbalance_factor", "expert_capacity_factor", "expert_assignment")
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
    """

    name: str
    software: str
    step_time: float
    fits: bool
    switches: tuple[str, ...]


def other_runs(e: Estimation) -> tuple[Run, ...]:
    """The step in the other manner of its software, and as a first run; those that tell nothing new are left out."""
    runs = [_in_other_manner(e), _first_run(e)]
    return tuple(run for run in runs if run is not None)


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


def road(e: Estimation) -> tuple[Step, ...]:
    """The switches of the recipe one by one, the best first; what only helps together comes last, and what loses is left out.

    Experts that a benchmark balances by force are not on it. Empty if no recipes are known, or if the estimate is one of a recipe.
    """
    run = _in_other_manner(e)
    if run is None or run.name == PLAIN:
        return ()
    left = [s for s in run.switches if s.partition("=")[0] not in BY_FORCE]
    steps: list[Step] = []
    while left:
        taken = [text for step in steps for text in step.settings]
        before = steps[-1].step_time if steps else e["step_time"]
        times: dict[tuple[str, ...], float] = {(switch,): _time(e, (*taken, switch)) for switch in left}
        best = min(times, key=times.__getitem__)
        if times[best] >= before * NO_GAIN:
            best = tuple(left)
            times[best] = _time(e, (*taken, *left))
        if times[best] >= before * NO_GAIN:
            break
        steps.append(Step(best, times[best], 1 - times[best] / before))
        left = [switch for switch in left if switch not in best]
    return tuple(steps)


def _time(e: Estimation, settings: tuple[str, ...]) -> float:
    """The seconds of a step with further settings; infinite if they are not possible or do not fit."""
    written = (setting.split("=", 1) for setting in settings)
    values = {name: {"true": True, "false": False}.get(value, value) for name, value in written}
    try:
        other = estimated(asked_again(e.scenario.question, values))
    except AmpedError:
        return float("inf")
    return other["step_time"] if other["fits_in_memory"] >= e["fits_in_memory"] else float("inf")


def _in_other_manner(e: Estimation) -> Run | None:
    """The step as recipes run it, or without them if they do; None if no recipes are known, or if they change little."""
    row = e.scenario.sources.rows.get(MAPPING)
    if row is None or row.is_a_file:
        return None
    manner = PLAIN if is_recipe(row) else RECIPE
    try:
        software = in_manner(user_tables(e.scenario.question.lookup_tables), row.name, manner)
        other = estimated(asked_again(e.scenario.question, {"software": software, MANNER: None}))
    except AmpedError:  # no recipes are known, or they rule this mapping out
        return None
    if other["number_of_experts"] <= 1 and abs(other["step_time"] / e["step_time"] - 1) < WORTH_TELLING:
        return None
    return Run(manner, software, other["step_time"], bool(other["fits_in_memory"]), _switches(e, other))


def _first_run(e: Estimation) -> Run | None:
    """The step with experts as unequal as they are before balancing; None if somebody says how unequal they are, or none waits."""
    is_given = IMBALANCE in e.scenario.sources.named() and e[IMBALANCE] != 1
    if e["number_of_experts"] <= 1 or e["expert_parallel_degree"] == 1 or is_given:
        return None
    if e.scenario.sources.given.get("expert_capacity_factor"):
        return None
    row = e.scenario.sources.rows.get(MAPPING)
    plain = _in_other_manner(e) if row is not None and is_recipe(row) else None
    software = {"software": plain.software} if plain else {}
    try:
        other = estimated(
            asked_again(e.scenario.question, {IMBALANCE: IMBALANCE_OF_A_FIRST_RUN, **software, MANNER: None})
        )
    except AmpedError:
        return None
    return Run("first_run", row.name if row else "", other["step_time"], bool(other["fits_in_memory"]),
               (f"{IMBALANCE} {IMBALANCE_OF_A_FIRST_RUN} ({SOURCE})",))  # fmt: skip


def _switches(e: Estimation, other: Estimation) -> tuple[str, ...]:
    """The values that the rows of software of two estimates have differently, as texts of the other one."""
    before, after = ({**x.scenario.sources.given, **x.scenario.sources.choices} for x in (e, other))
    changed = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
    return tuple(f"{name}={_text(name, after[name], other)}" for name in changed if name in after)


def _text(name: str, value: object, e: Estimation) -> str:
    """A value as people write it."""
    if isinstance(value, str):
        return value
    if e.scenario.catalogue[name].mark.unit == "boolean":
        return "true" if value else "false"
    return f"{float(value):g}"  # type: ignore[arg-type]
