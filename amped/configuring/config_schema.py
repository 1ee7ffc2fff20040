"""The JSON Schema of a config (Draft 2020-12): its structure by hand, its names, units and choices from the catalogue.

`amped schema` prints it. The file `amped/schema/config.schema.json` holds what it prints, and a test compares both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from amped.base.aliases import aliases
from amped.base.errors import Problem, did_you_mean, quoted
from amped.configuring.not_modeled import KEY, SHARES, SIZES, TOUCHED
from amped.configuring.values import TEXTS
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
    top = {"$schema": _TEXT, "description": _TEXT, "performance_model": _TEXT, KEY: _NOT_MODELED}
    return _object(top | dict.fromkeys(CATEGORIES, category))


def config_schema(known: Catalogue) -> dict[str, Any]:
    """The schema for editors: every name of the catalogue with its unit, meaning and choices."""
    built = structure()
    for category in CATEGORIES:
        names = {name: _parameter(q) for name, q in known.items() if q.category == category}
        parameters = {"type": "object", "properties": names, "propertyNames": {"$ref": "#/$defs/name"},
                      "additionalProperties": {"$ref": "#/$defs/any"}}  # fmt: skip
        section = built["properties"][category]["properties"] | {"parameters": parameters}
        built["properties"][category] = _object(section)
    built["properties"][KEY] = _NOT_MODELED | {"items": _entry()}
    built["properties"]["performance_model"] = {"enum": list(known["performance_model"].mark.choices)}
    number: dict[str, Any] = {"type": ["number", "string"]}
    kinds: dict[str, dict[str, Any]] = {"number": number, "boolean": {"enum": [True, False, 0, 1]}, "any": {},
                                        "share": {"type": ["number", "string", "boolean"]}}  # fmt: skip
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": f"urn:amped:config:{VERSION}",
            "title": "amped config"}  # fmt: skip
    names_of_all = {"name": {"enum": sorted({*known.numbers, *aliases().names(), KERNELS})}}
    return (
        head
        | built
        | {"$defs": {k: _object(_PARAMETER_KEYS | {"value": _value(v)}) for k, v in kinds.items()} | names_of_all}
    )


def _entry() -> dict[str, Any]:
    """The schema of a thing that is not modeled."""
    size = {"type": "number", "minimum": 0}
    sizes = dict.fromkeys(SIZES, size) | {key: {"type": "object", "additionalProperties": size} for key in SHARES}
    return _object({"what": _TEXT, "touches": {"enum": ["", *TOUCHED]}, **sizes}) | {"required": ["what"]}


def structure_problems(config: object) -> list[Problem]:
    """The problems with the shape of a config, each with its JSON path."""
    if _is_sound(config, structure()):
        return []
    return [problem for error in _validator().iter_errors(config) for problem in _told(error)]


def _is_sound(value: object, schema: Mapping[str, Any]) -> bool:
    """Whether a value has the shape of `structure`, so that the validator, which loads slowly, need not say more."""
    kind = schema.get("type")
    if "anyOf" in schema:
        return any(_is_sound(value, each) for each in schema["anyOf"])
    if kind == "object":
        own, other = schema.get("properties", {}), schema.get("additionalProperties", {})
        return isinstance(value, Mapping) and all(
            (name in own or other is not False) and _is_sound(each, own.get(name, other))
            for name, each in value.items()
        )
    if kind == "array":
        return (
            isinstance(value, list)
            and len(value) >= schema["minItems"]
            and all(_is_sound(v, schema["items"]) for v in value)
        )
    return isinstance(value, {"string": str, "boolean": bool, None: object}[kind])


def _object(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": dict(properties), "additionalProperties": False}


def _value(one: Mapping[str, Any]) -> dict[str, Any]:
    """The schema for a value, for a list of values (a sweep), or for null."""
    return {"anyOf": [one, {"type": "array", "items": one, "minItems": 1}, {"type": "null"}]} if one else {}


def _parameter(quantity: Quantity) -> dict[str, Any]:
    mark = quantity.mark
    if quantity.is_selector:
        keys = _PARAMETER_KEYS | {"value": _value({"enum": list(mark.choices)})}
        return {"description": quantity.summary} | _object(keys)
    if mark.unit in TEXTS:
        return {"description": quantity.summary} | _object(_PARAMETER_KEYS | {"value": _value({"type": "string"})})
    kind = "boolean" if mark.unit == "boolean" else "share" if mark.or_boolean else "number"
    unit = "" if kind == "boolean" else f" Unit: {mark.bare or mark.unit}."
    return {"description": quantity.summary + unit, "$ref": f"#/$defs/{kind}"}


@lru_cache(maxsize=1)
def _validator() -> Any:
    from jsonschema import Draft202012Validator

    return Draft202012Validator(structure())


def _unknown_keys(given: Mapping[str, Any], known: Mapping[str, Any], path: str) -> Iterator[Problem]:
    """A problem for each key that looks like a known one, and one problem for all others together."""
    hints = {key: did_you_mean(key, known) for key in given if key not in known}
    for key, hint in hints.items():
        if hint:
            yield Problem(f"unknown key {quoted(key)}", path, hint)
    others = [quoted(key) for key, hint in hints.items() if not hint]
    if others:
        more = f" and {len(others) - 3} more" if len(others) > 3 else ""
        where = (
            ""
            if path
            else '; parameters stand inside them: {"mapping_parameters": {"parameters": {"tensor_parallel_degree": {"value": 8}}}}'
        )
        keys = f"key{'s' * (len(others) > 1)} {', '.join(others[:3])}{more}"
        yield Problem(f"unknown {keys}", path, f"there are {', '.join(known)}{where}")


def _told(error: Any) -> Iterator[Problem]:
    """One complaint of the validator, in words that say what to do."""
    path = ".".join(str(part) for part in error.absolute_path)
    if error.validator == "additionalProperties":
        yield from _unknown_keys(error.instance, error.schema["properties"], path)
    elif path.endswith("lookup_table_row"):
        yield Problem(f"{quoted(error.instance)} is not the name of a row, nor a list of names", path)
    else:
        kind = {"object": "an object", "string": "text", "boolean": "true or false"}[error.schema["type"]]
        example = ', for example {"value": 8}' if ".parameters." in path and error.schema["type"] == "object" else ""
        yield Problem(f"{quoted(error.instance)} is not {kind}", path, f"expected {kind}{example}")
