"""Products in fp8: E4M3 forward, E5M2 for gradients; scales come from the tensor itself or from a history of ranges.

`torch._scaled_mm` does the products. Its emulation on CPUs allows layouts that GPUs refuse, so that layouts are checked
here. What is cast is read once (with scales of its own range twice) and written in rows and in columns.

Source: arXiv 2209.05433, section 3; NVIDIA Transformer Engine, delayed scaling.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from amped.base.errors import ConfigError
from amped.kernels.ladder.fp8_cast import FORMATS, LARGEST, cast_both_ways, range_of
from amped.kernels.torch_import import torch

# A GPU multiplies fp8 only if sides are multiples of this, and reads scales only at addresses (in bytes) that are, too.
ALIGNED = 16
# The steps whose ranges are remembered.
HISTORY = 16


class ScaleState:
    """The scale of one tensor and the ranges of its last steps; the first range is that of the current step.

    Both stay on the device, so that the host does not wait. At first, the scale is one and all ranges are zero.
    """

    def __init__(self, largest: float, history: int, device: Any = "cpu") -> None:
        self.largest = largest
        self.scale = self.inverse = torch.ones((), device=device)
        self.ranges = torch.zeros(history, device=device)

    def seen(self, amax: Any) -> None:
        """Takes the range of a tensor (its largest absolute value) into the range of the current step."""
        current_range = self.ranges.select(0, 0)
        torch.maximum(
            current_range, torch.as_tensor(amax, device=current_range.device, dtype=torch.float32), out=current_range
        )


def update(states: Collection[ScaleState]) -> None:
    """Ends a step of several scales of one format: sets the scales of the next step from the ranges of all steps.

    The ranges move by one step, and the range of the new step is zero.
    """
    if not states:
        return
    largest = next(iter(states)).largest
    ranges = torch.stack([state.ranges for state in states])
    before = torch.stack([state.scale for state in states])
    scales = scale_for(ranges.amax(1), largest, before)
    inverses, ranges = 1.0 / scales, ranges.roll(1, 1)
    ranges.select(1, 0).zero_()
    for state, *new_state in zip(states, aligned(scales), aligned(inverses), ranges.unbind(), strict=True):
        state.scale, state.inverse, state.ranges = new_state


def aligned(numbers: Any) -> tuple[Any, ...]:
    """Each of these numbers as a tensor, at an address where cuBLASLt can read it as a scale."""
    spread = numbers.unsqueeze(1).repeat(1, ALIGNED // numbers.element_size())
    return spread.select(1, 0).unbind()


def scale_for(amax: Any, largest: float, before: Any) -> Any:
    """The scale that brings a range to the format's largest number; the scale `before` if the range is zero or not finite."""
    amax = torch.as_tensor(amax, dtype=torch.float32)
    scale = (largest / amax).clamp(max=torch.finfo(torch.float32).max)
    return torch.where(torch.isfinite(amax) & (amax > 0), scale, torch.as_tensor(before, device=amax.device))


def refuse_illegal(left: Any, right: Any) -> None:
    """Refuses a product in fp8 that a GPU cannot compute.

    The left operand must be stored by rows and the right one by columns, sides must be multiples of 16, and only one
    operand may be E5M2.

    Raises:
        ConfigError: with the first condition that does not hold.
    """
    if left.dtype == right.dtype == FORMATS["e5m2"]:
        raise ConfigError("a product of two E5M2 tensors is not supported", "one of them must be E4M3")
    if left.stride(-1) != 1 or right.stride(0) != 1:
        raise ConfigError("fp8 products need a left operand in rows and a right one in columns", "transpose a copy")
    sides = {"k": left.shape[1], "n": right.shape[1]}
    odd = [f"{name} = {side}" for name, side in sides.items() if side % ALIGNED]
    if odd:
        raise ConfigError(f"{' and '.join(odd)} of an fp8 product must be multiples of {ALIGNED}", "choose other sizes")


