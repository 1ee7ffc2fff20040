"""Other names for one thing, which are replaced when they are read; inside amped there is one name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cached_property, lru_cache
from typing import Any

from amped.base.errors import ConfigError, quoted
from amped.base.files import shipped_json
from amped.base.record import dataclass
from amped.base.words import answers, plain

# For each value of a name, in small letters: amped's names with their values.
Spelled = dict[str, dict[str, Any]]
# Numbers that stand for the words of a switch.
SWITCHED = {"1": "true", "0": "false"}
# A text that is an amount; and an amount with the prefix of a unit, as 400G, and no unit.
AMOUNT, NO_UNIT = re.compile(r"\s*\$?\s*[\d.].*"), re.compile(r"\s*[\d.]+\s*[kMGT]\s*")


@dataclass(frozen=True)
class Aliases:
    """The names that are read as other names.

    Attributes:
        common: short names, and spellings of other tools whose values mean the same in amped.
        values: for some names of amped, other words for their values.
        settings: other tools' settings of which amped has each value under another name or in another form.
        with_units: short names that mean another name of amped where the value has a unit: `headroom` is a share, or bytes.
        questions: words that name one thing where a value is given, and other things in a table or a log: amped's name, and the
            unit of an amount that has none.
        results: words by which people ask for a result, such as "MFU". No value is given by them.
        renamed: AMPeD's older names, which are read as the new ones.
        equal_to: AMPeD's older names, which are accepted if they have the value of the other name.
        retired: AMPeD's older names that are accepted and ignored.
        calculated: what AMPeD calculates in another way than amped: the values with which amped gets the same (`set`), the
            number that must be above 1 for a difference (`of`), and what it means.
    """

    common: dict[str, str]
    values: dict[str, Spelled]
    settings: dict[str, Spelled]
    with_units: dict[str, str]
    questions: dict[str, dict[str, str]]
    results: dict[str, str]
    renamed: dict[str, str]
    equal_to: dict[str, str]
    retired: frozenset[str]
    calculated: dict[str, Any]

    def canonical(self, name: str) -> str:
        """The name that amped uses for a name: itself, or the one that it is an alias of."""
        return self._canonical.get(name) or self.common.get(_folded(name), name)

    def option(self, name: str) -> str:
        """The name that amped uses for a word that gives a value, as an option or by --set."""
        return self.questions.get(_folded(name), {}).get("name") or self.canonical(name)

    def asked(self, name: str) -> str:
        """The name of the quantity that a user asks for by a name, or by a word such as "MFU"."""
        return self.results.get(_folded(name)) or self.canonical(name)

    def given(self, name: str, value: Any) -> dict[str, Any]:
        """The value as amped has it, by amped's names: one name or several, from a short name or another tool's spelling.

        AMPeD's older names stay as they are: their reader tells more about them.

        Raises:
            ConfigError: if amped has nothing for this value of the setting.
        """
        if _folded(name) in self.questions:
            return _of_question(name, self.questions[_folded(name)], value)
        now = self.common.get(name) or self.common.get(_folded(name), name)
        if isinstance(value, str) and value.strip()[:1].isdigit() and value.strip()[-1:].isalpha():
            now = self.with_units.get(_folded(name), now)
        switch = isinstance(value, int | float) and value in (0, 1)
        word = str(value).casefold() if isinstance(value, str | bool) else str(int(value)) if switch else ""
        if _folded(name) not in self.settings:
            return self.values.get(now, {}).get(word) or {now: value}
        meanings = self.settings[_folded(name)]
        meant = meanings.get(word) or meanings.get(SWITCHED.get(word, ""))
        if meant is None:
            raise ConfigError(f"{name} is {' or '.join(meanings)} here, not {quoted(value)}", "give amped's own name")
        return meant

    def all_given(self, given: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
        """All values by amped's names, and a notice for each name that was replaced.

        Raises:
            ConfigError: if two of them give the same name a value, or amped has nothing for a value.
        """
        values: dict[str, Any] = {}
        notices: list[str] = []
        for name, value in given.items():
            meant = self.given(name, value)
            if twice := meant.keys() & values.keys():
                raise ConfigError(f"{name} gives {', '.join(sorted(twice))} a second time", "keep one of the two")
            values |= meant
            notices += [] if meant == {name: value} else [_notice(name, value, meant)]
        return values, notices

    def listed(self, name: str, values: Any) -> tuple[str, Any]:
        """The name and the values of a sweep as amped has them; a value that is no list is returned unchanged.

        Raises:
            ConfigError: if the values are not of one name of amped, or amped has nothing for one of them.
        """
        if not isinstance(values, list | tuple):
            return self.canonical(name), values
        meant = [item for value in values for item in self.given(name, value).items()]
        names = list(dict.fromkeys(self.canonical(each) for each, _ in meant)) or [self.canonical(name)]
        if len(names) > 1:
            raise ConfigError(f"{name} is {' and '.join(names)} here", "list the values of each by itself")
        return names[0], [value for _, value in meant]

    def in_words(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The values, with a word such as mxfp8 in place of the several values that it stands for."""
        values = dict(given)
        for name, words in self.values.items():
            for word, meant in words.items():
                if len(meant) > 1 and meant.items() <= values.items():
                    values = {**{n: v for n, v in values.items() if n not in meant}, name: word}
        return values

    def told_asked(self, names: Iterable[str]) -> list[str]:
        """A notice for each short name, and each word for a result, among some names: "MFU is ...", once for each."""
        words = (name for name in dict.fromkeys(names) if _folded(name) in self.results or _folded(name) in self.common)
        return [f"{name} is {self.asked(name)}" for name in words]

    @cached_property
    def _canonical(self) -> dict[str, str]:
        """The name that amped uses for each alias."""
        return self.equal_to | self.renamed | self.common

    def is_old(self, name: str) -> bool:
        """Whether only AMPeD's older configs use this name."""
        return name in self.renamed or name in self.equal_to or name in self.retired

    def names(self) -> list[str]:
        """All names that are accepted besides the canonical ones."""
        return [*self.common, *self.renamed, *self.equal_to, *sorted(self.retired)]

    def suggested(self) -> list[str]:
        """The accepted names that may be suggested to a user."""
        return [*self.names(), *self.settings, *self.questions]


