"""The fewest accelerators of a system that train a network within a time, or the most that train it for an amount of money."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from amped.base.errors import AmpedError, ConfigError
from amped.configuring.scenario import Scenario, asked_again
from amped.drafting.chooser import NOT_TRIED, SPACE, completed
from amped.drafting.fastest import fastest
from amped.drafting.switches import tuned
from amped.estimation.estimation import Estimation, estimated
from amped.estimation.one_list import prices_not_compared
from amped.exploration.search_space import space_of, wholes
from amped.theory.language.quantity import SYSTEM

# Completes a question: its values and rows, lookup tables, formulas.
Choose = Callable[[Mapping[str, object], Any, Any], Scenario]
# How many sizes of the machine are tried for each doubling; and how many doublings, from the smallest possible size.
SIZES, DOUBLINGS = 16, 8
# The most accelerators that a budget alone is asked for: about as many as any published run had.
LARGEST = 16_384
# How often the sizes between one within the budget and one beyond it are halved.
BISECTIONS = 3
# A smaller machine uses its accelerators better, but by less than this factor within a doubling. Assumed.
BETTER = 1.25
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
    def given(self) -> dict[str, float]:
        """The limits by the result that they limit."""
        limits = {"training_time": self.deadline, "cost": self.budget}
        return {name: limit for name, limit in limits.items() if limit is not None}


@dataclass(frozen=True)
class Recommendation:
    """The accelerators and the mapping that one system needs to keep the limits.

    Attributes:
        system: the name of its row.
        sizes: the numbers of accelerators that were tried, up to the one that suffices, in ascending order.
        row: the results of the fastest mapping of the first size that suffices; None if no size does.
        settings: the settings of the estimate that has these results.
        held: the parameters that were not searched, in words.
        scenario: the question, with the list that its prices are of.
        notices: what to tell of its rows whose figures are not final.
        estimate: the estimate that has these results; None if no size suffices.
        nearest: if no size suffices, the estimate that misses the limits least among those that fit; None if none fits.
    """

    system: str
    sizes: tuple[int, ...]
    row: dict[str, Any] | None
    settings: dict[str, Any]
    held: str
    scenario: Scenario
    notices: tuple[str, ...] = ()
    estimate: Estimation | None = None
    nearest: Estimation | None = None

    def to_dict(self) -> dict[str, Any]:
        """The recommendation as plain data."""
        notices = {"notices": [*self.notices]} if self.notices else {}
        nearest = {"nearest": self.nearest.to_dict()} if self.nearest else {}
        best = {"best": self.row, "held": self.held, **nearest}
        return {"system": self.system, "sizes": list(self.sizes), **best, **notices}


@dataclass(frozen=True)
class _Size:
    """One size of the machine: the settings that give its fastest mapping, and the estimate of it."""

    settings: dict[str, Any]
    estimate: Estimation

    def keeps(self, limits: Limits) -> bool:
        """Whether it fits in memory and keeps the limits."""
        e = self.estimate
        return bool(e["fits_in_memory"]) and all(e[name] <= most for name, most in limits.given.items())


# The size that is tried for a number of accelerators, and all that were.
Mapped = Callable[[int], _Size | None]
Tried = dict[int, _Size | None]
# Told of each size: the system, its estimate (None: no mapping is possible), and whether it keeps the limits.
Tell = Callable[[str, Estimation | None, bool], None]


def recommended(
    scenarios: list[Scenario], limits: Limits, is_tuned: bool = False, tell: Tell = lambda *_: None
) -> list[Recommendation]:
    """The recommendation for each system: with a deadline the cheapest first, with a budget alone the fastest first.

    The fewest accelerators come first if a price is unknown or of another list.

    Args:
        scenarios: one for each system.
        limits: what the training must keep.
        is_tuned: chooses the switches of the software for each size, as `amped estimate --manner tuned` does.
        tell: is told of each size that was tried.

    Raises:
        ConfigError: if there is no limit, or if there is a budget and a system without a price.
    """
    if not limits.given:
        raise ConfigError("neither a deadline nor a budget is given", 'for example --deadline "30 days"')
    recommendations = [_of_system(scenario, limits, tuned if is_tuned else completed, tell) for scenario in scenarios]
    by = "cost" if are_ranked_by_cost(recommendations) else "number_of_accelerators"
    by = by if limits.deadline else "training_time"
    return sorted(recommendations, key=lambda r: (r.row is None, r.row[by] if r.row else 0.0))


def are_ranked_by_cost(recommendations: Sequence[Recommendation]) -> bool:
    """Whether all systems that suffice have a cost, by prices of one list."""
    enough = [r for r in recommendations if r.row]
    return all(r.scenario.sources.price for r in enough) and not costs_differ_by_list(enough)


def costs_differ_by_list(recommendations: Iterable[Recommendation]) -> str:
    """Why the costs of the systems are not compared; empty if their prices are of one list."""
    return prices_not_compared(r.scenario for r in recommendations if r.row)


def _of_system(scenario: Scenario, limits: Limits, choose: Choose, tell: Tell) -> Recommendation:
    """The recommendation for one system: with a deadline the smallest tried size that keeps the limits, else the fastest."""
    tried, name = Tried(), _system_name(scenario)

    def mapped(size: int) -> _Size | None:
        if size not in tried:
            tried[size] = found = _of_size(scenario, size, choose)
            tell(name, found.estimate if found else None, bool(found and found.keeps(limits)))
        return tried[size]

    found = (_fewest if limits.deadline else _fastest)(_doublings(scenario, limits), limits, mapped, tried)
    size = tried[found] if found else None
    if found is None or size is None:
        return Recommendation(
            name, tuple(sorted(tried)), row=None, settings={}, held="", scenario=scenario,
            nearest=_nearest((size.estimate for size in tried.values() if size), limits),
        )  # fmt: skip
    counted = (other for other in tried if other <= found or not limits.deadline)
    return Recommendation(
        system=name, sizes=tuple(sorted(counted)),
        row=size.estimate.to_dict(), settings=size.settings, scenario=size.estimate.scenario,
        held=NOT_TRIED if _is_open(scenario) else space_of(SPACE).held,
        notices=tuple(size.estimate.scenario.sources.preliminary), estimate=size.estimate,
    )  # fmt: skip


def _nearest(estimates: Iterable[Estimation], limits: Limits) -> Estimation | None:
    """The estimate that fits in memory and misses its worst limit by the smallest factor; None if none fits."""
    fitting = (e for e in estimates if e["fits_in_memory"])
    return min(fitting, key=lambda e: max(e[name] / most for name, most in limits.given.items()), default=None)


def _fewest(doublings: Iterator[list[int]], limits: Limits, mapped: Mapped, tried: Tried) -> int | None:
    """The smallest size whose fastest mapping keeps the limits; None if no size does."""
    for sizes in doublings:
        if limits.deadline and not _in_time(filter(None, map(mapped, reversed(sizes))), limits.deadline):
            continue
        for size in _worth_trying(sizes, filter(None, tried.values()), limits.deadline):
            fitting = mapped(size)
            if fitting and fitting.keeps(limits):
                return size
    return None


def _fastest(doublings: Iterator[list[int]], limits: Limits, mapped: Mapped, tried: Tried) -> int | None:
    """The size that trains in the least time within the budget; None if no size does.

    More accelerators train faster and cost more, because each does less. So the largest size is tried first, then always
    the half, until one costs no more than the budget; then sizes between the last two.
    """
    node = next(doublings, [LARGEST + 1])[0]  # no size where even the peak rate costs more
    halves = (LARGEST // node >> k for k in range(LARGEST.bit_length()))
    sizes = [nodes * node for nodes in halves if nodes]
    low = next((size for size in sizes if (found := mapped(size)) and found.keeps(limits)), None)
    high = min((size for size in tried if low and size > low), default=None)
    for _ in range(BISECTIONS):
        middle = _between(low, high, node) if low and high else None
        found = mapped(middle) if middle else None
        low, high = (middle, high) if found and found.keeps(limits) else (low, middle or high)
    kept = {size: found.estimate["training_time"] for size, found in tried.items() if found and found.keeps(limits)}
    return min(kept, key=kept.__getitem__, default=None)


def _between(low: int, high: int, node: int) -> int | None:
    """A size half-way between two, in whole nodes; None if there is none."""
    middle = (low + high) // 2 // node * node
    return middle if low < middle < high else None


def _worth_trying(sizes: Sequence[int], tried: Iterable[_Size], deadline: float | None) -> list[int]:
    """The sizes that could meet the deadline if they use accelerators better, by the factor `BETTER`, than every tried size.

    Without a deadline, all sizes.
    """
    accelerator_seconds = [e["training_time"] * e["number_of_accelerators"] for e in (size.estimate for size in tried)]
    if deadline is None or not accelerator_seconds:
        return [*sizes]
    return [size for size in sizes if size * deadline * BETTER >= min(accelerator_seconds)]


def _in_time(largest_first: Iterator[_Size], deadline: float) -> bool:
    """Whether the first of some sizes, the largest that has a mapping, meets the deadline (in seconds); false if there is none."""
    largest = next(largest_first, None)
    return largest is not None and largest.estimate["training_time"] <= deadline


def _system_name(scenario: Scenario) -> str:
    """The name of the system's row.

    If no config is named, the system may still be open; then it is the one that is chosen for a single accelerator.
    If there is no row, the label of the scenario.
    """
    row = scenario.sources.rows.get(SYSTEM)
    if row is None and _is_open(scenario):
        row = _with(scenario, ALONE, completed).sources.rows.get(SYSTEM)
    return row.name if row else scenario.label


def _doublings(scenario: Scenario, limits: Limits) -> Iterator[list[int]]:
    """For each doubling of the machine, the numbers of accelerators to try, in ascending order.

    They are whole nodes, about `SIZES` in a doubling, from the smallest size that could meet the deadline at peak rates.
    None if even training at peak rates costs more than the budget.
    """
    single = estimated(_with(scenario, ALONE, completed))
    node = int(single["number_of_accelerators_per_node"])
    trained_time = single["training_time"] * single["goodput_fraction"]
    peak_time = LEAST_COMPUTED * trained_time * single["model_flops_utilization_counting_all_scores"]
    if limits.budget is not None and peak_time * _price(single) > limits.budget:
        return
    least = max(1.0, peak_time / limits.deadline / node) if limits.deadline else 1.0
    for doubling in range(DOUBLINGS):
        low, high = math.ceil(least * 2**doubling), math.ceil(least * 2 ** (doubling + 1))
        step = 2 ** max(0, math.floor(math.log2(low / SIZES))) if low >= SIZES else 1
        yield [nodes * node for nodes in range(math.ceil(low / step) * step, high, step)]


def _price(single: Estimation) -> float:
    """The price of one second of one accelerator in USD, from an estimate for a single one.

    Raises:
        ConfigError: if no price is known.
    """
    if "cost" not in single:
        raise ConfigError(
            "what an accelerator costs is not known", "give its price: --set accelerator_price=2.5 (USD an hour)"
        )
    return float(single["cost"] / single["training_time"])


def _is_open(scenario: Scenario) -> bool:
    """Whether no config is named, so that the chooser completes the rows and values as it does for an estimate."""
    return not scenario.question.config.entries


def _with(scenario: Scenario, settings: Mapping[str, object], choose: Choose) -> Scenario:
    """The scenario of the same question with further settings; values that are still open are chosen."""
    question = scenario.question
    if _is_open(scenario):
        return choose({**question.overrides, **settings}, question.lookup_tables, question.formulas)
    return asked_again(question, settings)


def _of_size(scenario: Scenario, size: int, choose: Choose) -> _Size | None:
    """A machine of `size` accelerators with its fastest mapping; None if the degrees of no mapping divide.

    If a config is named, its mapping is replaced by the fastest one, as in an exploration.
    """
    settings: dict[str, Any] = {"number_of_accelerators": size}
    try:
        if not _is_open(scenario):
            settings = {**fastest(asked_again(scenario.question, settings), space=SPACE).settings, **settings}
        return _Size(settings, estimated(_with(scenario, settings, choose)))
    except AmpedError:  # the degrees of no mapping multiply and divide
        return None
