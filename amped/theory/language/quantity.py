"""The three marks that make a function part of the theory.

- `@quantity`: one float64 array in a declared unit. The name of the function is the JSON key, the column of lookup
tables and the row in the report. The names of its arguments are its dependencies. - `@parameter`: a leaf. It takes no
arguments and returns its default, or None if it has none. - `@records`: a frozen tuple of records of arrays (GEMMs,
collectives). Users cannot override it, and it is not in the results.

`@family` above a mark writes several similar formulas once. Leaves may also be rows of a table beside the page
(`parameter_tables.py`).

A mark only describes the function. It changes nothing and collects nothing; `catalogue.py` collects.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property, reduce
from itertools import combinations
from typing import Any, TypeVar

from amped.base.errors import WiringError
from amped.base.record import dataclass

NETWORK = "neural_network_training_parameters"
MAPPING = "mapping_parameters"
SYSTEM = "system_architecture_parameters"
ACCELERATOR = "accelerator_architecture_parameters"
# Parameters that describe a network without a row in the tables; all its other parameters then have their defaults.
GIVEN_NETWORK = frozenset(("layers", "dimensionality"))
CATEGORIES = (NETWORK, MAPPING, SYSTEM, ACCELERATOR)

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True)
class Mark:
    """What a marked function declares about itself.

    Attributes:
        kind: "quantity", "parameter" or "records".
        unit: the canonical unit; "count", "boolean" and "1" are plain numbers, "choice" is a selector.
        bare: the unit of a number that a user writes without a unit, if it is not the canonical unit.
        category: the section of the config that lists the name.
        at_least, above, at_most: bounds of a value that the user gives.
        choices: the values of a selector.
        when_given: names that must all be given for this alternative to apply.
        when_any_given: names of which at least one must be given.
        even_with: names that may also be given without making another alternative more specific.
        choice, value: this alternative applies if the selector `choice` has this `value`.
        replaces: names whose sources do not count any more if a value is given for this name.
        constrains: for a rule (a boolean that must be true), the degree or choice to change if it is false.
        or_boolean: for a share, whether true means all and false means nothing.
        mean: for a count, whether it is a mean, which need not be whole.
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
    mean: bool = False

    @cached_property
    def clauses(self) -> tuple[frozenset[str], ...]:
        """The sets of names that make this alternative apply: one set is enough if all its names are given.

        If several sets apply, the largest one tells how specific the alternative is.
        """
        least = [frozenset(self.when_given) | {name} for name in self.when_any_given] or [frozenset(self.when_given)]
        extras = [set(c) for n in range(len(self.even_with) + 1) for c in combinations(self.even_with, n)]
        return tuple(dict.fromkeys(clause | extra for clause in least for extra in extras))


def quantity(unit: str, **details: Any) -> Callable[[Function], Function]:
    """Marks a pure function of other quantities; `details` are the attributes of `Mark`."""
    return marked(Mark("quantity", unit, **details))


def parameter(unit: str, **details: Any) -> Callable[[Function], Function]:
    """Marks a leaf: a function without arguments that returns the default value, or None if users must give one."""
    return marked(Mark("parameter", unit, **details))


def selector(*choices: str, **details: Any) -> Callable[[Function], Function]:
    """Marks a leaf whose value is one of `choices`. The value selects formulas; no formula takes it as an argument."""
    return marked(Mark("parameter", "choice", choices=choices, **details))


def records(**details: Any) -> Callable[[Function], Function]:
    """Marks a function that returns a tuple of records."""
    return marked(Mark("records", **details))


# What stands for a word in capitals: a text, or several names at once.
Member = str | tuple[str, ...]


def family(*, named: tuple[str, ...] = (), **words: tuple[Member, ...]) -> Callable[[Function], Function]:
    """Declares that one function stands for several similar formulas, one for each row of a table.

    The words in capitals are the columns of the table. In the name, the arguments, the mark and the docstring of the
    function, each word is replaced by its first member for the first formula, by its second member for the second
    formula, and so on. The code stays as it is: a keyword-only parameter with the name of a word, in small letters,
    gets the member. `members_of` makes the formulas:

        @family(named=("intra_node_replicas", "inter_node_replicas"), PLACE=("intra", "inter"))
        @quantity("count")
        def PLACE_node_replicas(PLACE_node_data_parallel_degree, *, place):

    A member that is itself a tuple of names makes a tuple of each argument that has the word: the function gets one
    value for each name, and the formula depends on all of them.

    Args:
        named: the names of the formulas, written out so that a search of the text finds them.
        words: the members of each word.
    """

    def decorate(function: Function) -> Function:
        function.__amped_family__ = words  # type: ignore[attr-defined]
        function.__amped_named__ = named  # type: ignore[attr-defined]
        return function

    return decorate


