"""Placements that fill fewer places of the fast domain, which an estimate tries because they may be faster."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from amped.configuring.scenario import Scenario
from amped.configuring.sources import Given, Sources
from amped.engine.axes import JointAxis
from amped.engine.evaluate import Array, Results, run
from amped.engine.resolve import plan
from amped.theory.nouns.divisors import divisors
from amped.theory.nouns.parallelisms import PARALLELISMS

FILLED, USABLE, TIME = "filled_domain_size", "usable_domain_size", "step_time"
PLACED = tuple(f"intra_node_{kind}_parallel_degree" for kind in PARALLELISMS)


def may_leave_places(accelerators: int) -> bool:
    """Whether filling fewer places of the domain may be faster: not if the number of accelerators is a power of two.

    Degrees that are powers of two always fit into each other.
    """
    return accelerators & (accelerators - 1) > 0


def fillings(accelerators: int, usable: float) -> tuple[int, ...]:
    """The numbers of places to try: the divisors of the number of accelerators, up to `usable`.

    Only the largest one, if fewer places cannot be faster.
    """
    places = tuple(d for d in divisors(accelerators) if d <= usable)
    return places if may_leave_places(accelerators) else places[-1:]


def refilled(scenario: Scenario, results: Results) -> Scenario | None:
    """The scenario with the number of filled places that is fastest; None if that is the usual, largest one."""
    accelerators = int(results.number("number_of_accelerators"))
    placed = FILLED in scenario.sources.given or USABLE not in results.cells  # the user has said what is where
    if placed or not may_leave_places(accelerators):
        return None
    places = fillings(accelerators, results.number(USABLE))
    filled, rules = replace(scenario, sources=_filling(scenario, 1.0)), scenario.catalogue.constraints
    fewer = _distinct(filled, np.array(places, np.float64), tuple(map(results.number, PLACED)))
    if not len(fewer):
        return None
    refills = _results(filled, (TIME, *rules), fewer)
    keeps = np.logical_and.reduce([refills.whole(name) > 0 for name in rules if name in refills.cells])
    times = np.where(keeps, refills.whole(TIME), np.inf)
    if times.min() >= results.number(TIME):
        return None
    return replace(scenario, sources=_filling(scenario, float(fewer[np.argmin(times)])))


def _filling(scenario: Scenario, places: float) -> Sources:
    """The sources of a scenario with `places` as the number of filled places."""
    sources, origin = scenario.sources, Given(places, places, "the fastest way to fill a fast domain")
    return replace(sources, given=sources.given | {FILLED: places}, origins=sources.origins | {FILLED: origin})


def _results(scenario: Scenario, names: tuple[str, ...], places: Array) -> Results:
    """The results `names` for each number of filled places."""
    sources = scenario.sources
    chosen = plan(scenario.catalogue, names, sources)
    return run(chosen, sources.given, JointAxis({FILLED: places}, worthwhile=0.0), keep=frozenset(names))


def _distinct(scenario: Scenario, places: Array, full: tuple[float, ...]) -> Array:
    """The numbers of places whose degrees inside the domain differ from one another and from the fullest placement."""
    results = _results(scenario, PLACED, places)
    inside = zip(*(results.whole(name).tolist() for name in PLACED), strict=True)
    first = dict(reversed([*zip(inside, places.tolist(), strict=True)]))
    return np.array([place for parts, place in first.items() if parts != full])
