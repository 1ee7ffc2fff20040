"""Timers: of a processor, by the time that its thread ran; and of a GPU, by events in its stream."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from amped.kernels.timing import FEWEST, MOST, RECORD_TIME, Call, Clock, Timer, Timing, repeated
from amped.kernels.torch_import import torch_module

WARM_TIME, WARM_CALLS, WARM_AGREEMENT = 0.2, 5, 0.03
# Kernels shorter than this are captured in a graph of many, so that their launches are not timed. The shortest of three
# trials decides, unless the first one took so long that a disturbance cannot be the reason.
SHORTEST, CAPTURED, TRIALS, SURELY_LONG = 30e-6, 20, 3, 3e-3
# A neighbor on the other thread of a core slows it down by half or more. A call counts only if a small product before
# and after it took no longer than this multiple of its least time.
QUIET = 1.08
# How many caps of time a record may wait for such moments; on a busy machine, they last about a tenth of a second.
PATIENCE = 2.5


class CpuTimer:
    """Times on a processor. With one thread, it is the time that this thread ran, which other programs do not stretch.

    On an idle machine, this equals the wall-clock time.
    """

    device = "cpu"

    def __init__(
        self, clock: Clock = time.thread_time, wall: Clock = time.perf_counter, flush: Call | None = None,
        reference: Call | None = None, quietest: float = float("inf"),
    ) -> None:  # fmt: skip
        self.clock, self.wall, self.flush = clock, wall, flush
        self.reference, self.quietest = reference, quietest

    def measure(self, call: Call, cap: float = RECORD_TIME, cold: bool = False) -> Timing:
        """Warms up, then calls as often as the cap allows: at least five times, or as often as three caps allow.

        Calls that are too short for the clock are timed in groups, unless caches are flushed before each. With a
        reference, a call waits (up to `PATIENCE`) until the reference is as fast as it ever was. Only calls with a fast
        reference count; if there are none, those with the fastest reference of this measurement.
        """
        call()
        return self._turns([call], cap, CAPTURED if self._brief(call) and not cold else 1, cold)[0]

    def together(self, calls: Sequence[Call], cap: float = RECORD_TIME) -> list[Timing]:
        """Times calls in turns, after one warm-up of each."""
        for call in calls:
            call()
        return self._turns(calls, cap * len(calls), 1, False)

    def dispatched(self, call: Call) -> Timing:
        """The time of the call, because a processor launches nothing."""
        return self.measure(call)

    def _brief(self, call: Call) -> bool:
        """Whether a call is too short for the clock."""
        trials = (self._timed(call) for _ in range(TRIALS))
        first = next(trials)
        return first < SURELY_LONG and min(first, *trials) < SHORTEST

    def _turns(self, calls: Sequence[Call], cap: float, group: int, cold: bool) -> list[Timing]:
        found: list[list[tuple[float, float]]] = [[] for _ in calls]
        began = self.wall()
        for n in range(1, MOST + 1):
            for call, times in zip(calls, found, strict=True):
                times.append(self._once(call, group, cold, began + PATIENCE * cap))
            spent, quiet = self.wall() - began, min(map(self._quiet_calls, found))
            if (spent > cap and quiet >= FEWEST) or (spent > 3 * cap and n >= 2):
                break
        return [self._quiet(times) for times in found]

    def _quiet_calls(self, found: list[tuple[float, float]]) -> int:
        """The number of calls with a fast reference; all calls if there is no reference."""
        return sum(beside <= QUIET * self.quietest for _, beside in found)

    def _quiet(self, found: list[tuple[float, float]]) -> Timing:
        """The statistics of the calls with a fast reference."""
        if self.reference is None:
            return Timing.of([seconds for seconds, _ in found])
        least = min(beside for _, beside in found)
        limit = QUIET * (self.quietest if least <= QUIET * self.quietest else least)
        return Timing.of([seconds for seconds, beside in found if beside <= limit], least)

    def _once(self, call: Call, group: int, cold: bool, until: float) -> tuple[float, float]:
        """The seconds of a call, and those of the slower reference before and after it."""
        while self._beside() > QUIET * self.quietest and self.wall() < until:
            pass
        if cold and self.flush is not None:
            self.flush()
        before = self._beside()
        start = self.clock()
        for _ in range(group):
            call()
        seconds = (self.clock() - start) / group
        return seconds, max(before, self._beside())

    def _beside(self) -> float:
        """The seconds of the reference: the shorter of two calls, because the first may find a cold cache."""
        if self.reference is None:
            return 0.0
        seconds = min(self._timed(self.reference), self._timed(self.reference))
        self.quietest = min(self.quietest, seconds)
        return seconds

    def _timed(self, call: Call) -> float:
        start = self.clock()
        call()
        return self.clock() - start


class CudaTimer:
    """Times by events in the stream of a GPU; they are enqueued behind a product that hides the launches."""

    device = "cuda"

    def __init__(self) -> None:
        self.torch = torch_module()
        cache = getattr(self.torch.cuda.get_device_properties(0), "L2_cache_size", 64 << 20)
        self.scratch = self.torch.empty(2 * cache // 4, dtype=self.torch.float32, device="cuda")
        self.shield = self.torch.randn(4096, 4096, device="cuda", dtype=self.torch.float16)

    def measure(self, call: Call, cap: float = RECORD_TIME, cold: bool = True) -> Timing:
        """Warms up, then puts an event on each side of every call; the shortest kernels run as a graph of twenty."""
        estimate = self._warmed(call)
        calls, count = call, 1
        if estimate < SHORTEST and not cold:
            graph = self._captured(call)
            if graph is not None:
                calls, count = graph.replay, CAPTURED
        times = self._timed(calls, repeated(estimate * count, cap), cold)
        return Timing.of([t / count for t in times])

    def together(self, calls: Sequence[Call], cap: float = RECORD_TIME) -> list[Timing]:
        """Times calls in turns with their launches: an event on each side of every call, and no product before them."""
        for call in calls:
            call()
        found: list[list[float]] = [[] for _ in calls]
        began = time.perf_counter()
        while len(found[0]) < FEWEST or (time.perf_counter() - began < cap * len(calls) and len(found[0]) < MOST):
            for call, times in zip(calls, found, strict=True):
                times += self._timed(call, 1, False, shielded=False)
        return [Timing.of(times) for times in found]

    def dispatched(self, call: Call) -> Timing:
        """The seconds that the host takes to launch a kernel: many launches in a row, as fast as possible."""
        times = []
        for _ in range(FEWEST + 1):
            self.torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(MOST):
                call()
            times.append((time.perf_counter() - start) / MOST)
            self.torch.cuda.synchronize()
        return Timing.of(times[1:])

    def _warmed(self, call: Call) -> float:
        """Calls until two means of five agree, or for a fifth of a second; the result is the last mean."""
        before, began = float("inf"), time.perf_counter()
        while True:
            mean = sum(self._timed(call, WARM_CALLS, False)) / WARM_CALLS
            settled = abs(mean - before) <= WARM_AGREEMENT * before
            if settled or time.perf_counter() - began > WARM_TIME:
                return mean
            before = mean

    def _timed(self, call: Call, n: int, cold: bool, shielded: bool = True) -> list[float]:
        cuda = self.torch.cuda
        pairs = [(cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)) for _ in range(n)]
        if shielded:
            self.torch.mm(self.shield, self.shield)
        for start, end in pairs:
            if cold:
                self.scratch.zero_()
            start.record()
            call()
            end.record()
        cuda.synchronize()
        return [start.elapsed_time(end) / 1e3 for start, end in pairs]

    def _captured(self, call: Call) -> Any:
        """A graph of calls, or None if the kernel cannot be captured."""
        try:
            graph = self.torch.cuda.CUDAGraph()
            with self.torch.cuda.graph(graph):
                for _ in range(CAPTURED):
                    call()
        except RuntimeError:
            self.torch.cuda.synchronize()
            return None
        return graph


def timer_for(
    device: str, cache_bytes: float = 0.0, threads: int | None = None, reference: Call | None = None,
    quietest: float = float("inf"),
) -> Timer:  # fmt: skip
    """The timer of a device. On a CPU, it writes twice the largest cache before a call that must find it cold.

    The default of `threads` is torch's number. One thread is timed by its own time, several by the wall clock.
    """
    if device == "cuda":
        return CudaTimer()
    torch = torch_module()
    scratch = torch.empty(int(2 * cache_bytes) // 4, dtype=torch.float32)
    clock = time.thread_time if (threads or torch.get_num_threads()) == 1 else time.perf_counter
    return CpuTimer(clock, flush=lambda: scratch.fill_(1.0), reference=reference, quietest=quietest)
