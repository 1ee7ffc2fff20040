"""What `amped calibrate --anchor` does: one measured layer becomes rows, and what they changed is printed."""

from __future__ import annotations

from pathlib import Path

from amped.base.commands import typed
from amped.cli import options
from amped.tables.table_files import HERE, LookupTables, table_paths

NAME = "anchored.json"


def fit_to_anchor(file: Path, path: Path | None, as_json: bool, lookup_tables: LookupTables) -> None:
    """Fits to one measured layer, prints the coefficients, and writes the rows."""
    from amped.calibration.anchor import anchored, as_file, label, read_anchor

    content = read_anchor(file)
    layer = anchored(content, lookup_tables)
    if as_json:
        options.show_json({"anchored_on": label(content), "rows": layer.rows, "fitted": layer.values, "before": layer.before,
                           "seconds": layer.parts, "at_limit": layer.held})  # fmt: skip
    else:
        from amped.report.calibrating import anchor

        options.show(anchor(layer, label(content)))
    if path is not None:
        options.write_file(path, as_file(layer))
        given = table_paths(lookup_tables)
        tables = options.table_words(given if path.parent == HERE else (*given, path))
        rows = ("--accelerator", content["accelerator"], "--software", layer.rows["software_specifications"])
        options.tell(f"add it to a question: {typed(*tables, *rows)}")
