"""What cells of lookup tables may be: `amped/schema/lookup_tables.schema.json`, and what to say of those that are not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache, reduce
from operator import getitem
from typing import Any

from amped.base.errors import Problem, quoted
from amped.base.files import shipped_json


@lru_cache(maxsize=1)
def definitions() -> Mapping[str, Any]:
    """The kinds of cells, the columns of every row, and those of each table."""
    found: Mapping[str, Any] = shipped_json("schema", "lookup_tables.schema.json")["$defs"]
    return found


def columns(table: str) -> dict[str, Any]:
    """The columns of a table that are no parameters, each with its kind."""
    defined = definitions()
    named = defined["row"]["properties"] | defined.get(table, {}).get("properties", {})
    return {name: defined[kind["$ref"].rpartition("/")[2]] for name, kind in named.items()}


def cell_of(table: str, *place: object) -> str:
    """Where a row or a cell of a table stands, for messages."""
    return ", ".join([table, *(f"{what} '{name}'" for what, name in zip(("row", "column"), place, strict=False))])


def row_problems(table: str, rows: Any, kinds: Mapping[str, Any]) -> Iterator[Problem]:
    """What of a table is no row, and cells that are not of the kind of their column."""
    from jsonschema import Draft202012Validator

    schema = definitions()["rows"] | {"additionalProperties": definitions()["row"] | {"properties": kinds}}
    places = dict.fromkeys(tuple(error.absolute_path)[:2] for error in Draft202012Validator(schema).iter_errors(rows))
    for place in places:
        kind = kinds[place[1]] if place[1:] else definitions()["row" if place else "rows"]
        found = reduce(getitem, place, rows)
        yield Problem(f"{quoted(found)} is not {kind['title']}", cell_of(table, *place), kind.get("description", ""))
