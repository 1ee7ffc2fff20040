"""Formats that are nested sections: JSON, TOML and YAML. They are read into dotted keys, and written from them."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from typing import Any

from amped.base.errors import LONGEST_QUOTE, FileError, Problem
from amped.base.extras import from_extra
from amped.interop.fields import plain_values, table
from amped.interop.outgoing import Outgoing, Rule
from amped.interop.records import Imported, Reading, ReportLine
from amped.interop.rest import tell_rest

MOST_KEYS = 20_000
# What a YAML file may be with every alias and merge key written out, and how deep a value is nested at most.
MOST_NODES, DEEPEST = 500_000, 50
# A key of TOML with more parts than any config has; tomllib takes the square of them.
LONG_KEY = re.compile(r"""(?<![\w."'-])(?:[\w"'-]++\s*+\.\s*+){100}""")
# A line of YAML or TOML is no wider than this before its comment.
WIDTH = 56
# What is told of a file without a network.
NO_SIZES = ReportLine("", "the file does not say the sizes of the network: give --model NAME or PATH")


def parse_toml(text: str) -> dict[str, Any]:
    """The sections of a TOML file.

    Raises:
        FileError: with the line.
    """
    if long := LONG_KEY.search(text):
        line = text.count("\n", 0, long.start()) + 1
        raise FileError(Problem("a key has more than 100 parts", f"line {line}"))
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise FileError(Problem(f"a value is nested deeper than {DEEPEST} levels", "line 1")) from None
    except tomllib.TOMLDecodeError as error:
        raise FileError(Problem(f"is not valid TOML: {error}", "line 1" if "line" not in str(error) else "")) from None


def parse_yaml(text: str) -> Any:
    """The value of a YAML file of plain values; tags, which would make objects, are refused.

    Raises:
        FileError: with the line; also for aliases that would make the file larger than any config is.
    """
    yaml = from_extra("yaml", "interop", "a YAML file")
    try:
        loader = yaml.SafeLoader(text)
        root = loader.get_single_node()
        if root is None:
            return None
        _size_written_out(root, {})
        return loader.construct_document(root)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        what = getattr(error, "problem", None) or "cannot be read"
        advice = "amped makes no objects: write plain values" if "tag" in str(what) else ""
        raise FileError(
            Problem(f"is not plain YAML: {what}", f"line {mark.line + 1}" if mark else "line 1", advice)
        ) from None
    except (RecursionError, ValueError) as error:
        raise FileError(Problem(f"is not plain YAML: {error}", "line 1")) from None


def _size_written_out(node: Any, sizes: dict[int, int]) -> int:
    """The values below a node of YAML, each alias counted as what it stands for.

    Args:
        node: a node as PyYAML composes it; an alias is the node itself once more.
        sizes: the sizes of the nodes so far, by identity.

    Raises:
        FileError: with the line, for more values than any config has; a node inside itself has no end.
    """
    if isinstance(node.value, str):
        return 1
    if id(node) not in sizes:
        sizes[id(node)] = MOST_NODES  # until it is known, which is never if it is inside itself
        inner = chain.from_iterable(node.value) if node.id == "mapping" else node.value
        sizes[id(node)] = 1 + sum(_size_written_out(value, sizes) for value in inner)
    if sizes[id(node)] > MOST_NODES:
        what = f"has more than {MOST_NODES:,} values when its aliases are written out"
        raise FileError(Problem(what, f"line {node.start_mark.line + 1}"))
    return sizes[id(node)]


def flat(nested: Any) -> dict[str, Any]:
    """Nested sections as dotted keys; lists stay values.

    Raises:
        FileError: for something that is no sections, or too many keys.
    """
    if not isinstance(nested, Mapping):
        raise FileError(Problem("is no object of sections", "line 1"))
    fields: dict[str, Any] = {}
    for place, value in _leaves(nested, "", 0):
        if _is_deeper(value, DEEPEST):
            raise FileError(Problem(f"a value is nested deeper than {DEEPEST} levels", place[:LONGEST_QUOTE]))
        fields[place] = value
        if len(fields) > MOST_KEYS:
            raise FileError(Problem(f"has more than {MOST_KEYS:,} keys", "line 1"))
    return fields


def _leaves(nested: Mapping[Any, Any], before: str, depth: int) -> Iterator[tuple[str, Any]]:
    for name, value in nested.items():
        if isinstance(value, Mapping) and value and depth < 20:
            yield from _leaves(value, f"{before}{name}.", depth + 1)
        else:
            yield f"{before}{name}", value


def _is_deeper(value: Any, levels: int) -> bool:
    """Whether lists and sections of a value are nested deeper than some levels."""
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return levels < 0 or any(_is_deeper(part, levels - 1) for part in inner)


def nested(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Dotted keys as sections."""
    whole: dict[str, Any] = {}
    for place, value in fields.items():
        *sections, name = place.split(".")
        inner = whole
        for section in sections:
            inner = inner.setdefault(section, {})
        inner[name] = value
    return whole


def read_sections(
    form: str, reading: Reading, file: str, rules: Mapping[str, Rule], software: str | None = None
) -> Imported:
    """The training that dotted keys say."""
    origins, values, defaulted = read_keys(form, reading, rules), reading.values, [NO_SIZES]
    if "layers" in values:
        network = table(form).get("network", {"facts": {}})
        values = network["facts"] | values
        origins = dict.fromkeys(network["facts"], f"the networks of {form}") | origins
        defaulted = [ReportLine(*line) for line in network.get("defaulted", ())]
    reading.report.defaulted += defaulted
    return Imported(form, file, file, values, origins, reading.report, software)


def read_keys(
    form: str,
    reading: Reading,
    rules: Mapping[str, Rule],
    *,
    shown: Callable[[str], str] = str,
    about: str = "keys about",
    check: Callable[[Mapping[str, Any]], None] = lambda _: None,
    unknown: str | None = None,
) -> dict[str, str]:
    """Reads the values that keys say alone or together, and tells what is left; what each value comes from.

    Args:
        form: the format.
        reading: the keys of the file; it gets the values and the report.
        rules: what several keys say together.
        shown: how a key is written in the file.
        about: the words before the name of a rule.
        check: refuses values that say too little for the rules.
        unknown: as in `tell_rest`.
    """
    values, origins = reading.values, dict[str, str]()
    for name, key, value in plain_values(form, reading, shown):
        values[name] = value
        origins[name] = shown(key) if key in reading.taken else f"what the format takes without {shown(key)}"
    check(values)
    for name, rule in rules.items():
        of_rule = {quantity: value for quantity, value in rule.read(reading).items() if value is not None}
        values |= of_rule
        origins |= dict.fromkeys(of_rule, f"{about} {name}")
    reading.refuse_wrong(origins)
    tell_rest(form, reading, unknown)
    reading.report.used += [ReportLine(shown(key), into) for key, into in reading.taken.items()]
    return origins


def as_json(out: Outgoing, title: str) -> str:
    """Fields as JSON. JSON has no comments: reasons and what is lost stand under keys that no framework reads."""
    notes = {"_comment": title, "_cannot_be_expressed": [str(line) for line in out.lost], "_reasons": out.why}
    return json.dumps({**notes, **nested(out.fields)}, indent=1) + "\n"


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
