"""Products that compute their input again, after an activation function or after a norm.

They are exact and need no mask, but one more pass over the activations. The product keeps what the function before it
keeps anyway. Under autocast, the product has the format that torch would give it, and so has its backward pass, which autocast
does not reach: it casts what it reads. Source: arXiv 1604.06174, section 4.2.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from amped.base.errors import ConfigError
from amped.kernels.memory.function import Function
from amped.kernels.memory.in_place_norm import rms_gradients, rms_norm, widened
from amped.kernels.refusals import refuse_unknown

aten = torch.ops.aten
# Torch's own activation functions, and their gradients.
TORCH_FUNCTIONS = {
    "gelu": (nn.functional.gelu, aten.gelu_backward),
    "gelu_tanh": (partial(nn.functional.gelu, approximate="tanh"), partial(aten.gelu_backward, approximate="tanh")),
    "silu": (nn.functional.silu, aten.silu_backward),
    "relu": (nn.functional.relu, partial(aten.threshold_backward, threshold=0)),
}


def _product(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """The product with a weight, and a bias; under autocast, in the format that autocast chooses.

    The tensors are cast here and not by autocast: it would cache a weight that it casts without a gradient, and the
    next use of the weight in the same context would get no gradient either.
    """
    kind = x.device.type
    if torch.is_autocast_enabled(kind):
        dtype = torch.get_autocast_dtype(kind)
        x, weight, bias = (t if t is None or t.dtype == torch.float64 else t.to(dtype) for t in (x, weight, bias))
    return nn.functional.linear(x, weight, bias)


@dataclass(frozen=True)
class Before:
    """A function before a product; its output is computed again in the backward pass.

    Attributes:
        value: gives the output and the statistics to keep, from eps and the inputs of the function.
        gradients: gives the gradients of the inputs, from the gradient of the output, the inputs and the statistics.
    """

    value: Callable[..., tuple[Tensor, ...]]
    gradients: Callable[..., tuple[Tensor | None, ...]]


def _activated(value: Callable[[Tensor], Tensor], backward: Callable[[Tensor, Tensor], Tensor]) -> Before:
    """The function `value` before a product; `backward` gives the gradient of its input."""
    return Before(lambda _, x: (value(x),), lambda gradient, x: (backward(gradient.to(x.dtype), x),))


def _layer_norm(eps: float, x: Tensor, scale: Tensor, shift: Tensor | None) -> tuple[Tensor, ...]:
    """The output of a layer norm, and its mean and 1/σ.

    If the input is narrower than the parameters, as under autocast, the norm is computed in their format.
    """
    return torch.native_layer_norm(x.to(scale.dtype), scale.shape, scale, shift, eps)


def _layer_norm_gradients(
    gradient: Tensor, x: Tensor, scale: Tensor, shift: Tensor | None, mean: Tensor, rate: Tensor
) -> tuple[Tensor | None, ...]:
    """The gradients of a layer norm's input, scale and shift."""
    wide, gradient = x.to(scale.dtype), gradient.to(scale.dtype)
    needed = [True, True, shift is not None]
    to_x, *others = aten.native_layer_norm_backward(gradient, wide, scale.shape, mean, rate, scale, shift, needed)
    return to_x.to(x.dtype), *others


def _rms_norm(eps: float, x: Tensor, scale: Tensor) -> tuple[Tensor, ...]:
    """The output of an RMS norm, and its 1/σ."""
    y, rate = rms_norm(widened(x), scale, eps)
    return y.to(x.dtype), rate


def _rms_norm_gradients(gradient: Tensor, x: Tensor, scale: Tensor, rate: Tensor) -> tuple[Tensor, ...]:
    """The gradients of an RMS norm's input and scale."""
    to_x, to_scale = rms_gradients(widened(gradient), widened(x) * rate, scale)
    return (to_x * rate).to(x.dtype), to_scale.to(scale.dtype)


def _swiglu_gradients(gradient: Tensor, gate: Tensor, up: Tensor) -> tuple[Tensor, ...]:
    """The gradients of the gate and of the other factor of silu(gate)·up."""
    inner = gradient.to(torch.result_type(gate, up))
    to_gate = aten.silu_backward((inner * up).to(gate.dtype), gate)
    return to_gate, (inner * nn.functional.silu(gate)).to(up.dtype)


BEFORE = {name: _activated(*functions) for name, functions in TORCH_FUNCTIONS.items()} | {
    "layer_norm": Before(_layer_norm, _layer_norm_gradients),
    "rms_norm": Before(_rms_norm, _rms_norm_gradients),
    "swiglu": Before(lambda _, gate, up: (nn.functional.silu(gate) * up,), _swiglu_gradients),
}


@torch.library.custom_op(
    "amped::recomputed_weight_gradient", mutates_args=(),
    schema="(Tensor gradient, Tensor?[] inputs, str name, float eps) -> Tensor",
)  # fmt: skip
def recomputed_weight_gradient(gradient: Tensor, inputs: list[Tensor | None], name: str, eps: float) -> Tensor:
    """The gradient of a product's weight, for which the product's input is computed again.

    It is an operator of its own: the compiler would see that this input was computed before, and keep it.
    """
    y = BEFORE[name].value(eps, *inputs)[0]
    return gradient.reshape(-1, gradient.shape[-1]).T @ y.reshape(-1, y.shape[-1]).to(gradient.dtype)


