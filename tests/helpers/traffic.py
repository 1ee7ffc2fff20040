"""What PyTorch's own operators move: each is run, and the bytes of its tensors are counted."""

from collections.abc import Callable, Iterable
from math import prod
from typing import Any

import pytest

# Operators that move nothing, or that only prepare a test.
UNSEEN = ("split", "detach", "alias", "view", "randn")


def traffic_of(run: Callable[[], Any]) -> tuple[Any, int, int]:
    """What a run gives, and the bytes that its operators read and write; views move nothing, and a dimension that is expanded is read once."""
    torch = pytest.importorskip("torch", reason="counts what PyTorch's operators move")
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves

    moved = {"read": 0, "written": 0}

    def own_entries(tensor: Any) -> int:
        return prod(n for n, step in zip(tensor.shape, tensor.stride(), strict=True) if step)

    def size(tensors: Iterable[Any]) -> int:
        return sum(own_entries(t) * t.element_size() for t in tensors if isinstance(t, torch.Tensor))

    class Counting(TorchDispatchMode):  # type: ignore[misc]  # torch is not typed here
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = function(*args, **(kwargs or {}))
            if not (function.is_view or any(word in str(function) for word in UNSEEN)):
                moved["read"] += size({id(t): t for t in tree_leaves((args, kwargs))}.values())
                moved["written"] += size(tree_leaves(result))
            return result

    with Counting():
        found = run()
    return found, moved["read"], moved["written"]


def both_passes(function: Callable[..., Any], *inputs: Any) -> list[list[int]]:
    """Bytes read and written forward, and backward of inputs that are results of something else."""
    import torch

    outputs, *forward = traffic_of(lambda: function(*inputs))
    gradients = [torch.ones_like(each) for each in (outputs if isinstance(outputs, tuple) else (outputs,))]
    _, *backward = traffic_of(lambda: torch.autograd.grad(outputs, inputs, gradients))
    return [forward, backward]
