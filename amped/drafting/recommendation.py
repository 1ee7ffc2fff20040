"""The fewest accelerators of a system that train a network within a time or for an amount of money."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from amped.base.errors import AmpedError, ConfigError
from amped.configuring.scenario import Scenario, asked_again
from amped.estimation.estimation import Estimation, estimated
from amped.exploration.answer import Exploration, answer
from amped.exploration.request import Options, Request
from amped.exploration.running import found_in
from amped.exploration.search import Search
from amped.exploration.search_space import wholes

# How many sizes of the machine are tried for each doubling; and how many doublings, from the smallest possible size.
SIZES, DOUBLINGS = 16, 8
# The FLOPs of a model count all attention scores; a causal network computes at least half of them.
LEAST_COMPUTED = 0.5
# A mapping that is possible for any network if memory does not matter: one accelerator does all.
ALONE: dict[str, object] = {
    **dict.fromkeys((*wholes(), "expert_parallel_degree", "virtual_pipeline_stages", "microbatch_size"), 1),
    "number_of_accelerators": 1, "zero_stage": 0,
}  # fmt: skip


@dataclass(frozen=True)
class Limits:
    """The limits of the training: seconds, dollars, or both."""

    deadline: float | None
    budget: float | None

    @property
    def wishes(self) -> tuple[str, ...]:
        """The limits as wishes of an exploration."""
        own = {"training_time": (self.deadline, "s"), "cost": (self.budget, "dollar")}
        return tuple(f"{name} <= {limit!r} {unit}" for name, (limit, unit) in own.items() if limit is not None)


@dataclass(frozen=True)
class Recommendation:
    """What one system needs.

    Attributes:
        system: the name of its row.
        sizes: the numbers of accelerators that were tried, in ascending order; no smaller machine can suffice.
        row: the best mapping of the first size that suffices, with all results; None if no size does.
        settings: the settings that give this mapping.
        held: what was not searched.
    """

    system: str
    sizes: tuple[int, ...]
    row: dict[str, Any] | None
    settings: dict[str, Any]
    held: str

    def to_dict(self) -> dict[str, Any]:
        """The recommendation as plain data."""
        return {"system": self.system, "sizes": list(self.sizes), "best": self.row, "held": self.held}


def recommended(asked: list[Scenario], limits: Limits) -> list[Recommendation]:
    """What each system needs, the cheapest first; if a price is unknown, the fewest accelerators first.

    Raises:
        ConfigError: if there is no limit, or if there is a budget and a system without a price.
    """
    if not limits.wishes:
        raise ConfigError("neither a deadline nor a budget is given", 'for example --deadline "30 days"')
    found = [_of_system(scenario, limits) for scenario in asked]
    priced = all("cost" in each.row for each in found if each.row)
    return sorted(found, key=lambda each: _order(each, priced))


def _order(each: Recommendation, priced: bool) -> tuple[bool, float]:
    by = "cost" if priced else "number_of_accelerators"
    return each.row is None, each.row[by] if each.row else 0.0


def _of_system(asked: Scenario, limits: Limits) -> Recommendation:
    """The first size for which some mapping keeps the limits."""
    tried = []
    for size in _sizes(asked, limits):
        tried.append(size)
        found = _explored(asked, size, limits)
        if found is not None and found.feasible:
            row = found.best[0]
            own = {name: row[name] for name in found.swept if name in row} | {"number_of_accelerators": size}
            return Recommendation(_system(asked), tuple(tried), row, own, found.held)
    return Recommendation(_system(asked), tuple(tried), None, {}, "")


def _system(asked: Scenario) -> str:
    row = asked.sources.rows.get("system_architecture_parameters")
    return row.name if row else asked.label


def _sizes(asked: Scenario, limits: Limits) -> Iterator[int]:
    """The numbers of accelerators to try: whole nodes, from the smallest possible size, sixteen for each doubling."""
    single = estimated(asked_again(asked.question, ALONE), Estimation)
    node = int(single["number_of_accelerators_per_node"])
    peak_time = LEAST_COMPUTED * single["training_time"] * single["model_flops_utilization_counting_all_scores"]
    if limits.budget is not None and peak_time * _price(single) > limits.budget:
        return
    least = max(1.0, peak_time / limits.deadline / node) if limits.deadline else 1.0
    for doubling in range(DOUBLINGS):
        low, high = math.ceil(least * 2**doubling), math.ceil(least * 2 ** (doubling + 1))
        step = 2 ** max(0, math.floor(math.log2(low / SIZES))) if low >= SIZES else 1
        for nodes in range(math.ceil(low / step) * step, high, step):
            yield nodes * node


def _price(single: Estimation) -> float:
    """The dollars for one second of one accelerator."""
    if "cost" not in single:
        raise ConfigError(
            "what an accelerator costs is not known", "give its price: --set accelerator_price=2.5 (USD an hour)"
        )
    return float(single["cost"] / single["training_time"])


def _explored(asked: Scenario, size: int, limits: Limits) -> Exploration | None:
    """The best mapping for this number of accelerators that keeps the limits; None if no mapping's degrees divide."""
    question = asked_again(asked.question, {"number_of_accelerators": size}).question
    search = Search(Request(question, {}, Options(top=1, where=limits.wishes)))
    try:
        candidates = search.candidates
    except AmpedError:  # the degrees of no mapping multiply and divide
        return None
    return answer(search, found_in(search), time.perf_counter()) if candidates else None
