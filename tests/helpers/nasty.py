"""Files of other tools with one value in them that is wrong: of another kind, too small, too large, or no value at all."""

import importlib
import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

from amped.base.errors import AmpedError
from amped.interop.as_config import as_config
from amped.interop.megatron import flag_of
from amped.interop.recognition import read_file
from amped.interop.records import Imported, Reading

VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1.5, 1e308, 10**20, float("nan"), float("inf"), "some words", "", "9" * 5000, [], [1], ["a"], [[1]], {}, {"a": 1},
)  # fmt: skip
WORDS = (
    "0",
    "-1",
    "1.5",
    "many",
    "''",
    "nan",
    "inf",
    "1e400",
    "[1]",
    "[[1]]",
    "None",
    "{}",
    "([0]*3",
    "1,2",
    "-1,0",
    "9" * 5000,
)
# No count and no switch is one of these; None is no value at all.
NO_COUNTS: tuple[Any, ...] = (-2, 1.5, float("nan"), True, "some words", [1.5], {"a": 1})
NO_SWITCHES: tuple[Any, ...] = (3, 1.5, "some words", [True], {"a": True})

Place = tuple[str, ...]
yaml: Any = importlib.import_module("yaml")  # it has no types


class Example(NamedTuple):
    """A file of another tool that is right, and the same with another value at a place, which may be new.

    Attributes:
        text: the file.
        places: its values, each by the names of the sections that lead to it, and the values themselves.
        changed: from a place and a value to the text with it.
        values: wrong values to try.
    """

    text: str
    places: Mapping[Place, Any]
    changed: Callable[[Place, Any], str]
    values: tuple[Any, ...] = VALUES


def of_object(content: Mapping[str, Any], text: Callable[[Any], str] = json.dumps) -> Example:
    """An example that is an object of sections, as JSON or another text."""

    def changed(place: Place, value: Any) -> str:
        made = json.loads(json.dumps(content))
        inner = made
        for name in place[:-1]:
            inner[name] = inner[name] if isinstance(inner.get(name), dict) else {}
            inner = inner[name]
        inner[place[-1]] = value
        return text(made)

    return Example(text(content), dict(_places(content)), changed)


def _places(content: Mapping[str, Any], before: Place = ()) -> Iterator[tuple[Place, Any]]:
    for name, value in content.items():
        yield (*before, name), value
        if isinstance(value, Mapping):
            yield from _places(value, (*before, name))


def of_yaml(text: str) -> Example:
    """An example in YAML."""
    return of_object(yaml.safe_load(text), yaml.safe_dump)


def of_toml(text: str) -> Example:
    """An example in TOML, whose sections are one deep; what TOML has not, as null, is written all the same."""

    def as_toml(content: Mapping[str, Any]) -> str:
        lines = []
        for name, value in sorted(content.items(), key=lambda item: isinstance(item[1], dict)):
            inner = value if isinstance(value, dict) else {}
            lines += (
                [f"[{name}]", *(f"{key} = {plain(own)}" for key, own in inner.items())]
                if inner
                else [f"{name} = {plain(value)}"]
            )
        return "\n".join(lines) + "\n"

    def plain(value: Any) -> str:
        return {"{}": "{}", "{'a': 1}": "{a = 1}"}.get(str(value)) or json.dumps(value).replace("NaN", "nan").replace(
            "Infinity", "inf"
        )

    return of_object(tomllib.loads(text), as_toml)


def of_words(text: str, pattern: str, added: Callable[[str, str], str]) -> Example:
    """An example that is a text with names and values, the two groups of a pattern.

    Args:
        text: the example.
        pattern: finds every name and its value.
        added: the text with a further name and a value.
    """
    found = {match[1].replace("-", "_"): match for match in re.finditer(pattern, text)}

    def changed(place: Place, value: Any) -> str:
        match = found.get(place[0])
        return added(place[0], value) if match is None else f"{text[: match.start(2)]}{value}{text[match.end(2) :]}"

    return Example(text, {(name,): match[2] for name, match in found.items()}, changed, WORDS)


def of_script(text: str) -> Example:
    """An example that is a script, in which each flag with a value has the form `--flag value`."""
    return of_words(
        text,
        r"--([\w-]+) ([^\s-]\S*)",
        lambda name, value: text.replace("pretrain_gpt.py", f"pretrain_gpt.py {flag_of(name)} {value}"),
    )


def of_log(text: str) -> Example:
    """An example that is a log."""
    return of_words(text, r"(\w+) \.{4,} (.*)", lambda name, value: f"{text}\n  {name} ........ {value}")


def asked_names(example: Example, file: Path) -> list[str]:
    """Every key that the importer of an example asks for, whether the example has it or not."""
    asked: dict[str, None] = {}
    first = Reading.first

    def noted(self: Reading, names: Any, into: str) -> Any:
        asked.update(dict.fromkeys(names := tuple(names)))
        return first(self, names, into)

    with mock.patch.object(Reading, "first", noted):
        assert isinstance(became(example.text, file), Imported)
    return [*asked]


def became(text: str, file: Path) -> Imported | AmpedError:
    """What becomes of a file: it is read and written as a config, or refused. No other error is caught."""
    file.write_text(text, "utf-8")
    try:
        found = read_file(file)
        as_config(found)
    except AmpedError as error:
        return error
    return found
