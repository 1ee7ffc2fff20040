"""Products in fp8: E4M3 forward, E5M2 for gradients, scales from the tensor itself or from a history of its ranges.

Where the device multiplies fp8, `torch._scaled_mm` does; its emulation on CPUs allows layouts that GPUs refuse, so they
are checked here. Source: arXiv 2209.05433; NVIDIA Transformer Engine, delayed scaling.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache
from types import TracebackType
from typing import Any

from amped.kernels.torch_door import torch_module

from amped.errors import ConfigError

# Largest numbers of E4M3 and E5M2.
LARGEST = {"e4m3": 448.0, "e5m2": 57344.0}
ALIGNED = 16


@dataclass(frozen=True)
class Recipe:
    """How scales are found.

    Attributes:
        delayed: from the ranges of earlier steps; else from the tensor itself.
        history: steps that are remembered; `most_recent`: only the last of them counts.
        margin: powers of two left as room.
    """

    delayed: bool = True
    history: int = 16
    most_recent: bool = False
    margin: int = 0


@dataclass
class ScaleState:
    """The scale of one tensor, and the ranges it had; slot 0 is of this step."""

    largest: float
    recipe: Recipe
    scale: float = 1.0
    ranges: list[float] = field(default_factory=list)
    started: bool = False

    def __post_init__(self) -> None:
        """An empty history."""
        self.ranges = self.ranges or [0.0] * self.recipe.history

    def seen(self, amax: float) -> None:
        """Notes the range of a tensor of this step."""
        self.ranges[0] = max(self.ranges[0], amax)

    def update(self) -> None:
        """Ends a step: the scale of the next, and slot 0 empty again."""
        amax = self.ranges[0] if self.recipe.most_recent else max(self.ranges)
        self.scale = scale_for(amax, self.largest, self.recipe.margin, self.scale)
        self.ranges = [0.0, *self.ranges[:-1]]


def scale_for(amax: float, largest: float, margin: int, before: float) -> float:
    """The scale that brings a range to the format's largest number; the one before where there is no range."""
    if not math.isfinite(amax) or amax <= 0:
        return before
    return min(largest / amax / 2**margin, 3.4028235e38)


def formats() -> dict[str, Any]:
    """The two formats as torch has them."""
    torch = torch_module()
    return {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}


def quantized(x: Any, scale: float, kind: str) -> Any:
    """A tensor times its scale, cut to what the format holds."""
    largest = LARGEST[kind]
    return (x.float() * scale).clamp(-largest, largest).to(formats()[kind])


def refuse_illegal(left: Any, right: Any) -> None:
    """What GPUs demand of a product in fp8: left in rows, right in columns, sides of 16, not both E5M2.

    Raises:
        ConfigError: with the first that does not hold.
    """
    e5m2 = formats()["e5m2"]
    if left.dtype == e5m2 and right.dtype == e5m2:
        raise ConfigError("a product of two E5M2 tensors is not supported", "one of them must be E4M3")
    if left.stride(-1) != 1 or right.stride(0) != 1:
        raise ConfigError("fp8 products need a left operand in rows and a right one in columns", "transpose a copy")
    sides = {"k": left.shape[1], "n": right.shape[1]}
    odd = [f"{name} = {side}" for name, side in sides.items() if side % ALIGNED]
    if odd:
        raise ConfigError(f"{' and '.join(odd)} of an fp8 product must be multiples of {ALIGNED}", "choose other sizes")


def scaled_product(left: Any, right: Any, scales: tuple[float, float], dtype: Any, fast: bool) -> Any:
    """The product of two fp8 tensors, with their scales taken out again."""
    torch = torch_module()
    refuse_illegal(left, right)
    one, two = (torch.tensor(1.0 / scale, device=left.device) for scale in scales)
    out = torch.bfloat16 if dtype in (torch.bfloat16, torch.float16) else torch.float32
    return torch._scaled_mm(left, right, scale_a=one, scale_b=two, out_dtype=out, use_fast_accum=fast).to(dtype)


class Float8:
    """Products with weights in fp8, to hand to a layer; around forward only, as a context.

    Scales of inputs and weights change when the context ends, those of gradients once they were used.
    """

    def __init__(self, recipe: Recipe) -> None:
        self.recipe, self.states = recipe, dict[str, ScaleState]()
        self.inside = False

    def __enter__(self) -> Float8:
        self.inside = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.inside = False
        for name, state in self.states.items():
            if not name.endswith(".gradient"):
                state.update()

    def linear(self, name: str, x: Any, weight: Any, bias: Any) -> Any:
        """As `plain_linear`, in fp8 within the context and plain without."""
        if not self.inside:
            return torch_module().nn.functional.linear(x, weight, bias)
        return _function().apply(x, weight, bias, self, name)

    def cast(self, name: str, x: Any, kind: str) -> tuple[Any, float]:
        """A tensor in fp8, and its scale: by its own range at first, and always where scaling is dynamic."""
        state = self.states.setdefault(name, ScaleState(LARGEST[kind], self.recipe))
        if not self.recipe.delayed or not state.started:
            amax = float(x.abs().amax())
            state.scale = scale_for(amax, state.largest, self.recipe.margin, state.scale)
            state.started = True
            state.seen(amax)
        else:
            state.seen(float(x.abs().amax()))
        return quantized(x, state.scale, kind), state.scale


@lru_cache(maxsize=1)
def _function() -> Any:
    """The product and its gradients as torch's autograd wants them."""
    torch = torch_module()

    class Float8Linear(torch.autograd.Function):  # type: ignore[misc, name-defined]
        """Y = X·Wᵀ + b in fp8; gradients of X and W in fp8 too, that of b exact."""

        @staticmethod
        def forward(ctx: Any, x: Any, weight: Any, bias: Any, of: Float8, name: str) -> Any:
            rows = x.reshape(-1, x.shape[-1])
            xq, sx = of.cast(f"{name}.input", rows, "e4m3")
            wq, sw = of.cast(f"{name}.weight", weight, "e4m3")
            ctx.save_for_backward(xq, wq)
            ctx.of, ctx.name, ctx.scales, ctx.shape = of, name, (sx, sw), x.shape
            out = scaled_product(xq, wq.t(), (sx, sw), x.dtype, fast=True) + bias
            return out.view(*x.shape[:-1], -1)

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> tuple[Any, ...]:
            (gradient,) = gradients
            (xq, wq), (sx, sw) = ctx.saved_tensors, ctx.scales
            rows = gradient.reshape(-1, gradient.shape[-1])
            gq, sg = ctx.of.cast(f"{ctx.name}.gradient", rows, "e5m2")
            ctx.of.states[f"{ctx.name}.gradient"].update()
            # Hopper multiplies rows by columns only: three transposed copies of one byte an entry.
            dx = scaled_product(gq, wq.t().contiguous().t(), (sg, sw), gradient.dtype, fast=False)
            dw = scaled_product(gq.t().contiguous(), xq.t().contiguous().t(), (sg, sx), gradient.dtype, fast=False)
            return dx.view(ctx.shape), dw, rows.sum(0), None, None

    return Float8Linear
