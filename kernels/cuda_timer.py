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
    """The seconds that the host needs to launch a call, by what was seen so far."""

    seconds: float = FIRST_LAUNCH

    @property
    def in_a_row(self) -> int:
        """How many calls the host launches behind one sleep."""
        return max(1, int(ROW_TIME / self.seconds))

    def sleep(self, calls: int) -> float:
        """The seconds of the sleep before a row of calls."""
        return min(LONGEST_SLEEP, SLEEP_MARGIN * self.seconds * calls)

    def saw(self, seconds: float) -> None:
        """Takes in the launch time of the newest call; the effect of a single slow one is halved with each later call."""
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
        """The times of a call, after a warm-up, from an event before and an event after each call.

        The shortest kernels run as a graph of twenty calls if they are `capturable`. Calls of autograd cannot be
        captured if their forward pass ran on another stream, and neither can optimizers whose step is a number of the
        host.

        - `cap`: the seconds that the measurement may take, about.
        - `cold`: whether the cache is flushed before each call.
        - `capturable`: whether CUDA can capture the call in a graph.
        """
        launches, calls_per_lapse, warm_time = Launches(), 1, min(WARM_TIME, cap)
        estimate = self._warmed(call, cold, launches, warm_time)
        graph = self._captured(call) if capturable and not cold and estimate < SHORTEST else None
        if graph is not None:
            call, calls_per_lapse, launches = graph.replay, CAPTURED, Launches()
            estimate = self._warmed(call, cold, launches, warm_time)
        number_of_lapses, lapses = repeated(estimate, cap), list[Lapse]()
        while sum(lapse.covered for lapse in lapses) < number_of_lapses and len(lapses) < 2 * number_of_lapses:
            lapses += self._row([call] * min(number_of_lapses, launches.in_a_row), cold, launches)
        return _timing(lapses, calls_per_lapse)

    def together(self, calls: Sequence[Call], cap: float = RECORD_TIME) -> list[Timing]:
        """The times of several calls, made in turns.

        Before each call the GPU sleeps until the host has launched the call.
        """
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
        """The seconds that the host takes to launch a call, measured by several launches as fast as possible.

        `in_a_row` must be less than the stream takes, or the host waits for the GPU.
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
        """The seconds that a pair of events adds to the time of the kernel between them.

        It is the time of a tiny kernel alone, less its time in a graph of many. On an H200 it is 2.2 µs; with it, small
        kernels would seem slower than they are in a row of others.
        """
        tiny = self.torch.empty(1, dtype=self.torch.float32, device="cuda").zero_
        alone, in_graph = (
            self.measure(tiny, WARM_TIME, cold=False, capturable=graph).median for graph in (False, True)
        )
        return max(0.0, alone - in_graph)

    def _warmed(self, call: Call, cold: bool, launches: Launches, limit: float) -> float:
        """The mean seconds of a call after a warm-up.

        The first call loads code and does not count. Then five calls are timed until two means agree, or for `limit`
        seconds.
        """
        call()
        self.torch.cuda.synchronize()
        previous_mean, began = None, self.wall()
        while True:
            mean = statistics.fmean(lapse.seconds for lapse in self._row([call] * WARM_CALLS, cold, launches))
            is_settled = previous_mean is not None and abs(mean - previous_mean) <= WARM_AGREEMENT * previous_mean
            if is_settled or self.wall() - began > limit:
                return mean
            previous_mean = mean

    def _row(self, calls: Sequence[Call], cold: bool, launches: Launches) -> list[Lapse]:
        """The times of calls that are launched while the GPU sleeps, and run one after another when it wakes."""
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
        """A graph of calls, captured on its own stream; None if CUDA refuses this capture or refused an earlier one.

        After a refusal, torch leaves the capturing stream in use, and its allocator keeps asking the graph which
        streams it captures. So the stream is restored, the graph is kept, and no other capture is tried.
        """
        if self.refused is not None:
            return None
        cuda = self.torch.cuda
        previous_stream, stream, graph = cuda.current_stream(), warmed_aside(cuda, call), cuda.CUDAGraph()
        try:
            with cuda.graph(graph, stream=stream):
                for _ in range(CAPTURED):
                    call()
        except RuntimeError:
            self.refused = graph
            return None
        finally:
            cuda.set_stream(previous_stream)
            cuda.synchronize()
        return graph


def warmed_aside(cuda: Any, call: Call) -> Any:
    """A new stream on which the call has run already, as libraries need before a capture."""
    current, stream = cuda.current_stream(), cuda.Stream()
    stream.wait_stream(current)
    with cuda.stream(stream):
        for _ in range(WARM_CAPTURES):
            call()
    current.wait_stream(stream)
    return stream


def _timing(lapses: Iterable[Lapse], calls_per_lapse: int) -> Timing:
    """The statistics of calls whose launches were done before the GPU began; if there are none, of all calls, flagged.

    - `count`: the number of calls between the two events of a lapse.

    Raises:
        RuntimeError: if no call has an end after its start.
    """
    ordered = [lapse for lapse in lapses if lapse.seconds >= 0]
    if not ordered:
        raise RuntimeError("the GPU's events are out of order: no call ended after its start")
    covered = [lapse for lapse in ordered if lapse.covered]
    return Timing.of([lapse.seconds / calls_per_lapse for lapse in covered or ordered], host_bound=not covered)
