"""The catalogue: all marked functions by name. It refuses duplicates, and arguments that nothing computes."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field, replace
from functools import cache, cached_property, lru_cache
from itertools import combinations
from types import ModuleType
from typing import Any

from amped.base.errors import Problem, WiringError, did_you_mean
from amped.base.record import dataclass
from amped.theory.language.parameter_tables import rows_of
from amped.theory.language.quantity import Mark, mark_of, members_of
from amped.theory.language.sources import place_of

# The chapters in the order of reading. The arguments of a formula come from its own chapter or an earlier one.
CHAPTERS = (
    "inputs",
    "mapping",
    "operators",
    "stages",
    "roofline",
    "messages",
    "optimizer",
    "links",
    "layer",
    "schedules",
    "memory",
    "step",
    "closed_form",
)
BOOK = "amped.theory"


# What the lines of an equation begin with in a docstring.
INDENT = "    "


@dataclass(frozen=True)
class Formula:
    """One marked function: one of the alternatives that can compute the quantity of its name."""

    name: str
    variant: str
    function: Callable[..., Any]
    arguments: tuple[str, ...]
    mark: Mark
    page: str

    def specificity(self, given: frozenset[str] | set[str], choices: Mapping[str, str]) -> int:
        """The number of conditions of this alternative that are true; -1 if the alternative does not apply.

        Args:
            given: the names for which a value is given.
            choices: the value of each selector.
        """
        if self.mark.choice is not None and choices.get(self.mark.choice) != self.mark.value:
            return -1
        fulfilled = [len(clause) for clause in self.mark.clauses if clause <= given]
        return max(fulfilled) + (self.mark.choice is not None) if fulfilled else -1

    @cached_property
    def because(self) -> str:
        """The conditions under which this alternative applies, in words."""
        mark = self.mark
        reasons = [" and ".join(mark.when_given), " or ".join(mark.when_any_given)]
        given = [f"{reason} given" for reason in reasons if reason]
        return ", ".join(given + ([f"{mark.choice} is {mark.value}"] if mark.choice else []))

    @cached_property
    def place(self) -> str:
        """The file and the line of the formula: `theory/layer/waits.py:44`."""
        return place_of(self.function)

    @cached_property
    def text(self) -> Mapping[str, str]:
        """The parts of the docstring: `summary`, `source` and `differs`, each on one line, and the lines of `equation`.

        The lines of an equation are those that are indented.
        """
        lines = (inspect.getdoc(self.function) or "").splitlines()
        equation = [line for line in lines if line.startswith(INDENT)]
        document = " ".join(" ".join(line for line in lines if line not in equation).split())
        document, _, differs = document.partition("Differs:")
        summary, _, source = document.partition("Source:")
        return {
            "summary": summary.strip(),
            "equation": "\n".join(line.removeprefix(INDENT) for line in equation),
            "source": source.strip(),
            "differs": differs.strip(),
        }


@dataclass(frozen=True)
class Quantity:
    """A name, and the alternatives that can compute its value."""

    name: str
    formulas: tuple[Formula, ...] = field(repr=False)

    @cached_property
    def mark(self) -> Mark:
        """The mark of the formula without a variant, or else of the first alternative. It describes the quantity."""
        return self.first.mark

    @cached_property
    def first(self) -> Formula:
        """The formula without a variant, or the first alternative."""
        return next((f for f in self.formulas if not f.variant), self.formulas[0])

    @cached_property
    def chapter(self) -> str:
        """The chapter of the quantity; an empty text for a quantity of a user's file."""
        return self.first.page.partition("/")[0] if self.first.function.__module__.startswith(f"{BOOK}.") else ""

    @cached_property
    def is_public(self) -> bool:
        """Whether other chapters may name the quantity: its chapter hands it on, or a config lists it."""
        return self.category is not None or not self.chapter or self.name in handed_on(self.chapter)

    @cached_property
    def category(self) -> str | None:
        """The section of the config that lists the name; None for results, which no section lists."""
        return next((f.mark.category for f in self.formulas if f.mark.category), None)

    @cached_property
    def replaces(self) -> frozenset[str]:
        """The names that this quantity replaces: if it is given, all other sources of these names are ignored."""
        return frozenset(name for f in self.formulas for name in f.mark.replaces)

    @cached_property
    def summary(self) -> str:
        """The summary of the docstring: what the quantity is."""
        return self.first.text["summary"]

    @property
    def is_selector(self) -> bool:
        """Whether the value is one of `mark.choices`."""
        return self.mark.unit == "choice"

    @cached_property
    def always(self) -> Formula | None:
        """The only formula of the quantity, if it has no condition; else None. Most quantities have such a formula."""
        only = self.formulas[0] if len(self.formulas) == 1 else None
        return only if only and only.mark.choice is None and frozenset() in only.mark.clauses else None

    def chosen(self, given: frozenset[str] | set[str], choices: Mapping[str, str]) -> Formula | None:
        """The most specific alternative that applies; None if no alternative applies.

        Args:
            given: the names for which a value is given.
            choices: the value of each selector.
        """
        if self.always is not None:
            return self.always
        ranked = [(f.specificity(given, choices), f) for f in self.formulas]
        best = max(ranked, key=lambda pair: pair[0])
        return best[1] if best[0] >= 0 else None


