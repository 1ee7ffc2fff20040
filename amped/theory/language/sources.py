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
    """The file and the line of a formula, as `theory/layer/waits.py:44`; for a user's formula, with the whole path.

    For a row of a table, the line is that of its key. For a member of a family, the line is that of the function
    written for the whole family.
    """
    path, line = _in_its_table(function) or _in_its_file(inspect.unwrap(function))
    return f"{path.relative_to(PACKAGE).as_posix() if path.is_relative_to(PACKAGE) else path}:{line}"


def _in_its_table(function: Any) -> tuple[Path, int] | None:
    """The table of a row and the line of its key; None if the function is written as code."""
    path, key = getattr(function, "__amped_row__", (None, ""))
    if path is None:
        return None
    return path, _first_line_number(
        path.read_text("utf-8").splitlines(), lambda line: line.lstrip().startswith(f'"{key}":')
    )


def _in_its_file(function: Any) -> tuple[Path, int]:
    """The file of a function and the line of its `def`, which stands below its marks."""
    code = function.__code__
    path, lines_before = Path(code.co_filename), code.co_firstlineno - 1
    return path, lines_before + _first_line_number(
        linecache.getlines(code.co_filename)[lines_before:], DEFINITION.match
    )


def _first_line_number(lines: Iterable[str], matches: Callable[[str], object]) -> int:
    """The number of the first line that matches, counted from 1; 1 if no line matches."""
    return next((number for number, line in enumerate(lines, 1) if matches(line)), 1)
