"""The memory of an accelerator on each stage of the pipeline, by use."""

from __future__ import annotations

from amped.estimation.estimation import Estimation
from amped.estimation.parts import MEMORY_PARTS
from amped.estimation.stages import stage_lines
from amped.report import human, screen
from amped.report.page.content import Picture, Section, said, table
from amped.report.page.numbers import numbers
from amped.report.stages import USES, meaning, stage_rows

COLUMNS = ("stage", "has", "parameters", *(f"{name}|{head}|byte" for name, head in USES.items()),
           "bytes|together|byte", "busy_time|works|s", "idle_time|waits|s")  # fmt: skip


def memory(e: Estimation, change: str | None = None) -> Section:
    """The section with the memory of each stage as bars, and a line for the available memory.

    `change` is as in `screen.fit`.
    """
    word, sentence, _ = screen.fit(e, change)
    rows = stage_rows(stage_lines(e))
    fullest = f"The fullest of {len(rows)} stages is the {e.fullest_stage} one." if len(rows) > 1 else ""
    room = e["available_memory_bytes"]
    picture = Picture(
        "memory", "Memory of an accelerator by stage", "stacked", f"{sentence}. {fullest}".strip(),
        table("Memory of one accelerator of each stage", COLUMNS, rows),
        {"along": "stage", "values": list(USES), "head": "memory",
         "limit": {"value": room, "head": f"available: {human.value(room, 'byte')}"}},
    )  # fmt: skip
    results = numbers(e)
    fields = ("memory_per_accelerator_bytes", *MEMORY_PARTS, "allocator_reserved_bytes", "memory_error_fraction")
    known_numbers = [results[name] for name in fields if not isinstance(results[name].value, str)]
    return Section(
        "memory", "Memory by stage", [(word, sentence), *said(fullest, f"{meaning(rows)}.")], known_numbers, [picture]
    )
