"""What the names in traces mean that are no kernels: steps, waits, passes; rows of `marks.json` beside this file."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any

from amped.base.files import shipped_json

TABLE = "marks.json"
STEP, END = "step", "end"


@cache
def _table() -> dict[str, Any]:
    """The rows of the table."""
    table: dict[str, Any] = shipped_json("interop.traces", TABLE)
    return table


@cache
def marks(mark: str) -> Callable[[str], bool]:
    """A function that tells whether a name has a mark: backward, optimizer, loading and so on."""
    pattern = re.compile(_table()[mark]["pattern"])
    return cache(lambda name: pattern.search(name) is not None)


@cache
def categories(kind: str) -> frozenset[str]:
    """The categories of events of a kind: device, launch, operator or range."""
    return frozenset(_table()[kind]["categories"])


@cache
def step_marks() -> tuple[tuple[re.Pattern[str], str], ...]:
    """The patterns of what marks a step, the surest first, each with what it is: the step itself or its end."""
    return tuple((re.compile(row["pattern"]), row["is"]) for row in _table()["steps"])
