"""Memory snapshots that `torch.cuda.memory._dump_snapshot` writes: how much was allocated and reserved, and what held most at the peak.

A snapshot is a pickle of plain data. It is read by an unpickler that makes plain data alone: a pickle that asks for a class or
a function is refused, so that nothing in it runs.

Source: pytorch, torch/cuda/memory.py (`_snapshot`, `_record_memory_history`).
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from amped.base.errors import FileError, quoted
from amped.base.files import is_file
from amped.base.record import dataclass

SEGMENTS, TRACES = "segments", "device_traces"
# By what an entry of a trace changes the bytes that are allocated, and those that are reserved.
ALLOCATES, RESERVES = (
    {"alloc": 1, "free_completed": -1},
    {"segment_alloc": 1, "segment_map": 1, "segment_free": -1, "segment_unmap": -1},
)
OUT_OF_MEMORY, HELD, WAITS_TO_BE_FREE = "oom", "active_allocated", "active_pending_free"
# The files of a stack that are PyTorch's own; the place in the program is the first one that is not.
OF_PYTORCH = ("torch/", "torch\\", "??", "<")
UNKNOWN, MOST_PLACES = "no place recorded", 5


@dataclass(frozen=True)
class DeviceMemory:
    """The memory of one device in a snapshot, in bytes.

    Attributes:
        device: its number.
        peak: the most that was allocated at once while a history was recorded; without one, what is allocated at the end.
        peak_reserved: the most that the allocator had from the device; at least what was allocated.
        allocated, reserved: the same at the end.
        rounded: what blocks at the end have more than was asked for.
        split: what segments at the end have that is not allocated: fragments, and room that is kept for later.
        places: what held most at the peak: a place in the program, and its bytes.
        refused: the bytes that were asked for when the device was out of memory, the last time; 0 if it never was.
        has_history: whether allocations were recorded.
    """

    device: int
    peak: float
    peak_reserved: float
    allocated: float
    reserved: float
    rounded: float
    split: float
    places: tuple[tuple[str, float], ...]
    refused: float
    has_history: bool


class _PlainData(pickle.Unpickler):
    """An unpickler that makes plain data alone."""

    def find_class(self, module: str, name: str) -> NoReturn:
        """Refuses every class and function."""
        raise pickle.UnpicklingError(f"it asks for {module}.{name}, and a snapshot is plain data")


def read_snapshot(file: Path) -> list[DeviceMemory]:
    """The memory of each device that held anything, in the order of devices.

    Raises:
        FileError: for what is no snapshot, and for a pickle that asks for more than plain data.
    """
    if not is_file(file):
        raise FileError("no such snapshot", file=str(file))
    raw = _unpickled(file)
    if (
        not isinstance(raw, Mapping)
        or not isinstance(raw.get(SEGMENTS), list)
        or not isinstance(raw.get(TRACES, []), list)
    ):
        raise FileError(f"is no memory snapshot: it has no list {quoted(SEGMENTS)}", HOW, str(file))
    traces: Sequence[Any] = raw.get(TRACES, [])
    numbers = {int(segment.get("device", 0)) for segment in raw[SEGMENTS]} | {n for n, t in enumerate(traces) if t}
    try:
        return [_device(n, raw[SEGMENTS], traces[n] if n < len(traces) else []) for n in sorted(numbers)]
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise FileError(f"is no memory snapshot that amped can read: {error!r}", HOW, str(file)) from None


HOW = "torch.cuda.memory._record_memory_history() before a step, torch.cuda.memory._dump_snapshot(FILE) after it"


def _unpickled(file: Path) -> Any:
    """The plain data of a pickle."""
    try:
        with file.open("rb") as stream:
            return _PlainData(stream).load()
    except (
        pickle.UnpicklingError,
        EOFError,
        ValueError,
        TypeError,
        IndexError,
        KeyError,
        AttributeError,
        MemoryError,
        OverflowError,
    ) as error:
        raise FileError(f"is no memory snapshot: {error or 'it is cut'}", HOW, str(file)) from None


def _device(number: int, segments: Sequence[Mapping[str, Any]], trace: Sequence[Mapping[str, Any]]) -> DeviceMemory:
    """The memory of one device."""
    own = [segment for segment in segments if int(segment.get("device", 0)) == number]
    blocks = [block for segment in own for block in segment["blocks"] if block["state"] in (HELD, WAITS_TO_BE_FREE)]
    allocated, reserved = sum(b["size"] for b in blocks), sum(s["total_size"] for s in own)
    peak, at = _highest(trace, ALLOCATES, allocated)
    return DeviceMemory(
        device=number, peak=peak, peak_reserved=max(peak, _highest(trace, RESERVES, reserved)[0]), allocated=allocated, reserved=reserved,
        rounded=sum(b["size"] - b.get("requested_size", b["size"]) for b in blocks), split=reserved - allocated,
        places=tuple(_places(blocks, trace, at).most_common(MOST_PLACES)),
        refused=next((float(entry["size"]) for entry in reversed(trace) if entry["action"] == OUT_OF_MEMORY), 0.0),
        has_history=any(entry["action"] in ALLOCATES for entry in trace),
    )  # fmt: skip


def _highest(trace: Sequence[Mapping[str, Any]], signs: Mapping[str, int], at_end: float) -> tuple[float, int]:
    """The highest value of what entries change, and how many entries are before it, counted back from the value at the end."""
    value = highest = at_end
    place = len(trace)
    for number, entry in reversed([*enumerate(trace)]):
        value -= signs.get(entry["action"], 0) * entry["size"]
        if value > highest:
            highest, place = value, number
    return highest, place


def _places(blocks: Sequence[Mapping[str, Any]], trace: Sequence[Mapping[str, Any]], at: int) -> Counter[str]:
    """The bytes that each place in the program held after the first `at` entries of a trace, from what is held at the end."""
    held = {block.get("address", n): (_place(block.get("frames")), block["size"]) for n, block in enumerate(blocks)}
    for entry in reversed(trace[at:]):
        if entry["action"] == "alloc":
            held.pop(entry["addr"], None)
        elif entry["action"] == "free_completed":
            held[entry["addr"]] = (_place(entry.get("frames")), entry["size"])
    taken = {entry["addr"]: _place(entry.get("frames")) for entry in trace[:at] if entry["action"] == "alloc"}
    found = Counter[str]()
    for address, (place, size) in held.items():
        found[taken.get(address, place)] += size
    return found


def _place(frames: object) -> str:
    """The first place of a stack that is not PyTorch's own."""
    return next(_own(frames if isinstance(frames, list) else []), UNKNOWN)


def _own(frames: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The places of a stack, the innermost first; without line for what has none."""
    for frame in frames:
        name, file = str(frame.get("name", "")), str(frame.get("filename", ""))
        if not any(part in file for part in OF_PYTORCH) and file:
            line = frame.get("line")
            yield f"{name} ({Path(file).name}:{line})" if line else name
