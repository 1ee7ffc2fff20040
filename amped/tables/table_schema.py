"""The kinds of cells in lookup tables (`amped/schema/lookup_tables.schema.json`), and messages for wrong cells."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache, reduce
from operator import getitem
from typing import Any

from amped.base.errors import Problem, quoted
from amped.base.files import shipped_json


@lru_cache(maxsize=1)
def definitions() -> Mapping[str, Any]:
    """The kinds of cells, the columns that every row may have, and the columns of each table."""
    kinds: Mapping[str, Any] = shipped_json("schema", "lookup_tables.schema.json")["$defs"]
    return kinds


def columns(table: str) -> dict[str, Any]:
    """The columns of a table that are not parameters, each with its kind."""
    defined = definitions()
    named = defined["row"]["properties"] | defined.get(table, {}).get("properties", {})
    return {name: defined[kind["$ref"].rpartition("/")[2]] for name, kind in named.items()}


def cell_of(table: str, *place: object) -> str:
    """The place of a row or a cell in a table, in words for a message."""
    return ", ".join([table, *(f"{what} '{name}'" for what, name in zip(("row", "column"), place, strict=False))])


def row_problems(table: str, rows: Any, kinds: Mapping[str, Any]) -> Iterator[Problem]:
    """A problem for each row that is not a row, and for each cell that is not of the kind of its column."""
    from jsonschema import Draft202012Validator

    schema = definitions()["rows"] | {"additionalProperties": definitions()["row"] | {"properties": kinds}}
    places = dict.fromkeys(tuple(error.absolute_path)[:2] for error in Draft202012Validator(schema).iter_errors(rows))
    for place in places:
        kind = kinds[place[1]] if place[1:] else definitions()["row" if place else "rows"]
        yield Problem(
            f"{quoted(reduce(getitem, place, rows))} is not {kind['title']}",
            cell_of(table, *place),
            kind.get("description", ""),
        )
