"""From names to numbers: which formula gives each quantity, in what order, and with what result.

`plan` chooses the structure once, before any number is computed; `Plan.run` evaluates it for one configuration or for
a joint axis of many and any number of open axes, with the same formulas.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property, lru_cache
from graphlib import CycleError, TopologicalSorter
from itertools import chain

from amped.base.errors import Problem, ResolveError, did_you_mean
from amped.base.record import dataclass
from amped.configuring.sources import Sources
from amped.tables.table_files import PEAKS
from amped.theory.language.catalogue import Catalogue, Formula, Quantity
from amped.theory.language.quantity import ACCELERATOR, SYSTEM

# How many plans are remembered; a plan takes some tens of kilobytes.
MOST_PLANS = 256
# Of a long chain of names that need one another, so many are told from its beginning.
NEEDERS = 3
# Who lacks values of these categories lacks a machine; and what chooses a peak rate.
OF_MACHINES, PRECISION = (SYSTEM, ACCELERATOR), "matrix_precision"


@dataclass(frozen=True)
class Plan:
    """The formulas that lead from the sources to the targets.

    Attributes:
        by_name: the chosen formula of each quantity, in the order of evaluation: each after all it needs.
        leaves: the sources that are used, by name.
        targets: what was asked for and can be computed.
        lacking: optional targets that cannot be computed, with the inputs they lack.
        choices: the value of each selector.
    """

    by_name: Mapping[str, Formula] = field(repr=False)
    leaves: tuple[str, ...]
    targets: tuple[str, ...]
    lacking: Mapping[str, tuple[str, ...]]
    choices: Mapping[str, str]

    @cached_property
    def defaults(self) -> dict[str, float]:
        """The default values, by name, of the parameters that are not given."""
        alone = {name: f for name, f in self.by_name.items() if f.mark.kind == "parameter" and not f.arguments}
        return {name: float(formula.function()) for name, formula in alone.items()}

    @cached_property
    def opened(self) -> Plan:
        """The plan with its defaults as sources: one plan for all configurations that differ only in what is given."""
        computed = {name: formula for name, formula in self.by_name.items() if name not in self.defaults}
        return replace(self, by_name=computed, leaves=(*self.leaves, *self.defaults))

    @cached_property
    def structure(self) -> Hashable:
        """A key, equal for two plans that compute the same quantities in the same way from the same sources."""
        computed = ((name, f.function, f.arguments) for name, f in self.opened.by_name.items())
        return frozenset(self.opened.leaves), frozenset(computed)

    def structure_for(self, given: Mapping[str, object]) -> Hashable:
        """A key, equal for configurations that can be evaluated together: the texts among their sources are equal, too."""
        return self.structure, tuple((name, given[name]) for name in self.leaves if isinstance(given[name], str))


class _Walk:
    """The search from names to the formulas that give them, down to the sources.

    Attributes:
        formulas: the formula of each name that has one.
        leaves: the names that are given.
        lacking: for each name that cannot be computed, the inputs that nobody gives.
        needed_by: for each name, the name that first needed it; an empty text for a name that was asked for.
    """

    def __init__(
        self, catalogue: Catalogue, given: frozenset[str], choices: Mapping[str, str], names: Sequence[str]
    ) -> None:
        self.formulas: dict[str, Formula] = {}
        self.leaves: list[str] = []
        self.lacking: dict[str, tuple[str, ...]] = {}
        self.needed_by: dict[str, str] = {}
        waiting = [(name, "") for name in reversed(names)]
        while waiting:
            name, needer = waiting.pop()
            if name in self.needed_by:
                continue
            self.needed_by[name] = needer
            if name in given:
                self.leaves.append(name)
                continue
            formula = catalogue[name].chosen(given, choices)
            if formula is None or (formula.mark.kind == "parameter" and formula.function() is None):
                self.lacking[name] = (name,)
                continue
            self.formulas[name] = formula
            waiting += [(argument, name) for argument in reversed(formula.arguments) if argument not in self.needed_by]

    def ordered(self) -> dict[str, Formula]:
        """The formulas of all that can be computed, each after those it needs; for the others, `lacking` is filled.

        Formulas that need nothing, such as defaults, come first, in the order in which they are found.

        Raises:
            ResolveError: for formulas that need each other, with their chain.
        """
        formulas = {}
        for name in self._order():
            formula = self.formulas[name]
            if self.lacking.keys().isdisjoint(formula.arguments):
                formulas[name] = formula
            else:
                lacks = [lack for argument in formula.arguments for lack in self.lacking.get(argument, ())]
                self.lacking[name] = tuple(dict.fromkeys(lacks))
        return formulas

    def _order(self) -> Iterator[str]:
        """The names of all formulas, rank by rank: a rank needs only the ranks before it.

        Source: Kahn, CACM 5(11), 1962.

        Python's `graphlib` takes several times as long for this order, because it always looks for a cycle.
        """
        names = sorted(self.formulas, key=lambda name: bool(self.formulas[name].arguments))
        users: dict[str, list[str]] = {}
        waits: dict[str, int] = {}
        for name in names:
            waits[name] = len(self.formulas[name].arguments)
            users.setdefault(name, [])
            for argument in self.formulas[name].arguments:
                users.setdefault(argument, []).append(name)
        rank = [name for name in users if not waits.get(name)]
        while rank:
            yield from filter(waits.__contains__, rank)
            after = []
            for user in chain.from_iterable(users[name] for name in rank):
                waits[user] -= 1
                if not waits[user]:
                    after.append(user)
            rank = after
        if any(waits.values()):
            raise self._circle({name: self.formulas[name].arguments for name in names})

    def _circle(self, graph: Mapping[str, Sequence[str]]) -> ResolveError:
        """The error for formulas that need each other: their chain, from the name that was needed first."""
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as error:
            _, *circle = reversed(error.args[1])
        first = circle.index(next(name for name in self.needed_by if name in circle))
        names = " ← ".join([*circle[first:], *circle[: first + 1]])
        return ResolveError(f"these need each other: {names}", advice="give the value of one of them")

    def chain(self, name: str) -> str:
        """The text ", needed by a ← b ← c": the names that needed this one, one after another; empty if the user asked for it.

        Of a long chain, only the first `NEEDERS` names and the last one are listed.
        """
        needers = []
        while name := self.needed_by[name]:
            needers.append(name)
        shown = [*needers[:NEEDERS], "…", needers[-1]] if len(needers) > NEEDERS + 2 else needers
        return f", needed by {' ← '.join(shown)}" if shown else ""


def plan(catalogue: Catalogue, targets: Iterable[str], sources: Sources, optional: Sequence[str] = ()) -> Plan:
    """Chooses the formulas for `targets` and orders them.

    Args:
        catalogue: the formulas.
        targets: names that must be computed; a rule that has no formula for the choices is left out.
        sources: the values that are given or looked up, and the names that must be calculated.
        optional: names that are computed if their inputs are known.

    Raises:
        ResolveError: an unknown target, inputs that nobody gives (all at once), or a cycle with its chain.
    """
    choices = chosen_values(catalogue, sources)
    selected = tuple((name, choices[name]) for name in catalogue.selectors)
    try:
        return _planned(catalogue, tuple(targets), frozenset(sources.given), selected, tuple(optional))
    except ResolveError as error:
        raise ResolveError([*_left_empty(sources), *error.problems]) from error  # the cause first


def _left_empty(sources: Sources) -> Iterator[Problem]:
    """What the rows of a machine say of the peaks that they leave empty."""
    row = sources.rows.get(ACCELERATOR)
    if row is None:
        return
    empty = [name for name in PEAKS if name in row.columns and row.columns[name] is None and name not in sources.given]
    if empty:
        yield Problem(
            f"row '{row.name}' of {row.table} leaves {', '.join(empty)} empty", advice=row.columns.get("notes") or ""
        )


@lru_cache(maxsize=MOST_PLANS)
def _planned(
    catalogue: Catalogue, targets: tuple[str, ...], given: frozenset[str], chosen: tuple[tuple[str, str], ...],
    optional: tuple[str, ...],
) -> Plan:  # fmt: skip
    """The plan for `plan`.

    It depends on which names are given, not on their values, so that similar questions share it.
    """
    choices = dict(chosen)
    unknown = [name for name in targets if name not in catalogue]
    if unknown:
        raise ResolveError(
            Problem(f"there is no quantity '{name}'", advice=did_you_mean(name, catalogue)) for name in unknown
        )
    needed, possible = (
        [n for n in names if not catalogue[n].mark.constrains or catalogue[n].chosen(given, choices)]
        for names in (targets, optional)
    )
    walk = _Walk(catalogue, given, choices, [*needed, *possible])
    by_name = walk.ordered()
    refused = dict.fromkeys(lack for name in needed for lack in walk.lacking.get(name, ()))
    if refused:
        raise ResolveError(
            _missing(catalogue[n], walk.chain(n), catalogue[n].chosen(given, choices), choices) for n in refused
        )
    missing = {name: walk.lacking[name] for name in possible if name in walk.lacking}
    computed = (*needed, *(name for name in possible if name not in missing))
    return Plan(by_name, leaves=tuple(walk.leaves), targets=computed, lacking=missing, choices=choices)


def chosen_values(catalogue: Catalogue, sources: Sources) -> dict[str, str]:
    """The value of each selector: the given one, or else the default that applies."""
    given = frozenset(sources.given)
    values = {name: text for name, text in sources.choices.items() if name not in catalogue.selectors}
    for name in catalogue.selectors:
        if name in sources.choices:
            values[name] = sources.choices[name]
        else:
            formula = catalogue[name].chosen(given, {})
            values[name] = formula.function() if formula else catalogue[name].mark.choices[0]
    return values


def _missing(quantity: Quantity, needed: str, formula: Formula | None, choices: Mapping[str, str]) -> Problem:
    """The problem of an input that is not given.

    Args:
        quantity: the input.
        needed: the chain of names that need it, as text (`_Walk.chain`).
        formula: its formula for the choices; None if it has none.
        choices: the value of each selector.
    """
    name = quantity.name
    if formula is None and quantity.formulas and all(f.mark.choice for f in quantity.formulas):
        selector = quantity.formulas[0].mark.choice or ""
        others = " or ".join(dict.fromkeys(f.mark.value or "" for f in quantity.formulas))
        given = "" if quantity.mark.kind == "records" else f", or give {name}"
        return Problem(f"'{name}' has no formula for {selector} = {choices.get(selector)}{needed}",
                       advice=f"choose {selector} = {others}{given}")  # fmt: skip
    summary = quantity.summary.rstrip(".")
    what = f"'{name}' is missing{needed}: {summary[:1].lower()}{summary[1:]}"
    place = f"in {quantity.category}" if quantity.category else "in the config"
    return Problem(what, advice=f"{_who_has(quantity, choices)}; or give it {place}, with --set {name}=…")


def _who_has(quantity: Quantity, choices: Mapping[str, str]) -> str:
    """Advice on where to take the value of a missing input from: a table row, a machine, or another precision."""
    if quantity.category not in OF_MACHINES:
        return "choose a table row that has it"
    is_peak = quantity.name == f"{choices.get(PRECISION)}_peak_flop_rate"
    other = f", or choose another {PRECISION} than {choices.get(PRECISION)}" if is_peak else ""
    return f"name a machine that has it: --system, and `amped list systems`{other}"
