"""What an importer found in a file: values by amped's names, and a report that leaves nothing out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any

from amped.base.errors import ConfigError, Problem, quoted
from amped.base.record import dataclass
from amped.theory.catalogue import catalogue

# No count of a training is larger, and no network has more layers.
LARGEST, MOST_LAYERS = 10**15, 100_000


@dataclass(frozen=True)
class Told:
    """One line of a report: the key in the file, and what was done with it."""

    key: str
    what: str

    def __str__(self) -> str:
        return f"{self.key}: {self.what}" if self.key else self.what


@dataclass
class Report:
    """What became of every key of a file.

    Attributes:
        unsupported: what amped cannot express; an estimate is wrong by it.
        used: the keys that became values.
        defaulted: values that the file does not say, and what was taken.
        ignored: keys that change neither time nor memory, and why.
    """

    unsupported: list[Told] = field(default_factory=list)
    used: list[Told] = field(default_factory=list)
    defaulted: list[Told] = field(default_factory=list)
    ignored: list[Told] = field(default_factory=list)

    def groups(self) -> Iterable[tuple[str, list[Told]]]:
        """The parts of the report in the order in which they are told: what is missing comes first."""
        for name in ("unsupported", "used", "defaulted", "ignored"):
            yield name, getattr(self, name)

    def to_dict(self) -> dict[str, list[dict[str, str]]]:
        """The report as JSON has it."""
        return {name: [{"key": told.key, "what": told.what} for told in lines] for name, lines in self.groups()}


@dataclass(frozen=True)
class Imported:
    """A file of another tool, in amped's names.

    Attributes:
        source: the format.
        file: where it was read.
        name: what the file calls itself, for titles.
        values: values by canonical name, as a config has them.
        told: for each name, the key that it comes from.
        report: what became of every key.
        software: the row of the framework that the file is for.
    """

    source: str
    file: str
    name: str
    values: Mapping[str, Any]
    told: Mapping[str, str]
    report: Report
    software: str | None = None

    def refuse_unsupported(self) -> None:
        """Refuses a file with something that amped cannot express.

        Raises:
            ConfigError: with every such thing.
        """
        if self.report.unsupported:
            problems = [Problem(told.what, told.key) for told in self.report.unsupported]
            raise ConfigError(
                [*problems, Problem("amped cannot express this", advice="leave out --strict")], file=self.file
            )


class Keys:
    """The keys of a file while they are read: what was asked for is noted, so that nothing is dropped in silence."""

    def __init__(self, raw: Mapping[str, Any]) -> None:
        self.raw = dict(raw)
        self.taken: dict[str, str] = {}

    def first(self, names: Iterable[str], into: str) -> tuple[str, Any] | None:
        """The first of some keys that has a value, and the value; noted as used for `into`."""
        for name in names:
            if self.raw.get(name) is not None:
                before = self.taken.get(name, into).split(", ")
                self.taken[name] = ", ".join(dict.fromkeys((*before, into)))
                return name, self.raw[name]
        return None

    def get(self, name: str, into: str, default: Any = None) -> Any:
        """The value of a key, noted as used; else the default."""
        found = self.first((name,), into)
        return default if found is None else found[1]

    def number(self, name: str, into: str, default: int | None = None) -> int | None:
        """The whole number of a key.

        Raises:
            ConfigError: for another value.
        """
        found = self.get(name, into)
        return default if found is None else whole(found, name)

    def rest(self) -> dict[str, Any]:
        """The keys that nobody asked for."""
        return {name: value for name, value in self.raw.items() if name not in self.taken}


def whole(value: Any, name: str) -> int:
    """A whole number that is not negative.

    Raises:
        ConfigError: for another value.
    """
    number = float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
    if number is None or not 0 <= number <= LARGEST or number != int(number):
        raise ConfigError(Problem(f"{quoted(value)} is not a whole number", name, "it is a count"))
    return int(number)


def checked(quantity: str, value: Any, key: str) -> Any:
    """A value of the kind that a quantity has: a whole number, a number, or true or false.

    Raises:
        ConfigError: for another value, with the key.
    """
    unit = catalogue()[quantity].mark.unit
    if unit == "count":
        if whole(value, key) > MOST_LAYERS and quantity == "layers":
            raise ConfigError(Problem(f"{quoted(value)} layers are too many", key, f"at most {MOST_LAYERS:,}"))
        return whole(value, key)
    if unit == "boolean" and not isinstance(value, bool):
        raise ConfigError(Problem(f"{quoted(value)} is neither true nor false", key, f"amped reads it as {quantity}"))
    if unit == "1" and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise ConfigError(Problem(f"{quoted(value)} is no number", key, f"amped reads it as {quantity}"))
    return value


@dataclass(frozen=True)
class Reading:
    """A file while it is read: its keys, the values so far, the report, and what the kind of network implies."""

    keys: Keys
    values: Mapping[str, Any]
    report: Report
    family: Mapping[str, Any] = field(default_factory=dict)
