"""The memory of an accelerator on each stage of the pipeline, by use."""

from __future__ import annotations

from amped.estimation.estimation import Estimation
from amped.estimation.parts import MEMORY_PARTS
from amped.estimation.stages import StageLine, stage_lines
from amped.report import human, screen
from amped.report.page.content import Picture, Section, Table, said, table
from amped.report.page.numbers import numbers

HEADS = {"weight_bytes": "weights", "gradient_bytes": "gradients", "optimizer_state_bytes": "optimizer states",
         "activation_bytes": "activations", "temporary_bytes": "temporary"}  # fmt: skip


def memory(e: Estimation, change: str | None = None) -> Section:
    """Bars of the stages with the memory that there is as a line, and the fullest stage; `change` as `screen.fit` has it."""
    word, told, _ = screen.fit(e, change)
    lines = stage_lines(e)
    fullest = f"The fullest of {len(lines)} stages is the {e.fullest_stage} one." if len(lines) > 1 else ""
    room = e["available_memory_bytes"]
    picture = Picture(
        "memory", "Memory of an accelerator by stage", "stacked", f"{told}. {fullest}".strip(), by_stage(lines),
        {"along": "stage", "values": list(HEADS), "head": "memory",
         "limit": {"value": room, "head": f"available: {human.value(room, 'byte')}"}},
    )  # fmt: skip
    every = numbers(e)
    fields = ("memory_per_accelerator_bytes", *MEMORY_PARTS, "allocator_reserved_bytes", "memory_error_fraction")
    shown = [every[name] for name in fields if not isinstance(every[name].value, str)]
    return Section("memory", "Memory by stage", [(word, told), *said(fullest)], shown, [picture])


def by_stage(lines: list[StageLine]) -> Table:
    """Each stage with its layers, its memory by use, and the seconds of a step in which it works and waits."""
    columns = (
        "stage", "layers",
        *(f"{name}|{head}|byte" for name, head in HEADS.items()), "bytes|together|byte",
        "busy_time|works|s", "idle_time|waits|s",
    )  # fmt: skip
    rows = [
        (float(line.stage), sum(line.layers.values()), *(getattr(line, name) for name in HEADS), line.bytes,
         line.busy_time, line.idle_time)
        for line in lines
    ]  # fmt: skip
    return table("Memory of one accelerator of each stage", columns, rows)
