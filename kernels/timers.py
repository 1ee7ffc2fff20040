"""The timer of a processor, by the time that its thread ran; and the choice of a device's timer."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from amped.kernels.cuda_timer import CAPTURED, SHORTEST, CudaTimer
from amped.kernels.timing import FEWEST, MOST, RECORD_TIME, Call, Clock, Timing
from amped.kernels.torch_import import torch

# The shortest of three trials decides whether a call is too short for the clock, unless the first one took so long that
# a disturbance cannot be the reason.
TRIALS, SURELY_LONG = 3, 3e-3
# A neighbor on the other thread of a core slows it down by half or more. A call counts only if a small product before
# and after it took no longer than this multiple of its least time.
QUIET = 1.08
# How many caps of time a record may wait for such moments; on a busy machine, they last about a tenth of a second.
PATIENCE = 2.5


@dataclass
class CpuTimer:
    """Times on a processor. With one thread, it is the time that this thread ran, which other programs do not stretch.

    On an idle machine, this equals the wall-clock time.

    Attributes:
        clock, wall: the clock of the calls, and that of the budget.
        flush: empties the caches.
        reference: a small product whose time tells how busy the machine is; `quietest` is its least time so far.
    """

    clock: Clock
    wall: Clock = time.perf_counter
    flush: Call | None = None
    reference: Call | None = None
    quietest: float = float("inf")
    device = "cpu"

    def measure(
        self, call: Call, cap: float = RECORD_TIME, cold: bool = False, capturable: bool = False  # noqa: ARG002
    ) -> Timing:  # fmt: skip
        """Warms up, then calls as often as the cap allows: at least five times, or as often as three caps allow.

        With `cold`, caches are flushed before each call; else calls that are too short for the clock are timed in
        groups. With a reference, a call waits (up to `PATIENCE`) until the reference is as fast as it ever was. Only
        calls with a fast reference count; if there are none, those with the fastest reference of this measurement.
        """
        call()
        return self._turns([call], cap, CAPTURED if self._is_brief(call) and not cold else 1, cold)[0]

    def together(self, calls: Sequence[Call], cap: float = RECORD_TIME) -> list[Timing]:
        """Times calls in turns, after one warm-up of each, so that a disturbance slows all of them.

        A call may use what the call before it left, because the order is fixed. It takes about `cap` seconds for each.
        """
        for call in calls:
            call()
        return self._turns(calls, cap * len(calls), 1, False)

    def dispatched(self, call: Call, in_a_row: int = MOST) -> Timing:  # noqa: ARG002
        """The time of the call, because a processor launches nothing."""
        return self.measure(call)

    def _is_brief(self, call: Call) -> bool:
        """Whether a call is so short that it must be timed in a group."""
        trials = (self._timed(call) for _ in range(TRIALS))
        first = next(trials)
        return first < SURELY_LONG and min(first, *trials) < SHORTEST

    def _turns(self, calls: Sequence[Call], cap: float, group: int, cold: bool) -> list[Timing]:
        """The times of calls that are made in turns, until `cap` seconds are spent and enough calls of each are quiet.

        Without enough quiet calls, the turns end after three times `cap`. `group` is the number of calls timed
        together.
        """
        lists: list[list[tuple[float, float]]] = [[] for _ in calls]
        began = self.wall()
        for n in range(1, MOST + 1):
            for call, times in zip(calls, lists, strict=True):
                times.append(self._once(call, group, cold, began + PATIENCE * cap))
            # without a reference, all calls are quiet
            quiet = min(sum(reference <= QUIET * self.quietest for _, reference in times) for times in lists)
            spent = self.wall() - began
            if (spent > cap and quiet >= FEWEST) or (spent > 3 * cap and n >= 2):
                break
        return [self._quiet(times) for times in lists]

    def _quiet(self, times: list[tuple[float, float]]) -> Timing:
        """The statistics of the calls that count: those with a fast reference.

        `times` has the seconds of each call and of its reference.
        """
        if self.reference is None:
            return Timing.of([seconds for seconds, _ in times])
        least = min(reference for _, reference in times)
        limit = QUIET * (self.quietest if least <= QUIET * self.quietest else least)
        return Timing.of([seconds for seconds, reference in times if reference <= limit], least)

    def _once(self, call: Call, group: int, cold: bool, until: float) -> tuple[float, float]:
        """The seconds of a call, and the seconds of the slower one of the references before and after the call.

        The call waits for a quiet machine, but not longer than `until`.
        """
        while self._beside() > QUIET * self.quietest and self.wall() < until:
            pass
        if cold and self.flush is not None:
            self.flush()
        before = self._beside()
        seconds = self._timed(call, group)
        return seconds, max(before, self._beside())

    def _beside(self) -> float:
        """The seconds of the reference: the shorter of two calls, because the first may find a cold cache. 0 without one."""
        if self.reference is None:
            return 0.0
        seconds = min(self._timed(self.reference), self._timed(self.reference))
        self.quietest = min(self.quietest, seconds)
        return seconds

    def _timed(self, call: Call, group: int = 1) -> float:
        """The mean seconds of a call over a group of calls in a row."""
        start = self.clock()
        for _ in range(group):
            call()
        return (self.clock() - start) / group


Timer = CpuTimer | CudaTimer


def host_clock() -> Clock:
    """The clock of a processor's work: one thread of torch is timed by its own time, several by the wall clock."""
    return time.thread_time if torch.get_num_threads() == 1 else time.perf_counter


def timer_for(
    device: str, cache_bytes: float = 0.0, reference: Call | None = None, quietest: float = float("inf"),
) -> Timer:  # fmt: skip
    """The timer of a device. On a CPU, twice `cache_bytes` are written before a call that must find cold caches.

    `reference` is a small product that tells how busy a CPU is, and `quietest` its least time so far.
    """
    if device == "cuda":
        return CudaTimer()
    scratch = torch.empty(int(2 * cache_bytes) // 4, dtype=torch.float32)
    return CpuTimer(host_clock(), flush=lambda: scratch.fill_(1.0), reference=reference, quietest=quietest)
