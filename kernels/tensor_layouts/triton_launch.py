"""Calls of the Triton kernels: eight of the twelve fused kernels; torch does the sums over all tokens.

Every operand is a view of four dimensions, whose strides are arguments, so that one kernel serves every layout. Triton
compiles it again only if another dimension is contiguous. The rows of a tile run along the dimension with the smallest
stride in the output, so that reads and writes coalesce whichever dimension is innermost.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import triton
import triton.errors

from amped.kernels.memory.triton_norm import warps
from amped.kernels.tensor_layouts import triton_kernels
from amped.kernels.tensor_layouts.fused import Choices, Kernels
from amped.kernels.tensor_layouts.tensors import Tensor
from amped.kernels.torch_import import torch

# The number of elements of a tile, and the number of rows if its columns are contiguous.
TILE, FEW = 8192, 1
SQUARE = 64
# The elements of a tile for each thread, so that those of all operands fit into its registers.
OF_A_THREAD = 32


def _four(tensor: Tensor, shape: tuple[int, ...]) -> Tensor:
    """A view of a tensor with four axes and this shape; missing axes are added, and a mask is viewed as bytes.

    The statistic of a row is repeated along the row.
    """
    view = tensor.view(torch.uint8) if tensor.dtype == torch.bool else tensor
    view = view[..., None] if view.shape == shape[:-1] else view
    return view.expand(shape)[(None,) * (4 - len(shape))]


def _called(kernel: Any, whole_rows: bool) -> Callable[..., None]:
    """A function that launches a kernel on tensors and `Choices`.

    The last tensor is the output, and tiles follow its layout.

    `whole_rows` tells whether a tile must hold whole rows, as for a softmax or a norm.
    """

    def call(*arguments: Any) -> None:
        *tensors, choices = arguments
        output = _four(tensors[-1], tensors[-1].shape)
        shape, strides = output.shape, output.stride()
        reordered = 3 if whole_rows else 4
        order = [*sorted(range(reordered), key=lambda place: -strides[place]), *range(reordered, 4)]
        n0, n1, rows, cols = (shape[place] for place in order)
        block_cols = triton.next_power_of_2(cols) if whole_rows else SQUARE
        along_columns = strides[order[3]] == 1
        few = FEW if whole_rows and along_columns else max(FEW, min(SQUARE, TILE // block_cols))
        block_rows = min(few, triton.next_power_of_2(rows))
        grid = (n0 * n1 * triton.cdiv(rows, block_rows), triton.cdiv(cols, block_cols))
        constants = {"keep": choices.keep, "epsilon": choices.epsilon, "gelu": choices.activation == "gelu"}
        taken = {name: value for name, value in constants.items() if name in kernel.arg_names}
        views = [None if tensor is None else _four(tensor, tensors[-1].shape).permute(order) for tensor in tensors]
        pointers = [None if view is None else (view, *view.stride()) for view in views]
        taken |= {"block_rows": block_rows, "block_cols": block_cols}
        with torch.cuda.device_of(output):
            kernel[grid](*pointers, n1, rows, cols, **taken, num_warps=warps(block_rows * block_cols, OF_A_THREAD))

    return call


# What Triton raises for a tile that a GPU has no room for, or that it cannot compile.
ERRORS: tuple[type[Exception], ...] = (triton.errors.TritonError,)
_added, _bdrlb = _called(triton_kernels.added, False), _called(triton_kernels.bdrlb, False)


def _aib(kqv: Tensor, bias: Tensor, out: Tensor, choices: Choices) -> None:
    """Attention input bias, for each part of the stack."""
    for values, biases, target in zip(kqv, bias, out, strict=True):
        _added(values, biases[..., None, None], target, choices)


def _bdrlb_and_sum(
    grad: Tensor, mask: Tensor | None, before: Tensor, out: Tensor, dbias: Tensor, choices: Choices
) -> None:
    """Backward pass of dropout and activation; torch computes the sum for the bias."""
    _bdrlb(grad, mask, before, out, choices)
    dbias.copy_(out.sum((0, 1), dtype=torch.float32))


# The kernels by name, with the arguments of those in plain torch.
KERNELS: Kernels = {
    "aib": _aib, "bad": _called(triton_kernels.bad, False), "bdrlb": _bdrlb_and_sum,
    "bdrln": _called(triton_kernels.bdrln, True), "bei": _added, "blnrd": _called(triton_kernels.blnrd, True),
    "bs": _called(triton_kernels.bs, True), "softmax": _called(triton_kernels.softmax, True),
}  # fmt: skip
