"""The in-place norms as Triton kernels: a program for each row, sums in fp32, gradients of the weights in two steps."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from amped.kernels.memory.in_place_norm import SMALLEST_WEIGHT

# How many programs add up the gradients of the weights, each over its rows; then the programs' sums are added.
_PARTS = 256
# A thread has this many entries of a row, forward and backward, so that those of all tensors fit into its registers; and
# the most warps of a program, which leave each thread 128 registers.
_FORWARD, _BACKWARD, _MOST_WARPS = 16, 8, 16
# The threads of a warp.
_WARP = 32


def warps(block: int, entries: int) -> int:
    """The number of warps of a program that computes a row of `block` entries; each thread computes `entries` of them."""
    return max(1, min(_MOST_WARPS, block // (entries * _WARP)))


@triton.jit
def wide(pointers, exist):
    """The entries at these addresses in fp32; those that do not exist are zero."""
    return tl.load(pointers, mask=exist, other=0.0).to(tl.float32)


@triton.jit
def _forward_kernel(
    x_ptr, y_ptr, weight_ptr, bias_ptr, scale_ptr, width, eps, CENTERED: tl.constexpr, BLOCK: tl.constexpr,  # noqa: N803
):  # fmt: skip
    """The output and 1/σ of one row; the pointer of a missing weight or bias is None."""
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    inside = at < width
    x = wide(x_ptr + row * width + at, inside)
    if CENTERED:
        x = tl.where(inside, x - tl.sum(x, axis=0) / width, 0.0)
    scale = 1.0 / tl.sqrt(tl.sum(x * x, axis=0) / width + eps)
    y = x * scale
    if weight_ptr is not None:
        y = y * wide(weight_ptr + at, inside)
    if bias_ptr is not None:
        y = y + wide(bias_ptr + at, inside)
    tl.store(y_ptr + row * width + at, y.to(y_ptr.dtype.element_ty), mask=inside)
    tl.store(scale_ptr + row, scale)


@triton.jit
def _backward_kernel(
    gradient_ptr, y_ptr, weight_ptr, bias_ptr, scale_ptr, result_ptr, to_weight_ptr, to_bias_ptr, rows, width,
    CENTERED: tl.constexpr, SMALLEST: tl.constexpr, BLOCK: tl.constexpr,  # noqa: N803
):  # fmt: skip
    """The gradients of the inputs of several rows, and these rows' sums of the gradients of weight and bias.

    The program `part` of `parts` computes the rows part, part + parts, ….
    """
    part = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < width
    weight = tl.full([BLOCK], 1.0, dtype=tl.float32)
    bias = tl.zeros([BLOCK], dtype=tl.float32)
    if weight_ptr is not None:
        weight = wide(weight_ptr + at, inside)
    if bias_ptr is not None:
        bias = wide(bias_ptr + at, inside)
    divisor = tl.where(tl.abs(weight) < SMALLEST, tl.where(weight < 0, -SMALLEST, SMALLEST), weight)
    to_weight, to_bias = tl.zeros_like(weight), tl.zeros_like(weight)
    for row in range(part, rows, tl.num_programs(0)):
        first = tl.cast(row, tl.int64) * width
        y, gradient = wide(y_ptr + first + at, inside), wide(gradient_ptr + first + at, inside)
        normalized = tl.where(inside, (y - bias) / divisor, 0.0)
        inner = gradient * weight
        result = inner - normalized * (tl.sum(inner * normalized, axis=0) / width)
        if CENTERED:
            result = result - tl.sum(tl.where(inside, inner, 0.0), axis=0) / width
        result = result * tl.load(scale_ptr + row)
        tl.store(result_ptr + first + at, result.to(result_ptr.dtype.element_ty), mask=inside)
        to_weight += gradient * normalized
        to_bias += gradient
    tl.store(to_weight_ptr + part * width + at, to_weight, mask=inside)
    tl.store(to_bias_ptr + part * width + at, to_bias, mask=inside)


def forward(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, rows: int, eps: float, centered: bool
) -> tuple[Tensor, Tensor]:
    """The output of a norm, and 1/σ of each row."""
    x = x.contiguous()
    y, scale = torch.empty_like(x), x.new_empty((rows, 1), dtype=torch.float32)
    width = x.numel() // rows
    block = triton.next_power_of_2(width)
    with torch.cuda.device_of(x):
        _forward_kernel[(rows,)](
            x, y, *_dense(weight, bias), scale, width, eps,
            CENTERED=centered, BLOCK=block, num_warps=warps(block, _FORWARD),
        )  # fmt: skip
    return y, scale


def backward(
    gradient: Tensor, y: Tensor, weight: Tensor | None, bias: Tensor | None, scale: Tensor, centered: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of input, weight and bias.

    The gradients of weight and bias have one dimension, and have no meaning if there is no such parameter.
    """
    gradient, result, rows = gradient.contiguous(), torch.empty_like(y), scale.shape[0]
    width, parts = y.numel() // rows, min(rows, _PARTS)
    sums = y.new_zeros((2, parts, width), dtype=torch.float32)
    block = triton.next_power_of_2(width)
    with torch.cuda.device_of(y):
        _backward_kernel[(parts,)](
            gradient, y, *_dense(weight, bias), scale, result, *sums, rows, width,
            CENTERED=centered, SMALLEST=SMALLEST_WEIGHT, BLOCK=block, num_warps=warps(block, _BACKWARD),
        )  # fmt: skip
    return result, *sums.sum(1)


def _dense(*parameters: Tensor | None) -> list[Tensor | None]:
    """Parameters that are contiguous; None stays None."""
    return [None if p is None else p.contiguous() for p in parameters]
