"""The fused kernels of an encoder layer in plain torch, on logical views: correct anywhere, whatever the layouts.

Arguments are views whose dimensions are in logical order (`spec.LETTERS`); outputs are written in place. `keep` is the
probability that dropout keeps a value; kept values are divided by it. Without dropout there is no mask.
Source: Ivanov et al. 2021, their code. Differs: dropout scales by 1/keep, as torch does; variance is computed in two
passes and half precision in float32; x̂ and 1/σ are kept, not x − μ beside x̂; the bias's sum is not kept.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from amped.kernels.memory.in_place_norm import widened
from amped.kernels.torch_import import torch

Tensor = Any
Kernels = dict[str, Callable[..., None]]


@dataclass(frozen=True)
class Choices:
    """The options of a layer besides its sizes; `keep` is the probability that dropout keeps a value."""

    keep: float = 1.0
    epsilon: float = 1e-5
    activation: str = "relu"


def _kept(values: Tensor, mask: Tensor | None, choices: Choices) -> Tensor:
    """The values after dropout with this mask; without a mask, all of them. The same function is its backward pass."""
    return values if mask is None else values * mask / choices.keep


def aib(kqv: Tensor, bias: Tensor, out: Tensor, _: Choices) -> None:
    """Attention input bias: the three projections plus their biases."""
    out.copy_(kqv + bias[..., None, None])


def softmax(scores: Tensor, mask: Tensor | None, kept: Tensor | None, out: Tensor, choices: Choices) -> None:
    """Softmax over keys, then dropout; `kept` (if given) gets the softmax before dropout, for the backward pass."""
    values = torch.softmax(widened(scores), -1)
    if kept is not None:
        kept.copy_(values)
    out.copy_(_kept(values, mask, choices))


def bs(grad: Tensor, mask: Tensor | None, kept: Tensor, out: Tensor, choices: Choices) -> None:
    """Backward pass of dropout and softmax: α ⊙ (dα − Σ α ⊙ dα)."""
    alpha, grad = widened(kept), _kept(widened(grad), mask, choices)
    weighted = alpha * grad
    out.copy_(weighted - alpha * weighted.sum(-1, keepdim=True))


def bdrln(
    values: Tensor, bias: Tensor, residual: Tensor, scale: Tensor, shift: Tensor, mask: Tensor | None,
    normalized: Tensor, inverse_deviation: Tensor, out: Tensor, choices: Choices,
) -> None:  # fmt: skip
    """Bias, dropout, residual connection and layer norm."""
    summed = _kept(widened(values) + widened(bias), mask, choices) + widened(residual)
    variance, mean = torch.var_mean(summed, -1, correction=0, keepdim=True)
    inverse = (variance + choices.epsilon).rsqrt()
    unit = (summed - mean) * inverse
    inverse_deviation.copy_(inverse[..., 0])
    normalized.copy_(unit)
    out.copy_(unit * scale + shift)


def bsb(
    grad: Tensor, normalized: Tensor, scale: Tensor, out: Tensor, dscale: Tensor, dshift: Tensor, _: Choices
) -> None:
    """Backward pass of a layer norm's scale and shift."""
    wide = widened(grad)
    out.copy_(wide * scale)
    dscale.copy_((wide * normalized).sum((0, 1)))
    dshift.copy_(wide.sum((0, 1)))


def blnrd(
    grad: Tensor, normalized: Tensor, inverse_deviation: Tensor, mask: Tensor | None,
    residual: Tensor, dropped: Tensor, choices: Choices,
) -> None:  # fmt: skip
    """Backward pass of layer norm and then of dropout.

    `residual` gets the gradient before dropout, `dropped` the one after it.
    """
    wide, unit = widened(grad), widened(normalized)
    centered = wide - wide.mean(-1, keepdim=True) - unit * (wide * unit).mean(-1, keepdim=True)
    centered = centered * inverse_deviation[..., None]
    residual.copy_(centered)
    dropped.copy_(_kept(centered, mask, choices))


def bad(values: Tensor, bias: Tensor, mask: Tensor | None, before: Tensor, out: Tensor, choices: Choices) -> None:
    """Bias, activation and dropout; `before` gets the input of the activation, for the backward pass."""
    summed = widened(values) + widened(bias)
    before.copy_(summed)
    active = torch.relu(summed) if choices.activation == "relu" else torch.nn.functional.gelu(summed)
    out.copy_(_kept(active, mask, choices))


def bdrlb(grad: Tensor, mask: Tensor | None, before: Tensor, out: Tensor, dbias: Tensor, choices: Choices) -> None:
    """Backward pass of dropout, activation and bias."""
    wide = _kept(widened(grad), mask, choices)
    active = (
        wide * (before > 0) if choices.activation == "relu" else torch.ops.aten.gelu_backward(wide, widened(before))
    )
    out.copy_(active)
    dbias.copy_(active.sum((0, 1)))


def ebsb(
    residual: Tensor, grad: Tensor, normalized: Tensor, dropped: Tensor, scale: Tensor,
    out: Tensor, dscale: Tensor, dshift: Tensor, dbias: Tensor, choices: Choices,
) -> None:  # fmt: skip
    """Backward pass of a layer norm's scale and shift, for the sum of two gradients; and the gradient of the second bias."""
    bsb(widened(residual) + widened(grad), normalized, scale, out, dscale, dshift, choices)
    dbias.copy_(widened(dropped).sum((0, 1)))


def baob(grad: Tensor, dbias: Tensor, _: Choices) -> None:
    """Gradient of the output projection's bias."""
    dbias.copy_(widened(grad).sum((0, 1)))


def baib(grad: Tensor, dbias: Tensor, _: Choices) -> None:
    """Gradients of the biases of keys, queries and values."""
    dbias.copy_(widened(grad).sum((-2, -1)))


def bei(attention: Tensor, residual: Tensor, out: Tensor, _: Choices) -> None:
    """The gradient of the layer's input: the sum of the gradients through attention and through the residual connection."""
    out.copy_(attention + residual)


KERNELS: Kernels = {
    kernel.__name__: kernel for kernel in (aib, softmax, bs, bdrln, bsb, blnrd, bad, bdrlb, ebsb, baob, baib, bei)
}
MASKS = {"softmax": "ATTN_MASK", "bdrln1": "MASK1", "bad": "MASK2", "bdrln2": "MASK3"}


def kernels_on(device: str) -> Kernels:
    """The fused kernels for a kind of device: Triton's on a GPU with Triton, plain torch elsewhere."""
    launching = _launching() if device == "cuda" else None
    return KERNELS | launching.KERNELS if launching else dict(KERNELS)


def launch_errors() -> tuple[type[Exception], ...]:
    """The kinds of errors that a launch may raise besides torch's own: Triton's, if Triton is installed."""
    launching = _launching()
    return launching.ERRORS if launching else ()


def _launching() -> Any:
    """The module that launches Triton's kernels; None without Triton."""
    if importlib.util.find_spec("triton") is None:
        return None
    from amped.kernels.tensor_layouts import triton_launch

    return triton_launch
