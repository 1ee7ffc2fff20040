"""What amped has of a configuration, as a screen: what is not modeled first, then the evidence for each aspect."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from amped.estimation.grade import FAR, LAW, MEASURED, NEAR
from amped.validation.support import Support

STYLES = {LAW: "yellow", FAR: "", NEAR: "green", MEASURED: "bold green"}


def support_screen(title: str, found: Support) -> RenderableType:
    """The screen of `amped support`."""
    return Group(Text(title, style="bold"), *_not_modeled(found), _evidence(found), _aspects(found), *_ignored(found))


def _not_modeled(found: Support) -> Iterator[Text]:
    if not found.not_modeled:
        yield Text("Everything in it is modeled.")
        return
    yield Text(f"NOT MODELED ({len(found.not_modeled)}): the estimate leaves it out", style="bold red")
    yield from (Text(f"  {line}", style="red") for line in found.not_modeled)


def _evidence(found: Support) -> Text:
    same = f"; measured as it is: {', '.join(found.same)}" if found.same else ""
    return Text(f"{found.near} of {found.runs} validated runs are on the same generation of accelerators{same}")


def _aspects(found: Support) -> Table:
    table = Table("what it uses", "value", "evidence", "runs near", "runs", box=None, pad_edge=False)
    for each in found.aspects:
        value = f"{each.value:g}" if isinstance(each.value, float) else str(each.value)
        table.add_row(each.title, value, Text(each.grade, style=STYLES[each.grade]), str(each.near), str(each.runs))
    return table


def _ignored(found: Support) -> Iterator[Text]:
    if found.ignored:
        yield Text(f"Without effect ({len(found.ignored)}):")
        yield from (Text(f"  {line}", style="dim") for line in found.ignored)
