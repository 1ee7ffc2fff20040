"""Where a formula is written: its file and its line."""

from __future__ import annotations

import inspect
import linecache
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).resolve().parents[2]
DEFINITION = re.compile(r"\s*def \w")


def place_of(function: Callable[..., Any]) -> str:
    """File and line of a formula, from the package on: `theory/layer/waits.py:44`; a user's file has its whole path.

    For a row of a table it is the line of its key, and for a member of a family that of the formula written for all.
    """
    path, line = _in_its_table(function) or _in_its_file(inspect.unwrap(function))
    return f"{path.relative_to(PACKAGE).as_posix() if path.is_relative_to(PACKAGE) else path}:{line}"


def _in_its_table(function: Any) -> tuple[Path, int] | None:
    """The table of a row and the line of its key; None for a function that is written as code."""
    path, key = getattr(function, "__amped_row__", (None, ""))
    if path is None:
        return None
    return path, _first(path.read_text("utf-8").splitlines(), lambda line: line.lstrip().startswith(f'"{key}":'))


def _in_its_file(function: Any) -> tuple[Path, int]:
    """The file of a function and the line of its `def`, which stands below its marks."""
    code = function.__code__
    path, before = Path(code.co_filename), code.co_firstlineno - 1
    return path, before + _first(linecache.getlines(code.co_filename)[before:], DEFINITION.match)


def _first(lines: Iterable[str], is_it: Callable[[str], object]) -> int:
    """The number of the first line for which something is true, from 1 on; 1 if there is none."""
    return next((number for number, line in enumerate(lines, 1) if is_it(line)), 1)
