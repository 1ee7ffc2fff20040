"""How long a call takes: warmed up, repeated within a cap of time, told as minimum, median and spread.

On a CPU other programs only ever add time, so its statistic is the minimum (of one thread's own time); on a GPU clocks and power move, and it is the
median. Source: Chen and Revels, arXiv 1608.04295 (minima as estimates of time in the presence of noise).
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from amped.kernels.torch_door import torch_module

# Seconds of one record, and calls it has at least and at most.
RECORD_TIME, FEWEST, MOST = 0.15, 5, 200
WARM_TIME, WARM_CALLS, WARM_AGREEMENT = 0.2, 5, 0.03
# Spread of the ninetieth over the tenth percentile beyond which a record is noisy; below it a fit may still trust minima.
NOISY = {"cpu": 1.5, "cuda": 1.1}
TRUSTED = 0.5
# Kernels shorter than this are captured in a graph of many, so that their launches are not timed.
SHORTEST, CAPTURED, TRIALS = 30e-6, 20, 3
# A neighbour on the other thread of a core slows it down by a half and more: a call counts where a small product before and
# after it took no longer than this multiple of its least.
QUIET = 1.08
STATISTIC = {"cpu": "min", "cuda": "median"}
Call = Callable[[], Any]
Clock = Callable[[], float]


@dataclass(frozen=True)
class Timing:
    """Times of the calls of one kernel, in seconds, and how many there were."""

    median: float
    p10: float
    p90: float
    min: float
    n: int
    beside: float | None = None

    @classmethod
    def of(cls, times: Sequence[float], beside: float | None = None) -> Timing:
        """The statistics of measured times; `beside` is what a kernel that stays the same took beside them."""
        ordered = sorted(times)
        last = len(ordered) - 1
        return cls(
            statistics.median(ordered),
            ordered[round(0.1 * last)],
            ordered[round(0.9 * last)],
            ordered[0],
            len(times),
            beside,
        )

    def best(self, device: str) -> float:
        """The statistic that counts on a device."""
        return float(getattr(self, STATISTIC[device]))

    def flags(self, device: str) -> list[str]:
        """What makes the record doubtful."""
        noisy = self.p90 > NOISY[device] * self.p10
        return [*(["noisy"] if noisy else []), *(["unsettled"] if noisy and self.min < TRUSTED * self.median else [])]


class Timer(Protocol):
    """Times calls on one device."""

    device: str

    def measure(self, call: Call, cap: float = RECORD_TIME, cold: bool = False) -> Timing:
        """The time of a call, in about `cap` seconds; `cold`: with caches flushed before each."""
        ...

    def dispatched(self, call: Call) -> Timing:
        """Seconds that the host takes to launch a kernel."""
        ...


def repeated(estimate: float, cap: float) -> int:
    """How often to call what takes about `estimate` seconds."""
    return max(FEWEST, min(MOST, int(cap / estimate) if estimate > 0 else MOST))


class CpuTimer:
    """Times by the processor: with one thread by the time that this thread ran, which others on the machine do not stretch.

    On an idle machine that is the time by the clock on the wall.
    """

    device = "cpu"

    def __init__(
        self, clock: Clock = time.thread_time, wall: Clock = time.perf_counter, flush: Call | None = None,
        reference: Call | None = None, quietest: float = float("inf"),
    ) -> None:  # fmt: skip
        self.clock, self.wall, self.flush = clock, wall, flush
        self.reference, self.quietest = reference, quietest

    def measure(self, call: Call, cap: float = RECORD_TIME, cold: bool = False) -> Timing:
        """Warmed up by four calls, then as many as the cap allows: at least five, or as many as three caps allow.

        Calls too short for the clock are timed in groups, unless caches are flushed before each. Where there is a
        reference, only the calls count beside which it ran as fast as it ever did, or else at its fastest now.
        """
        call()
        brief = min(self._timed(call) for _ in range(TRIALS)) < SHORTEST
        group = CAPTURED if brief and not cold else 1
        found: list[tuple[float, float]] = []
        began = self.wall()
        while len(found) < MOST:
            found.append(self._once(call, group, cold))
            spent = self.wall() - began
            if (spent > cap and len(found) >= FEWEST) or (spent > 3 * cap and len(found) >= 2):
                break
        if self.reference is None:
            return Timing.of([seconds for seconds, _ in found])
        least = min(beside for _, beside in found)
        self.quietest = min(self.quietest, least)
        limit = QUIET * (self.quietest if least <= QUIET * self.quietest else least)
        return Timing.of([seconds for seconds, beside in found if beside <= limit], least)

    def dispatched(self, call: Call) -> Timing:
        """The time of the call: a processor launches nothing."""
        return self.measure(call)

    def _once(self, call: Call, group: int, cold: bool) -> tuple[float, float]:
        """Seconds of a call, and of the slower reference before and after it."""
        if cold and self.flush is not None:
            self.flush()
        before = self._beside()
        start = self.clock()
        for _ in range(group):
            call()
        seconds = (self.clock() - start) / group
        return seconds, max(before, self._beside())

    def _beside(self) -> float:
        """Seconds of the reference: the shorter of two calls, the first of which may find its data gone from the cache."""
        return min(self._timed(self.reference), self._timed(self.reference)) if self.reference is not None else 0.0

    def _timed(self, call: Call) -> float:
        start = self.clock()
        call()
        return self.clock() - start


class CudaTimer:
    """Times by events in the stream of a GPU, enqueued behind a product that hides their launches."""

    device = "cuda"

    def __init__(self) -> None:
        self.torch = torch_module()
        cache = getattr(self.torch.cuda.get_device_properties(0), "L2_cache_size", 64 << 20)
        self.scratch = self.torch.empty(2 * cache // 4, dtype=self.torch.float32, device="cuda")
        self.shield = self.torch.randn(4096, 4096, device="cuda", dtype=self.torch.float16)

    def measure(self, call: Call, cap: float = RECORD_TIME, cold: bool = True) -> Timing:
        """Warmed up, then an event on each side of every call; the shortest as a graph of twenty."""
        estimate = self._warmed(call)
        calls, count = call, 1
        if estimate < SHORTEST and not cold:
            graph = self._captured(call)
            if graph is not None:
                calls, count = graph.replay, CAPTURED
        times = self._timed(calls, repeated(estimate * count, cap), cold)
        return Timing.of([t / count for t in times])

    def dispatched(self, call: Call) -> Timing:
        """Seconds that the host takes to launch a kernel: many in a row, faster than which none can follow another."""
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
        """Calls until two means of five agree, or for a fifth of a second; the last mean."""
        before, began = float("inf"), time.perf_counter()
        while True:
            mean = sum(self._timed(call, WARM_CALLS, False)) / WARM_CALLS
            settled = abs(mean - before) <= WARM_AGREEMENT * before
            if settled or time.perf_counter() - began > WARM_TIME:
                return mean
            before = mean

    def _timed(self, call: Call, n: int, cold: bool) -> list[float]:
        cuda = self.torch.cuda
        pairs = [(cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)) for _ in range(n)]
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
        """A graph of calls, or None where the kernel cannot be captured."""
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
    device: str, cache_bytes: float, threads: int = 1, reference: Call | None = None, quietest: float = float("inf")
) -> Timer:
    """The timer of a device; that of a CPU writes twice its largest cache where a call must find it cold."""
    if device == "cuda":
        return CudaTimer()
    torch = torch_module()
    scratch = torch.empty(int(2 * cache_bytes) // 4, dtype=torch.float32)
    clock = time.thread_time if threads == 1 else time.perf_counter
    return CpuTimer(clock, flush=lambda: scratch.fill_(1.0), reference=reference, quietest=quietest)
