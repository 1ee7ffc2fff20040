"""Memory of a training step: what its tensors take, and what the process takes for them."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

STATUS, PEAK_RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")
# Written there, it makes the kernel forget the largest resident set so far. Source: proc(5).
RESET = "5"
# A peak above this multiple of what is resident is of before.
MUCH_MORE = 1.1


@dataclass(frozen=True)
class Footprint:
    """Bytes at most in a step.

    Attributes:
        tensors: of all tensors that are alive at once, as torch's own tracker follows them; None where it has none.
        process: by which the process grew; it has the code that is loaded and the gaps that its allocator keeps too.
        loaded: of that, what a first pass over a network of no size takes.
    """

    tensors: float | None
    process: float
    loaded: float

    @property
    def measured(self) -> float:
        """What an estimate is compared with: tensors, or the process without what it loads where they are not known."""
        return self.tensors if self.tensors is not None else self.process - self.loaded


def tensor_bytes(step: Callable[[], Any], optimizer: Any, tensors: Iterable[Any]) -> float | None:
    """Bytes of all tensors alive at once during a step, at most: those there before it, and those that it makes."""
    try:
        from torch.distributed._tools.mem_tracker import MemTracker
    except ImportError:
        return None
    tracker = MemTracker()
    tracker.track_external(optimizer, *tensors)
    with tracker:
        step()
    return float(sum(found["Total"] for found in tracker.get_tracker_snapshot("peak").values()))


def forget_peak() -> bool:
    """Lets the largest resident set count from now on; whether the system did: some refuse, and some take it for nothing."""
    with contextlib.suppress(OSError):
        PEAK_RESET.write_text(RESET)
    return resident_bytes(most=True) < MUCH_MORE * resident_bytes()


def resident_bytes(most: bool = False) -> float:
    """Bytes of this process in memory, or the most there were."""
    name = "VmHWM" if most else "VmRSS"
    found = re.search(rf"{name}:\s*(\d+) kB", STATUS.read_text("utf-8")) if STATUS.exists() else None
    if found:
        return 1024.0 * int(found[1])
    import resource

    return 1024.0 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
