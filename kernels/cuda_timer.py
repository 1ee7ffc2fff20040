"""The timer of a GPU: events in its stream, behind a sleep of the GPU that lasts until the host has launched the calls.

Without the sleep, an event fires when the GPU has nothing to do, and a short kernel's time is the time that the host needs
to launch it. Whether the GPU still slept when the last call was launched is known, so that other times do not count.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from amped.kernels.timing import FEWEST, MOST, RECORD_TIME, Call, Clock, Timing, repeated
from amped.kernels.torch_import import torch

WARM_TIME, WARM_CALLS, WARM_AGREEMENT = 0.2, 5, 0.03
# Kernels shorter than this may be captured in a graph of many, so that their launches are not timed.
SHORTEST, CAPTURED, WARM_CAPTURES = 30e-6, 20, 3
# The sleep lasts this many times as long as the host needed for the same launches before, and at most LONGEST_SLEEP.
SLEEP_MARGIN, LONGEST_SLEEP = 2.0, 0.05
# The seconds of the host behind one sleep: a stream takes about a thousand launches before the host must wait, and a
# launch takes at least 2 µs.
ROW_TIME = 2e-3
# The assumed host time of a call before it is known, and the cycles of the sleep that tells the GPU's clock.
FIRST_LAUNCH, KNOWN_CYCLES = 50e-6, 1 << 20
# The cache that is flushed if torch does not tell its size: more than any GPU up to Hopper has.
USUAL_CACHE = 64 << 20


@dataclass
class Launches:
    """The seconds that the host needs for one call, as they were last seen."""

    seconds: float = FIRST_LAUNCH

    @property
    def in_a_row(self) -> int:
        """How many calls the host launches behind one sleep."""
        return max(1, int(ROW_TIME / self.seconds))

    def sleep(self, calls: int) -> float:
        """The seconds of the sleep before a row of calls."""
        return min(LONGEST_SLEEP, SLEEP_MARGIN * self.seconds * calls)

    def saw(self, seconds: float) -> None:
        """Notes the time of a call; a single slow one is forgotten by and by."""
        self.seconds = max(seconds, self.seconds / 2)


@dataclass(frozen=True)
class Lapse:
    """The seconds between the two events of a call, and whether all launches were done before the first event."""

    seconds: float
    covered: bool


class CudaTimer:
    """Times the calls of the current GPU without their launches."""

    device = "cuda"

    def __init__(self, torch: Any = torch, wall: Clock = time.perf_counter) -> None:
        self.torch, self.wall = torch, wall
        cuda = self.torch.cuda
        cache = getattr(cuda.get_device_properties(cuda.current_device()), "L2_cache_size", USUAL_CACHE)
        self.scratch = self.torch.empty(2 * cache // 4, dtype=self.torch.float32, device="cuda")
        self.cycle_rate = self.events_time = 0.0  # no sleep while the sleep itself is timed
        self.cycle_rate = KNOWN_CYCLES / self._warmed(lambda: cuda._sleep(KNOWN_CYCLES), False, Launches(), WARM_TIME)
        self.refused: Any = None
        self.events_time = self._time_of_events()

    def measure(
        self, call: Call, cap: float = RECORD_TIME, cold: bool = True, capturable: bool = False
    ) -> Timing:  # fmt: skip
        """Warms up, then puts an event on each side of every call.

        The shortest kernels run as a graph of twenty if the caller says that CUDA can capture them. Calls of autograd
        cannot be captured if their forward pass ran on another stream, and neither can optimizers whose step is a number
        of the host.
        """
        launches, count, warming = Launches(), 1, min(WARM_TIME, cap)
        estimate = self._warmed(call, cold, launches, warming)
        graph = self._captured(call) if capturable and not cold and estimate < SHORTEST else None
        if graph is not None:
            call, count, launches = graph.replay, CAPTURED, Launches()
            estimate = self._warmed(call, cold, launches, warming)
        calls, lapses = repeated(estimate, cap), list[Lapse]()
        while sum(lapse.covered for lapse in lapses) < calls and len(lapses) < 2 * calls:
            lapses += self._row([call] * min(calls, launches.in_a_row), cold, launches)
        return _timing(lapses, count)

    def together(self, calls: Sequence[Call], cap: float = RECORD_TIME) -> list[Timing]:
        """Times calls in turns: the GPU sleeps before each one, for as long as the host needs to launch that one."""
        launches_of = [Launches() for _ in calls]
        turns: list[list[Lapse]] = []
        began = self.wall()
        for turn in range(2 + MOST):
            turns.append([])
            for call, launches in zip(calls, launches_of, strict=True):
                turns[-1] += self._row([call], False, launches)
            if turn == 1:  # the first turn loads code, and the second one tells the host's time
                turns, began = [], self.wall()
            elif len(turns) >= FEWEST and self.wall() - began > cap * len(calls):
                break
        return [_timing(lapses, 1) for lapses in zip(*turns, strict=True)]

    def dispatched(self, call: Call, in_a_row: int = MOST) -> Timing:
        """The seconds that the host takes to launch a call: several in a row, as fast as possible.

        They must be fewer launches than the stream takes, or the host waits for the GPU.
        """
        times = []
        for _ in range(FEWEST + 1):
            self.torch.cuda.synchronize()
            start = self.wall()
            for _ in range(in_a_row):
                call()
            times.append((self.wall() - start) / in_a_row)
            self.torch.cuda.synchronize()
        return Timing.of(times[1:])

    def _time_of_events(self) -> float:
        """The seconds that a pair of events adds to the kernel between them: its time alone less that in a graph of many.

        On an H200 it is 2.2 µs, by which small kernels would seem slower than they are in a row of others.
        """
        tiny = self.torch.empty(1, dtype=self.torch.float32, device="cuda").zero_
        alone, in_graph = (
            self.measure(tiny, WARM_TIME, cold=False, capturable=graph).median for graph in (False, True)
        )
        return max(0.0, alone - in_graph)

    def _warmed(self, call: Call, cold: bool, launches: Launches, limit: float) -> float:
        """Calls once, because that loads code; then until two means of five agree, or for `limit` seconds.

        The result is the last mean.
        """
        call()
        self.torch.cuda.synchronize()
        before, began = None, self.wall()
        while True:
            mean = statistics.fmean(lapse.seconds for lapse in self._row([call] * WARM_CALLS, cold, launches))
            settled = before is not None and abs(mean - before) <= WARM_AGREEMENT * before
            if settled or self.wall() - began > limit:
                return mean
            before = mean

    def _row(self, calls: Sequence[Call], cold: bool, launches: Launches) -> list[Lapse]:
        """The times of calls that run in a row, as soon as the GPU has slept."""
        cuda = self.torch.cuda
        pairs = [(cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)) for _ in calls]
        woken, began = cuda.Event(), self.wall()
        if self.cycle_rate:
            cuda._sleep(int(self.cycle_rate * launches.sleep(len(calls))))
        woken.record()
        for call, (start, end) in zip(calls, pairs, strict=True):
            if cold:
                self.scratch.zero_()
            start.record()
            call()
            end.record()
        covered = not woken.query()
        launches.saw((self.wall() - began) / len(calls))
        cuda.synchronize()
        lapses = (start.elapsed_time(end) / 1e3 for start, end in pairs)
        return [Lapse(seconds - self.events_time if seconds > 0 else seconds, covered) for seconds in lapses]

    def _captured(self, call: Call) -> Any:
        """A graph of calls on a stream of its own; None if one was refused before.

        After a refusal, torch leaves the capturing stream in use, and its allocator keeps asking the graph which streams
        it captures. So the stream is restored, the graph is kept, and no other capture is tried.
        """
        if self.refused is not None:
            return None
        cuda = self.torch.cuda
        before, side, graph = cuda.current_stream(), warmed_aside(cuda, call), cuda.CUDAGraph()
        try:
            with cuda.graph(graph, stream=side):
                for _ in range(CAPTURED):
                    call()
        except RuntimeError:
            self.refused = graph
            return None
        finally:
            cuda.set_stream(before)
            cuda.synchronize()
        return graph


def warmed_aside(cuda: Any, call: Call) -> Any:
    """A stream of its own, on which a call ran before it is captured there, as libraries need."""
    now, side = cuda.current_stream(), cuda.Stream()
    side.wait_stream(now)
    with cuda.stream(side):
        for _ in range(WARM_CAPTURES):
            call()
    now.wait_stream(side)
    return side


def _timing(lapses: Iterable[Lapse], count: int) -> Timing:
    """The statistics of the calls that no launch was in; of all calls, and flagged, if there are no others.

    Raises:
        RuntimeError: if no call has an end after its start.
    """
    ordered = [lapse for lapse in lapses if lapse.seconds >= 0]
    if not ordered:
        raise RuntimeError("the GPU's events are out of order: no call ended after its start")
    covered = [lapse for lapse in ordered if lapse.covered]
    return Timing.of([lapse.seconds / count for lapse in covered or ordered], host_bound=not covered)
