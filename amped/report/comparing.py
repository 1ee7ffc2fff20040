"""Two configurations side by side, as a table."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from amped.comparison import Difference, inputs_that_differ, results
from amped.estimation import Estimation
from amped.report import human

ORDER = ("experiment", "model", "mapping", "system", "accelerator", "formulas")


def comparison(one: Estimation, other: Estimation) -> RenderableType:
    """What differs in input, by kind, and every result with its ratio."""
    changed = inputs_that_differ(one, other)
    parts: list[RenderableType] = [Text(f"A  {_title(one)}", style="bold"), Text(f"B  {_title(other)}", style="bold")]
    if any(d.kind == "experiment" for d in changed):
        names = ", ".join(d.name for d in changed if d.kind == "experiment")
        parts.append(Text(f"Not the same experiment: {names} differ, not only the way to run it.", style="bold yellow"))
    parts += [Text(""), _inputs(changed) if changed else Text("The inputs are the same."), Text("")]
    return Group(*parts, _results(results(one, other)))


def _title(e: Estimation) -> str:
    return e.scenario.description or e.scenario.label


def _inputs(changed: list[Difference]) -> Table:
    table = _table("input", "kind", "A", "B")
    for difference in sorted(changed, key=lambda d: ORDER.index(d.kind)):
        table.add_row(difference.name, difference.kind, _shown(difference, 0), _shown(difference, 1))
    return table


def _results(found: list[Difference]) -> Table:
    table = _table("result", "A", "B", "B / A")
    for difference in found:
        if difference.one or difference.other:
            ratio = difference.ratio
            times = "" if ratio is None or difference.unit == "boolean" else f"{ratio:.3g}"
            table.add_row(difference.name, _shown(difference, 0), _shown(difference, 1), times)
    return table


def _table(*heads: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for head in heads:
        table.add_column(head, justify="left" if head in ("input", "result", "kind") else "right", overflow="fold")
    return table


def _shown(difference: Difference, side: int) -> str:
    value = (difference.one, difference.other)[side]
    if value is None:
        return "-"
    return value if isinstance(value, str) else human.value(value, difference.unit)
