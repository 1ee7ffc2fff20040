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
    plain = _in_other_manner(e) if is_recipe(e.scenario.sources.rows[MAPPING]) else None
    software = {"software": plain.software} if plain else {}
    try:
        other = estimated(
            asked_again(e.scenario.question, {IMBALANCE: IMBALANCE_OF_A_FIRST_RUN, **software, MANNER: None})
        )
    except AmpedError:
        return None
    return Run("first_run", other.scenario.sources.rows[MAPPING].name, other["step_time"], bool(other["fits_in_memory"]),
               (f"{IMBALANCE} {IMBALANCE_OF_A_FIRST_RUN} ({SOURCE})",))  # fmt: skip


def _switches(e: Estimation, other: Estimation) -> tuple[str, ...]:
    """The values that the rows of software of two estimates have differently, as texts of the other one."""
    before, after = ({**x.scenario.sources.given, **x.scenario.sources.choices} for x in (e, other))
    changed = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
    return tuple(f"{name}={_text(after[name])}" for name in changed if name in after)


def _text(value: object) -> str:
    """A value as people write it."""
    return value if isinstance(value, str) else f"{float(value):g}"  # type: ignore[arg-type]
