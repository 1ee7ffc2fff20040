"""How the Triton kernels are called: views of four dimensions, tiles along what lies close, the same arguments as `fused`."""

from __future__ import annotations

from typing import Any

import triton

from amped.kernels.layouts import triton_kernels
from amped.kernels.layouts.fused import Choices
from amped.kernels.layouts.tensors import Tensor
from amped.kernels.torch_import import torch_module

# Elements of a tile, and rows of one whose columns are contiguous.
TILE, FEW = 8192, 1
SQUARE = 64


def _four(tensor: Tensor, shape: tuple[int, ...]) -> Tensor:
    """A view with four dimensions, of the shape it is broadcast to; of bytes for a mask."""
    torch = torch_module()
    view = tensor.view(torch.uint8) if tensor.dtype == torch.bool else tensor
    view = view.expand(shape)
    while view.dim() < 4:
        view = view.unsqueeze(0)
    return view


def _launch(
    kernel: Any, tensors: list[Tensor | None], main: Tensor, reduced: bool, *more: Any, **constants: Any
) -> None:
    """Calls a kernel over the tensors; `main` is the output that tiles follow, `reduced` whether rows must be whole."""
    shape = tuple(main.shape)
    views = [_four(main if tensor is None else tensor, shape) for tensor in tensors]
    shape, strides = tuple(_four(main, shape).shape), _four(main, shape).stride()
    order = [*sorted(range(3), key=lambda place: -strides[place]), 3]
    if not reduced:
        order = sorted(range(4), key=lambda place: -strides[place])
    views = [view.permute(order) for view in views]
    n0, n1, rows, cols = (shape[place] for place in order)
    block_cols = triton.next_power_of_2(cols) if reduced else SQUARE
    along_columns = strides[order[3]] == 1
    few = FEW if reduced and along_columns else max(FEW, min(SQUARE, TILE // block_cols))
    block_rows = min(few, triton.next_power_of_2(rows))
    grid = (n0 * n1 * triton.cdiv(rows, block_rows), triton.cdiv(cols, block_cols))
    flat = [each for view in views for each in (view, *view.stride())]
    kernel[grid](*flat, n1, rows, cols, *more, **constants, block_rows=block_rows, block_cols=block_cols)


def softmax(scores: Tensor, mask: Tensor | None, kept: Tensor | None, out: Tensor, choices: Choices) -> None:
    """Softmax over keys, then dropout."""
    dropped = mask is not None
    _launch(triton_kernels.softmax, [scores, mask, kept, out], out, True, choices.keep, dropped=dropped)


def bs(grad: Tensor, mask: Tensor | None, kept: Tensor, out: Tensor, choices: Choices) -> None:
    """Backward of dropout and softmax."""
    _launch(triton_kernels.bs, [grad, mask, kept, out], out, True, choices.keep, dropped=mask is not None)


def bdrln(
    values: Tensor, bias: Tensor, residual: Tensor, scale: Tensor, shift: Tensor, mask: Tensor | None,
    out: Tensor, normalized: Tensor, inverse_deviation: Tensor, choices: Choices,
) -> None:  # fmt: skip
    """Bias, dropout, residual and layer norm."""
    tensors = [values, bias, residual, scale, shift, mask, out, normalized, inverse_deviation[..., None]]
    more = choices.keep, choices.epsilon
    _launch(triton_kernels.bdrln, tensors, out, True, *more, dropped=mask is not None)


def blnrd(
    grad: Tensor, normalized: Tensor, inverse_deviation: Tensor, mask: Tensor | None,
    residual: Tensor, dropped: Tensor, choices: Choices,
) -> None:  # fmt: skip
    """Backward of layer norm and of dropout."""
    tensors = [grad, normalized, inverse_deviation[..., None], mask, residual, dropped]
    _launch(triton_kernels.blnrd, tensors, dropped, True, choices.keep, dropped=mask is not None)


def aib(kqv: Tensor, bias: Tensor, out: Tensor, _: Choices) -> None:
    """Attention input bias, for each part of the stack."""
    for values, biases, target in zip(kqv, bias, out, strict=True):
        _launch(triton_kernels.added, [values, biases[..., None, None], target], target, False)


def bei(attention: Tensor, residual: Tensor, out: Tensor, _: Choices) -> None:
    """The layer input's gradient."""
    _launch(triton_kernels.added, [attention, residual, out], out, False)


def bad(values: Tensor, bias: Tensor, mask: Tensor | None, before: Tensor, out: Tensor, choices: Choices) -> None:
    """Bias, activation and dropout."""
    constants = {"gelu": choices.activation == "gelu", "dropped": mask is not None}
    _launch(triton_kernels.bad, [values, bias, mask, before, out], out, False, choices.keep, **constants)


def bdrlb(grad: Tensor, mask: Tensor | None, before: Tensor, out: Tensor, dbias: Tensor, choices: Choices) -> None:
    """Backward of dropout and activation; the bias's sum is torch's."""
    constants = {"gelu": choices.activation == "gelu", "dropped": mask is not None}
    _launch(triton_kernels.bdrlb, [grad, mask, before, out], out, False, choices.keep, **constants)
    dbias.copy_(out.sum((0, 1), dtype=torch_module().float32))
