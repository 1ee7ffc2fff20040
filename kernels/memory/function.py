"""Autograd functions for which the host works less in each call."""

from __future__ import annotations

import inspect

import torch
from torch import Tensor


class Function(torch.autograd.Function):
    """An autograd function for which the host works less in each call."""

    def __init_subclass__(cls) -> None:
        """Keeps the signature of `forward`, which torch would otherwise find out in each call (14 µs)."""
        super().__init_subclass__()
        cls.forward.__signature__ = inspect.signature(cls.forward)


def is_observed(x: Tensor) -> bool:
    """Whether autograd, a compiler, a dispatch mode or a subclass of tensors must see which operators run.

    If not, the Python function of an operator can be called directly, which takes 25 µs less.
    """
    observed = torch.is_grad_enabled() or torch.compiler.is_compiling() or torch._C._len_torch_dispatch_stack() > 0
    return observed or type(x) is not Tensor
