"""The memory of a step as a snapshot in PyTorch's format, which pytorch.org/memory_viz and `torch.cuda._memory_viz` show.

Each stage is a device. Format: pytorch, torch/cuda/memory.py (`_snapshot`): segments with blocks that are held at the end,
and traces of what was taken and given back.
"""

from __future__ import annotations

import math
import pickle
from collections.abc import Sequence
from typing import Any

from amped.estimation.memory_over_time import Allocation, MemoryOverTime, Peak
from amped.report import human

Entry = dict[str, Any]
MICROSECONDS = 1e6
# Addresses are those of a device on which nothing is given the place of something else; the first one is not 0.
FIRST_ADDRESS, STEP_OF_ADDRESSES = 1 << 40, 512
STREAM = 0


def as_snapshot(memory: MemoryOverTime) -> bytes:
    """The pickled snapshot of a step."""
    segments, traces = list[Entry](), list[list[Entry]]()
    for stage, rows in enumerate(memory.stages):
        placed = _placed(rows)
        segments += [_segment(stage, row, address) for row, address in placed if math.isinf(row.end)]
        traces.append(_trace(placed))
    return pickle.dumps({"segments": segments, "device_traces": traces, "allocator_settings": {}}, protocol=4)


def peak_in_words(peak: Peak, expected: float) -> str:
    """Where the fullest stage holds most, what it holds then, and what the closed form says.

    Args:
        peak: the peak.
        expected: the bytes by the closed form.
    """
    running = (
        f"{peak.running.kind.replace('_', ' ')} pass of micro-batch {peak.running.microbatch}"
        if peak.running
        else "end"
    )
    parts = ", ".join(f"{kind.replace('_', ' ')} {_gigabytes(held)}" for kind, held in peak.by_kind.items() if held)
    return (
        f"stage {peak.stage} holds most, {_gigabytes(peak.bytes)}, at {human.duration(peak.moment)}, in the {running}, with activations of "
        f"{peak.microbatches} micro-batch{'es' * (peak.microbatches != 1)}: {parts}; by the closed form {_gigabytes(expected)}"
    )


def _gigabytes(size: float) -> str:
    """Bytes as people read them."""
    return f"{size / human.GIGA:.1f} GB"


def _placed(rows: Sequence[Allocation]) -> list[tuple[Allocation, int]]:
    """The allocations, each with an address."""
    placed, address = list[tuple[Allocation, int]](), FIRST_ADDRESS
    for row in rows:
        placed.append((row, address))
        address += -(-_size(row) // STEP_OF_ADDRESSES) * STEP_OF_ADDRESSES
    return placed


def _size(row: Allocation) -> int:
    """The whole bytes of an allocation."""
    return round(row.bytes)


def _frames(row: Allocation) -> list[Entry]:
    """What the viewer shows as the place in the program: what an allocation is."""
    return [{"filename": "amped", "line": 0, "name": row.name}]


def _segment(device: int, row: Allocation, address: int) -> Entry:
    """The segment of what stays."""
    size = _size(row)
    block = {
        "address": address,
        "size": size,
        "requested_size": size,
        "state": "active_allocated",
        "frames": _frames(row),
    }
    return {
        "device": device, "address": address, "total_size": size, "allocated_size": size, "active_size": size,
        "requested_size": size, "stream": STREAM, "segment_type": "large", "segment_pool_id": (0, 0), "is_expandable": False,
        "frames": _frames(row), "blocks": [block],
    }  # fmt: skip


def _trace(placed: Sequence[tuple[Allocation, int]]) -> list[Entry]:
    """What a stage takes and gives back, in the order of time; at one moment it gives back first."""
    entries = list[tuple[float, int, Entry]]()
    for row, address in placed:
        common = {"addr": address, "size": _size(row), "stream": STREAM, "frames": _frames(row)}
        entries.append((row.start, 2, _entry("alloc", row.start, common)))
        if not math.isinf(row.end):
            entries.append((row.end, 0, _entry("free_requested", row.end, common)))
            entries.append((row.end, 1, _entry("free_completed", row.end, common)))
    return [entry for _, _, entry in sorted(entries, key=lambda row: row[:2])]


def _entry(action: str, moment: float, common: Entry) -> Entry:
    """An entry of a trace."""
    return {"action": action, "time_us": round(moment * MICROSECONDS), **common}
