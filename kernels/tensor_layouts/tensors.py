"""Tensors in a chosen layout, and their contractions as one GEMM each, without a hidden copy."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache, partial
from math import prod
from typing import Any

from amped.kernels.tensor_layouts.gemms import Letters, roles, stride_of
from amped.kernels.tensor_layouts.spec import Operator, Sizes
from amped.kernels.timing import Call
from amped.kernels.torch_import import torch

Tensor = Any
# Names of operations that copy a tensor inside a call.
COPIES = ("aten::clone", "aten::copy_", "aten::contiguous")


def allocate(layout: str, sizes: Sizes, like: Mapping[str, Any]) -> Tensor:
    """An uninitialized tensor whose dimensions are the letters of the layout, with dtype and device of `like`."""
    return torch.empty([sizes[letter] for letter in layout], **like)


def logical(tensor: Tensor, layout: str, letters: str) -> Tensor:
    """A view of a tensor with its dimensions in the order of `letters`."""
    return tensor.permute(_order(layout, letters))


@cache
def _order(layout: str, letters: str) -> tuple[int, ...]:
    """The axes of a layout in the order of `letters`."""
    return tuple(layout.index(letter) for letter in letters)


def stored(values: Tensor, letters: str, layout: str) -> Tensor:
    """A tensor with axes `letters`, copied into the layout; the tensor itself if it already has the layout."""
    return logical(values, letters, layout).contiguous()


def matrix(tensor: Tensor, layout: str, groups: tuple[Letters, ...], sizes: Sizes) -> Tensor:
    """A view of a tensor with one axis for each group of adjacent letters; without letters, its length is one."""
    return tensor.as_strided(*_grouped(layout, groups, tuple(sizes[letter] for letter in layout)))


@lru_cache(maxsize=1 << 12)
def _grouped(
    layout: str, groups: tuple[Letters, ...], lengths: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The sizes and the strides of axes made of groups of letters.

    They are cached, because a layer needs the same ones in every pass, and the host must be fast.
    """
    sizes = dict(zip(layout, lengths, strict=True))
    shape = tuple(prod(sizes[letter] for letter in group) for group in groups)
    return shape, tuple(stride_of(layout, group, sizes) for group in groups)


def contract(
    einsum: str, layouts: Sequence[str], a: Tensor, b: Tensor, out: Tensor, sizes: Sizes,
    alpha: float,
) -> Tensor:  # fmt: skip
    """Computes `out` = alpha · a·b as one (batched) GEMM over views, and returns `out`; its old content is not read.

    `is_one_gemm` must allow the layouts; each tensor is dense in its layout.
    """
    letter_roles = roles(einsum)
    first, second, result = (
        matrix(tensor, layout, (letter_roles.batch, *classes), sizes)
        for tensor, layout, classes in zip((a, b, out), layouts, letter_roles.of_tensors, strict=True)
    )
    if not letter_roles.batch:
        result[0].addmm_(first[0], second[0], beta=0, alpha=alpha)
    else:
        result.baddbmm_(first, second, beta=0, alpha=alpha)
    return out


def contraction(
    operator: Operator, layouts: Sequence[str], tensors: Sequence[Tensor], sizes: Sizes
) -> Callable[[], Tensor]:
    """A function that runs an operator's contraction on these tensors in these layouts."""
    alpha = sizes["p"] ** -0.5 if operator.scaled else 1.0
    a, b, out = tensors
    return partial(contract, operator.einsum, layouts, a, b, out, sizes, alpha)


def hidden_copies(call: Call) -> set[str]:
    """The names of the operations that copy a tensor inside a call, found by the profiler.

    A library that cannot take a layout makes such a copy.
    """
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # the profiler prints a line at every start
    with torch.autograd.profiler.profile(use_kineto=False) as profiled:
        call()
    return {event.name for event in profiled.function_events if event.name in COPIES}
