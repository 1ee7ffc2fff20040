"""What anchors an estimate: a measured layer, or the measured steps of runs; each becomes rows of lookup tables."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from amped.calibration import anchor, step_anchor
from amped.tables.table_files import LookupTables
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
