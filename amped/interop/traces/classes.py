"""What a kernel or an operator is by its name; the classes and the patterns of names are in `classes.json` beside this file.

The first pattern that is found in a name gives its class. A name that none fits is `UNASSIGNED`: its time is told.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from amped.base.files import shipped_json
from amped.base.record import dataclass

TABLE = "classes.json"
UNASSIGNED, BOOKKEEPING = "unassigned", "bookkeeping"
# The groups of classes of which an accelerator computes; beside these, it sends or copies.
MESSAGES = ("messages", "stage messages")
COPIES = "copies"


@dataclass(frozen=True)
class Class:
    """A class of kernels.

    Attributes:
        name: its name.
        group: what an estimate compares it with.
        said: what it is, in words.
        holds: whether all that its operators call is of this class, such as the products inside attention.
    """

    name: str
    group: str
    said: str
    holds: bool = False

    @property
    def sends(self) -> bool:
        """Whether it sends messages."""
        return self.group in MESSAGES

    @property
    def computes(self) -> bool:
        """Whether kernels of it compute."""
        return not self.sends and self.group != COPIES


@cache
def _table() -> dict[str, list[dict[str, Any]]]:
    """The rows of the table."""
    table: dict[str, list[dict[str, Any]]] = shipped_json("interop.traces", TABLE)
    return table


@cache
def classes() -> tuple[Class, ...]:
    """All classes. Where kernels of several run at one time, the first of them counts."""
    return tuple(Class(**row) for row in _table()["classes"])


@cache
def _patterns() -> tuple[tuple[re.Pattern[str], int], ...]:
    """The patterns of names, each with the place of its class in `classes`."""
    places = {each.name: place for place, each in enumerate(classes())}
    return tuple((re.compile(row["pattern"], re.IGNORECASE), places[row["class"]]) for row in _table()["names"])


@cache
def unassigned() -> int:
    """The place of the class of names that no pattern fits."""
    return next(place for place, each in enumerate(classes()) if each.name == UNASSIGNED)


@cache
def class_of(name: str) -> int:
    """The place of the class of a name in `classes`."""
    return next((place for pattern, place in _patterns() if pattern.search(name)), unassigned())
