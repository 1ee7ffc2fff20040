"""The cast to fp8 in Triton: each program reads a tile once, and writes it in rows and transposed."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from amped.kernels.memory.triton_norm import wide

# Rows and columns of a tile: a row of it is read as whole lines of the cache, and a column is written as one.
_ROWS, _COLUMNS = 128, 64


@triton.jit
def _cast_kernel(
    x_ptr, scale_ptr, rows_ptr, columns_ptr, range_ptr, rows, columns,
    LARGEST: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,  # noqa: N803
):  # fmt: skip
    """Casts one tile and writes it twice, straight and transposed. NaN stays NaN."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.program_id(1).to(tl.int64) * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    inside = (row < rows) & (column < columns)
    x = wide(x_ptr + row * columns + column, inside)
    scaled = x * tl.load(scale_ptr)
    limited = tl.minimum(scaled, LARGEST, propagate_nan=tl.PropagateNan.ALL)
    limited = tl.maximum(limited, -LARGEST, propagate_nan=tl.PropagateNan.ALL)
    narrow = limited.to(rows_ptr.dtype.element_ty)
    tl.store(rows_ptr + row * columns + column, narrow, mask=inside)
    tl.store(columns_ptr + tl.trans(column) * rows + tl.trans(row), tl.trans(narrow), mask=tl.trans(inside))
    tl.atomic_max(range_ptr, tl.max(tl.max(tl.abs(x), axis=1), axis=0))


def cast_both_ways(x: Tensor, scale: Tensor, largest: float, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """A matrix in fp8, its transpose in fp8, and its largest absolute value."""
    x, (rows, columns) = x.contiguous(), x.shape
    straight, across = x.new_empty((rows, columns), dtype=dtype), x.new_empty((columns, rows), dtype=dtype)
    largest_entry = x.new_zeros((), dtype=torch.float32)
    if x.numel():
        grid = (triton.cdiv(rows, _ROWS), triton.cdiv(columns, _COLUMNS))
        with torch.cuda.device_of(x):
            _cast_kernel[grid](
                x, scale, straight, across, largest_entry, rows, columns, LARGEST=largest, ROWS=_ROWS, COLUMNS=_COLUMNS
            )
    return straight, across, largest_entry
