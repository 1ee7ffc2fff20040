"""A GPU with one stream and a host whose time passes only in their work: what torch.cuda offers, as far as timers use it.

The host launches, which takes it a while each, and the GPU runs what was launched in order, never before its launch. So
the seconds between two events are those of the kernels between them only if the host was ahead.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from amped.kernels.cuda_timer import CudaTimer

CLOCK = 1.5e9  # cycles of a sleep in a second
EVENT_TIME = 1e-6  # the host's, for an event
TINY = 1e-6  # a kernel on one number


class Event:
    def __init__(self, gpu: "Gpu") -> None:
        self.gpu, self.at = gpu, 0.0

    def record(self) -> None:
        self.gpu.now += EVENT_TIME
        self.at = max(self.gpu.now, self.gpu.free)

    def query(self) -> bool:
        return self.at <= self.gpu.now

    def elapsed_time(self, end: "Event") -> float:
        """Milliseconds; negative where events are to be out of order."""
        self.gpu.read += 1
        wrong = self.gpu.read in self.gpu.out_of_order
        lapse = end.at - self.at + self.gpu.events_time
        return 1e3 * (-lapse if wrong else lapse)


class Graph:
    def __init__(self, gpu: "Gpu") -> None:
        self.gpu, self.kernels = gpu, list[float]()

    def replay(self) -> None:
        self.gpu.launched(sum(self.kernels))
        self.gpu.replays += 1


class Gpu:
    """It stands in for the module torch; `kernel` makes calls that take the given seconds, the last for ever after."""

    float32 = "float32"

    def __init__(
        self, launch_time: float = 5e-6, flush_time: float = 30e-6, captures: bool = True, events_time: float = 0.0
    ) -> None:  # fmt: skip
        self.now = self.free = 0.0
        self.launch_time, self.flush_time, self.captures = launch_time, flush_time, captures
        self.events_time = events_time
        self.launches = self.flushes = self.replays = self.read = 0
        self.refusals = 0
        self.waits = list[tuple[str, str]]()
        self.out_of_order: set[int] = set()
        self.stream, self.busy_allocator = "default", False
        self.capturing: Graph | None = None
        event = Event
        self.cuda = SimpleNamespace(
            current_device=lambda: 0, get_device_properties=lambda _: SimpleNamespace(L2_cache_size=1 << 20),
            Event=lambda enable_timing=False: event(self), _sleep=lambda cycles: self.launched(cycles / CLOCK),
            synchronize=self.synchronize, current_stream=lambda: self._stream(self.stream),
            Stream=lambda: self._stream("side"), stream=self._on, CUDAGraph=lambda: Graph(self), graph=self._graph,
            set_stream=lambda stream: setattr(self, "stream", stream.name), empty_cache=self.empty_cache,
        )  # fmt: skip

    def timer(self) -> CudaTimer:
        """The timer of this GPU, which can capture what the timer itself does."""
        self.captures, captures = True, self.captures
        made = CudaTimer(self, self.wall)
        self.captures, self.replays = captures, 0
        return made

    def wall(self) -> float:
        return self.now

    def empty(self, size: int, **_: Any) -> Any:
        def flush() -> None:
            self.flushes += 1
            self.launched(self.flush_time if size > 1 else TINY)

        return SimpleNamespace(zero_=flush)

    def launched(self, seconds: float, launch_time: float | None = None) -> None:
        if self.capturing is not None:
            self.capturing.kernels.append(seconds)
            return
        self.now += self.launch_time if launch_time is None else launch_time
        self.free = max(self.free, self.now) + seconds

    def kernel(self, *seconds: float, launch_time: float | None = None) -> Callable[[], None]:
        calls = iter(seconds)
        last = seconds[-1]

        def call() -> None:
            self.launches += 1
            self.launched(next(calls, last), launch_time)

        return call

    def compiled_by_its_first_call(self, seconds: float, first: float) -> Callable[[], None]:
        """The host compiles in the first call, which takes it `first` seconds."""
        launch = iter([first])

        def call() -> None:
            self.launches += 1
            self.launched(seconds, next(launch, None))

        return call

    def synchronize(self) -> None:
        self.now = max(self.now, self.free)

    def empty_cache(self) -> None:
        if self.busy_allocator:
            raise RuntimeError("captures_underway.empty() INTERNAL ASSERT FAILED")

    def _stream(self, name: str) -> Any:
        return SimpleNamespace(name=name, wait_stream=lambda other: self.waits.append((name, other.name)))

    @contextmanager
    def _on(self, stream: Any) -> Iterator[None]:
        before, self.stream = self.stream, stream.name
        yield
        self.stream = before

    @contextmanager
    def _graph(self, graph: Graph, stream: Any) -> Iterator[None]:
        """As torch's own: where a capture is refused, the stream and the allocator stay as the capture had them."""
        self.empty_cache()
        self.synchronize()
        before, self.stream, self.capturing = self.stream, stream.name, graph
        yield
        self.capturing = None
        if not self.captures:
            self.refusals += 1
            self.busy_allocator = True
            raise RuntimeError("operation not permitted when stream is capturing")
        self.stream = before
