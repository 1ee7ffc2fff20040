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
from amped.interop.rest import report_unread_keys

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
        FileError: with the line, for text that is not valid TOML, a key of too many parts, or a value nested too deep.
    """
    if match := LONG_KEY.search(text):
        line = text.count("\n", 0, match.start()) + 1
        raise FileError(Problem("a key has more than 100 parts", f"line {line}"))
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise FileError(Problem(f"a value is nested deeper than {DEEPEST} levels", "line 1")) from None
    except tomllib.TOMLDecodeError as error:
        raise FileError(Problem(f"is not valid TOML: {error}", "line 1" if "line" not in str(error) else "")) from None


def parse_yaml(text: str) -> Any:
    """The value of a YAML file. Tags are refused, because they would make objects.

    Raises:
        FileError: with the line, for text that is not plain YAML, or aliases that make the file larger than any config is.
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
    """The number of values in a node of YAML with every alias written out.

    Args:
        node: a node as PyYAML composes it; an alias is the same node once more.
        sizes: the sizes of the nodes so far, by identity.

    Raises:
        FileError: with the line, for more values than any config has, as in a node that contains itself.
    """
    if isinstance(node.value, str):
        return 1
    if id(node) not in sizes:
        sizes[id(node)] = MOST_NODES  # while its values are counted, so that a node inside itself is refused
        values_of_node = chain.from_iterable(node.value) if node.id == "mapping" else node.value
        sizes[id(node)] = 1 + sum(_size_written_out(value, sizes) for value in values_of_node)
    if sizes[id(node)] > MOST_NODES:
        what = f"has more than {MOST_NODES:,} values when its aliases are written out"
        raise FileError(Problem(what, f"line {node.start_mark.line + 1}"))
    return sizes[id(node)]


def flat(nested: Any) -> dict[str, Any]:
    """Nested sections as one mapping with dotted keys, such as "training.seq_len"; lists stay values.

    Raises:
        FileError: for a value that is no mapping, for too many keys, or a value nested too deep.
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


def _leaves(nested: Mapping[Any, Any], prefix: str, depth: int) -> Iterator[tuple[str, Any]]:
    """The values of nested sections, each with its dotted key; an empty section is a value.

    Args:
        nested: the sections.
        prefix: the names of the outer sections, each with its dot.
        depth: the number of outer sections; sections below 20 others are values.
    """
    for name, value in nested.items():
        if isinstance(value, Mapping) and value and depth < 20:
            yield from _leaves(value, f"{prefix}{name}.", depth + 1)
        else:
            yield f"{prefix}{name}", value


def _is_deeper(value: Any, levels: int) -> bool:
    """Whether the lists and sections of a value are nested deeper than a number of levels."""
    inner_values = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return levels < 0 or any(_is_deeper(part, levels - 1) for part in inner_values)


def nested(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Dotted keys as nested sections; the inverse of `flat`."""
    root: dict[str, Any] = {}
    for place, value in fields.items():
        *sections, name = place.split(".")
        section_values = root
        for section in sections:
            section_values = section_values.setdefault(section, {})
        section_values[name] = value
    return root


def read_sections(
    form: str, reading: Reading, file: str, rules: Mapping[str, Rule], software: str | None = None
) -> Imported:
    """The training, and the network if the file has one, that dotted keys describe.

    Args:
        form: the format.
        reading: the keys of the file.
        file: the path of the file.
        rules: the rules of the format by name.
        software: the row of software that the file is for; None if the format names none.
    """
    origins, values, defaulted = read_keys(form, reading, rules), reading.values, [NO_SIZES]
    if "layers" in values:
        network = table(form).get("network", {"facts": {}})
        values = network["facts"] | values
        origins = dict.fromkeys(network["facts"], f"the networks of {form}") | origins
        defaulted = [ReportLine(*line) for line in network.get("defaulted", ())]
    reading.report.defaulted += defaulted
    return Imported(
        source=form, file=file, name=file, values=values, origins=origins, report=reading.report, software=software
    )  # fmt: skip


def read_keys(
    form: str,
    reading: Reading,
    rules: Mapping[str, Rule],
    *,
    key_in_file: Callable[[str], str] = str,
    about: str = "keys about",
    check: Callable[[Mapping[str, Any]], None] = lambda _: None,
    unknown: str | None = None,
    tables: str | None = None,
) -> dict[str, str]:
    """Reads all values of a file into `reading.values`, and reports every key. Returns the origin of each value by quantity.

    Args:
        form: the format.
        reading: the keys of the file; it gets the values and the report.
        rules: the rules that read several keys together, by name.
        key_in_file: how a key is written in the file.
        about: the words before the name of a rule, in the origin of its values.
        check: refuses values that are too few for the rules.
        unknown: as in `report_unread_keys`.
        tables: the table with the patterns of other keys; None: that of the format.
    """
    values, origins = reading.values, dict[str, str]()
    for name, key, value in plain_values(form, reading, key_in_file):
        values[name] = value
        origins[name] = (
            key_in_file(key) if key in reading.taken else f"what the format takes without {key_in_file(key)}"
        )
    check(values)
    for name, rule in rules.items():
        rule_values = {quantity: value for quantity, value in rule.read(reading).items() if value is not None}
        values |= rule_values
        origins |= dict.fromkeys(rule_values, f"{about} {name}")
    reading.refuse_wrong(origins)
    report_unread_keys(tables or form, reading, unknown, key_in_file if tables else str)
    reading.report.used += [ReportLine(key_in_file(key), quantities) for key, quantities in reading.taken.items()]
    return origins


def as_json(out: Outgoing, title: str) -> str:
    """The text of a JSON file. JSON has no comments: reasons and what is lost stand under keys that no framework reads."""
    notes = {"_comment": title, "_cannot_be_expressed": [str(line) for line in out.lost], "_reasons": out.why}
    return json.dumps({**notes, **nested(out.fields)}, indent=1) + "\n"


def as_yaml(out: Outgoing, head: list[str]) -> str:
    """The text of a YAML file: the lines of the head, then the fields in sections, each with its reason as a comment."""
    return "\n".join([*head, *_yaml_lines(nested(out.fields), out, "", 0), ""])


def _yaml_lines(sections: Mapping[str, Any], out: Outgoing, prefix: str, depth: int) -> Iterator[str]:
    """The lines of nested sections.

    Args:
        sections: names with values or inner sections.
        out: the configuration, with the reasons.
        prefix: the names of the outer sections, each with its dot.
        depth: the number of outer sections.
    """
    for name, value in sections.items():
        if isinstance(value, dict):
            yield f"{'  ' * depth}{name}:"
            yield from _yaml_lines(value, out, f"{prefix}{name}.", depth + 1)
        else:
            yield f"{'  ' * depth}{name}: {scalar(value)}".ljust(WIDTH) + f"  # {out.why[prefix + name]}"


def scalar(value: Any) -> str:
    """A value, or a list of values, as YAML and TOML write it; text is in double quotes."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return "[" + ", ".join(map(scalar, value)) + "]"
    return str(value) if isinstance(value, int | float) else f'"{value}"'
