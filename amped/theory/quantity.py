"""The three marks that make a function part of the theory.

- `@quantity`: one float64 array in a declared unit. The function's name is the JSON key, the lookup-table column and
  the row in the report; its argument names are its dependencies.
- `@parameter`: a leaf. It takes no arguments and returns its default, or None where there is none.
- `@records`: a frozen tuple of records of arrays (GEMMs, collectives); not overridable and not in the results.

`@family` above a mark writes several formulas that are alike once. Leaves may also stand as rows of a table beside the
page (`parameter_tables.py`).

A mark only describes the function; marking changes nothing and collects nothing. `catalogue.py` collects.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from types import CodeType, FunctionType
from typing import Any, TypeVar

NETWORK = "neural_network_training_parameters"
MAPPING = "mapping_parameters"
SYSTEM = "system_architecture_parameters"
ACCELERATOR = "accelerator_architecture_parameters"
CATEGORIES = (NETWORK, MAPPING, SYSTEM, ACCELERATOR)

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True)
class Mark:
    """What a marked function says about itself.

    Attributes:
        kind: "quantity", "parameter" or "records".
        unit: canonical unit; "count", "boolean" and "1" are plain numbers, "choice" is a selector.
        bare: unit of a number written without one at the door, if not the canonical one.
        category: section of the config in which the name is listed.
        at_least, above, at_most: bounds of a value given by the user.
        choices: the values of a selector.
        when_given: names that must all be given for this alternative to apply.
        when_any_given: names of which one must be given.
        even_with: names that may be given too without another alternative taking over.
        choice, value: this alternative applies when the selector `choice` has this `value`.
        replaces: names whose sources a value given for this name takes away.
        constrains: for a rule (a boolean that must hold), the degree or choice to change when it does not.
        or_boolean: for a share, whether true and false are read as all and nothing.
    """

    kind: str
    unit: str = ""
    bare: str | None = None
    category: str | None = None
    at_least: float | None = None
    above: float | None = None
    at_most: float | None = None
    choices: tuple[str, ...] = ()
    when_given: tuple[str, ...] = ()
    when_any_given: tuple[str, ...] = ()
    even_with: tuple[str, ...] = ()
    choice: str | None = None
    value: str | None = None
    replaces: tuple[str, ...] = ()
    constrains: str | None = None
    or_boolean: bool = False

    @cached_property
    def clauses(self) -> tuple[frozenset[str], ...]:
        """The sets of given names, each of which is enough for this alternative; the largest that applies counts."""
        least = [frozenset(self.when_given) | {name} for name in self.when_any_given] or [frozenset(self.when_given)]
        extras = [set(c) for n in range(len(self.even_with) + 1) for c in combinations(self.even_with, n)]
        return tuple(dict.fromkeys(clause | extra for clause in least for extra in extras))


def quantity(unit: str, **details: Any) -> Callable[[Function], Function]:
    """Marks a pure function of other quantities; `details` are the attributes of `Mark`."""
    return marked(Mark("quantity", unit, **details))


def parameter(unit: str, **details: Any) -> Callable[[Function], Function]:
    """Marks a leaf: a function without arguments that returns its default (None: it must be given)."""
    return marked(Mark("parameter", unit, **details))


def selector(*choices: str, **details: Any) -> Callable[[Function], Function]:
    """Marks a leaf that is one of `choices`: a parameter that selects formulas and is never an argument of one."""
    return marked(Mark("parameter", "choice", choices=choices, **details))


def records(**details: Any) -> Callable[[Function], Function]:
    """Marks a function that returns a tuple of records."""
    return marked(Mark("records", **details))


def family(**words: tuple[str, ...]) -> Callable[[Function], Function]:
    """Says that a formula is written once for several that are alike.

    Each word, in capitals, stands in the formula's name, arguments, mark, text and docstring for one member after
    another; several words go in step. `members_of` makes the formulas:

        @family(KIND=("tensor", "data"))
        @quantity("count", replaces=("KIND_parallel_degree",))
        def inter_node_KIND_parallel_degree(KIND_parallel_degree, intra_node_KIND_parallel_degree):
    """

    def decorate(function: Function) -> Function:
        function.__amped_family__ = words  # type: ignore[attr-defined]
        return function

    return decorate


def members_of(function: Any) -> list[Any]:
    """The formulas that a marked function stands for: itself, or the members of its family."""
    words: dict[str, tuple[str, ...]] = getattr(function, "__amped_family__", {})
    if not words:
        return [function]
    return [_member(function, dict(zip(words, values, strict=True))) for values in zip(*words.values(), strict=True)]


def _member(function: Any, words: dict[str, str]) -> Any:
    """One formula of a family."""

    def named(text: Any) -> Any:
        for word, value in words.items() if isinstance(text, str) else ():
            text = text.replace(word, value)
        if isinstance(text, CodeType):  # an expression inside has names and text of its own
            parts = ("co_name", "co_varnames", "co_consts", "co_cellvars", "co_freevars")
            return text.replace(**{part: named(getattr(text, part)) for part in parts})
        return tuple(map(named, text)) if isinstance(text, tuple) else text

    code = named(function.__code__)
    made = FunctionType(
        code, function.__globals__, named(function.__name__), function.__defaults__, function.__closure__
    )
    made.__doc__, made.__module__ = named(function.__doc__), function.__module__
    mark = mark_of(function)
    if mark is not None:
        marked(replace(mark, **{name: named(value) for name, value in vars(mark).items() if name != "clauses"}))(made)
    made.__amped_words__ = words  # type: ignore[attr-defined]
    return made


def mark_of(function: object) -> Mark | None:
    """The mark of a function, or None."""
    mark = getattr(function, "__amped_mark__", None)
    return mark if isinstance(mark, Mark) else None


def marked(mark: Mark) -> Callable[[Function], Function]:
    """Puts a mark on a function."""

    def decorate(function: Function) -> Function:
        function.__amped_mark__ = mark  # type: ignore[attr-defined]
        return function

    return decorate
