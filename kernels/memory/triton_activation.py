"""The in-place activation functions as two Triton kernels: output and packed bits, and the slope from both."""

from __future__ import annotations

import functools

import torch
import triton
import triton.language as tl
from torch import Tensor

from amped.kernels.memory.activation_functions import DEGREES, FUNCTIONS, fit_pieces

_BLOCK_BYTES = 128  # packed bytes, eight entries each, that one program works on
_KINDS = {"gelu": 0, "gelu_tanh": 1, "silu": 2}


def takes(x: Tensor) -> bool:
    """Whether the kernels work in this format."""
    return x.dtype in DEGREES


@triton.jit
def _forward_kernel(x_ptr, y_ptr, packed_ptr, n, minimum_input, KIND: tl.constexpr, BLOCK: tl.constexpr):  # noqa: N803
    rows = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    bit = tl.arange(0, 8)
    at = rows[:, None] * 8 + bit[None, :]
    x = tl.load(x_ptr + at, mask=at < n, other=0.0).to(tl.float32)
    if KIND == 0:
        y = 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476))
    elif KIND == 1:
        y = x * tl.sigmoid(1.5957691216057308 * (x + 0.044715 * x * x * x))
    else:
        y = x * tl.sigmoid(x)
    tl.store(y_ptr + at, y.to(y_ptr.dtype.element_ty), mask=at < n)
    above = ((x >= minimum_input) & (at < n)).to(tl.int32)
    packed = tl.sum(above << bit[None, :], axis=1)
    tl.store(packed_ptr + rows, packed.to(tl.uint8), mask=rows * 8 < n)


@triton.jit
def _backward_kernel(
    gradient_ptr, y_ptr, packed_ptr, result_ptr, table_ptr, n, rounded_minimum, rest_of_minimum,
    PIECES: tl.constexpr, DEGREE: tl.constexpr, BLOCK: tl.constexpr,  # noqa: N803
):  # fmt: skip
    """A row of the table is a piece: where it starts, its centre, its coefficients; one more row is where they end."""
    rows = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    bit = tl.arange(0, 8)
    at = rows[:, None] * 8 + bit[None, :]
    y = tl.load(y_ptr + at, mask=at < n, other=0.0).to(tl.float32)
    gradient = tl.load(gradient_ptr + at, mask=at < n, other=0.0).to(tl.float32)
    packed = tl.load(packed_ptr + rows, mask=rows * 8 < n, other=0).to(tl.int32)
    above = ((packed[:, None] >> bit[None, :]) & 1) != 0
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
    slope = tl.where(t > tl.load(table_ptr + PIECES * width), 1.0, slope)
    slope = tl.where(t == 0.0, 0.0, slope)
    tl.store(result_ptr + at, (gradient * slope).to(result_ptr.dtype.element_ty), mask=at < n)


def forward(x: Tensor, name: str) -> tuple[Tensor, Tensor]:
    """Output and packed bits."""
    x = x.contiguous()
    y, packed = torch.empty_like(x), x.new_empty((x.numel() + 7) // 8, dtype=torch.uint8)
    grid = (triton.cdiv(packed.numel(), _BLOCK_BYTES),)
    if packed.numel():
        start = FUNCTIONS[name].minimum_input
        _forward_kernel[grid](x, y, packed, x.numel(), start, KIND=_KINDS[name], BLOCK=_BLOCK_BYTES)
    return y, packed


def backward(gradient: Tensor, output: Tensor, packed: Tensor, name: str) -> Tensor:
    """Gradient of the input."""
    gradient, output = gradient.contiguous(), output.contiguous()
    result, degree = torch.empty_like(output), DEGREES[output.dtype]
    table = _table(name, degree, output.device)
    low = FUNCTIONS[name].minimum_value
    rounded = float(torch.tensor(low, dtype=torch.float32))
    grid = (triton.cdiv(packed.numel(), _BLOCK_BYTES),)
    if packed.numel():
        _backward_kernel[grid](
            gradient, output, packed, result, table, output.numel(), rounded, low - rounded,
            PIECES=table.shape[0] - 1, DEGREE=degree, BLOCK=_BLOCK_BYTES,
        )  # fmt: skip
    return result


@functools.cache
def _table(name: str, degree: int, device: torch.device) -> Tensor:
    pieces = fit_pieces(FUNCTIONS[name], degree)
    rows = zip(pieces.ends, pieces.centres, pieces.coefficients, strict=False)
    table = [[start, centre, *coefficients] for start, centre, coefficients in rows]
    return torch.tensor([*table, [pieces.ends[-1]] + [0.0] * (degree + 2)], dtype=torch.float32, device=device)
