"""The in-place activation functions as two Triton kernels: one for output and packed bits, one for the slope."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl
from torch import Tensor

from amped.kernels.memory.activation_functions import (
    DEGREES,
    FUNCTIONS,
    NEAR,
    QUARTER_UNIT,
    bits_kept,
    fit_pieces,
    series_near_minimum,
    two_parts,
)
from amped.kernels.memory.bits import room_for_bits
from amped.kernels.memory.triton_norm import wide

_BLOCK_BYTES = 128  # packed bytes, with eight entries each, for one program
_QUARTER_UNIT = tl.constexpr(QUARTER_UNIT)


@triton.jit
def _entries(n, BLOCK: tl.constexpr):  # noqa: N803
    """The positions of this program's packed bytes, the positions of their entries, and which entries exist."""
    rows = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    at = rows[:, None] * 8 + tl.arange(0, 8)[None, :]
    return rows, at, at < n


@triton.jit
def _store_bits(packed_ptr, rows, truths, n):
    """Packs eight booleans into each byte and stores the bytes."""
    packed = tl.sum(truths.to(tl.int32) << tl.arange(0, 8)[None, :], axis=1)
    tl.store(packed_ptr + rows, packed.to(tl.uint8), mask=rows * 8 < n)


@triton.jit
def _load_bits(packed_ptr, rows, n):
    """The bits of packed bytes, eight in a row."""
    packed = tl.load(packed_ptr + rows, mask=rows * 8 < n, other=0).to(tl.int32)
    return (packed[:, None] >> tl.arange(0, 8)[None, :]) & 1


@triton.jit
def _forward_kernel(
    x_ptr, y_ptr, packed_ptr, n, start, rest, low, left, c0, c1, c2, c3, near,
    NAME: tl.constexpr, BITS: tl.constexpr, BLOCK: tl.constexpr,  # noqa: N803
):  # fmt: skip
    """The output and the packed bits of some entries.

    The input at the minimum is start + rest, and the output there low + left; within `near` of it, the series c0 … c3
    is used. Each bit of an entry has a row of its own in the packed tensor.
    """
    rows, at, exists = _entries(n, BLOCK)
    x = wide(x_ptr + at, exists)
    if NAME == "gelu":
        y = 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476))
    elif NAME == "gelu_tanh":
        y = x * tl.sigmoid(1.5957691216057308 * (x + 0.044715 * x * x * x))
    else:
        y = x * tl.sigmoid(x)
    d = (x - start) - rest
    y = tl.where(tl.abs(d) < near, low + (left + d * d * (c0 + d * (c1 + d * (c2 + d * c3)))), y)
    rounded = y.to(y_ptr.dtype.element_ty)
    tl.store(y_ptr + at, rounded, mask=exists)
    _store_bits(packed_ptr, rows, (x >= start) & exists, n)
    if BITS == 2:
        farther = (tl.abs(y) > tl.abs(rounded.to(tl.float32))) & exists
        _store_bits(packed_ptr + (n + 7) // 8, rows, farther, n)


@triton.jit
def _backward_kernel(
    gradient_ptr, y_ptr, packed_ptr, result_ptr, table_ptr, n, rounded_minimum, rest_of_minimum, last_end,
    PIECES: tl.constexpr, DEGREE: tl.constexpr, BITS: tl.constexpr, BLOCK: tl.constexpr,  # noqa: N803
):  # fmt: skip
    """The gradients of the inputs of some entries.

    Each row of the table is a piece of the slope: its start, its center, its coefficients.
    """
    rows, at, exists = _entries(n, BLOCK)
    y, gradient = wide(y_ptr + at, exists), wide(gradient_ptr + at, exists)
    above = _load_bits(packed_ptr, rows, n) != 0
    if BITS == 2:  # as in `middle_of_half`
        farther = _load_bits(packed_ptr + (n + 7) // 8, rows, n)
        moved = y.to(tl.int32, bitcast=True) + (2 * farther - 1) * _QUARTER_UNIT
        y = tl.where(y == 0.0, y, moved.to(tl.float32, bitcast=True))
    height = (y - rounded_minimum) - rest_of_minimum
    root = tl.sqrt(tl.where(height < 0.0, 0.0, height))
    t = tl.where(above, root, -root)
    width: tl.constexpr = DEGREE + 3
    slope = t * 0.0
    for piece in tl.static_range(PIECES):
        start = tl.load(table_ptr + piece * width)
        offset = t - tl.load(table_ptr + piece * width + 1)
        value = offset * 0.0 + tl.load(table_ptr + piece * width + 2 + DEGREE)
        for power in tl.static_range(DEGREE):
            value = value * offset + tl.load(table_ptr + piece * width + 1 + DEGREE - power)
        slope = tl.where((t >= start) | (piece == 0), value, slope)
    slope = tl.where(t > last_end, 1.0, slope)
    slope = tl.where(t == 0.0, 0.0, slope)
    tl.store(result_ptr + at, (gradient * slope).to(result_ptr.dtype.element_ty), mask=exists)


def forward(x: Tensor, name: str) -> tuple[Tensor, Tensor]:
    """The output of an activation function, and the packed bits of each entry."""
    x = x.contiguous()
    y, packed = torch.empty_like(x), room_for_bits(x, bits_kept(name, x.dtype))
    _launch(_forward_kernel, packed, x, y, packed, x.numel(), *_near_minimum(name), NEAR, NAME=name)
    return y, packed


def backward(gradient: Tensor, output: Tensor, packed: Tensor, name: str) -> Tensor:
    """The gradient of the input, from the gradient of the output, the output and the packed bits."""
    gradient, output = gradient.contiguous(), output.contiguous()
    result, degree = torch.empty_like(gradient), DEGREES[output.dtype]
    table = _table(name, degree, output.device)
    _launch(
        _backward_kernel, packed, gradient, output, packed, result, table, output.numel(),
        *_near_minimum(name)[2:4], FUNCTIONS[name].right_ends[-1], PIECES=table.shape[0], DEGREE=degree,
    )  # fmt: skip
    return result


def _launch(kernel: Any, packed: Tensor, *arguments: Any, **constants: Any) -> None:
    """Runs a kernel on the device of the packed bits, with one program for each block of packed bytes."""
    bits, size = packed.shape
    if size:
        with torch.cuda.device_of(packed):
            kernel[(triton.cdiv(size, _BLOCK_BYTES),)](*arguments, BITS=bits, BLOCK=_BLOCK_BYTES, **constants)


@functools.cache
def _near_minimum(name: str) -> tuple[float, ...]:
    """The input and the output at the minimum, each in two parts, and the series of the output near it."""
    function = FUNCTIONS[name]
    return (*two_parts(function.minimum_input), *two_parts(function.minimum_value), *series_near_minimum(function))


@functools.cache
def _table(name: str, degree: int, device: torch.device) -> Tensor:
    """The pieces of the slope as a tensor: a row has the start, the center and the coefficients of a piece."""
    pieces = fit_pieces(FUNCTIONS[name], degree)
    table = np.column_stack((pieces.ends[:-1], pieces.centers, pieces.coefficients))
    return torch.tensor(table, dtype=torch.float32, device=device)
