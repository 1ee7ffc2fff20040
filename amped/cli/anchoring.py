"""`--anchor FILE`: what was measured, as rows of lookup tables over all others, for as long as amped runs."""

from __future__ import annotations

import atexit
import shutil
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from tempfile import gettempdir

from amped.base.files import write_atomically
from amped.tables.table_files import LookupTables, table_paths

# The files of rows that anchors became, each with the anchor's file.
_MADE: dict[Path, Path] = {}


def anchored_tables(anchor: Path, asked: Mapping[str, object], lookup_tables: LookupTables) -> list[Path]:
    """The user's own tables, and over them the rows of an anchor.

    The path of the rows depends on their content alone, so that a search that is continued finds the same tables.

    Args:
        anchor: the file of the anchor.
        asked: values and rows of the question.
        lookup_tables: the user's own tables.
    """
    from amped.calibration.anchors import read_anchor, rows_of
    from amped.calibration.written import as_text

    text = as_text(rows_of(read_anchor(anchor, asked, lookup_tables)))
    folder = Path(gettempdir()) / f"amped-anchor-{sha256(text.encode()).hexdigest()[:16]}"
    made = folder / "anchored.json"
    if not made.exists():
        folder.mkdir(exist_ok=True)
        write_atomically(made, text)
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    _MADE[made] = anchor
    return [*table_paths(lookup_tables), made]


def anchor_words(path: Path) -> tuple[str, ...]:
    """The words `--anchor FILE` that made a file of rows; none if no anchor made it."""
    return ("--anchor", str(_MADE[path])) if path in _MADE else ()
