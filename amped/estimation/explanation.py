"""The tree of formulas, table rows, given values and defaults behind a value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from textwrap import shorten

import numpy as np

from amped.base.aliases import aliases
from amped.base.commands import command
from amped.base.errors import MappingError, ResolveError, did_you_mean
from amped.base.numbers import digits
from amped.configuring.scenario import Scenario, refuse_sweeps
from amped.configuring.sources import LookedUp
from amped.engine.evaluate import Results, check_finite, run
from amped.engine.resolve import plan
from amped.estimation.estimation import OPTIONAL_RESULTS, RESULTS
from amped.estimation.rules import broken_rules
from amped.pipeline_layouts.laying_out import laid_out
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
        inside: for each chapter, how many names that it keeps to itself stand between this quantity and its parts.
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
        scenario: what is asked about.
        name: the name of the quantity, or a word for it.
        inside: whether the tree has the names too that chapters keep to themselves.

    Raises:
        ResolveError: for an unknown name or missing inputs.
    """
    refuse_sweeps(scenario, "explain")
    scenario = replace(scenario, sources=laid_out(scenario.catalogue, scenario.sources))
    known = scenario.catalogue
    if isinstance(name, str):
        name = _meant(name, known)
    if not isinstance(name, str) or name not in known:
        raise ResolveError(f"there is no quantity '{name}'", _candidates(str(name), known))
    if known[name].is_selector:
        chosen = plan(known, (), scenario.sources)
        return _choice(scenario, name, chosen.choices[name])
    chosen = plan(known, (name,), scenario.sources, known.constraints)
    if name not in chosen.leaves and name not in chosen.by_name:
        raise ResolveError(f"'{name}' has no formula for these choices", str(dict(chosen.choices)))
    results = run(chosen, scenario.sources.given)
    problems = list(broken_rules(scenario, results))
    if problems:
        raise MappingError(problems, file=scenario.label)
    check_finite(results)
    found = _quantity(Asked(scenario, results, inside), name, set())
    return replace(found, rows=_rows(results, name)) if found.origin == "records" else found


def _meant(name: str, known: Catalogue) -> str:
    """The quantity that a name or a word stands for, if there is only one."""
    asked = aliases().asked(name)
    only = [] if asked in known else _with_words(asked, known)
    return only[0] if len(only) == 1 else asked


def _with_words(words: str, known: Catalogue) -> list[str]:
    """The quantities whose names have all these words; those that every estimate gives stand first."""
    asked = set(words.casefold().replace("-", "_").replace(" ", "_").split("_"))
    found = [name for name in known.public if asked <= {*name.split("_")}]
    return sorted(found, key=lambda name: (name not in GIVEN_ALWAYS, known[name].mark.kind == "records"))


def _candidates(word: str, known: Catalogue) -> str:
    """What a word may mean, one quantity a line; or the names that look like it."""
    found = _with_words(word, known)
    if not found:
        return did_you_mean(word, [*known.public, *aliases().results]) or "`amped list parameters` shows them"
    lines = ["ask for one of these:", *(f"{name}: {_first_sentence(known[name].summary)}" for name in found[:MOST])]
    more = f"and {len(found) - MOST} more: {command('list', 'parameters', '--filter', word)}" if found[MOST:] else ""
    return "\n    ".join([*lines, *([more] if more else [])])


def _first_sentence(text: str) -> str:
    return shorten(text.partition(". ")[0].removesuffix("."), WIDEST, placeholder=" …")


def _rows(results: Results, name: str) -> tuple[dict[str, float | str], ...]:
    """Records as dictionaries of their fields; a field of a record inside another has the names of both."""
    return tuple({"name": record.name, **dict(_told(record, ()))} for record in results.records(name))


def _told(record: Record, before: tuple[str, ...]) -> Iterator[tuple[str, float | str]]:
    """The fields of a record, and those of the records in its fields, after the names `before`."""
    for place in (each.name for each in fields(record) if each.name != "name"):
        value, names = getattr(record, place), (*before, place)
        members = value if isinstance(value, tuple) and value and isinstance(value[0], Record) else ()
        if isinstance(value, Record):
            yield from _told(value, names)
        elif members:
            for member in members:
                yield from _told(member, (*before, member.name))
        else:
            yield " ".join(names), value


def _choice(scenario: Scenario, name: str, value: str) -> Explanation:
    origin = scenario.sources.origins.get(name)
    quantity = scenario.catalogue[name]
    if origin is not None:
        kind = "table row" if isinstance(origin, LookedUp) else "given"
        return Explanation(name, value, "choice", kind, origin.where, quantity.summary)
    formula = quantity.chosen(frozenset(scenario.sources.given), {})
    because = formula.because if formula else ""
    source = formula.text["source"] if formula else ""
    summary = formula.text["summary"] if formula else quantity.summary
    file = formula.place if formula else ""
    return Explanation(name, value, "choice", "default", "", summary, source, because=because, file=file)


@dataclass(frozen=True)
class Asked:
    """What is explained: the results of a scenario, with or without what chapters keep to themselves."""

    scenario: Scenario
    results: Results
    inside: bool

    def keeps(self, name: str) -> bool:
        """Whether a name is kept inside its chapter, and is not shown."""
        return not self.inside and name in self.results.plan.by_name and not self.scenario.catalogue[name].is_public

    def inputs(self, formula: Formula) -> tuple[list[str], dict[str, int]]:
        """What a formula is computed from, over all names that are not shown; and how many of each chapter these are."""
        shown, kept = dict[str, None](), dict[str, str]()
        waiting = [*reversed(formula.arguments)]
        while waiting:
            name = waiting.pop()
            if not self.keeps(name):
                shown[name] = None
            elif name not in kept:
                kept[name] = self.scenario.catalogue[name].chapter
                waiting += reversed(self.results.plan.by_name[name].arguments)
        return [*shown], dict(Counter(kept.values()))


def _quantity(asked: Asked, name: str, told: set[str]) -> Explanation:
    scenario, results = asked.scenario, asked.results
    quantity, data = scenario.catalogue[name], results.cells[name][0]
    value = data.item() if isinstance(data, np.ndarray) else "1 record" if len(data) == 1 else f"{len(data)} records"
    unit = quantity.mark.unit
    origin = scenario.sources.origins.get(name)
    if origin is not None:
        kind, doubt = "given", ""
        if isinstance(origin, LookedUp):
            kind, doubt = "table row", ", unverified" if origin.column in origin.row.unverified else ""
        return Explanation(name, value, unit, kind, f"{origin.where}: {origin.written}{doubt}", quantity.summary)
    if name not in results.plan.by_name:  # a layout that amped finds before it plans
        return Explanation(
            name, scenario.sources.choices[name], unit, "found", "by amped, for the shortest step", quantity.summary
        )
    formula = results.plan.by_name[name]
    text = formula.text
    kind = "default" if not formula.arguments else "records" if formula.mark.kind == "records" else "calculated"
    where = f"{formula.function.__name__}({', '.join(formula.arguments)})"
    repeated = name in told
    told.add(name)
    inputs, inside = ([], {}) if repeated else asked.inputs(formula)
    parts = tuple(_quantity(asked, argument, told) for argument in inputs)
    return Explanation(name, value, unit, kind, where, text["summary"], text["source"], text["differs"],
                       formula.because, repeated and bool(formula.arguments), parts, equation=text["equation"],
                       file=formula.place, inside=inside)  # fmt: skip
