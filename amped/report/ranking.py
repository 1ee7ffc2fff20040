"""The ranking of an exploration as a table."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from amped.exploration.answer import Exploration
from amped.exploration.results import Row
from amped.exploration.search_space import parts, wholes
from amped.report import human
from amped.theory.parallelisms import PLACED as PLACED_KINDS

# Columns that stand in the table under a short head, and so not again among what is swept.
SHORT = {"activation_recomputation": "recompute", "zero_stage": "ZeRO", "sequence_parallel": "seq. par.",
         "virtual_pipeline_stages": "chunks"}  # fmt: skip
PLACED = {*parts(), *wholes(), "microbatch_size", "batch_size"}
# What a page, a mail or a narrow terminal takes.
PAGE = 98
SHOWN = {"training_time", "step_time", "model_flops_utilization", "memory_per_accelerator_bytes"}


def ranking(found: Exploration) -> RenderableType:
    """The best mappings, one a line, how many candidates each rule removed, and what stood in the way."""
    head = [Text(_headline(found)), Text("")]
    if not found.best:
        return Group(*head, Text("No candidate keeps every rule.", style="bold red"))
    if not found.feasible:
        told = "No candidate fits and keeps every wish; these keep every rule and are the best of the others."
        head.append(Text(told, style="bold red"))
    pieces: list[RenderableType] = [*head, _table(found, found.best)]
    for group, rows in found.groups.items():
        pieces += [Text(f"\nbest of {group}"), _table(found, rows)]
    if found.front:
        pieces += [Text("\nPareto front", style="bold"), _table(found, found.front)]
    if found.nearest is not None:
        pieces.append(Text(f"\n{in_the_way(found, found.nearest)}"))
    if len({row["batch_size"] for row in found.best}) > 1:
        told = "Batches of different size are different experiments: amped does not know whether both learn as well."
        pieces.append(Text(f"\n{told}", style="yellow"))
    return Group(
        *pieces, Text(""), Text("degrees are inside the node x across nodes; micro is the micro-batch", style="dim")
    )


def in_the_way(found: Exploration, row: Row) -> str:
    """The best that is not feasible, and what it would need."""
    told = f"{_words(found.objective)} {human.value(row[found.objective], _unit(found.objective))}"
    mapping = ", ".join(f"{kind} {row[f'{kind}_parallel_degree']:g}" for kind in ("data", "tensor", "pipeline"))
    return f"Better, but not feasible: {told} ({mapping}, micro-batch {row['microbatch_size']:g}). {found.needs}"


def _table(found: Exploration, rows: list[Row]) -> RenderableType:
    swept = [name for name in found.swept if name not in PLACED and name not in SHOWN]
    alike = [name for name in swept if len(rows) > 1 and len({row.get(name) for row in rows}) == 1]
    own = [found.objective] if found.objective not in SHOWN else []
    degrees = [kind for kind in PLACED_KINDS if kind != "context" or _context(rows)]
    batch = ["batch"] if len({row["batch_size"] for row in rows}) > 1 else []
    cells = [
        [*_cells(row, degrees), f"{row['microbatch_size']:g}", *(f"{row['batch_size']:g}" for _ in batch)]
        for row in rows
    ]
    heads = ("training", "step", "MFU", "memory", *degrees, "micro", *batch)
    columns = [(head, [line[place] for line in cells]) for place, head in enumerate(heads)]
    told = [*own, *(name for name in swept if name not in alike)]
    columns += [(SHORT.get(name, _words(name)), [_told(found, row, name) for row in rows]) for name in told]
    tables: list[RenderableType] = list(_fitting(columns, len(rows)))
    if alike:
        same = ", ".join(f"{_words(name)} {_told(found, rows[0], name)}" for name in alike)
        tables.append(Text(f"all: {same}", style="dim"))
    return Group(*tables)


def _fitting(columns: list[tuple[str, list[str]]], rows: int) -> Iterable[Table]:
    """The columns as a table; what a page has no room for follows in further tables, each with the rank before it."""
    ranks = ("rank", [str(rank) for rank in range(1, rows + 1)])
    while columns:
        taken, room = [ranks], PAGE - 6
        while columns and (len(taken) == 1 or _width(columns[0]) < room):
            taken.append(columns.pop(0))
            room -= _width(taken[-1]) + 1
        table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0))
        for head, _ in taken:
            table.add_column(head, justify="right", overflow="fold")
        for line in zip(*(cells for _, cells in taken), strict=True):
            table.add_row(*line)
        yield table


def _width(column: tuple[str, list[str]]) -> int:
    """The room that a column needs: that of its widest cell, or of the longest word of its head."""
    return max(map(len, [*column[0].split(), *column[1]]))


def _told(found: Exploration, row: Row, name: str) -> str:
    """A value of a row; a dash where its formulas do not use the name."""
    return _value(row[name], found.units.get(name, _unit(name))) if name in row else "-"


def _context(rows: Iterable[Row]) -> bool:
    return any(row.get("context_parallel_degree", 1) != 1 for row in rows)


def _cells(row: Row, degrees: list[str]) -> list[str]:
    placed = [f"{row[f'intra_node_{k}_parallel_degree']:g}x{row[f'inter_node_{k}_parallel_degree']:g}" for k in degrees]
    return [
        human.duration(row["training_time"]), human.duration(row["step_time"]),
        human.percent(row["model_flops_utilization"]), human.value(row["memory_per_accelerator_bytes"], "byte"), *placed,
    ]  # fmt: skip


def _value(value: object, unit: str) -> str:
    if isinstance(value, str):
        return value
    if unit == "boolean":
        return "yes" if value else "no"
    return human.value(float(value), unit)  # type: ignore[arg-type]


def _unit(name: str) -> str:
    from amped.theory.catalogue import catalogue

    return catalogue()[name].mark.unit if name in catalogue() else "1"


def _words(name: str) -> str:
    return name.replace("_", " ")


def _headline(found: Exploration) -> str:
    wished = " and every wish" if found.wishes else ""
    lines = [f"{found.candidates:,} candidates, {found.feasible:,} keep every rule{wished} and fit in memory "
             f"({human.duration(found.elapsed_time)})"]  # fmt: skip
    for name, count in sorted(found.removed.items(), key=lambda i: -i[1]):
        lines.append(f"  {count:,} broke {name if name in found.wishes else _words(name)}")
    return "\n".join(lines)
