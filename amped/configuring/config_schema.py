"""The JSON Schema of a config (Draft 2020-12): its structure by hand, its names, units and choices from the catalogue.

`amped schema` prints it. The file `amped/schema/config.schema.json` holds what it prints, and a test compares both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from amped.base.aliases import aliases
from amped.base.errors import Problem, did_you_mean, quoted
from amped.configuring.lengths import LENGTHS, PACKING, WAYS
from amped.configuring.not_modeled import KEY, SHARES, SIZES, TOUCHED
from amped.configuring.values import TEXTS
from amped.tables.grids import GRID
from amped.tables.prices import CLOUD, REGION, TERM, TERMS
from amped.tables.table_files import KERNELS
from amped.theory.language.catalogue import Catalogue, Quantity
from amped.theory.language.quantity import CATEGORIES

VERSION = 1
_TEXT = {"type": "string"}
_PARAMETER_KEYS = {
    "value": {"description": "A number in the canonical unit, text with a unit such as \"8 GB\", a choice, or a list to sweep."},
    "calculated": {"type": "boolean", "description": "Calculate it with the formula of its name."},
    "from_lookup_table": {"type": "boolean", "description": "Take it from the category's table row."},
    "lookup_name": {**_TEXT, "description": "The column to take, if it is not the parameter's own name."},
    "description": _TEXT,
}  # fmt: skip

_INSIDE = (
    '; parameters stand inside them: {"mapping_parameters": {"parameters": {"tensor_parallel_degree": {"value": 8}}}}'
)
# The kinds of JSON values: what Python reads them as, and what a message calls them.
_KINDS: Mapping[str, tuple[Any, str]] = {
    "object": (Mapping, "an object"), "array": (list, "a list"), "string": (str, "text"), "boolean": (bool, "true or false"),
}  # fmt: skip
# `amped.configuring.lengths` reads the text, and says what is wrong with it or with a line of the file.
_DOCUMENTS = {
    LENGTHS: _TEXT | {"description": "Lengths of documents: a file with a length on each line, or a text as \"mean 500, p95 1500\"."},
    PACKING: _TEXT | {"description": f"How documents fill sequences: {', '.join(WAYS)}."},
}  # fmt: skip
# `amped.tables.prices` reads them.
_MARKET = {
    CLOUD: _TEXT | {"description": "Who rents the accelerators: a provider in the list of prices."},
    REGION: _TEXT | {"description": "The provider's region; without it, all regions."},
    TERM: _TEXT | {"description": f"How they are rented: {', '.join(TERMS)}."},
    GRID: _TEXT
    | {"description": "Whose electricity: a region or a zone in the list of grids; without it, that of the region."},
}
# `amped.configuring.not_modeled` checks the entries, and says what is wrong with one.
_NOT_MODELED = {
    "type": "array", "minItems": 0, "items": {"type": "object"},
    "description": "What amped does not model of this network or training, as `amped import` wrote it; estimates make bounds of it.",
}  # fmt: skip


def structure() -> dict[str, Any]:
    """The shape of a config, without the names of parameters."""
    rows = {"anyOf": [_TEXT, {"type": "array", "items": _TEXT, "minItems": 1}]}
    lookup = _object({"lookup_table_name": _TEXT, "lookup_table_row": rows})
    parameters = {"type": "object", "additionalProperties": _object(_PARAMETER_KEYS)}
    category = _object({"description": _TEXT, "lookup_config": lookup, "parameters": parameters})
    top = {
        "$schema": _TEXT,
        "description": _TEXT,
        "performance_model": _TEXT,
        KEY: _NOT_MODELED,
        **_DOCUMENTS,
        **_MARKET,
    }
    return _object(top | dict.fromkeys(CATEGORIES, category))


def config_schema(catalogue: Catalogue) -> dict[str, Any]:
    """The schema for editors: every name of the catalogue with its unit, meaning and choices."""
    built = structure()
    for category in CATEGORIES:
        names = {name: _parameter(q) for name, q in catalogue.items() if q.category == category}
        parameters = {"type": "object", "properties": names, "propertyNames": {"$ref": "#/$defs/name"},
                      "additionalProperties": {"$ref": "#/$defs/any"}}  # fmt: skip
        section = built["properties"][category]["properties"] | {"parameters": parameters}
        built["properties"][category] = _object(section)
    built["properties"][KEY] = _NOT_MODELED | {"items": _entry()}
    built["properties"]["performance_model"] = {"enum": list(catalogue["performance_model"].mark.choices)}
    kinds: dict[str, dict[str, Any]] = {
        "number": {"type": ["number", "string"]}, "boolean": {"enum": [True, False, 0, 1]}, "any": {},
        "share": {"type": ["number", "string", "boolean"]},
    }  # fmt: skip
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": f"urn:amped:config:{VERSION}",
            "title": "amped config"}  # fmt: skip
    names_of_all = {"name": {"enum": sorted({*catalogue.numbers, *aliases().names(), KERNELS})}}
    return (
        head
        | built
        | {"$defs": {k: _object(_PARAMETER_KEYS | {"value": _value(v)}) for k, v in kinds.items()} | names_of_all}
    )


def _entry() -> dict[str, Any]:
    """The schema of an entry of `not_modeled`."""
    size = {"type": "number", "minimum": 0}
    sizes = dict.fromkeys(SIZES, size) | {key: {"type": "object", "additionalProperties": size} for key in SHARES}
    return _object({"what": _TEXT, "touches": {"enum": ["", *TOUCHED]}, **sizes}) | {"required": ["what"]}


def structure_problems(config: object) -> list[Problem]:
    """The problems with the shape of a config, each with its JSON path."""
    return [*_problems(config, structure(), "")]


def _problems(value: Any, schema: Mapping[str, Any], path: str) -> Iterator[Problem]:
    """The problems with the shape of a value at a JSON path; the schema is a part of `structure`."""
    kind, noun = _KINDS.get(schema.get("type", ""), (object, ""))
    if "anyOf" in schema:
        if all(any(_problems(value, option, path)) for option in schema["anyOf"]):
            yield Problem(f"{quoted(value)} is not the name of a row, nor a list of names", path)
    elif not isinstance(value, kind):
        example = ', for example {"value": 8}' if ".parameters." in path and kind is Mapping else ""
        yield Problem(f"{quoted(value)} is not {noun}", path, f"expected {noun}{example}")
    elif kind is Mapping:
        keys = schema.get("properties", {})
        for name, inner in (keys or dict.fromkeys(value, schema.get("additionalProperties", {}))).items():
            if name in value:
                yield from _problems(value[name], inner, f"{path}.{name}" if path else name)
        yield from _unknown_keys(value, keys, path) if keys else ()
    elif kind is list:
        if len(value) < schema["minItems"]:
            yield Problem("the list is empty", path)
        for place, item in enumerate(value):
            yield from _problems(item, schema["items"], f"{path}.{place}")


def _object(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": dict(properties), "additionalProperties": False}


def _value(one: Mapping[str, Any]) -> dict[str, Any]:
    """The schema for a value, for a list of values (a sweep), or for null."""
    return {"anyOf": [one, {"type": "array", "items": one, "minItems": 1}, {"type": "null"}]} if one else {}


def _parameter(quantity: Quantity) -> dict[str, Any]:
    """The schema of a parameter of a config, with its description, unit and choices."""
    mark = quantity.mark
    if quantity.is_selector or mark.unit in TEXTS:
        text = {"enum": list(mark.choices)} if quantity.is_selector else _TEXT
        return {"description": quantity.summary} | _object(_PARAMETER_KEYS | {"value": _value(text)})
    kind = "boolean" if mark.unit == "boolean" else "share" if mark.or_boolean else "number"
    unit = "" if kind == "boolean" else f" Unit: {mark.bare or mark.unit}."
    return {"description": quantity.summary + unit, "$ref": f"#/$defs/{kind}"}


def _unknown_keys(given: Mapping[str, Any], keys: Mapping[str, Any], path: str) -> Iterator[Problem]:
    """A problem for each key that looks like a known one, and one problem for all others together."""
    hints = {key: did_you_mean(key, keys) for key in given if key not in keys}
    yield from (Problem(f"unknown key {quoted(key)}", path, hint) for key, hint in hints.items() if hint)
    others = [quoted(key) for key, hint in hints.items() if not hint]
    if others:
        more = f" and {len(others) - 3} more" if len(others) > 3 else ""
        what = f"unknown key{'s' * (len(others) > 1)} {', '.join(others[:3])}{more}"
        yield Problem(what, path, f"there are {', '.join(keys)}{'' if path else _INSIDE}")
