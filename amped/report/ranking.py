"""The ranking of an exploration as a table."""

from __future__ import annotations

import csv
import io

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from amped.exploration.found import Row
from amped.exploration.search import Exploration
from amped.exploration.space import JOINT
from amped.report import human


def ranking(found: Exploration) -> RenderableType:
    """The best mappings, one a line, and how many candidates each rule removed."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    swept = [name for name in found.swept if name not in JOINT]
    batches = len({row["batch_size"] for row in found.best}) > 1
    heads = ("rank", "training", "step", "MFU", "memory", "data", "tensor", "pipeline", "micro-batch")
    for head in (*heads, *(["batch"] if batches else [])):
        table.add_column(head, justify="right", no_wrap=True)
    for name in swept:
        table.add_column(name.replace("_", " "), justify="right")
    for rank, row in enumerate(found.best, 1):
        extra = [f"{row['batch_size']:g}"] if batches else []
        table.add_row(str(rank), *_cells(row), *extra, *(human.value(row[name], found.units[name]) for name in swept))
    parts: list[RenderableType] = [Text(_headline(found)), Text(""), table]
    if not found.best:
        return Group(Text(_headline(found)), Text("No candidate keeps every rule.", style="bold red"))
    if not found.feasible:
        told = "No candidate fits in memory; these keep every rule and need least time."
        parts.insert(1, Text(told, style="bold red"))
    if batches:
        told = "Batches of different size are different experiments: amped does not know whether both learn as well."
        parts.append(Text(f"\n{told}", style="yellow"))
    parts += [Text(""), Text("degrees are whole (inside node x across nodes)", style="dim")]
    return Group(*parts)


def as_csv(found: Exploration) -> str:
    """The best mappings as CSV, every swept parameter and result by name in SI units."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, found.columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(found.best)
    return stream.getvalue()


def _cells(row: Row) -> list[str]:
    degrees = [
        f"{row[f'{k}_parallel_degree']:g} ({row[f'intra_node_{k}_parallel_degree']:g}x{row[f'inter_node_{k}_parallel_degree']:g})"
        for k in ("data", "tensor", "pipeline")
    ]
    return [
        human.duration(row["training_time"]), human.duration(row["step_time"]),
        human.percent(row["model_flops_utilization"]), human.value(row["memory_per_accelerator_bytes"], "byte"),
        *degrees, f"{row['microbatch_size']:g}",
    ]  # fmt: skip


def _headline(found: Exploration) -> str:
    lines = [f"{found.candidates:,} candidates, {found.feasible:,} keep every rule and fit in memory "
             f"({human.duration(found.elapsed_time)})"]  # fmt: skip
    lines += [
        f"  {count:,} broke {name.replace('_', ' ')}"
        for name, count in sorted(found.removed.items(), key=lambda i: -i[1])
    ]
    return "\n".join(lines)
