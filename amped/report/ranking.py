"""The ranking of an exploration as a table."""

from __future__ import annotations

import json
from collections.abc import Iterator

from rich.table import Table

from amped.exploration.answer import Exploration
from amped.exploration.results import Row
from amped.exploration.search_space import parts, wholes
from amped.report import human
from amped.report.axes_values import axis_label, unit_of, words
from amped.report.tables import Part, drawn, table
from amped.theory.nouns.parallelisms import OF_TOKENS
from amped.theory.nouns.parallelisms import PLACED as PLACED_KINDS

# Columns that the table always has, under a short head; they are not shown again among the swept names.
SHORT = {"activation_recomputation": "recompute", "zero_stage": "ZeRO", "sequence_parallel": "seq. par.",
         "virtual_pipeline_stages": "chunks", "expert_parallel_degree": "experts",
         "expert_tensor_parallel_degree": "expert tensor", "tensor_parallel_columns": "columns",
         "flash_attention": "fused"}  # fmt: skip
PLACED = {*parts(), *wholes(), "microbatch_size", "batch_size"}
MOST_TIES = 3
OTHER_BATCHES = "Batches of different size are different experiments: amped does not know whether both learn as well."
NO_HEADROOM = "No candidate leaves the memory headroom free (--headroom); these fit without it."
# The results that every ranking shows, with their heads.
SHOWN = {"training_time": "training", "step_time": "step", "model_flops_utilization": "MFU", "memory_per_accelerator_bytes": "memory"}  # fmt: skip


@drawn
def ranking(exploration: Exploration) -> Iterator[Part]:
    """The best mappings, one per line; how many candidates each rule removed; and a better mapping that does not fit."""
    yield "\n".join((*_headline(exploration), ""))
    yield from ((notice, "yellow") for notice in exploration.notices)
    if not exploration.best:
        yield "No candidate keeps every rule.", "bold red"
        return
    if not exploration.feasible:
        lacking = "missing_memory_bytes" in exploration.best[0]
        others = "these lack least memory, the nearest first" if lacking else "these are the best of the others"
        yield f"No candidate fits and keeps every wish; of those that keep every rule {others}.", "bold red"
    if exploration.lacks_headroom:
        yield NO_HEADROOM, "yellow"
    yield from _tables(exploration, exploration.best)
    for name, rows in exploration.groups.items():
        yield f"\nbest of {words(exploration.search.request.options.each, json.loads(name))}"
        yield from _tables(exploration, rows)
    if exploration.front:
        yield "\nPareto front", "bold"
        yield from _tables(exploration, exploration.front)
    if exploration.ties:
        yield (f"\nTies: within ± {human.percent(exploration.error_fraction)}, the band of the best, these simpler mappings are as fast; "
               "the simplest first:")  # fmt: skip
        yield from _tables(exploration, exploration.ties[:MOST_TIES])
    if exploration.nearest is not None:
        yield f"\n{in_the_way(exploration, exploration.nearest)}"
    if len({row["batch_size"] for row in exploration.best}) > 1:
        yield f"\n{OTHER_BATCHES}", "yellow"
    yield f"\nnot searched: {exploration.held}", "dim"
    yield "degrees are inside the node x across nodes; micro is the micro-batch", "dim"


def _headline(exploration: Exploration) -> Iterator[str]:
    """The number of candidates, and how many of them each rule or wish removed."""
    wished = " and every wish" if exploration.wishes else ""
    yield (f"{exploration.candidates:,} candidates, {exploration.feasible:,} keep every rule{wished} and fit in memory "
           f"({human.duration(exploration.elapsed_time)})")  # fmt: skip
    for name, count in sorted(exploration.removed.items(), key=lambda i: -i[1]):
        yield f"  {count:,} broke {name if name in exploration.wishes else axis_label(name)}"


def in_the_way(exploration: Exploration, row: Row) -> str:
    """The best candidate that is not feasible, and the change that would make it feasible."""
    result = f"{axis_label(exploration.objective)} {human.value(row[exploration.objective], unit_of(exploration.objective) or '1')}"
    mapping = ", ".join(f"{kind} {row[f'{kind}_parallel_degree']:g}" for kind in ("data", "tensor", "pipeline"))
    place = "Better, but not feasible" if exploration.feasible else "The nearest"
    return f"{place}: {result} ({mapping}, micro-batch {row['microbatch_size']:g}). {exploration.needs}"


def _tables(exploration: Exploration, rows: list[Row]) -> Iterator[Part]:
    """Rows as a table, and below it the swept values that all rows share."""
    swept = [name for name in exploration.swept if name not in PLACED and name not in SHOWN]
    shared = [name for name in swept if len(rows) > 1 and len({row.get(name) for row in rows}) == 1]
    objective = [exploration.objective] if exploration.objective not in SHOWN else []
    names = [*objective, *(name for name in swept if name not in shared)]
    further_columns = {
        SHORT.get(name, axis_label(name)): [_value(exploration, row, name) for row in rows] for name in names
    }
    yield _ranked(_columns(rows) | further_columns)
    if shared:
        same = ", ".join(f"{axis_label(name)} {_value(exploration, rows[0], name)}" for name in shared)
        yield f"all: {same}", "dim"


def _columns(rows: list[Row]) -> dict[str, list[str]]:
    """The columns of every ranking by head, the rank first.

    The batch size is a column if there are several, and context parallelism if a row uses it.
    """
    kinds = [
        kind
        for kind in PLACED_KINDS
        if kind not in OF_TOKENS or any(row.get(f"{kind}_parallel_degree", 1) != 1 for row in rows)
    ]
    has_several_batches = len({row["batch_size"] for row in rows}) > 1
    lacking = [row["missing_memory_bytes"] for row in rows if "missing_memory_bytes" in row]
    return {
        "rank": [f"{rank}" for rank in range(1, len(rows) + 1)],
        **({"lacks": [human.value(bytes_, "byte") for bytes_ in lacking]} if lacking else {}),
        **{head: [human.result(name, row[name], unit_of(name)) for row in rows] for name, head in SHOWN.items()},
        **{kind: [_placed(row, kind) for row in rows] for kind in kinds},
        "micro": [f"{row['microbatch_size']:g}" for row in rows],
        **({"batch": [f"{row['batch_size']:g}" for row in rows]} if has_several_batches else {}),
    }


def _placed(row: Row, kind: str) -> str:
    """A degree of parallelism as text: inside the node x across nodes."""
    return f"{row[f'intra_node_{kind}_parallel_degree']:g}x{row[f'inter_node_{kind}_parallel_degree']:g}"


def _ranked(columns: dict[str, list[str]]) -> Table:
    """A table of the columns, each as wide as its widest cell."""
    result = table(columns, zip(*columns.values(), strict=True), (), columns, gap=1)
    for column, cells in zip(result.columns, columns.values(), strict=True):
        column.justify, column.min_width = "right", max(map(len, cells))
    return result


def _value(exploration: Exploration, row: Row, name: str) -> str:
    """A value of a row with its unit; a dash if the row's formulas do not use the name."""
    return human.value(row[name], exploration.units.get(name, unit_of(name) or "1")) if name in row else "-"