def each_of(**words: tuple[str, ...]) -> Callable[[Function], Function]:
    """Declares that an argument with the word in capitals is a tuple: one value for each of the names.

    A formula that adds up all parallelisms is written so:

        @each_of(KIND=PARALLELISMS)
        @quantity("s")
        def step_time(computation_time, exposed_KIND_communication_time):
    """
    return family(named=(), **{word: (names,) for word, names in words.items()})


def members_of(function: Any) -> list[Any]:
    """The formulas that a marked function defines: one for each row of its table, or the function alone.

    Raises:
        WiringError: if `named` of the family has a name that is not that of a formula.
    """
    words: dict[str, tuple[Member, ...]] = getattr(function, "__amped_family__", {})
    if not words:
        return [function]
    members = [_member(function, dict(zip(words, row, strict=True))) for row in zip(*words.values(), strict=True)]
    named, names = getattr(function, "__amped_named__", ()), tuple(member.__name__ for member in members)
    if not set(named) <= set(names):
        raise WiringError(f"the family '{function.__name__}' names {', '.join(named)}, but makes {', '.join(names)}")
    return members


def _member(function: Any, row: dict[str, Member]) -> Any:
    """One formula of a family: the function with the members of one row of the table.

    Args:
        function: the marked function that is written for the whole family.
        row: the member for each word in capitals.
    """
    texts = {word: value for word, value in row.items() if isinstance(value, str)}
    groups = {word: value for word, value in row.items() if not isinstance(value, str)}

    def filled(text: Any) -> Any:
        """The text, or each text of a tuple, with members for the words; any other value unchanged."""
        if isinstance(text, tuple):
            return tuple(map(filled, text))
        return (
            reduce(lambda result, word: result.replace(word, texts[word]), texts, text)
            if isinstance(text, str)
            else text
        )

    code = function.__code__
    arguments = [filled(name) for name in code.co_varnames[: code.co_argcount]]
    keywords = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    formula: Any = _bound(function, arguments, groups, {name: row[name.upper()] for name in keywords})
    formula.__name__ = formula.__qualname__ = filled(function.__name__)
    formula.__doc__, formula.__module__, formula.__wrapped__ = filled(function.__doc__), function.__module__, function
    mark = mark_of(function)
    if mark is not None:
        new_fields = {name: filled(value) for name, value in vars(mark).items() if name != "clauses"}
        changed = {name: value for name, value in new_fields.items() if value != getattr(mark, name)}
        marked(replace(mark, **changed) if changed else mark)(formula)
    formula.__amped_words__ = row
    return formula


def _bound(
    function: Any, arguments: list[str], groups: dict[str, tuple[str, ...]], members: dict[str, Member]
) -> Callable[..., Any]:
    """The function of a family as a function of values only, one value for each name.

    Args:
        function: the function that is written for the whole family.
        arguments: its arguments. An argument with a word of `groups` becomes a tuple of values.
        groups: the names for each word that stands for several names.
        members: the values of its keyword-only parameters.
    """
    value_names: list[str] = []
    places: list[int | slice] = []
    for argument in arguments:
        word = next((word for word in groups if word in argument), None)
        names = [argument] if word is None else [argument.replace(word, name) for name in groups[word]]
        places.append(len(value_names) if word is None else slice(len(value_names), len(value_names) + len(names)))
        value_names += names

    def formula(*values: Any) -> Any:
        return function(*(values[place] for place in places), **members)

    formula.__amped_arguments__ = tuple(value_names)  # type: ignore[attr-defined]
    return formula


def mark_of(function: object) -> Mark | None:
    """The `Mark` of a function, or None if the function has no mark."""
    mark = getattr(function, "__amped_mark__", None)
    return mark if isinstance(mark, Mark) else None


def marked(mark: Mark) -> Callable[[Function], Function]:
    """A decorator that attaches a `Mark` to a function."""

    def decorate(function: Function) -> Function:
        function.__amped_mark__ = mark  # type: ignore[attr-defined]
        return function

    return decorate