class Catalogue(dict[str, Quantity]):
    """All quantities by name."""

    def __init__(self, formulas: Iterable[Formula], checked: bool = True) -> None:
        """Collects the formulas of all quantities.

        Args:
            formulas: the alternatives of all quantities.
            checked: whether to check the formulas; false for amped's own, which a test checks.

        Raises:
            WiringError: if nothing computes an argument, if an argument is a selector, or if two alternatives tie.
        """
        by_name: dict[str, list[Formula]] = {}
        for formula in _with_all_choices(list(formulas)):
            by_name.setdefault(formula.name, []).append(formula)
        super().__init__((name, Quantity(name, tuple(group))) for name, group in by_name.items())
        self.selectors = tuple(name for name, group in by_name.items() if group[0].mark.unit == "choice")
        rule_names = [name for name, group in by_name.items() if any(formula.mark.constrains for formula in group)]
        self.constraints = tuple(name for name in rule_names if self[name].mark.constrains)
        self._argument_names = self.keys() - {*self.selectors}
        if problems := [p for q in self.values() if checked for p in self._problems(q)]:
            raise WiringError(problems)

    @cached_property
    def public(self) -> tuple[str, ...]:
        """The names that other chapters and rooms may use. Rules are left out, because nobody gives their values."""
        return tuple(name for name, q in self.items() if q.is_public and not q.mark.constrains)

    @cached_property
    def inside(self) -> frozenset[str]:
        """The names that only formulas of their chapter may use. Rules are left out."""
        return frozenset(filter(self.is_inside, self))

    def is_inside(self, name: str) -> bool:
        """Whether only formulas of its own chapter may use a name; false for a rule."""
        return not (self[name].is_public or self[name].mark.constrains)

    @cached_property
    def numbers(self) -> tuple[str, ...]:
        """The public names whose value is one number or choice, and not a tuple of records."""
        return tuple(name for name in self.public if self[name].mark.kind != "records")

    def __eq__(self, other: object) -> bool:
        """A catalogue is equal only to itself, so that results which depend on it can be cached."""
        return self is other

    def __hash__(self) -> int:  # type: ignore[override]
        return id(self)

    def _problems(self, quantity: Quantity) -> Iterator[Problem]:
        """The problems of a quantity's formulas: different units, unknown arguments, and alternatives that tie."""
        if len({f.mark.unit for f in quantity.formulas}) > 1:
            yield Problem(f"the alternatives of '{quantity.name}' have different units", advice="declare one unit")
        needed = ((f, name) for f in quantity.formulas for name in f.arguments if name not in self._argument_names)
        for formula, argument in needed:
            if argument not in self:
                hint = did_you_mean(argument, self)
                yield Problem(f"'{_title(formula)}' needs '{argument}', which nothing gives", advice=hint)
            else:
                yield Problem(
                    f"'{_title(formula)}' takes the selector '{argument}' as an argument",
                    advice="make an alternative for each choice",
                )
        for one, other in combinations(quantity.formulas, 2):
            if _is_tie(quantity, one, other):
                yield Problem(
                    f"'{_title(one)}' and '{_title(other)}' can apply at once", advice="make one more specific"
                )


def _with_all_choices(formulas: list[Formula]) -> Iterator[Formula]:
    """The formulas; the mark of each selector lists all its choices.

    If an alternative applies only when a selector has a certain value, that value is added to the choices of the
    selector. So the page of the selector need not list the value.
    """
    choices_by_selector: dict[str | None, list[str]] = {}
    for formula in formulas:
        choices_by_selector.setdefault(formula.mark.choice, []).append(str(formula.mark.value))
    for formula in formulas:
        mark = formula.mark
        if mark.unit == "choice" and not formula.variant:
            choices = tuple(dict.fromkeys((*mark.choices, *choices_by_selector.get(formula.name, ()))))
            yield replace(formula, mark=replace(mark, choices=choices))
        else:
            yield formula


