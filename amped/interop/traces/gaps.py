"""A measured step beside an estimate, part by part: which parts take longer, and what would close each gap.

The parts are rows of `gaps.json` beside this file. Both sides of the table add up to their step.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache
from statistics import fmean, median
from typing import Any

from amped.base.errors import ConfigError
from amped.base.files import shipped_json
from amped.base.record import dataclass
from amped.estimation.estimation import Estimation
from amped.interop.traces.classes import MESSAGES
from amped.interop.traces.measuring import IDLE, LOADING, PASSES, PYTHON, WAITED, MeasuredStep
from amped.theory.nouns.parallelisms import PARALLELISMS

TABLE = "gaps.json"
# A process that works a tenth longer than the middle one is slow.
LEAST_SLOW = 0.1
Facts = Mapping[str, float]


@dataclass(frozen=True)
class Gap:
    """A part of a step.

    Attributes:
        name, said: the part, and the same in words.
        measured, estimated: its seconds of a step; `gap` is the difference.
        closes: what would close the gap; empty if the part takes no longer than estimated.
    """

    name: str
    said: str
    measured: float
    estimated: float
    gap: float
    closes: str


def gaps(steps: Sequence[MeasuredStep], e: Estimation) -> list[Gap]:
    """The parts of a step, the largest gap first.

    Args:
        steps: the measured step of each process; the mean of them is compared.
        e: the estimate.

    Raises:
        ConfigError: for the closed form, which knows no kernels.
    """
    if "kernel_wait_time" not in e:
        raise ConfigError("AMPeD's closed form has no times of kernels", "leave --set performance_model=amped out")
    groups = {group.name: float(group.time) for group in e.results.records("step_kernel_groups")}
    facts, found = _facts(steps, e, groups), list[Gap]()
    for row in _table()["parts"]:
        times = [step.time_of(*row["groups"], kinds=row["kinds"]) for step in steps]
        measured = fmean(times)
        estimated = sum(groups[name] for name in row["kernels"]) + sum(e[name] for name in row["quantities"])
        if measured or estimated:
            differs = max(times) - min(times) > (measured - estimated) / 2
            closes = _closing(row["closes"], facts, differs) if measured > estimated else ""
            found.append(Gap(row["name"], row["said"], measured, estimated, measured - estimated, closes))
    return sorted(found, key=lambda gap: -gap.gap)


@cache
def _table() -> dict[str, Any]:
    """The parts, and the sentence on a slow process."""
    table: dict[str, Any] = shipped_json("interop.traces", TABLE)
    return table


def _closing(rows: Sequence[Mapping[str, Any]], facts: Facts, differs: bool) -> str:
    """The first sentence whose fact is above its bound; where processes differ by much of the gap, the one on a slow process."""
    row = next(row for row in rows if "fact" not in row or facts[row["fact"]] > row["above"])
    says = _table()["slow"] if differs and facts["slow_fraction"] > LEAST_SLOW else row["says"]
    return str(says).format(**facts).replace("%", " %")


def _facts(steps: Sequence[MeasuredStep], e: Estimation, groups: Mapping[str, float]) -> Facts:
    """What sentences speak of; a fact that is not known is left out."""
    idle: dict[str, float] = {}
    for share in (share for step in steps for share in step.shares if share.group == IDLE):
        idle[share.name] = idle.get(share.name, 0.0) + share.time
    nothing = sum(idle.values())
    shares = {"loading": LOADING, "waited": WAITED, "python": PYTHON}
    products = fmean(step.time_of("products", kinds=(PASSES,)) for step in steps)
    facts = {
        **{f"{name}_fraction": idle.get(why, 0.0) / nothing if nothing else 0.0 for name, why in shares.items()},
        "late_fraction": _mean([step.late_fraction for step in steps]),
        "odd_product_fraction": _mean([step.odd_product_fraction for step in steps]),
        "product_rate": groups["products"] / products if products else math.nan,
        **_hiding(steps, e),
        **_slowest(steps),
    }
    return {name: fact if math.isfinite(fact) else -math.inf for name, fact in facts.items()}


def _mean(fractions: Sequence[float | None]) -> float:
    """The mean of those that are known; not a number if none is."""
    known = [fraction for fraction in fractions if fraction is not None]
    return fmean(known) if known else math.nan


def _hiding(steps: Sequence[MeasuredStep], e: Estimation) -> Facts:
    """The share of messages that computation hides, measured and estimated."""
    sent = sum(sent.time for step in steps for sent in step.sent)
    measured = sum(sent.hidden for step in steps for sent in step.sent) / sent if sent else math.nan
    hidden = sum(e[f"hidden_{kind}_communication_time"] for kind in PARALLELISMS)
    exposed = sum(e[f"exposed_{kind}_communication_time"] for kind in PARALLELISMS)
    expected = hidden / (hidden + exposed) if hidden + exposed else 0.0
    return {
        "hidden_fraction": measured,
        "expected_hidden_fraction": expected,
        "lost_hidden_fraction": expected - measured,
    }


def _slowest(steps: Sequence[MeasuredStep]) -> Facts:
    """Which process works longest outside of messages, and how much longer than the middle one."""
    own = [step.step_time - step.time_of(*MESSAGES) for step in steps]
    slowest = max(range(len(own)), key=own.__getitem__)
    rank = steps[slowest].rank
    others = [time for place, time in enumerate(own) if place != slowest]
    slow = own[slowest] / median(others) - 1 if others and median(others) else 0.0
    return {"slow_fraction": slow, "slow_process": float(rank if rank >= 0 else slowest)}
