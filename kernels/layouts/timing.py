"""How long a call takes on this device: warmed up, repeated within a cap of time.

On a CPU with one thread other programs only ever add time: the processor's time of this thread, its minimum. On a GPU
at least twenty launches lie between two events, so that none is timed alone, and the median of those counts.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from amped.kernels.timing import Call, Timing
from amped.kernels.torch_door import torch_module

FEWEST, MOST, CAP = 3, 50, 0.25
LAUNCHES = 20


@contextmanager
def one_thread(device: str) -> Iterator[None]:
    """One thread on a CPU while the block runs."""
    torch = torch_module()
    before = torch.get_num_threads()
    if device == "cpu":
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def measure(call: Call, device: str, cap: float = CAP) -> Timing:
    """The time of a call, warmed up by one more, in about `cap` seconds but at least three times."""
    once = _once_on_gpu if device == "cuda" else _once_on_cpu
    call()
    times: list[float] = []
    began = time.perf_counter()
    while len(times) < MOST and (len(times) < FEWEST or time.perf_counter() - began < cap):
        times.append(once(call))
    return Timing.of(times)


def _once_on_cpu(call: Call) -> float:
    start = time.thread_time()
    call()
    return time.thread_time() - start


def _once_on_gpu(call: Call) -> float:
    cuda = torch_module().cuda
    start, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
    start.record()
    for _ in range(LAUNCHES):
        call()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) / 1e3 / LAUNCHES
