"""What became of every key of an imported file, as text: what amped cannot express comes first."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text

from amped.base.printable import printable
from amped.interop.records import Imported

TITLES = {
    "unsupported": "amped cannot express",
    "used": "used",
    "defaulted": "not said in the file, and taken",
    "ignored": "without effect on time and memory",
}


def import_report(found: Imported) -> Text:
    """The report of an import, a line for each key or group of keys."""
    return Text("\n").join([Text(printable(f"{found.name} ({found.source})"), style="bold"), *_lines(found)])


def _lines(found: Imported) -> Iterator[Text]:
    for name, lines in found.report.groups():
        if lines:
            loud = name == "unsupported"
            yield Text(f"{TITLES[name]}:", style="bold red" if loud else "bold")
            yield from (Text(f"  {line}", style="red" if loud else "") for line in lines)
