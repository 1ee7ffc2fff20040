"""What amped has of a configuration, as a screen: what is not modeled first, then the evidence for each aspect."""

from __future__ import annotations

from collections.abc import Iterator

from amped.estimation.grade import FAR, LAW, MEASURED, NEAR
from amped.report.tables import Part, drawn, table
from amped.validation.support import Support

HEADS = ("what it uses", "value", "evidence", "runs near", "runs")
STYLES = {LAW: "yellow", FAR: "", NEAR: "green", MEASURED: "bold green"}


@drawn
def support_screen(title: str, found: Support) -> Iterator[Part]:
    """The screen of `amped support`."""
    yield title, "bold"
    if found.not_modeled:
        yield f"NOT MODELED ({len(found.not_modeled)}): the estimate leaves it out", "bold red"
        yield from ((f"  {line}", "red") for line in found.not_modeled)
    else:
        yield "Everything in it is modeled."
    same = f"; measured as it is: {', '.join(found.same)}" if found.same else ""
    yield f"{found.near} of {found.runs} validated runs are on the same generation of accelerators{same}"
    rows = (
        (each.title, f"{each.value:g}" if isinstance(each.value, float) else str(each.value),
         (each.grade, STYLES[each.grade]), str(each.near), str(each.runs))
        for each in found.aspects
    )  # fmt: skip
    yield table(HEADS, rows, HEADS[:3], HEADS)
    if found.ignored:
        yield f"Without effect ({len(found.ignored)}):"
        yield from ((f"  {line}", "dim") for line in found.ignored)