@recomputed_weight_gradient.register_fake
def _(gradient: Tensor, inputs: list[Tensor], name: str, eps: float) -> Tensor:  # noqa: ARG001
    return gradient.new_empty((gradient.shape[-1], inputs[0].shape[-1]))


class _RecomputedLinear(Function):
    """A product whose input is computed again; its gradients have the format of torch's own before these are cast."""

    @staticmethod
    def forward(
        name: str, eps: float, known: Tensor | None, weight: Tensor, bias: Tensor | None, *inputs: Tensor | None
    ) -> tuple[Tensor, ...]:
        y, *statistics = BEFORE[name].value(eps, *inputs) if known is None else (known,)
        return _product(y, weight, bias), *statistics

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.name, ctx.eps, _, weight, _, *given = inputs
        ctx.mark_non_differentiable(*output[1:])
        ctx.save_for_backward(weight, *given, *output[1:])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor, *_: Any) -> tuple[Any, ...]:
        weight, *kept = ctx.saved_tensors
        _, _, _, of_weight, of_bias, *of_inputs = ctx.needs_input_grad
        to_weight = to_bias = None
        to_inputs: tuple[Tensor | None, ...] = (None,) * len(of_inputs)
        if of_weight:
            given = kept[: len(of_inputs)]
            to_weight = torch.ops.amped.recomputed_weight_gradient(gradient, given, ctx.name, ctx.eps).to(weight.dtype)
        if of_bias:
            to_bias = gradient.reshape(-1, gradient.shape[-1]).sum(0)
        if any(of_inputs):
            to_inputs = BEFORE[ctx.name].gradients(gradient @ weight.to(gradient.dtype), *kept)
        return None, None, None, to_weight, to_bias, *to_inputs


def act_linear(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, act: str = "gelu", known: Tensor | None = None
) -> Tensor:
    """The result of linear(act(x)), which keeps x and computes act(x) again in the backward pass.

    `known` is act(x), if it is computed already.

    Raises:
        ConfigError: for an unknown function.
    """
    refuse_unknown(act, TORCH_FUNCTIONS, f"the activation function {act!r} is not known")
    return _RecomputedLinear.apply(act, 0.0, known, weight, bias, x)[0]


def norm_linear(
    x: Tensor, scale: Tensor, shift: Tensor | None, weight: Tensor, bias: Tensor | None = None, eps: float = 1e-5,
    rms: bool = False,
) -> Tensor:  # fmt: skip
    """The result of linear(norm(x)), which keeps x and the norm's statistics, and computes the norm again.

    Raises:
        ConfigError: for an RMS norm with a shift.
    """
    if rms and shift is not None:
        raise ConfigError("an RMS norm has no shift", "give None, or rms=False for a layer norm")
    if rms:
        return _RecomputedLinear.apply("rms_norm", eps, None, weight, bias, x, scale)[0]
    return _RecomputedLinear.apply("layer_norm", eps, None, weight, bias, x, scale, shift)[0]


def swiglu_linear(gate: Tensor, up: Tensor, weight: Tensor) -> Tensor:
    """The result of linear(silu(gate)·up), which keeps both inputs and computes silu(gate)·up again."""
    return _RecomputedLinear.apply("swiglu", 0.0, None, weight, None, gate, up)[0]


class RecomputedActivation(nn.Module):
    """An activation function that notes its input on its output, so that the product after it can keep the input.

    `convert` gives this class to a module that computes the function `_function`. If another module takes the output,
    its gradients are as with torch's own function.
    """

    def forward(self, x: Tensor) -> Tensor:
        """The function of the input."""
        y: Tensor = TORCH_FUNCTIONS[self._function][0](x)
        if torch.is_grad_enabled() and (torch.compiler.is_compiling() or not x.is_inference()):
            y.computed_from = (x, self._function, *_versions(x, y))
        return y


def _versions(*tensors: Tensor) -> tuple[int, ...]:
    """The number of changes in place of each tensor.

    Empty in a compiler, which cannot tell; `convert` has checked them.
    """
    return () if torch.compiler.is_compiling() else tuple(t._version for t in tensors)


def _known(y: Tensor) -> tuple[Tensor, str] | None:
    """The input and the name of the activation function that gave this output; None if it is unknown or one was changed."""
    x, name, *versions = getattr(y, "computed_from", (None, ""))
    return (x, name) if x is not None and tuple(versions) == _versions(x, y) else None


class RecomputingLinear(nn.Linear):
    """`nn.Linear` that keeps the input of the activation function before it, and computes the function again."""

    def forward(self, x: Tensor) -> Tensor:
        """The product; torch's own if no activation function noted its input on `x`."""
        origin = _known(x)
        return act_linear(origin[0], self.weight, self.bias, origin[1], x.detach()) if origin else super().forward(x)


class RecomputingConv1D(nn.Module):
    """Transformers' `Conv1D` (a linear module with a transposed weight) that keeps the input of the function before it.

    The attribute `_before` has its earlier class.
    """

    def forward(self, x: Tensor) -> Tensor:
        """The product; that of the earlier class if no activation function noted its input on `x`."""
        origin = _known(x)
        if origin is None:
            return self._before[0].forward(self, x)
        return act_linear(origin[0], self.weight.t(), self.bias, origin[1], x.detach())
