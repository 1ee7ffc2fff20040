"""Layer and RMS norm that keep their output, not their input (arXiv 2210.10246, section 3.2; safe for small weights).

The normalized input is (y − β)/γ, so that the rounding of y is divided by γ. If β is large compared with γ, or if γ is
zero, the norm keeps its input as torch's own does, and warns.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from amped.kernels.memory.function import Function

# The accepted relative error of the normalized input: |β|/|γ| times half a unit in the last place.
_LARGEST_ERROR = 0.05
# A smaller weight is not safe. One that has become smaller since it was checked counts as this much where the input is
# divided by it, so that gradients stay finite; its own gradient is then too small.
SMALLEST_WEIGHT = 1e-6
# After this many forward passes, a module checks its weights again.
CHECK_EVERY = 100


def largest_ratio(dtype: torch.dtype) -> float:
    """The largest max|β|/min|γ| that is accepted for outputs of this format."""
    return _LARGEST_ERROR / (torch.finfo(dtype).eps / 2)


def why_unsafe(weight: Tensor | None, bias: Tensor | None, dtype: torch.dtype) -> str:
    """The reason why a norm's input cannot be computed from its output; empty if it can."""
    if weight is None:
        return ""
    smallest = float(weight.detach().abs().min())
    if not smallest >= SMALLEST_WEIGHT:
        return f"its smallest weight is {smallest:.1g}, and the input is divided by it"
    largest = 0.0 if bias is None else float(bias.detach().abs().max())
    limit = largest_ratio(dtype)
    if largest / smallest < limit:
        return ""
    return f"max|bias|/min|weight| is {largest / smallest:.3g}, {dtype} allows {limit:.3g}"


def widened(x: Tensor) -> Tensor:
    """A tensor in fp32, or in float64 if it already is."""
    return x if x.dtype == torch.float64 else x.float()


def _norm(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, rows: int, eps: float, centered: bool
) -> tuple[Tensor, Tensor]:
    """The output of a norm, and 1/σ of each row (in fp32 for narrower formats).

    A row has the entries of all normalized dimensions.
    """
    wide, weight, bias = widened(x).reshape(rows, -1), *_flat(weight, bias)
    if centered:
        y, _, scale = torch.native_layer_norm(wide, wide.shape[1:], weight, bias, eps)
    else:
        y, scale = rms_norm(wide, weight, eps)
    return y.to(x.dtype).view(x.shape), scale.view(rows, 1)


def _norm_backward(
    gradient: Tensor, y: Tensor, weight: Tensor | None, bias: Tensor | None, scale: Tensor, centered: bool
) -> tuple[Tensor | None, ...]:
    """The gradients of input, weight and bias, from the output and 1/σ of each row.

    The gradients of weight and bias have one dimension, and have no meaning if there is no such parameter.
    """
    g, normalized = (widened(t).reshape(scale.shape[0], -1) for t in (gradient, y))
    flat, shift = _flat(weight, bias)
    if shift is not None:
        normalized = normalized - shift
    if flat is not None:
        normalized = normalized / torch.where(
            flat < 0, flat.clamp_max(-SMALLEST_WEIGHT), flat.clamp_min(SMALLEST_WEIGHT)
        )
    if centered:  # torch's own backward pass of a norm whose input has mean 0 and σ = 1
        zero, one = torch.zeros_like(scale), torch.ones_like(scale)
        needed, shape = [True, flat is not None, shift is not None], g.shape[1:]
        gradients = torch.ops.aten.native_layer_norm_backward(g, normalized, shape, zero, one, flat, shift, needed)
    else:
        gradients = *rms_gradients(g, normalized, flat), None
    return (gradients[0] * scale).to(y.dtype).view(y.shape), *gradients[1:]


def normalized(x: Tensor, weight: Tensor, bias: Tensor | None, eps: float, centered: bool) -> Tensor:
    """The output of a layer norm or RMS norm over the last dimension, computed in fp32 for narrower formats."""
    return _norm(x, weight, bias, x.numel() // x.shape[-1], eps, centered)[0]


def rms_norm(x: Tensor, weight: Tensor | None, eps: float) -> tuple[Tensor, Tensor]:
    """The output of an RMS norm over the last dimension, and 1/σ."""
    scale = torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)
    return x * scale if weight is None else x * scale * weight, scale