def collect(module: ModuleType) -> list[Formula]:
    """The marked functions of a page: the rows of its table, then its formulas in the order of the file."""
    formulas = []
    functions = [f for f in vars(module).values() if mark_of(f) is not None and f.__module__ == module.__name__]
    for function in (*rows_of(module), *(member for f in functions for member in members_of(f))):
        if (mark := mark_of(function)) is not None:
            name, _, variant = function.__name__.partition("__")
            code = function.__code__
            parameters = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
            arguments = getattr(function, "__amped_arguments__", parameters)
            page = module.__name__.removeprefix(f"{BOOK}.").replace(".", "/")
            formulas.append(Formula(name, variant, function=function, arguments=arguments, mark=mark, page=page))
    return formulas


def pages(folder: str = "", names: Iterable[str] = ()) -> Iterator[ModuleType]:
    """All pages of the book in their order; a folder lists its pages in `PAGES`.

    Args:
        folder: the folder of the pages, with a dot at its end (`operators.`); empty for the whole book.
        names: the pages and folders in that folder; without them, all chapters.
    """
    for name in names or CHAPTERS:
        module = importlib.import_module(f"{BOOK}.{folder}{name}")
        pages_of_folder = getattr(module, "PAGES", None)
        if pages_of_folder is None:
            yield module
        else:
            yield from pages(f"{folder}{name}.", pages_of_folder)


@cache
def handed_on(chapter: str) -> frozenset[str]:
    """The names in `HANDS_ON` of a chapter. Parameters that a config lists are public without standing there."""
    return frozenset(importlib.import_module(f"{BOOK}.{chapter}").HANDS_ON)


def catalogue(extra: tuple[ModuleType, ...] = ()) -> Catalogue:
    """The catalogue of amped's pages and of `extra` modules, whose formulas replace amped's formulas of equal names.

    Raises:
        WiringError: if the formulas contradict one another.
    """
    return _catalogue(extra) if extra else _own_catalogue()


@cache
def _own_catalogue() -> Catalogue:
    """The catalogue of amped's own pages. It stays in memory for ever, because plans share its formulas."""
    return _catalogue(())


@lru_cache(maxsize=8)
def _catalogue(extra: tuple[ModuleType, ...]) -> Catalogue:
    """The catalogue of amped's pages and of extra modules. The last eight that were built stay in memory."""
    formulas: dict[tuple[str, str], Formula] = {}
    for page in (*pages(), *extra):
        page_formulas = collect(page)
        if page in extra:  # a user's formula without a variant replaces all of amped's formulas of its name
            replaced_names = {formula.name for formula in page_formulas if not formula.variant}
            formulas = {key: formula for key, formula in formulas.items() if formula.name not in replaced_names}
        for formula in page_formulas:
            key = (formula.name, formula.variant)
            if key in formulas and page not in extra:
                raise WiringError(f"'{_title(formula)}' stands on two pages: {formulas[key].page} and {formula.page}")
            formulas[key] = formula
    return Catalogue(formulas.values(), checked=bool(extra))


def _title(formula: Formula) -> str:
    """The name of a formula, with its variant if there is one: `name__variant`."""
    return f"{formula.name}__{formula.variant}" if formula.variant else formula.name


def _is_tie(quantity: Quantity, one: Formula, other: Formula) -> bool:
    """Whether two alternatives can apply with the same number of true conditions, and no other alternative has more.

    Args:
        quantity: the quantity of the alternatives.
        one: the first alternative.
        other: the second alternative.
    """
    one_mark, other_mark = one.mark, other.mark
    if one_mark.choice and one_mark.choice == other_mark.choice and one_mark.value != other_mark.value:
        return False
    choices = {m.choice: m.value for m in (one_mark, other_mark) if m.choice and m.value}
    for one_clause in one_mark.clauses:
        for other_clause in other_mark.clauses:
            given = one_clause | other_clause
            highest = max(f.specificity(given, choices) for f in quantity.formulas)
            if one.specificity(given, choices) == other.specificity(given, choices) == highest:
                return True
    return False
