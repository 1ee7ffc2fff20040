"""GELU and SiLU that keep their output and a bit, not their input (arXiv 2210.10246, section 3.1, with a correction).

SiLU in bf16 keeps two bits (`bits_kept`), because its rounded output is too coarse for the slope.

The next product keeps the output anyway, if nothing is between them: no dropout, no cast, no copy. Both passes are
operators of their own (`amped::…`), so that torch.compile keeps exactly what they keep.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.autograd.function import once_differentiable

from amped.base.errors import ConfigError
from amped.kernels.memory.activation_functions import (
    DEGREES,
    FUNCTIONS,
    approximate_slope,
    bits_kept,
    exact_near_minimum,
    fit_pieces,
    middle_of_half,
    signed_root,
    slope_of_output,
)
from amped.kernels.memory.bits import pack_bits, room_for_bits, unpack_bits
from amped.kernels.memory.function import Function, is_observed
from amped.kernels.memory.in_place_norm import widened
from amped.kernels.memory.recompute import TORCH_FUNCTIONS

# How many entries the processor works on at a time, so that they fit in its caches.
_BLOCK = 1 << 16


def activation_in_place(x: Tensor, name: str) -> tuple[Tensor, Tensor]:
    """The output of an activation function, and the packed bits of each entry (`bits_kept`).

    The output is torch's, except in fp32 near the minimum: torch's is off by up to eight half-units in the last place
    there, which costs the slope more than rounding does, and this one by half a unit.
    """
    if kernels := _kernels(x):
        return kernels.forward(x, name)
    output = TORCH_FUNCTIONS[name][0](x).contiguous()
    if x.dtype == torch.float32:
        exact_near_minimum(FUNCTIONS[name], x, output)
    return output, _packed(x, output, name)


_FORWARD = torch.library.custom_op(
    "amped::activation_in_place", activation_in_place, mutates_args=(),
    schema="(Tensor x, str name) -> (Tensor, Tensor)",
)  # fmt: skip


@_FORWARD.register_fake
def _(x: Tensor, name: str) -> tuple[Tensor, Tensor]:
    return x.new_empty(x.shape), room_for_bits(x, bits_kept(name, x.dtype))


def activation_in_place_backward(gradient: Tensor, output: Tensor, packed: Tensor, name: str) -> Tensor:
    """The gradient of the input, from the gradient of the output, the output and the packed bits."""
    if kernels := _kernels(output):
        return kernels.backward(gradient, output, packed, name)
    result = gradient.new_empty(output.shape)
    parts = (t.reshape(-1).split(_BLOCK) for t in (gradient, output, result))
    for incoming, part, into, bits in zip(*parts, packed.split(_BLOCK // 8, dim=1), strict=True):
        into.copy_(incoming * _slope(part, bits, name))
    return result


_BACKWARD = torch.library.custom_op(
    "amped::activation_in_place_backward", activation_in_place_backward, mutates_args=(),
    schema="(Tensor gradient, Tensor output, Tensor packed, str name) -> Tensor",
)  # fmt: skip


@_BACKWARD.register_fake
def _(gradient: Tensor, output: Tensor, packed: Tensor, name: str) -> Tensor:  # noqa: ARG001
    return gradient.new_empty(output.shape)


def _kernels(x: Tensor) -> Any:
    """The module of Triton kernels for this tensor; None on a processor and for float64."""
    if not x.is_cuda or x.dtype not in DEGREES:
        return None
    from amped.kernels.memory import triton_activation

    return triton_activation


def _packed(x: Tensor, output: Tensor, name: str) -> Tensor:
    """The packed bits of all entries: a row for each kept bit.

    The tensor is processed block by block, so that only one block at a time is in fp32.
    """
    packed = room_for_bits(x, bits_kept(name, x.dtype))
    parts = x.reshape(-1).split(_BLOCK), output.view(-1).split(_BLOCK), packed.split(_BLOCK // 8, dim=1)
    for entries, rounded, into in zip(*parts, strict=True):
        wide = widened(entries)  # a narrow format would round the minimum
        into[0] = pack_bits(wide >= FUNCTIONS[name].minimum_input)
        if len(into) > 1:
            into[1] = pack_bits(TORCH_FUNCTIONS[name][0](wide).abs() > rounded.abs())
    return packed


def _slope(output: Tensor, packed: Tensor, name: str) -> Tensor:
    """The slope of an activation function at each entry, from the outputs and the packed bits."""
    function = FUNCTIONS[name]
    above, *farther = (unpack_bits(row, output.shape) for row in packed)
    if output.dtype == torch.float64:
        return slope_of_output(function, output, above)
    wide = middle_of_half(output, *farther) if farther else output.float()
    return approximate_slope(fit_pieces(function, DEGREES[output.dtype]), signed_root(function, wide, above))


def _times_slope(ctx: Any, gradient: Tensor, _: Any) -> tuple[Tensor, None]:
    """The gradient times the slope.

    It is the derivative in both modes, as each output depends on its own input only.
    """
    output, packed = ctx.saved_tensors
    product = _BACKWARD if is_observed(gradient) else activation_in_place_backward
    return product(gradient, output, packed, ctx.name), None


class _InPlace(Function):
    backward = staticmethod(once_differentiable(_times_slope))

    @staticmethod
    def forward(x: Tensor, name: str) -> tuple[Tensor, Tensor]:
        return (_FORWARD if is_observed(x) else activation_in_place)(x, name)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        ctx.name = inputs[1]
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(*output)


class _InPlaceBothModes(_InPlace):
    """An in-place activation function that also has a derivative in forward mode.

    It is a class of its own, because the compiler takes no function with such a derivative.
    """

    jvp = staticmethod(_times_slope)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        _InPlace.setup_context(ctx, inputs, output)
        ctx.save_for_forward(*output)


def _in_place(x: Tensor, name: str) -> Tensor:
    """The output of an in-place activation function.

    Raises:
        ConfigError: for a format that it does not take.
    """
    if x.dtype not in (*DEGREES, torch.float64):
        raise ConfigError(
            f"an in-place {name} cannot take {x.dtype}", "it takes float16, bfloat16, float32 and float64"
        )
    if not torch.compiler.is_compiling() and forward_ad._current_level >= 0:
        return _InPlaceBothModes.apply(x, name)[0]  # the operator alone would have no derivative, and say nothing
    if torch.is_grad_enabled() and x.requires_grad:
        return _InPlace.apply(x, name)[0]
    return _FORWARD(x, name)[0]  # equal to the last bit with or without a gradient


def inplace_gelu(x: Tensor, approximate: str = "none") -> Tensor:
    """GELU that keeps its output and packed bits for the backward pass.

    Raises:
        ConfigError: for an approximation that torch does not have, and for a tensor that is not floating-point.
    """
    if approximate not in ("none", "tanh"):
        raise ConfigError(f"a GELU's approximation {approximate!r} is not known", "there are 'none' and 'tanh'")
    return _in_place(x, "gelu" if approximate == "none" else "gelu_tanh")


def inplace_silu(x: Tensor) -> Tensor:
    """SiLU that keeps its output and packed bits for the backward pass.

    Raises:
        ConfigError: for a tensor that is not floating-point.
    """
    return _in_place(x, "silu")


class InplaceGELU(nn.GELU):
    """`nn.GELU` that keeps its output and packed bits for the backward pass."""

    def forward(self, x: Tensor) -> Tensor:
        """GELU of the input."""
        return inplace_gelu(x, self.approximate)


class InplaceSiLU(nn.SiLU):
    """`nn.SiLU` that keeps its output and packed bits for the backward pass."""

    def forward(self, x: Tensor) -> Tensor:
        """SiLU of the input."""
        return inplace_silu(x)
