"""What anchors an estimate: a measured layer, or the measured steps of runs; each becomes rows of lookup tables."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from tempfile import gettempdir
from types import MappingProxyType
from typing import Any, NamedTuple

from amped.base.errors import FileError
from amped.base.files import write_atomically
from amped.calibration import anchor, step_anchor
from amped.calibration.written import as_text
from amped.tables.table_files import LookupTables, table_paths
from amped.validation.logged import read_runs
from amped.validation.measurements import measurements

JSON = ".json"
# What a file anchors.
Anchor = anchor.Anchored | step_anchor.StepAnchor


def rows_of(read: Anchor) -> dict[str, Any]:
    """The rows of lookup tables of an anchor, by table and row."""
    return step_anchor.rows_of(read) if isinstance(read, step_anchor.StepAnchor) else anchor.rows_of(read)


def read_anchor(
    path: Path, asked: Mapping[str, object] = MappingProxyType({}), lookup_tables: LookupTables = None
) -> Anchor:
    """What a file anchors: a layer of `amped bench anchor`, a table of runs, or the log of a run.

    Args:
        path: the file.
        asked: values and rows of the question; the run of a log has those that the log does not say.
        lookup_tables: the user's own tables.

    Raises:
        AmpedError: if the file is none of these, or if its runs cannot be estimated.
    """
    if path.suffix.lower() == JSON:
        return anchor.anchored(anchor.read_anchor(path), lookup_tables)
    rows = read_runs(path, asked)
    return step_anchor.anchored_to_steps(measurements(rows, lookup_tables), path.name, lookup_tables)


class OverTables(NamedTuple):
    """The rows of an anchor as a file, over the user's own tables.

    Attributes:
        tables: the user's own tables, and the file.
        made: the file.
        said: what was measured, and the rows that it moves, in words; and a warning, if there is one.
    """

    tables: tuple[Path, ...]
    made: Path
    said: tuple[str, ...]


def over_tables(path: Path, asked: Mapping[str, object], lookup_tables: LookupTables) -> OverTables:
    """The user's own tables, and over them the rows of an anchor, in a small temporary file.

    Its name depends on its content alone: workers of other machines write the same one, and a search that is continued finds the
    same tables.

    Args:
        path: the file of the anchor.
        asked: values and rows of the question.
        lookup_tables: the user's own tables.

    Raises:
        AmpedError: if the file anchors nothing; FileError: if something else is in the place of the temporary file.
    """
    read = read_anchor(path, asked, lookup_tables)
    rows = rows_of(read)
    warned = step_anchor.warning(read) if isinstance(read, step_anchor.StepAnchor) else ""
    text = as_text(rows)
    made = Path(gettempdir()) / f"amped-anchor-{sha256(text.encode()).hexdigest()[:16]}.json"
    if not made.exists():
        made = write_atomically(made, text)
    elif made.read_text("utf-8") != text:
        raise FileError("is not the file that amped wrote there", "remove it", str(made))
    return OverTables((*table_paths(lookup_tables), made), made, tuple(filter(None, (_said(rows), warned))))


def _said(rows: Mapping[str, Any]) -> str:
    """What was measured, and the rows that it moves, in words."""
    anchored = {
        name: row["anchored_on"] for of_table in rows.values() for name, row in of_table.items() if "anchored_on" in row
    }
    measured = "; ".join(dict.fromkeys(anchored.values()))
    return f"anchored on {measured}; it moves the rows {' and '.join(anchored)}, and no other"
