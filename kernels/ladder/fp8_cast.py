"""A tensor in fp8, in rows and in columns, and its range: one pass over it, because Hopper multiplies only rows by columns.

Source: NVIDIA Transformer Engine, cast_transpose; arXiv 2209.05433, section 3 (the formats).
"""

from __future__ import annotations

from typing import Any

from amped.kernels.torch_import import torch

# The largest numbers of E4M3 and E5M2.
LARGEST = {"e4m3": 448.0, "e5m2": 57344.0}
# The two formats as types of torch.
FORMATS = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}


def quantized(x: Any, scale: Any, kind: str) -> Any:
    """A tensor times its scale in fp8; values beyond the range of the format are cut to it."""
    limit = LARGEST[kind]
    return (x.float() * scale).clamp(-limit, limit).to(FORMATS[kind])


def range_of(x: Any) -> Any:
    """The largest absolute value of a tensor, computed in one pass that writes no other tensor."""
    return torch.linalg.vector_norm(x, float("inf"), dtype=torch.float32)


@torch.library.custom_op(
    "amped::fp8_cast", mutates_args=(), schema="(Tensor x, Tensor scale, str kind) -> (Tensor, Tensor, Tensor)"
)
def cast_both_ways(x: Any, scale: Any, kind: str) -> tuple[Any, Any, Any]:
    """A matrix times its scale in fp8, its transpose, and the largest absolute value of the matrix.

    Values beyond the range of the format are cut to it. An entry is read once and written twice, in a byte each. It is
    an operator of torch, so that its kernel counts as one, and a compiler leaves it whole.
    """
    if x.is_cuda:
        from amped.kernels.ladder import triton_fp8

        return triton_fp8.cast_both_ways(x, scale, LARGEST[kind], FORMATS[kind])
    rows = quantized(x, scale, kind)
    return rows, rows.t().contiguous(), range_of(x)


@cast_both_ways.register_fake
def _(x: Any, scale: Any, kind: str) -> tuple[Any, Any, Any]:  # noqa: ARG001
    rows = x.new_empty(x.shape, dtype=FORMATS[kind])
    return rows, rows.new_empty(x.shape[::-1]), x.new_empty((), dtype=torch.float32)