@lru_cache(maxsize=4096)
def _folded(name: str) -> str:
    """A name in lower case, with underscores in place of spaces and hyphens, as the tables of aliases have it."""
    return name.strip(" -").replace("-", "_").replace(" ", "_").casefold()


def _of_question(name: str, meant: Mapping[str, str], value: Any) -> dict[str, Any]:
    """The value that a word such as an option gives, by amped's name; an amount without a unit gets the unit of `meant`.

    Raises:
        ConfigError: for a text where an amount is needed: the word has another meaning, too.
    """
    unit = meant.get("unit")
    if unit and isinstance(value, str) and not AMOUNT.fullmatch(value):
        what = f"{name} is {meant['name']} here, and {quoted(value)} is no amount"
        raise ConfigError(what, str(answers()[plain(name)]))
    lacks_unit = unit and isinstance(value, str) and NO_UNIT.fullmatch(value)
    return {meant["name"]: f"{value.strip()}{unit}" if lacks_unit else value}


def _notice(name: str, value: Any, meant: Mapping[str, Any]) -> str:
    """A notice on the names that replaced a name; with the values if these differ."""
    if repr([*meant.values()]) == repr([value]):
        return f"{name} is {', '.join(meant)}"
    return f"{name}={_written(value)} is {', '.join(f'{n}={_written(v)}' for n, v in meant.items())}"


def _written(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


@lru_cache(maxsize=1)
def aliases() -> Aliases:
    """All other names that amped reads, from its JSON files: short names, words of other tools, AMPeD's older names."""
    common, older = (shipped_json("schema", name) for name in ("common_aliases.json", "amped_aliases.json"))
    older |= {"retired": frozenset(older["retired"]), "common": common.pop("names")}
    del older["table_columns"]  # `tables/table_files.py` reads them
    return Aliases(**common, **older)