def rms_gradients(gradient: Tensor, normalized: Tensor, weight: Tensor | None) -> tuple[Tensor, Tensor]:
    """The gradient of an RMS norm's input times σ, and the gradient of its weight.

    Both are computed from the normalized input: the output before it is multiplied by the weight.
    """
    inner = gradient if weight is None else gradient * weight
    to_weight = (gradient * normalized).flatten(0, -2).sum(0)
    return inner - normalized * (inner * normalized).mean(-1, keepdim=True), to_weight


def _flat(*parameters: Tensor | None) -> tuple[Tensor | None, ...]:
    """Parameters with one dimension, in fp32 or float64; None stays None."""
    return tuple(None if p is None else widened(p).reshape(-1) for p in parameters)


class _InPlaceNorm(Function):
    @staticmethod
    def forward(
        x: Tensor, shape: tuple[int, ...], weight: Tensor | None, bias: Tensor | None, eps: float, centered: bool
    ) -> tuple[Tensor, Tensor]:
        rows = x.numel() // torch.Size(shape).numel()
        return _passes(x, weight, bias)[0](x, weight, bias, rows, eps, centered)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        _, _, weight, bias, _, ctx.centered = inputs
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(output[0], weight, bias, output[1])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor, _: Any) -> tuple[Tensor | None, ...]:
        y, weight, bias, _ = ctx.saved_tensors
        to_input, *flat = _passes(y, weight, bias)[1](gradient, *ctx.saved_tensors, ctx.centered)
        shaped = (None if p is None else g.view(p.shape).to(p.dtype) for p, g in zip((weight, bias), flat, strict=True))
        return to_input, None, *shaped, None, None


def _passes(x: Tensor, *parameters: Tensor | None) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The functions for the forward and the backward pass of a norm: Triton's on a GPU, except for float64; else torch's."""
    if x.is_cuda and x.dtype != torch.float64 and all(p is None or p.is_cuda for p in parameters):
        from amped.kernels.memory import triton_norm

        return triton_norm.forward, triton_norm.backward
    return _norm, _norm_backward


def _tell(what: str, reason: str) -> None:
    """Warns that a norm keeps its input, and why."""
    message = f"{what} keeps its input: {reason}"
    warnings.warn(message, UserWarning, stacklevel=4)


def inplace_layer_norm(
    x: Tensor, shape: tuple[int, ...], weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5,
    check: bool = True,
) -> Tensor:  # fmt: skip
    """The output of a layer norm that keeps its output; with a warning torch's own norm, if the weights are not safe.

    `check=False` skips the check of the weights, for which the host would wait for a GPU.
    """
    return _normalized(x, shape, weight, bias, eps, check, centered=True)


def inplace_rms_norm(
    x: Tensor, shape: tuple[int, ...], weight: Tensor | None = None, eps: float | None = None, check: bool = True
) -> Tensor:
    """The output of an RMS norm that keeps its output; with a warning torch's own norm, if the weights are not safe."""
    return _normalized(x, shape, weight, None, eps, check, centered=False)


def _normalized(
    x: Tensor, shape: tuple[int, ...], weight: Tensor | None, bias: Tensor | None, eps: float | None, check: bool,
    centered: bool,
) -> Tensor:  # fmt: skip
    """The output of an in-place norm, or of torch's own norm.

    Torch's own is used if no gradient is needed, if there are no entries, or, with a warning, if the weights are not
    safe. Under autocast, input and parameters are widened as for torch's own norm, so that its output has the same
    format.
    """
    if _widened_by_autocast(x):
        x, weight, bias = (t if t is None else widened(t) for t in (x, weight, bias))
    in_place = (
        torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in (x, weight, bias)) and x.numel()
    )
    reason = why_unsafe(weight, bias, x.dtype) if in_place and check else ""
    if reason:
        _tell(f"an in-place {'layer' if centered else 'RMS'} norm", reason)
    if reason or not in_place:
        norm = nn.functional.layer_norm if centered else nn.functional.rms_norm
        return norm(x, shape, *(weight, bias)[: 1 + centered], eps)
    smallest = torch.finfo(x.dtype).eps if eps is None else eps
    return _InPlaceNorm.apply(x, tuple(shape), weight, bias, smallest, centered)[0]


