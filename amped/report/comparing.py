"""Two configurations side by side, as a table."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from amped.estimation.comparison import Difference, inputs_that_differ, results, step_parts
from amped.estimation.estimation import Estimation
from amped.report import human

ORDER = ("experiment", "model", "mapping", "system", "accelerator", "formulas")


def comparison(one: Estimation, other: Estimation) -> RenderableType:
    """What differs in input, by kind; the parts of a step, what changes most first; all other results with their ratio."""
    changed = inputs_that_differ(one, other)
    parts: list[RenderableType] = [Text(f"A  {_title(one)}", style="bold"), Text(f"B  {_title(other)}", style="bold")]
    if any(d.kind == "experiment" for d in changed):
        names = ", ".join(d.name for d in changed if d.kind == "experiment")
        parts.append(Text(f"Not the same experiment: {names} differ, not only the way to run it.", style="bold yellow"))
    parts += [Text(""), _inputs(changed) if changed else Text("The inputs are the same."), Text("")]
    steps = step_parts(one, other)
    parts += [Text(_pace(one["step_time"], other["step_time"]), style="bold"), Text(""), _steps(steps), Text("")]
    told = {d.name for d in steps}
    return Group(*parts, _results([d for d in results(one, other) if d.name not in told]))


def _pace(one: float, other: float) -> str:
    """How much faster or slower a step of the other is."""
    if one == other:
        return "A step takes as long in both."
    faster = other < one
    times = one / other if faster else other / one
    return f"A step of B is {times:.3g} times {'as fast' if faster else 'as long'} as one of A."


def _steps(parts: list[Difference]) -> Table:
    table = _table("part of a step", "A", "B", "B / A", "B - A")
    for part in parts:
        ratio = "" if part.ratio is None else f"{part.ratio:.3g}"
        change = f"{'-' if part.change < 0 else '+'}{human.value(abs(part.change), 's')}" if part.change else "0"
        table.add_row(part.name, _shown(part, 0), _shown(part, 1), ratio, change)
    return table


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
        table.add_column(
            head, justify="left" if head in ("input", "result", "kind", "part of a step") else "right", overflow="fold"
        )
    return table


def _shown(difference: Difference, side: int) -> str:
    value = (difference.one, difference.other)[side]
    if value is None:
        return "-"
    return value if isinstance(value, str) else human.value(value, difference.unit)
