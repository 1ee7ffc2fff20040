"""The memory of a training step: what its tensors take, and what the process takes."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from amped.kernels.torch_import import torch

STATUS, PEAK_RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")
# If it is written to that file, the kernel forgets the largest resident set so far. Source: proc(5).
RESET = "5"


@dataclass(frozen=True)
class Footprint:
    """The most bytes during a step.

    Attributes:
        tensors: the bytes of all tensors that are alive at once, by torch's own tracker; None if torch has none.
        process: the growth of the process, with loaded code and with gaps that its allocator keeps.
        loaded: the part of this growth that a first pass over a tiny network needs.
    """

    tensors: float | None
    process: float
    loaded: float

    @property
    def measured(self) -> float:
        """What is compared with an estimate: tensors; or, if unknown, the growth of the process without loaded code."""
        return self.tensors if self.tensors is not None else self.process - self.loaded


def tensor_bytes(step: Callable[[], Any], optimizer: Any, tensors: Iterable[Any]) -> float | None:
    """The most bytes of all tensors that are alive at once in a step; None if torch cannot count them.

    `tensors` exist before the step; those that the step makes are counted, too.
    """
    try:
        from torch.distributed._tools.mem_tracker import MemTracker
    except ImportError:
        return None
    tracker = MemTracker()
    tracker.track_external(optimizer, *tensors)
    with tracker:
        step()
    return float(sum(snapshot["Total"] for snapshot in tracker.get_tracker_snapshot("peak").values()))


def forget_peak(device: str) -> None:
    """Resets the peak that `peak_bytes` gives; some systems refuse this for a process, or ignore it."""
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        return
    with contextlib.suppress(OSError):
        PEAK_RESET.write_text(RESET)


def peak_bytes(device: str) -> float:
    """The most bytes that tensors took since the last `forget_peak`; on a processor, the most bytes of the process."""
    return float(torch.cuda.max_memory_allocated()) if device == "cuda" else resident_bytes(most=True)


def resident_bytes(most: bool = False) -> float:
    """The bytes of this process in memory; with `most`, the most bytes so far."""
    name = "VmHWM" if most else "VmRSS"
    line = re.search(rf"{name}:\s*(\d+) kB", STATUS.read_text("utf-8")) if STATUS.exists() else None
    if line:
        return 1024.0 * int(line[1])
    import resource

    return 1024.0 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
