"""What an importer found in a file: values by amped's names, and a report that leaves nothing out."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from functools import cached_property
from math import prod
from typing import Any, TypeGuard, overload

from amped.base.errors import AmpedError, ConfigError, Problem, collected, quoted
from amped.base.printable import printable
from amped.base.record import dataclass
from amped.configuring.not_modeled import NotModeled
from amped.configuring.values import read_value
from amped.theory.language.catalogue import catalogue

# No count of a training is larger, and no network has more layers.
LARGEST, MOST_LAYERS = 10**15, 100_000


@dataclass(frozen=True)
class ReportLine:
    """One line of a report.

    Attributes:
        key: the key in the file; it may be empty.
        what: what was done with the key, or why it is not supported.
        entry: the sizes of a feature that amped does not model, if they are bounded.
    """

    key: str
    what: str
    entry: NotModeled | None = None

    def __str__(self) -> str:
        return printable(f"{self.key}: {self.what}" if self.key else self.what).replace("\n", "\\n")


@dataclass
class Report:
    """What became of every key of a file.

    Attributes:
        unsupported: what amped cannot express; an estimate is wrong by it.
        used: the keys that became values.
        defaulted: values that the file does not say, and what was taken.
        ignored: keys that change neither time nor memory, and why.
    """

    unsupported: list[ReportLine] = field(default_factory=list)
    used: list[ReportLine] = field(default_factory=list)
    defaulted: list[ReportLine] = field(default_factory=list)
    ignored: list[ReportLine] = field(default_factory=list)

    def groups(self) -> Iterable[tuple[str, list[ReportLine]]]:
        """The four lists of the report with their names, in the order in which they are shown: `unsupported` is first."""
        return vars(self).items()

    def not_modeled(self) -> list[dict[str, Any]]:
        """The entries of a config for the features that amped cannot express; a feature without sizes has no bound."""
        return [(line.entry or NotModeled(str(line))).written() for line in self.unsupported]

    def to_dict(self) -> dict[str, list[dict[str, str]]]:
        """The report as JSON has it: for each list the keys and what was done with them."""
        return {name: [{"key": line.key, "what": line.what} for line in lines] for name, lines in self.groups()}


@dataclass(frozen=True)
class Imported:
    """The content of another tool's file, by amped's names.

    Attributes:
        source: the name of the format.
        file: the path of the file.
        name: the name of the network in the file, or the path, for titles.
        values: values by canonical name, as a config has them.
        origins: for each name, the key that it comes from.
        report: what became of every key.
        software: the row of the framework that the file is for.
        network: the network that the file names: the name of its row, or an imported config.json.
    """

    source: str
    file: str
    name: str
    values: Mapping[str, Any]
    origins: Mapping[str, str]
    report: Report
    software: str | None = None
    network: str | Imported | None = None

    def refuse_unsupported(self) -> None:
        """Refuses a file with features that amped cannot express.

        Raises:
            ConfigError: with each of these features.
        """
        if self.report.unsupported:
            problems = [Problem(line.what, line.key) for line in self.report.unsupported]
            raise ConfigError(
                [*problems, Problem("amped cannot express this", advice="leave out --strict")], file=self.file
            )


@dataclass
class Reading:
    """A file while it is read. Each key that is asked for is marked as used, so that the others can be reported.

    A method that reads one kind of value refuses every other kind with the place of the key; a missing key and null give the
    default. The argument `name` of these methods is the key, and `quantity` is amped's quantity that the value belongs to.

    Attributes:
        raw: the values of the file by key.
        places: where a key stands if not under its name: a line, or the name that the file has for it.
        values: the values by amped's names so far.
        report: what became of the keys so far.
        family: the record of the model_type (of a config.json), which says what the kind of network implies.
        taken: for each key that was asked for, the quantities that come from it, separated by commas.
    """

    raw: Mapping[str, Any]
    places: Mapping[str, str] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)
    report: Report = field(default_factory=Report)
    family: Mapping[str, Any] = field(default_factory=dict)
    taken: dict[str, str] = field(default_factory=dict)

    @cached_property
    def sections(self) -> set[str]:
        """The names of all sections: of the key a.b.c, they are a and a.b."""
        return {name[:dot] for name in self.raw for dot, letter in enumerate(name) if letter == "."}

    def place(self, name: str) -> str:
        """The place of a key in the file, for messages."""
        return self.places.get(name, name)

    def first(self, names: Iterable[str], quantity: str) -> tuple[str, Any] | None:
        """The first of some keys that has a value, with the value; None if none has. The key is marked as used for the quantity."""
        for name in names:
            if self.raw.get(name) is not None:
                quantities = f"{self.taken.get(name, quantity)}, {quantity}".split(", ")
                self.taken[name] = ", ".join(dict.fromkeys(quantities))
                return name, self.raw[name]
        return None

    def get(self, name: str, quantity: str, default: Any = None) -> Any:
        """The value of a key in any form, or the default."""
        entry = self.first((name,), quantity)
        return entry[1] if entry else default

    def refuse_section(self, names: Iterable[str]) -> None:
        """Refuses keys that must have one value and are sections.

        Raises:
            ConfigError: for the first such key.
        """
        for name in names:
            if name in self.sections:
                raise ConfigError(Problem("is a section, not a value", self.place(name)))

    @overload
    def number(self, name: str, quantity: str, default: int, least: int = 0) -> int: ...
    @overload
    def number(self, name: str, quantity: str, default: None = None, least: int = 0) -> int | None: ...
    def number(self, name: str, quantity: str, default: int | None = None, least: int = 0) -> int | None:
        """The whole number of a key, or the default.

        Raises:
            ConfigError: for a value below `least`, or one that is no whole number.
        """
        self.refuse_section((name,))
        value = self.get(name, quantity)
        return default if value is None else whole(value, self.place(name), least)

    def needed(self, name: str, quantity: str) -> int:
        """The whole number of a key that must be there; it is at least 1.

        Raises:
            ConfigError: for another value, or none.
        """
        number = self.number(name, quantity, least=1)
        if number is None:
            raise ConfigError(Problem("has no value", self.place(name), f"amped needs it as {quantity}"))
        return number

    def _of_kind(self, name: str, quantity: str, default: Any, is_right: Callable[[Any], bool], what: str) -> Any:
        """The value of a key, or the default.

        Args:
            name: the key.
            quantity: the quantity that the value belongs to.
            default: the value if the key is missing.
            is_right: whether a value is of the right kind.
            what: the message about a wrong value, such as "no word".

        Raises:
            ConfigError: for a wrong value.
        """
        value = self.get(name, quantity, default)
        if not is_right(value):
            raise ConfigError(Problem(f"{quoted(value)} is {what}", self.place(name), _advice(quantity)))
        return value

    def share(self, name: str, quantity: str, default: float) -> float:
        """The number of a key that is a share of a whole, from 0 to 1.

        Raises:
            ConfigError: for another value.
        """
        self.refuse_section((name,))
        return float(self._of_kind(name, quantity, default, _is_share, "no number from 0 to 1"))

    def flag(self, name: str, quantity: str, default: bool = False) -> bool:
        """Whether a switch is on.

        Raises:
            ConfigError: for a value that is neither true nor false.
        """
        self.refuse_section((name,))
        return bool(
            self._of_kind(name, quantity, default, lambda value: isinstance(value, bool), "neither true nor false")
        )

    @overload
    def word(self, name: str, quantity: str, default: str) -> str: ...
    @overload
    def word(self, name: str, quantity: str, default: None = None) -> str | None: ...
    def word(self, name: str, quantity: str, default: str | None = None) -> str | None:
        """The text of a key, or the default.

        Raises:
            ConfigError: for a number, a list or an object.
        """
        word: str | None = self._of_kind(
            name, quantity, default, lambda value: isinstance(value, str | None), "no word"
        )
        return word

    def counts(self, name: str, quantity: str) -> list[int]:
        """The whole numbers in the list of a key; an empty list if the key is missing.

        Raises:
            ConfigError: for a value that is no list of whole numbers.
        """
        numbers = self._of_kind(name, quantity, [], lambda value: isinstance(value, list), "no list of numbers")
        return [whole(number, self.place(name)) for number in numbers]

    def words(self, name: str, quantity: str, default: str = "") -> list[str]:
        """The words of a key: a list of words, or one text with blanks or commas between them.

        Raises:
            ConfigError: for a number or an object, or a list of other things.
        """
        words = self._of_kind(name, quantity, default, lambda value: _are_words(_as_list(value)), "no list of words")
        return [part for word in _as_list(words) for part in SEPARATORS.sub(" ", word).split()]

    def unread_keys(self) -> dict[str, Any]:
        """The keys that were not asked for, with their values."""
        return {name: value for name, value in self.raw.items() if name not in self.taken}

    def checked(self, quantity: str, value: Any, name: str) -> Any:
        """The value of a quantity if it is of the right kind (a whole number, a number, or true or false) and within its bounds.

        Raises:
            ConfigError: for another value, with the place of its key.
        """
        unit, place = catalogue()[quantity].mark.unit, self.place(name)
        value = whole(value, place) if unit == "count" else value
        if quantity == "layers" and value > MOST_LAYERS:
            raise ConfigError(Problem(f"{quoted(value)} layers are too many", place, f"at most {MOST_LAYERS:,}"))
        if unit == "boolean" and not isinstance(value, bool):
            raise ConfigError(Problem(f"{quoted(value)} is neither true nor false", place, _advice(quantity)))
        if unit == "1" and not _is_number(value):
            raise ConfigError(Problem(f"{quoted(value)} is no number", place, _advice(quantity)))
        try:
            read_value(catalogue()[quantity], value)
        except AmpedError as error:
            raise ConfigError(error.at(place)) from None
        return value

    def refuse_wrong(self, origins: Mapping[str, str]) -> None:
        """Refuses values that their quantities do not take.

        Args:
            origins: for each quantity, where its value comes from; it is named if no key gives the value.

        Raises:
            ConfigError: with all such values and the places of their keys.
        """
        problems: list[Problem] = []
        for quantity, value in self.values.items():
            places = [self.place(name) for name, users in self.taken.items() if quantity in users.split(", ")]
            with collected(problems, ", ".join(places) or origins.get(quantity, "")):
                read_value(catalogue()[quantity], value)
        if problems:
            raise ConfigError(problems)

    def degree(self, kind: str) -> int:
        """The degree of a kind of parallelism among the values so far; 1 if the file does not say it."""
        return max(int(self.values.get(f"{kind}_parallel_degree", 1)), 1)

    @property
    def accelerators_of_a_replica(self) -> int:
        """The product of the tensor-, pipeline- and context-parallel degrees."""
        return prod(map(self.degree, ("tensor", "pipeline", "context")))

    def unsupported(self, key: str, what: str) -> None:
        """Adds a line to the report about a key that amped cannot express."""
        self.report.unsupported.append(ReportLine(key, what))

    def defaulted(self, key: str, what: str) -> None:
        """Adds a line to the report about a key that the file lacks; `what` says the value that was taken."""
        self.report.defaulted.append(ReportLine(key, what))


# What stands between words in one text: brackets, quotes and commas, as Python prints lists.
SEPARATORS = re.compile(r"[\[\]()'\",]")


def _advice(quantity: str) -> str:
    """The advice that names the quantity as which a key is read."""
    return f"amped reads it as {quantity}"


def _is_number(value: Any) -> TypeGuard[float]:
    """Whether a value is a finite number, and no truth value."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def _is_share(value: Any) -> bool:
    """Whether a value is a number from 0 to 1."""
    return _is_number(value) and 0 <= value <= 1


def _as_list(value: Any) -> list[Any]:
    """The value if it is a list, else a list with the one value."""
    return value if isinstance(value, list) else [value]


def _are_words(values: list[Any]) -> bool:
    """Whether all values are text."""
    return all(isinstance(word, str) for word in values)


def whole(value: Any, name: str, least: int = 0) -> int:
    """A value as a whole number from `least` to LARGEST.

    Args:
        value: the value in the file.
        name: the place of its key, for messages.
        least: the smallest number that is allowed.

    Raises:
        ConfigError: for any other value.
    """
    if not _is_number(value) or not least <= value <= LARGEST or value != int(value):
        advice = "it is a count" if least == 0 else f"it is a count of at least {least}"
        raise ConfigError(Problem(f"{quoted(value)} is not a whole number", name, advice))
    return int(value)
