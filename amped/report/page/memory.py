"""The memory of an accelerator on each stage of the pipeline, by use."""

from __future__ import annotations

from amped.estimation.estimation import Estimation
from amped.estimation.parts import MEMORY_PARTS
from amped.estimation.stages import stage_lines
from amped.report import human, screen
from amped.report.page.content import Picture, Section, Table, said, table
from amped.report.page.numbers import numbers
from amped.report.stages import USES, Row, meaning, stage_rows


def memory(e: Estimation, change: str | None = None) -> Section:
    """Bars of the stages with the memory that there is as a line, and the fullest stage; `change` as `screen.fit` has it."""
    word, told, _ = screen.fit(e, change)
    rows = stage_rows(stage_lines(e))
    fullest = f"The fullest of {len(rows)} stages is the {e.fullest_stage} one." if len(rows) > 1 else ""
    room = e["available_memory_bytes"]
    picture = Picture(
        "memory", "Memory of an accelerator by stage", "stacked", f"{told}. {fullest}".strip(), by_stage(rows),
        {"along": "stage", "values": list(USES), "head": "memory",
         "limit": {"value": room, "head": f"available: {human.value(room, 'byte')}"}},
    )  # fmt: skip
    every = numbers(e)
    fields = ("memory_per_accelerator_bytes", *MEMORY_PARTS, "allocator_reserved_bytes", "memory_error_fraction")
    shown = [every[name] for name in fields if not isinstance(every[name].value, str)]
    return Section("memory", "Memory by stage", [(word, told), *said(fullest, f"{meaning(rows)}.")], shown, [picture])


def by_stage(rows: list[Row]) -> Table:
    """Each stage with what it holds, its memory by use, and the seconds of a step in which it works and waits."""
    uses = (f"{name}|{head}|byte" for name, head in USES.items())
    columns = ("stage", "has", "parameters", *uses, "bytes|together|byte", "busy_time|works|s", "idle_time|waits|s")
    return table("Memory of one accelerator of each stage", columns, rows)
