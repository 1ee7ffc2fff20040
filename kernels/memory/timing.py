"""How long a call takes on this device: the one place to put another harness in."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch


def seconds(call: Callable[[], Any], device: str, cap: float = 0.3) -> float:
    """Time of a call, warmed up and repeated for about `cap` seconds: the least on a processor, the median on a GPU."""
    call()
    times: list[float] = []
    began = time.perf_counter()
    while len(times) < 5 or (time.perf_counter() - began < cap and len(times) < 200):
        _settle(device)
        start = time.perf_counter()
        call()
        _settle(device)
        times.append(time.perf_counter() - start)
    return min(times) if device == "cpu" else statistics.median(times)


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
