"""Formats that are nested sections: JSON, TOML and YAML. They are read into dotted keys, and written from them."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from amped.base.errors import FileError, Problem
from amped.base.extras import from_extra
from amped.interop.fields import plain_values
from amped.interop.outgoing import Outgoing, Rule
from amped.interop.records import Imported, Keys, Reading, Report, Told
from amped.interop.rest import tell_rest

MOST_KEYS = 20_000
# A line of YAML or TOML is no wider than this before its comment.
WIDTH = 56
# What is told of a file without a network.
NO_SIZES = Told("", "the file does not say the sizes of the network: give --model NAME or PATH")


def parse_toml(text: str, file: str) -> dict[str, Any]:
    """The sections of a TOML file.

    Raises:
        FileError: with the line.
    """
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise FileError(
            Problem(f"is not valid TOML: {error}", "line 1" if "line" not in str(error) else ""), file=file
        ) from None


def parse_yaml(text: str, file: str) -> Any:
    """The value of a YAML file of plain values; tags, which would make objects, are refused.

    Raises:
        FileError: with the line.
    """
    yaml = from_extra("yaml", "interop", "a YAML file")
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        what = getattr(error, "problem", None) or "cannot be read"
        advice = "amped makes no objects: write plain values" if "tag" in str(what) else ""
        raise FileError(
            Problem(f"is not plain YAML: {what}", f"line {mark.line + 1}" if mark else "line 1", advice), file=file
        ) from None
    except (RecursionError, ValueError) as error:
        raise FileError(Problem(f"is not plain YAML: {error}", "line 1"), file=file) from None


def flat(nested: Any, file: str, before: str = "") -> dict[str, Any]:
    """Nested sections as dotted keys; lists stay values.

    Raises:
        FileError: for something that is no sections, or too many keys.
    """
    if not isinstance(nested, Mapping):
        raise FileError(Problem("is no object of sections", "line 1"), file=file)
    found: dict[str, Any] = {}
    for place, value in _leaves(nested, before, 0):
        found[place] = value
        if len(found) > MOST_KEYS:
            raise FileError(Problem(f"has more than {MOST_KEYS:,} keys", "line 1"), file=file)
    return found


def _leaves(nested: Mapping[Any, Any], before: str, depth: int) -> Iterator[tuple[str, Any]]:
    for name, value in nested.items():
        if isinstance(value, Mapping) and value and depth < 20:
            yield from _leaves(value, f"{before}{name}.", depth + 1)
        else:
            yield f"{before}{name}", value


def nested(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Dotted keys as sections."""
    found: dict[str, Any] = {}
    for place, value in fields.items():
        *sections, name = place.split(".")
        inner = found
        for section in sections:
            inner = inner.setdefault(section, {})
        inner[name] = value
    return found


def read_sections(
    form: str,
    given: Mapping[str, Any],
    file: str,
    rules: Mapping[str, Rule],
    software: str | None,
    places: Mapping[str, str] | None = None,
) -> Imported:
    """The training that dotted keys say; `places` has the names in the file, where they differ."""
    report = Report()
    values, told = read_keys(form, Keys(given, places), report, rules)
    if "layers" not in values:
        report.defaulted.append(NO_SIZES)
    return Imported(form, file, file, values, told, report, software)


def read_keys(
    form: str,
    keys: Keys,
    report: Report,
    rules: Mapping[str, Rule],
    *,
    shown: Callable[[str], str] = str,
    about: str = "keys about",
    check: Callable[[Mapping[str, Any]], None] = lambda _: None,
    unknown: str | None = None,
) -> tuple[dict[str, Any], dict[str, str]]:
    """The values that keys say alone or together, and for each value what it comes from; what is left is told.

    Args:
        form: the format.
        keys: the keys of the file.
        report: where is told what became of each key.
        rules: what several keys say together.
        shown: how a key is written in the file.
        about: the words before the name of a rule.
        check: refuses values that say too little for the rules.
        unknown: as in `tell_rest`.
    """
    values, told = dict[str, Any](), dict[str, str]()
    for name, key, value in plain_values(form, keys):
        values[name], told[name] = value, shown(key)
    check(values)
    for name, rule in rules.items():
        found = rule.read(Reading(keys, values, report))
        values |= found
        told |= dict.fromkeys(found, f"{about} {name}")
    values = {name: value for name, value in values.items() if value is not None}
    keys.refuse_wrong(values, told)
    tell_rest(form, keys.rest(), report, unknown=unknown)
    report.used += [Told(shown(key), into) for key, into in keys.taken.items()]
    return values, told


def as_json(out: Outgoing, title: str) -> str:
    """Fields as JSON. JSON has no comments: reasons and what is lost stand under keys that no framework reads."""
    told = {"_comment": title, "_cannot_be_expressed": [str(line) for line in out.lost], "_reasons": dict(out.why)}
    return json.dumps({**told, **nested(out.fields)}, indent=1) + "\n"


def as_yaml(out: Outgoing, head: list[str]) -> str:
    """Fields as YAML, each with its reason; sections are cut at dots."""
    return "\n".join([*head, *_yaml_lines(nested(out.fields), out, "", 0), ""])


def _yaml_lines(sections: Mapping[str, Any], out: Outgoing, before: str, depth: int) -> Iterator[str]:
    for name, value in sections.items():
        if isinstance(value, dict):
            yield f"{'  ' * depth}{name}:"
            yield from _yaml_lines(value, out, f"{before}{name}.", depth + 1)
        else:
            yield f"{'  ' * depth}{name}: {scalar(value)}".ljust(WIDTH) + f"  # {out.why[before + name]}"


def scalar(value: Any) -> str:
    """A value as YAML and TOML write it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return "[" + ", ".join(map(scalar, value)) + "]"
    return str(value) if isinstance(value, int | float) else f'"{value}"'
