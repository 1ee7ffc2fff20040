"""What `amped calibrate --anchor` does: a measured layer, or measured steps, become rows, and what they changed is printed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from amped.base.commands import typed
from amped.cli import options
from amped.tables.table_files import HERE, LookupTables, table_paths

if TYPE_CHECKING:
    from amped.calibration.anchor import Anchored

NAME = "anchored.json"


def fit_to_anchor(file: Path, path: Path | None, as_json: bool, lookup_tables: LookupTables) -> None:
    """Fits to what a file anchors, prints the numbers, and writes the rows."""
    from amped.calibration.anchors import read_anchor, rows_of
    from amped.calibration.step_anchor import StepAnchor
    from amped.calibration.written import as_text
    from amped.report import anchoring

    found = read_anchor(file, lookup_tables=lookup_tables)
    if as_json:
        options.show_json(anchoring.as_data(found) if isinstance(found, StepAnchor) else _layer_as_data(found))
    else:
        from amped.report.calibrating import anchor

        options.show(anchoring.step_anchor(found) if isinstance(found, StepAnchor) else anchor(found))
    if path is not None:
        options.write_file(path, as_text(rows_of(found)))
        given = table_paths(lookup_tables)
        tables = options.table_words(given if path.parent == HERE else (*given, path))
        options.tell(
            f"add it to a question: {typed(*tables, *([] if isinstance(found, StepAnchor) else _rows(found)))}"
        )


def _layer_as_data(layer: Anchored) -> dict[str, object]:
    """A measured layer as plain data."""
    from amped.calibration.anchor import label

    return {"anchored_on": label(layer.content), "rows": layer.rows, "fitted": layer.values, "before": layer.before,
            "seconds": layer.parts, "at_limit": layer.held}  # fmt: skip


def _rows(layer: Anchored) -> list[str]:
    """The words that name the rows that a layer anchors."""
    return ["--accelerator", layer.content["accelerator"], "--software", layer.rows["software_specifications"]]
