"""What autograd keeps between forward and backward pass, counted in bytes of storage."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Entry:
    """One kept storage: its bytes, and the first tensor that was seen in it."""

    bytes: int
    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True)
class Stash:
    """All that is kept for a backward pass.

    Attributes:
        bytes: the bytes of all storages; each counts once, however many tensors are in it.
    """

    bytes: int
    entries: tuple[Entry, ...]


def stash_bytes(fn: Callable[..., Any], *args: Any, exclude: Iterable[Tensor] | None = None) -> Stash:
    """What autograd keeps while `fn(*args)` runs, without parameters (those of a module, or the given tensors).

    It does not see what a custom function hides in its context without `save_for_backward`.
    """
    if exclude is None:
        exclude = (*fn.parameters(), *fn.buffers()) if isinstance(fn, nn.Module) else ()
    left_out = {_address(t) for t in exclude}
    kept: dict[int, tuple[Entry, Tensor]] = {}

    def keep(tensor: Tensor) -> Tensor:
        address = _address(tensor)
        if address not in left_out and address not in kept:
            size = tensor.untyped_storage().nbytes()
            # The tensor is kept alive, so that no other tensor gets its address meanwhile.
            kept[address] = Entry(size, tuple(tensor.shape), str(tensor.dtype).removeprefix("torch.")), tensor.detach()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        result = fn(*args)
    entries = tuple(entry for entry, _ in kept.values())
    del result
    return Stash(sum(entry.bytes for entry in entries), entries)


def _address(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr() if tensor.numel() else 0


def forward_and_backward(call: Callable[[Any], Any], x: Tensor, parameters: Iterable[Tensor]) -> Callable[[], Any]:
    """A function that runs a layer forward and backward; gradients are dropped before each run."""
    gradient = torch.ones_like(call(x))
    leaves = [leaf for leaf in (x, *parameters) if leaf.requires_grad]

    return lambda: torch.autograd.grad(call(x), leaves, gradient)
