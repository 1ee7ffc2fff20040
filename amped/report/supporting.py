"""What amped has of a configuration, as a screen: what is not modeled first, then the evidence for each aspect."""

from __future__ import annotations

from collections.abc import Iterator

from amped.estimation.grade import FAR, LAW, MEASURED, NEAR
from amped.report.tables import Part, drawn, table
from amped.validation.support import Support

HEADS = ("what it uses", "value", "evidence", "runs near", "runs")
STYLES = {LAW: "yellow", FAR: "", NEAR: "green", MEASURED: "bold green"}


@drawn
def support_screen(title: str, support: Support) -> Iterator[Part]:
    """The screen of `amped support`: parts that are not modeled, the evidence for each aspect, and unused settings."""
    yield title, "bold"
    yield from ((notice, "yellow") for notice in support.notices)
    if support.not_modeled:
        yield f"NOT MODELED ({len(support.not_modeled)}): the estimate leaves it out", "bold red"
        yield from ((f"  {line}", "red") for line in support.not_modeled)
    else:
        yield "Everything in it is modeled."
    same = f"; measured as it is: {', '.join(support.same)}" if support.same else ""
    yield f"{support.near} of {support.runs} validated runs are on the same generation of accelerators{same}"
    rows = (
        (aspect.title, f"{aspect.value:g}" if isinstance(aspect.value, float) else str(aspect.value),
         (aspect.grade, STYLES[aspect.grade]), str(aspect.near), str(aspect.runs))
        for aspect in support.aspects
    )  # fmt: skip
    yield table(HEADS, rows, HEADS[:3], HEADS)
    if support.ignored:
        yield f"Without effect ({len(support.ignored)}):"
        yield from ((f"  {line}", "dim") for line in support.ignored)
