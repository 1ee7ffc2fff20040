"""Parameters as data: the table `PAGE.json` beside a page of the book, read as marked functions.

    {"category": …, "source": …,
     "rows": {"memory_capacity": {"unit": "byte", "above": 0, "meaning": "The memory of one accelerator."}, …}}

A key above `rows` holds for each row that does not have this key itself. The key of a row is a name, or `name__variant`
for an alternative. A row has `unit`, `meaning`, `source` and `differs` (each text may be a list of lines). It may also
have:

- `default`: the value if nobody gives one: a number, or the name of another quantity. Without a default the value must
be given; - `value` instead of `default`: the row is then a quantity that no config lists. It is this number, or has the
value of this other quantity. Without a `unit` the row gives records; an empty list means none; - `choices`: the row is
a selector, and `default` is one of the choices; - `when`: {selector: choice} for which the alternative applies;
`when_given`, `even_with`, … as in `Mark`; - `family`: {WORD: [members]}: the row stands for several rows, in which a
member replaces the word; instead of the members may stand the name of a list in `parallelisms.py`; - `named`: the names
of these rows, written out so that a search of the text finds them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, reduce
from pathlib import Path
from types import ModuleType
from typing import Any

from amped.base.errors import WiringError
from amped.theory.language.quantity import Mark, marked
from amped.theory.nouns import parallelisms

DOCUMENT = ("meaning", "source", "differs")
NO_DETAILS = frozenset((*DOCUMENT, "default", "value", "when", "family", "named"))


@cache
def rows_of(page: ModuleType) -> tuple[Callable[..., Any], ...]:
    """The marked functions for the rows of the table beside a page; empty if there is no table."""
    path = Path(getattr(page, "__file__", None) or "formulas").with_suffix(".json")
    if not page.__name__.startswith("amped.theory.") or path.name not in _tables(str(path.parent)):
        return ()  # beside a user's formulas there may be a config with the name of the table
    table = json.loads(path.read_text("utf-8"))
    common = {key: value for key, value in table.items() if key != "rows"}
    return tuple(
        _function(page.__name__, name, row, (path, key))
        for key, own_columns in table["rows"].items()
        for name, row in _members(key, common | own_columns)
    )


@cache
def _tables(folder: str) -> frozenset[str]:
    """The names of the tables in a folder of pages."""
    return frozenset(name for name in os.listdir(folder) if name.endswith(".json"))  # noqa: PTH208


def _members(name: str, row: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The rows for which a row of a table stands, each with its name: the row itself, or all members of its family.

    Raises:
        WiringError: if `named` has a name that is not that of a member.
    """
    words = {word: _listed(members) for word, members in row.get("family", {}).items()}
    if not words:
        yield name, row
        return
    template = json.dumps([name, {key: value for key, value in row.items() if key != "named"}])
    texts = [
        reduce(lambda text, pair: text.replace(*pair), zip(words, values, strict=True), template)
        for values in zip(*words.values(), strict=True)
    ]
    members = [json.loads(text) for text in texts]
    member_names = [member for member, _ in members]
    if not set(row.get("named", ())) <= set(member_names):
        raise WiringError(f"the rows '{name}' name {row['named']}, but stand for {member_names}")
    yield from members


def _listed(members: list[str] | str) -> Sequence[str]:
    """The members of a family: a list, or the name of a list of parallelisms in `parallelisms.py`."""
    return getattr(parallelisms, members) if isinstance(members, str) else members


def _function(page: str, name: str, row: Mapping[str, Any], place: tuple[Path, str]) -> Any:
    """The marked function for a row of a table.

    Args:
        page: the name of the module beside the table.
        name: the name of the row.
        row: the columns of the row.
        place: the file of the table, and the key of the row in the table.
    """
    default: Any = row.get("value", row.get("default"))
    default = tuple(default) if isinstance(default, list) else default
    is_name = isinstance(default, str) and "choices" not in row
    function: Any = (lambda value: value) if is_name else (lambda: default)
    if is_name:
        function.__amped_arguments__ = (default,)
    function.__name__ = function.__qualname__ = name
    function.__module__, function.__doc__ = page, _document(row)
    body = "" if default is None else f"return {default if is_name else repr(default)}"
    function.__amped_body__, function.__amped_row__ = body, place
    kind = "quantity" if is_name or "value" in row else "parameter"
    kind = kind if {"unit", "choices"} & row.keys() else "records"
    return marked(_mark(row, kind))(function)


def _document(row: Mapping[str, Any]) -> str:
    """The docstring for a row of a table. A text may be a list of lines, which are joined."""
    texts = {key: " ".join(row[key]) if isinstance(row[key], list) else row[key] for key in DOCUMENT if key in row}
    differs = f"\n\nDiffers: {texts['differs']}" if "differs" in row else ""
    return f"{texts['meaning']}\n\nSource: {texts['source']}{differs}"


def _mark(row: Mapping[str, Any], kind: str) -> Mark:
    """The mark of the function for a row: the columns of the row that are attributes of `Mark`."""
    details: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in row.items() if key not in NO_DETAILS
    }
    if "choices" in details:
        details["unit"] = "choice"
    if "value" in row:
        details.pop("category", None)
    for selector, chosen in row.get("when", {}).items():
        details |= {"choice": selector, "value": chosen}
    return Mark(kind, **details)
