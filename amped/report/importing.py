"""What became of every key of an imported file, as text: what amped cannot express comes first."""

from __future__ import annotations

from collections.abc import Iterator

from amped.base.printable import printable
from amped.interop.records import Imported
from amped.report.tables import Part, drawn

TITLES = {
    "unsupported": "amped cannot express",
    "used": "used",
    "defaulted": "not said in the file, and taken",
    "ignored": "without effect on time and memory",
}


@drawn
def import_report(imported: Imported) -> Iterator[Part]:
    """The report of an import, a line for each key or group of keys."""
    yield printable(f"{imported.name} ({imported.source})"), "bold"
    for name, lines in imported.report.groups():
        if lines:
            is_unsupported = name == "unsupported"
            yield f"{TITLES[name]}:", "bold red" if is_unsupported else "bold"
            yield from ((f"  {line}", "red" if is_unsupported else "") for line in lines)
