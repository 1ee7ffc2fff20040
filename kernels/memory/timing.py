"""How long a call takes on this device: the one place to put another harness in."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch


def seconds(call: Callable[[], Any], device: str, cap: float = 0.3) -> float:
    """Time of a call, warmed up and repeated for about `cap` seconds."""
    return seconds_together([call], device, cap)[0]


def seconds_together(calls: Sequence[Callable[[], Any]], device: str, cap: float = 0.3) -> list[float]:
    """Time of each of several calls: the least on a processor, the median on a GPU.

    A processor's single thread is timed by its own time, which other programs do not stretch. They take turns, that
    what else runs on the machine meanwhile slows all of them; about `cap` seconds each.
    """
    clock = time.thread_time if device == "cpu" and torch.get_num_threads() == 1 else time.perf_counter
    for call in (*calls, *calls):
        call()
    times: list[list[float]] = [[] for _ in calls]
    began = time.perf_counter()
    while len(times[0]) < 5 or (time.perf_counter() - began < cap * len(calls) and len(times[0]) < 200):
        for call, taken in zip(calls, times, strict=True):
            _settle(device)
            start = clock()
            call()
            _settle(device)
            taken.append(clock() - start)
    return [min(taken) if device == "cpu" else statistics.median(taken) for taken in times]


def _settle(device: str) -> None:
    if device != "cpu":
        torch.cuda.synchronize()


def forward_and_backward(module: Callable[[Any], Any], x: torch.Tensor) -> Callable[[], None]:
    """A call that runs a module forward and back; gradients are dropped before each."""
    gradient = torch.ones_like(module(x))
    leaves = [x, *(module.parameters() if isinstance(module, torch.nn.Module) else ())]
    leaves = [leaf for leaf in leaves if leaf.requires_grad]

    def call() -> None:
        torch.autograd.grad(module(x), leaves, gradient)

    return call