def _widened_by_autocast(x: Tensor) -> bool:
    """Whether torch computes norms of this tensor in fp32: under autocast for GPUs (ATen/autocast_mode.h), not for CPUs."""
    return x.is_cuda and torch.is_autocast_enabled("cuda")


class _Checked(nn.Module):
    """A norm that checks its weights in the first pass and again after every `CHECK_EVERY` passes.

    While its weights are not safe, it keeps its input, as torch's own norm does.
    """

    # The passes so far, and why the weights are not safe.
    _passes, _reason = 0, "not checked"

    def forward(self, x: Tensor) -> Tensor:
        """The normalized input."""
        dtype = torch.float32 if _widened_by_autocast(x) and x.dtype != torch.float64 else x.dtype
        if not torch.is_grad_enabled() or self._unsafe(dtype, x.is_cuda and torch.cuda.is_current_stream_capturing()):
            return super().forward(x)
        return self._in_place(x)

    @property
    def _scale(self) -> Tensor | None:
        return self.weight

    def _unsafe(self, dtype: torch.dtype, capturing: bool) -> bool:
        """Whether the weights are not safe, by a check now or by the last check.

        A check would break a compiled graph or a capture, so that the last check counts there; without one, weights
        count as not safe.
        """
        if torch.compiler.is_compiling() or capturing:
            return bool(self._reason)
        if self._passes % CHECK_EVERY == 0:
            was_safe = not (self._passes and self._reason)
            self._reason = why_unsafe(self._scale, getattr(self, "bias", None), dtype)
            if self._reason and was_safe:
                _tell(f"an {type(self).__name__}", self._reason)
        self._passes += 1
        return bool(self._reason)


class InplaceLayerNorm(_Checked, nn.LayerNorm):
    """`nn.LayerNorm` that keeps its output if its weights are safe."""

    def _in_place(self, x: Tensor) -> Tensor:
        return inplace_layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps, check=False)


class InplaceRMSNorm(_Checked, nn.RMSNorm):
    """`nn.RMSNorm` that keeps its output if its weights are safe."""

    def _in_place(self, x: Tensor) -> Tensor:
        return inplace_rms_norm(x, self.normalized_shape, self.weight, self.eps, check=False)


class InplaceNorm(_Checked):
    """A norm of another library, or one of your own, that keeps its output if its weights are safe.

    `convert` gives this class to a module that computes a layer norm or an RMS norm over the last dimension, as a
    subclass of the module's class (`in_place_of`). The attribute `_computed` describes the norm.
    """

    @property
    def _scale(self) -> Tensor:
        return self.weight + self._computed.offset if self._computed.offset else self.weight

    def _in_place(self, x: Tensor) -> Tensor:
        shape, norm = x.shape[-1:], self._computed
        if not norm.keeps_format:
            x = x.to(torch.promote_types(x.dtype, self.weight.dtype))
        if norm.centered:
            return inplace_layer_norm(x, shape, self._scale, getattr(self, "bias", None), norm.eps, check=False)
        return inplace_rms_norm(x, shape, self._scale, norm.eps, check=False)

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return _empty, (type(self).__bases__[1],), super().__reduce_ex__(protocol)[2]


_MADE: dict[type[nn.Module], type[InplaceNorm]] = {}


def in_place_of(kind: type[nn.Module]) -> type[InplaceNorm]:
    """The subclass of a class of norms whose norms keep their output."""
    return _MADE.setdefault(kind, type(f"Inplace{kind.__name__}", (InplaceNorm, kind), {}))


def _empty(kind: type[nn.Module]) -> nn.Module:
    """A module without attributes, of the class that `in_place_of` makes; copying and loading fill it."""
    made = in_place_of(kind)
    return made.__new__(made)
