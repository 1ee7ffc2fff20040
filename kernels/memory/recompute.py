"""Products that compute their input again, after an activation function or after a norm.

They are exact and need no mask, but one more pass over the activations. The product keeps what the function before it
keeps anyway. Under autocast, the product has the format that torch would give it, and so has its backward pass, which autocast
does not reach: it casts what it reads. Source: arXiv 1604.06174, section 4.2.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from amped.base.errors import ConfigError, did_you_mean
from amped.kernels.memory.in_place_norm import rms_gradients, widened

aten = torch.ops.aten
# Torch's own activation functions, and their gradients.
TORCH_FUNCTIONS = {
    "gelu": (nn.functional.gelu, aten.gelu_backward),
    "gelu_tanh": (
        lambda x: nn.functional.gelu(x, approximate="tanh"),
        lambda gradient, x: aten.gelu_backward(gradient, x, approximate="tanh"),
    ),
    "silu": (nn.functional.silu, aten.silu_backward),
    "relu": (nn.functional.relu, lambda gradient, x: aten.threshold_backward(gradient, x, 0)),
}


def _product(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """The product as torch computes it; under autocast, in the format that autocast chooses.

    The casts stand here and not in autocast: it would cache a weight that it casts without a gradient, and the weight's
    next use in the same context would get no gradient either.
    """
    kind = x.device.type
    if torch.is_autocast_enabled(kind):
        wanted = torch.get_autocast_dtype(kind)
        x, weight, bias = (t if t is None or t.dtype == torch.float64 else t.to(wanted) for t in (x, weight, bias))
    return nn.functional.linear(x, weight, bias)


def _product_gradients(ctx: Any, gradient: Tensor, input_: Any, weight: Tensor) -> tuple[Any, Any, Any]:
    """The gradients of a product's input, weight and bias, as far as they are needed; `input_()` gives its input.

    They have the format of the output's gradient, as those of torch have before they are cast for their tensors.
    """
    wanted_input, wanted_weight, wanted_bias = ctx.wanted
    rows, dtype = gradient.reshape(-1, gradient.shape[-1]), gradient.dtype
    to_input = gradient @ weight.to(dtype) if wanted_input else None
    to_weight = rows.T @ input_().reshape(-1, weight.shape[1]).to(dtype) if wanted_weight else None
    to_bias = rows.sum(0) if wanted_bias else None
    return to_input, None if to_weight is None else to_weight.to(weight.dtype), to_bias


class _ActLinear(torch.autograd.Function):
    @staticmethod
    def forward(x: Tensor, weight: Tensor, bias: Tensor | None, name: str) -> Tensor:
        return _product(TORCH_FUNCTIONS[name][0](x), weight, bias)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:  # noqa: ARG004
        x, weight, _, ctx.name = inputs
        ctx.wanted = ctx.needs_input_grad[:3]
        ctx.save_for_backward(x, weight)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        x, weight = ctx.saved_tensors
        value, backward = TORCH_FUNCTIONS[ctx.name]
        to_input, to_weight, to_bias = _product_gradients(ctx, gradient, lambda: value(x), weight)
        return None if to_input is None else backward(to_input.to(x.dtype), x), to_weight, to_bias, None


class _NormLinear(torch.autograd.Function):
    @staticmethod
    def forward(
        x: Tensor, scale: Tensor, shift: Tensor | None, weight: Tensor, bias: Tensor | None, eps: float, centered: bool
    ) -> tuple[Tensor, ...]:
        y, *statistics = _normed(x, scale, shift, eps, centered)
        return _product(y, weight, bias), *statistics

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        x, scale, shift, weight, _, ctx.eps, ctx.centered = inputs
        ctx.wanted = (any(ctx.needs_input_grad[:3]), *ctx.needs_input_grad[3:5])
        ctx.mark_non_differentiable(*output[1:])
        ctx.save_for_backward(x, scale, shift, weight, *output[1:])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor, *_: Any) -> tuple[Any, ...]:
        x, scale, shift, weight, *statistics = ctx.saved_tensors
        to_y, to_weight, to_bias = _product_gradients(
            ctx, gradient, lambda: _normed_again(x, scale, shift, statistics), weight
        )
        found = _norm_gradients(to_y, x, scale, shift, statistics) if to_y is not None else (None, None, None)
        return *found, to_weight, to_bias, None, None


def _normed(x: Tensor, scale: Tensor, shift: Tensor | None, eps: float, centered: bool) -> tuple[Tensor, ...]:
    """A norm's output and its statistics: mean and 1/σ of a layer norm, 1/σ of an RMS norm.

    If the input is narrower than the parameters, as under autocast, the layer norm is computed in their format.
    """
    if centered:
        return torch.native_layer_norm(x.to(scale.dtype), scale.shape, scale, shift, eps)
    wide = widened(x)
    rate = torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
    return (wide * rate * scale).to(x.dtype), rate


def _normed_again(x: Tensor, scale: Tensor, shift: Tensor | None, statistics: list[Tensor]) -> Tensor:
    *mean, rate = statistics
    wide = widened(x)
    y = ((wide - mean[0]) if mean else wide) * rate * scale
    return (y if shift is None else y + shift).to(x.dtype)


def _norm_gradients(
    gradient: Tensor, x: Tensor, scale: Tensor, shift: Tensor | None, statistics: list[Tensor]
) -> tuple[Tensor, Tensor, Tensor | None]:
    *mean, rate = statistics
    if mean:
        wanted, wide, gradient = [True, True, shift is not None], x.to(scale.dtype), gradient.to(scale.dtype)
        found = aten.native_layer_norm_backward(gradient, wide, scale.shape, mean[0], rate, scale, shift, wanted)
        return found[0].to(x.dtype), found[1], found[2] if shift is not None else None
    to_x, to_scale = rms_gradients(widened(gradient), widened(x) * rate, scale)
    return (to_x * rate).to(x.dtype), to_scale.to(scale.dtype), None


class _SwigluLinear(torch.autograd.Function):
    @staticmethod
    def forward(gate: Tensor, up: Tensor, weight: Tensor) -> Tensor:
        return _product(nn.functional.silu(gate) * up, weight, None)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:  # noqa: ARG004
        ctx.wanted = (any(ctx.needs_input_grad[:2]), ctx.needs_input_grad[2], False)
        ctx.save_for_backward(*inputs)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        gate, up, weight = ctx.saved_tensors
        opened = nn.functional.silu(gate)
        inner, to_weight, _ = _product_gradients(ctx, gradient, lambda: opened * up, weight)
        if inner is None:
            return None, None, to_weight
        inner = inner.to(torch.result_type(gate, up))
        return aten.silu_backward((inner * up).to(gate.dtype), gate), (inner * opened).to(up.dtype), to_weight


def act_linear(x: Tensor, weight: Tensor, bias: Tensor | None = None, act: str = "gelu") -> Tensor:
    """Computes linear(act(x)); it keeps x and computes act(x) again.

    Raises:
        ConfigError: for an unknown function.
    """
    if act not in TORCH_FUNCTIONS:
        advice = did_you_mean(act, TORCH_FUNCTIONS) or f"there are {', '.join(TORCH_FUNCTIONS)}"
        raise ConfigError(f"the activation function {act!r} is not known", advice)
    return _ActLinear.apply(x, weight, bias, act)


def norm_linear(
    x: Tensor, scale: Tensor, shift: Tensor | None, weight: Tensor, bias: Tensor | None = None, eps: float = 1e-5,
    rms: bool = False,
) -> Tensor:  # fmt: skip
    """Computes linear(norm(x)); it keeps x and the norm's statistics, and computes the norm again.

    RMS norms have no shift.

    Raises:
        ConfigError: for an RMS norm with a shift.
    """
    if rms and shift is not None:
        raise ConfigError("an RMS norm has no shift", "give None, or rms=False for a layer norm")
    return _NormLinear.apply(x, scale, shift, weight, bias, eps, not rms)[0]


def swiglu_linear(gate: Tensor, up: Tensor, weight: Tensor) -> Tensor:
    """Computes linear(silu(gate)·up); it keeps both inputs, and computes their product again."""
    return _SwigluLinear.apply(gate, up, weight)
