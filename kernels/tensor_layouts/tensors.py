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
    return tuple(layout.index(letter) for letter in letters)


def stored(values: Tensor, letters: str, layout: str) -> Tensor:
    """Values with dimensions `letters`, copied into the layout; the values themselves if they already have it."""
    return logical(values, letters, layout).contiguous()


def matrix(tensor: Tensor, layout: str, groups: tuple[Letters, ...], sizes: Sizes) -> Tensor:
    """A view with one dimension for each group of adjacent letters; a group without letters has one element."""
    return tensor.as_strided(*_grouped(layout, groups, tuple(sizes[letter] for letter in layout)))


@lru_cache(maxsize=1 << 12)
def _grouped(
    layout: str, groups: tuple[Letters, ...], lengths: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Sizes and strides of a layout's groups; a layer asks for the same ones in every pass, and the host must be fast."""
    sizes = dict(zip(layout, lengths, strict=True))
    shape = tuple(prod(sizes[letter] for letter in group) for group in groups)
    return shape, tuple(stride_of(layout, group, sizes) for group in groups)


def contract(
    einsum: str, layouts: Sequence[str], a: Tensor, b: Tensor, out: Tensor, sizes: Sizes,
    alpha: float,
) -> Tensor:  # fmt: skip
    """`out` = alpha · a·b as one (batched) GEMM over views; the old content of `out` is not read.

    `is_one_gemm` must allow the layouts; each tensor is dense in its layout.
    """
    of = roles(einsum)
    first, second, result = (
        matrix(tensor, layout, (of.batch, *classes), sizes)
        for tensor, layout, classes in zip((a, b, out), layouts, of.of_tensors, strict=True)
    )
    if not of.batch:
        result[0].addmm_(first[0], second[0], beta=0, alpha=alpha)
    else:
        result.baddbmm_(first, second, beta=0, alpha=alpha)
    return out


def contraction(
    operator: Operator, layouts: Sequence[str], tensors: Sequence[Tensor], sizes: Sizes
) -> Callable[[], Tensor]:
    """The call of an operator's contraction in these layouts."""
    alpha = sizes["p"] ** -0.5 if operator.scaled else 1.0
    a, b, out = tensors
    return partial(contract, operator.einsum, layouts, a, b, out, sizes, alpha)


def hidden_copies(call: Call) -> set[str]:
    """The names of the copies inside a call, from the profiler: a layout that the library cannot take is cloned."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # the profiler prints a line at every start
    with torch.autograd.profiler.profile(use_kineto=False) as seen:
        call()
    return {event.name for event in seen.function_events if event.name in COPIES}
