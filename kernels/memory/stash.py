"""What autograd keeps between forward and backward pass, counted in bytes of storage."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Stash:
    """The storages that are kept for a backward pass.

    Attributes:
        bytes: the bytes of all storages; each counts once, however many tensors are in it.
        storages: the addresses of the storages.
    """

    bytes: int
    storages: frozenset[int] = frozenset()

    def has(self, tensor: Tensor) -> bool:
        """Whether the storage of a tensor is kept; the tensor must have been alive throughout."""
        return address_of(tensor) in self.storages


def stash_bytes(fn: Callable[..., Any], *args: Any, exclude: Iterable[Tensor] | None = None) -> Stash:
    """The storages that autograd keeps while `fn(*args)` runs, without those of parameters and buffers.

    `exclude` are the tensors that do not count; by default, the parameters and buffers of a module `fn`. Tensors that a
    custom function keeps in its context without `save_for_backward` are not seen. The graph gets no tensor that belongs
    to it: an operator that kept its own output would keep itself, and all before it, for good.
    """
    if exclude is None:
        exclude = (*fn.parameters(), *fn.buffers()) if isinstance(fn, nn.Module) else ()
    left_out = {address_of(t) for t in exclude}
    # Of each storage its bytes, and a tensor that keeps it alive, so that no other gets its address meanwhile.
    kept: dict[int, tuple[int, Tensor]] = {}

    def keep(tensor: Tensor) -> Tensor:
        """Counts a saved tensor, and returns it without its graph."""
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
    """A function that runs a layer forward and backward, and returns the gradients of `x` and of the parameters."""
    gradient = torch.ones_like(call(x))
    leaves = [leaf for leaf in (x, *parameters) if leaf.requires_grad]

    return lambda: torch.autograd.grad(call(x), leaves, gradient)
