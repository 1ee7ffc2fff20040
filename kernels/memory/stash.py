"""What autograd keeps between forward and backward pass, counted in bytes of storage."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Stash:
    """All that is kept for a backward pass.

    Attributes:
        bytes: the bytes of all storages; each counts once, however many tensors are in it.
        storages: their addresses.
    """

    bytes: int
    storages: frozenset[int] = frozenset()

    def has(self, tensor: Tensor) -> bool:
        """Whether a tensor that was alive throughout is kept."""
        return address_of(tensor) in self.storages


def stash_bytes(fn: Callable[..., Any], *args: Any, exclude: Iterable[Tensor] | None = None) -> Stash:
    """What autograd keeps while `fn(*args)` runs, without parameters (those of a module, or the given tensors).

    It does not see what a custom function hides in its context without `save_for_backward`. The graph gets no tensor
    that belongs to it: an operator that kept its own output would keep itself, and all before it, for good.
    """
    if exclude is None:
        exclude = (*fn.parameters(), *fn.buffers()) if isinstance(fn, nn.Module) else ()
    left_out = {address_of(t) for t in exclude}
    # Of each storage its bytes, and a tensor that keeps it alive, so that no other gets its address meanwhile.
    kept: dict[int, tuple[int, Tensor]] = {}

    def keep(tensor: Tensor) -> Tensor:
        address, alone = address_of(tensor), tensor.detach()
        if address not in left_out:
            kept.setdefault(address, (tensor.untyped_storage().nbytes(), alone))
        return alone

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        result = fn(*args)
    del result
    return Stash(sum(size for size, _ in kept.values()), frozenset(kept))


def address_of(tensor: Tensor) -> int:
    """The address of a tensor's storage."""
    return tensor.untyped_storage().data_ptr() if tensor.numel() else 0


def forward_and_backward(call: Callable[[Any], Any], x: Tensor, parameters: Iterable[Tensor]) -> Callable[[], Any]:
    """A function that runs a layer forward and backward; gradients are dropped before each run."""
    gradient = torch.ones_like(call(x))
    leaves = [leaf for leaf in (x, *parameters) if leaf.requires_grad]

    return lambda: torch.autograd.grad(call(x), leaves, gradient)