def scaled_product(left: Any, right: Any, inverses: tuple[Any, Any], dtype: Any, fast: bool, bias: Any = None) -> Any:
    """The product of two fp8 tensors, times the inverses of their scales, plus a bias.

    The kernel adds the bias if bias and output are bf16; else the bias is added afterwards. `fast` allows sums of lower precision.
    """
    refuse_illegal(left, right)
    left_inverse, right_inverse = inverses
    out = torch.bfloat16 if dtype in (torch.bfloat16, torch.float16) else torch.float32
    fused_bias = bias if bias is not None and bias.dtype == out == torch.bfloat16 else None
    product = torch._scaled_mm(
        left, right, scale_a=left_inverse, scale_b=right_inverse, bias=fused_bias, out_dtype=out, use_fast_accum=fast
    )
    product = product.to(dtype)
    return product if bias is fused_bias else product + bias


class Float8:
    """Products with weights in fp8, to be given to a layer; it is a context around the forward pass only.

    Scales of inputs and weights change when the context ends, those of gradients when the next one begins.

    Args:
        delayed: whether scales come from the ranges of earlier steps; else from the tensor itself.
    """

    def __init__(self, delayed: bool = True) -> None:
        self.delayed, self.inside = delayed, False
        self.states: dict[str, dict[str, ScaleState]] = {kind: {} for kind in FORMATS}

    def __enter__(self) -> Float8:
        self.inside = True
        update(self.states["e5m2"].values())
        return self

    def __exit__(self, *_: object) -> None:
        self.inside = False
        update(self.states["e4m3"].values())

    def linear(self, name: str, x: Any, weight: Any, bias: Any) -> Any:
        """The product with a weight, with the arguments of `plain_linear`: in fp8 inside the context, plain outside of it."""
        if not self.inside:
            return torch.nn.functional.linear(x, weight, bias)
        return _Float8Linear.apply(x, weight, bias, self, name)

    def cast(self, name: str, x: Any, kind: str) -> tuple[Any, Any, Any]:
        """A matrix in fp8 stored by rows, the same stored by columns, and the inverse of the scale.

        The scale comes from the matrix's own range if scaling is dynamic, or if the matrix is new; else from earlier
        steps. `name` is the key of the scale, `kind` the format.
        """
        states = self.states[kind]
        has_delayed_scale = self.delayed and name in states
        state = states.setdefault(name, ScaleState(LARGEST[kind], HISTORY, x.device))
        if not has_delayed_scale:
            state.scale = scale_for(range_of(x), state.largest, state.scale)
            state.inverse = 1.0 / state.scale
        rows, transposed, amax = cast_both_ways(x, state.scale, kind)
        state.seen(amax)
        return rows, transposed, state.inverse


class _Float8Linear(torch.autograd.Function):
    """Y = X·Wᵀ + b in fp8; the gradients of X and W are in fp8, too, that of b is exact."""

    @staticmethod
    def forward(ctx: Any, x: Any, weight: Any, bias: Any, of: Float8, name: str) -> Any:
        rows = x.reshape(-1, x.shape[-1])
        xq, x_across, sx = of.cast(f"{name}.input", rows, "e4m3")
        wq, w_across, sw = of.cast(f"{name}.weight", weight, "e4m3")
        ctx.save_for_backward(x_across, w_across, sx, sw)  # the gradients need only the transposed ones
        ctx.of, ctx.name, ctx.shape = of, name, x.shape
        return scaled_product(xq, wq.t(), (sx, sw), x.dtype, True, bias).view(*x.shape[:-1], -1)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> tuple[Any, ...]:
        x_across, w_across, sx, sw = ctx.saved_tensors
        rows = gradient.reshape(-1, gradient.shape[-1])
        gq, g_across, sg = ctx.of.cast(f"{ctx.name}.gradient", rows, "e5m2")
        dx = scaled_product(gq, w_across.t(), (sg, sw), gradient.dtype, fast=False)
        dw = scaled_product(g_across, x_across.t(), (sg, sx), gradient.dtype, fast=False)
        return dx.view(ctx.shape), dw, rows.sum(0), None, None
