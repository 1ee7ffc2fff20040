"""From names to numbers: which formula gives each quantity, in what order, and what came out.

`plan` chooses the structure once, before any number is computed; `Plan.run` evaluates it for one configuration or for
a joint axis of many beside any number of open axes, with the same formulas.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from amped.base.errors import Problem, ResolveError, did_you_mean
from amped.configuring.sources import Sources
from amped.theory.catalogue import Catalogue, Formula


@dataclass(frozen=True)
class Step:
    """One quantity and the formula that was chosen for it."""

    name: str
    formula: Formula


@dataclass(frozen=True)
class Plan:
    """The formulas that lead from sources to targets, each after those it needs.

    Attributes:
        steps: in the order of evaluation.
        leaves: the sources that are used, by name.
        targets: what was asked for and can be computed.
        lacking: optional targets that cannot be computed, with the inputs they lack.
        choices: the value of each selector.
    """

    steps: tuple[Step, ...]
    leaves: tuple[str, ...]
    targets: tuple[str, ...]
    lacking: Mapping[str, tuple[str, ...]]
    choices: Mapping[str, str]
    by_name: Mapping[str, Formula] = field(repr=False)


class Planner:
    """Depth-first walk over the formulas from the targets to the sources."""

    def __init__(self, catalogue: Catalogue, given: frozenset[str], choices: Mapping[str, str]) -> None:
        self.catalogue, self.given, self.choices = catalogue, given, choices
        self.steps: dict[str, Formula] = {}
        self.leaves: dict[str, None] = {}
        self.lacking: dict[str, tuple[str, ...]] = {}
        self.problems: dict[str, Problem] = {}

    def lacks(self, name: str, chain: tuple[str, ...] = ()) -> tuple[str, ...]:
        """Plans a quantity; returns the inputs that nobody gives, none if it can be computed."""
        if name in self.steps or name in self.leaves:
            return ()
        if name in self.lacking:
            return self.lacking[name]
        if name in self.given:
            self.leaves[name] = None
            return ()
        if name in chain:
            circle = " ← ".join([*chain[chain.index(name) :], name])
            raise ResolveError(f"these need each other: {circle}", advice="give the value of one of them")
        formula = self.catalogue[name].chosen(self.given, self.choices)
        if formula is None or (formula.mark.kind == "parameter" and formula.function() is None):
            self.problems[name] = _missing(self.catalogue, name, chain, formula is None, self.choices)
            self.lacking[name] = (name,)
            return (name,)
        lacking = [lack for argument in formula.arguments for lack in self.lacks(argument, (*chain, name))]
        if lacking:
            self.lacking[name] = tuple(dict.fromkeys(lacking))
            return self.lacking[name]
        self.steps[name] = formula
        return ()


def plan(catalogue: Catalogue, targets: Iterable[str], sources: Sources, optional: Sequence[str] = ()) -> Plan:
    """Chooses the formulas for `targets` and orders them.

    Args:
        catalogue: the formulas.
        targets: names that must be computed; rules without an alternative for these choices are left out.
        sources: what is given, looked up, or must be calculated.
        optional: names that are computed if their inputs are there.

    Raises:
        ResolveError: an unknown target, inputs that nobody gives (all at once), or a cycle with its chain.
    """
    given = frozenset(sources.given)
    choices = chosen_values(catalogue, sources)
    walk = Planner(catalogue, given, choices)
    unknown = [name for name in targets if name not in catalogue]
    if unknown:
        raise ResolveError(
            Problem(f"there is no quantity '{name}'", advice=did_you_mean(name, catalogue)) for name in unknown
        )
    wanted = [n for n in targets if not catalogue[n].mark.constrains or catalogue[n].chosen(given, choices)]
    lacking = dict.fromkeys(lack for name in wanted for lack in walk.lacks(name))
    if lacking:
        raise ResolveError(walk.problems[name] for name in lacking)
    possible = [n for n in optional if not catalogue[n].mark.constrains or catalogue[n].chosen(given, choices)]
    missing = {name: lacks for name in possible if (lacks := walk.lacks(name))}
    found = (*wanted, *(name for name in possible if name not in missing))
    steps = tuple(Step(name, formula) for name, formula in walk.steps.items())
    return Plan(steps, tuple(walk.leaves), found, missing, choices, dict(walk.steps))


def chosen_values(catalogue: Catalogue, sources: Sources) -> dict[str, str]:
    """The value of each selector: the one given, else the default that applies."""
    given = frozenset(sources.given)
    values = {name: text for name, text in sources.choices.items() if name not in catalogue.selectors}
    for name in catalogue.selectors:
        if name in sources.choices:
            values[name] = sources.choices[name]
        else:
            formula = catalogue[name].chosen(given, {})
            values[name] = formula.function() if formula else catalogue[name].mark.choices[0]
    return values


def _missing(
    catalogue: Catalogue, name: str, chain: tuple[str, ...], no_formula: bool, choices: Mapping[str, str]
) -> Problem:
    """The problem of an input that nobody gives: who needed it, and where to give it."""
    quantity = catalogue[name]
    needed = f", needed by {' ← '.join(reversed(chain))}" if chain else ""
    if no_formula and quantity.formulas and all(f.mark.choice for f in quantity.formulas):
        selector = quantity.formulas[0].mark.choice or ""
        others = " or ".join(dict.fromkeys(f.mark.value or "" for f in quantity.formulas))
        given = "" if quantity.mark.kind == "records" else f", or give {name}"
        return Problem(f"'{name}' has no formula for {selector} = {choices.get(selector)}{needed}",
                       advice=f"choose {selector} = {others}{given}")  # fmt: skip
    summary = quantity.summary.rstrip(".")
    what = f"'{name}' is missing{needed}: {summary[:1].lower()}{summary[1:]}"
    place = f"in {quantity.category}" if quantity.category else "in the config"
    return Problem(what, advice=f"give it {place}, with --set {name}=…, or choose a table row that has it")
