"""The tree of formulas, table rows, given values and defaults behind a value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import partial
from textwrap import shorten

import numpy as np

from amped.base.aliases import aliases
from amped.base.commands import command
from amped.base.errors import MappingError, ResolveError, did_you_mean
from amped.base.numbers import digits
from amped.configuring.scenario import Scenario
from amped.configuring.sources import LookedUp
from amped.engine.evaluate import Results, check_finite, run
from amped.engine.resolve import plan
from amped.estimation.estimation import OPTIONAL_RESULTS, RESULTS, with_layout
from amped.estimation.rules import broken_rules
from amped.theory.language.catalogue import Catalogue, Formula
from amped.theory.nouns.records import Record

# How many quantities are listed for a word, and in how many characters; and those that every estimate gives.
MOST, WIDEST = 8, 60
GIVEN_ALWAYS = frozenset((*RESULTS, *OPTIONAL_RESULTS))


@dataclass(frozen=True)
class Explanation:
    """One quantity: its value, its origin, and what it was computed from.

    Attributes:
        origin: "given", "table row", "calculated", "default", "records" or "found" (by amped, before it plans).
        where: JSON path, table row, or the formula's name and arguments.
        because: why this alternative was chosen, if there are several.
        repeated: whether it is explained further up in the tree.
        rows: for the name that is asked for, its records, each with its fields.
        equation: the lines of the equation in the docstring of the formula, if it has one.
        file: file and line of the formula: `theory/layer/waits.py:44`.
        inside: for each chapter, the number of its internal names between this quantity and its parts.
    """

    name: str
    value: float | str
    unit: str
    origin: str
    where: str
    summary: str
    source: str = ""
    differs: str = ""
    because: str = ""
    repeated: bool = False
    parts: tuple[Explanation, ...] = field(default=(), repr=False)
    rows: tuple[Mapping[str, float | str], ...] = ()
    equation: str = ""
    file: str = ""
    inside: Mapping[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        """The first levels of the tree as lines; rich and the command line show all levels."""
        return "\n".join(self._lines(depth=2))

    def _lines(self, depth: int) -> Iterator[str]:
        number = self.value if isinstance(self.value, str) else digits(self.value, 6)
        yield f"{self.name} = {number} {self.unit} [{self.origin}] {self.where}".rstrip()
        for part in self.parts if depth else ():
            yield from (f"  {line}" for line in part._lines(depth - 1))

    def walk(self) -> Iterator[Explanation]:
        """This quantity and everything below it."""
        yield self
        for part in self.parts:
            yield from part.walk()


def explained(scenario: Scenario, name: str, inside: bool = False) -> Explanation:
    """Explains the value of one quantity or choice.

    Args:
        scenario: the scenario that gives the value.
        name: the name of the quantity, or a word for it.
        inside: whether the tree shows internal names of chapters, too.

    Raises:
        ResolveError: for an unknown name or missing inputs.
    """
    scenario = with_layout(scenario, "explain")
    catalogue = scenario.catalogue
    if isinstance(name, str):
        name = _meant(name, catalogue)
    if not isinstance(name, str) or name not in catalogue:
        raise ResolveError(f"there is no quantity '{name}'", _candidates(str(name), catalogue))
    if catalogue[name].is_selector:
        return _choice(scenario, name, plan(catalogue, (), scenario.sources).choices[name])
    chosen = plan(catalogue, (name,), scenario.sources, catalogue.constraints)
    if name not in chosen.leaves and name not in chosen.by_name:
        raise ResolveError(f"'{name}' has no formula for these choices", str(dict(chosen.choices)))
    results = run(chosen, scenario.sources.given)
    problems = list(broken_rules(scenario, results))
    if problems:
        raise MappingError(problems, file=scenario.label)
    check_finite(results)
    tree = _quantity(Explained(scenario, results, inside), name, set())
    return replace(tree, rows=_rows(results, name)) if tree.origin == "records" else tree


def _meant(name: str, catalogue: Catalogue) -> str:
    """The name of the quantity that a name or a word stands for; the name itself if there is none or more than one."""
    name = aliases().asked(name)
    candidates = [] if name in catalogue else _with_words(name, catalogue)
    return candidates[0] if len(candidates) == 1 else name


def _with_words(text: str, catalogue: Catalogue) -> list[str]:
    """The names of the quantities whose names have all words of a text; results of every estimate come first."""
    words = set(text.casefold().replace("-", "_").replace(" ", "_").split("_"))
    names = [name for name in catalogue.public if words <= {*name.split("_")}]
    return sorted(names, key=lambda name: (name not in GIVEN_ALWAYS, catalogue[name].mark.kind == "records"))


def _candidates(word: str, catalogue: Catalogue) -> str:
    """A list of the quantities that a word may mean, one per line; if there is none, names that are spelled like it."""
    names = _with_words(word, catalogue)
    if not names:
        return did_you_mean(word, [*catalogue.public, *aliases().results]) or "`amped list parameters` shows them"
    lines = ["ask for one of these:"]
    for name in names[:MOST]:
        sentence = catalogue[name].summary.partition(". ")[0].removesuffix(".")
        lines.append(f"{name}: {shorten(sentence, WIDEST, placeholder=' …')}")
    if names[MOST:]:
        lines.append(f"and {len(names) - MOST} more: {command('list', 'parameters', '--filter', word)}")
    return "\n    ".join(lines)


def _rows(results: Results, name: str) -> tuple[dict[str, float | str], ...]:
    """The records of a quantity as dictionaries of their fields; a field of a nested record has the names of both."""
    return tuple({"name": record.name, **dict(_values(record, ()))} for record in results.records(name))


def _values(record: Record, before: tuple[str, ...]) -> Iterator[tuple[str, float | str]]:
    """The names and values of the fields of a record and of its nested records; `before` are the names of the outer fields."""
    for name in (f.name for f in fields(record) if f.name != "name"):
        value = getattr(record, name)
        if isinstance(value, Record):
            yield from _values(value, (*before, name))
        elif isinstance(value, tuple) and value and isinstance(value[0], Record):
            for member in value:
                yield from _values(member, (*before, member.name))
        else:
            yield " ".join((*before, name)), value


def _choice(scenario: Scenario, name: str, value: str) -> Explanation:
    """The explanation of the value of a selector."""
    origin, quantity = scenario.sources.origins.get(name), scenario.catalogue[name]
    choice = partial(Explanation, name=name, value=value, unit="choice")
    if origin is not None:
        kind = "table row" if isinstance(origin, LookedUp) else "given"
        return choice(origin=kind, where=origin.where, summary=quantity.summary)
    formula = quantity.chosen(frozenset(scenario.sources.given), {})
    if formula is None:
        return choice(origin="default", where="", summary=quantity.summary)
    text = formula.text
    return choice(
        origin="default", where="", summary=text["summary"], source=text["source"], because=formula.because, file=formula.place
    )  # fmt: skip


@dataclass(frozen=True)
class Explained:
    """The results of a scenario to explain; `inside` tells whether internal names of chapters are shown."""

    scenario: Scenario
    results: Results
    inside: bool

    def hides(self, name: str) -> bool:
        """Whether a name is internal to its chapter and not shown."""
        return not self.inside and name in self.results.plan.by_name and not self.scenario.catalogue[name].is_public

    def inputs(self, formula: Formula) -> tuple[list[str], dict[str, int]]:
        """The shown names that a formula depends on, directly or through hidden ones; and the number of hidden names by chapter."""
        shown, chapters_of_hidden = dict[str, None](), dict[str, str]()
        waiting = [*reversed(formula.arguments)]
        while waiting:
            name = waiting.pop()
            if not self.hides(name):
                shown[name] = None
            elif name not in chapters_of_hidden:
                chapters_of_hidden[name] = self.scenario.catalogue[name].chapter
                waiting += reversed(self.results.plan.by_name[name].arguments)
        return [*shown], dict(Counter(chapters_of_hidden.values()))


def _quantity(explained: Explained, name: str, above: set[str]) -> Explanation:
    """The explanation of a quantity with those of its parts; names in `above`, which grows, are not explained again."""
    scenario, results = explained.scenario, explained.results
    quantity, data = scenario.catalogue[name], results.cells[name][0]
    value = data.item() if isinstance(data, np.ndarray) else "1 record" if len(data) == 1 else f"{len(data)} records"
    explanation = partial(Explanation, name=name, value=value, unit=quantity.mark.unit)
    origin = scenario.sources.origins.get(name)
    if origin is not None:
        kind, doubt = "given", ""
        if isinstance(origin, LookedUp):
            kind, doubt = "table row", ", unverified" if origin.column in origin.row.unverified else ""
        return explanation(origin=kind, where=f"{origin.where}: {origin.written}{doubt}", summary=quantity.summary)
    formula = results.plan.by_name.get(name)
    if formula is None:  # a layout that amped finds before it plans
        where, layout = "by amped, for the shortest step", scenario.sources.choices[name]
        return explanation(value=layout, origin="found", where=where, summary=quantity.summary)
    text, repeated = formula.text, name in above
    above.add(name)
    inputs, inside = ([], {}) if repeated else explained.inputs(formula)
    return explanation(
        origin="default" if not formula.arguments else "records" if formula.mark.kind == "records" else "calculated",
        where=f"{formula.function.__name__}({', '.join(formula.arguments)})", summary=text["summary"], source=text["source"],
        differs=text["differs"], because=formula.because, repeated=repeated and bool(formula.arguments),
        parts=tuple(_quantity(explained, argument, above) for argument in inputs), equation=text["equation"],
        file=formula.place, inside=inside,
    )  # fmt: skip
