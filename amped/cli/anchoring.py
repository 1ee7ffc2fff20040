"""`--anchor FILE`: what was measured, as rows of lookup tables over all others."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from amped.tables.table_files import LookupTables

# The files of rows that anchors became, each with the anchor's file.
_MADE: dict[Path, Path] = {}


def anchored_tables(
    anchor: Path, asked: Mapping[str, object], lookup_tables: LookupTables
) -> tuple[list[Path], tuple[str, ...]]:
    """The user's own tables, and over them the rows of an anchor; and notices: what was measured, and a warning.

    Args:
        anchor: the file of the anchor.
        asked: values and rows of the question.
        lookup_tables: the user's own tables.
    """
    from amped.calibration.anchors import over_tables

    found = over_tables(anchor, asked, lookup_tables)
    _MADE[found.made] = anchor
    return [*found.tables], found.said


def anchor_words(path: Path) -> tuple[str, ...]:
    """The words `--anchor FILE` that made a file of rows; none if no anchor made it."""
    return ("--anchor", str(_MADE[path])) if path in _MADE else ()
