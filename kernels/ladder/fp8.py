"""Products in fp8: E4M3 forward, E5M2 for gradients; scales come from the tensor itself or from a history of ranges.

`torch._scaled_mm` does the products. Its emulation on CPUs allows layouts that GPUs refuse, so that layouts are checked
here. Source: arXiv 2209.05433; NVIDIA Transformer Engine, delayed scaling.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from types import TracebackType
from typing import Any

from amped.base.errors import ConfigError
from amped.kernels.torch_import import torch_module

# The largest numbers of E4M3 and E5M2.
LARGEST = {"e4m3": 448.0, "e5m2": 57344.0}
ALIGNED = 16


@dataclass(frozen=True)
class Recipe:
    """How scales are chosen.

    Attributes:
        delayed: whether scales come from the ranges of earlier steps; else from the tensor itself.
        history: the number of remembered steps.
        most_recent: whether only the last of these counts.
        margin: the powers of two that are left as room.
    """

    delayed: bool = True
    history: int = 16
    most_recent: bool = False
    margin: int = 0


@dataclass
class ScaleState:
    """The scale of one tensor and its history of ranges; slot 0 is this step's.

    Both stay on the device, without waiting.
    """

    largest: float
    recipe: Recipe
    device: str = "cpu"
    scale: Any = None
    ranges: Any = None
    started: bool = False

    def __post_init__(self) -> None:
        """Starts with a scale of one and an empty history."""
        torch = torch_module()
        self.scale = torch.ones((), device=self.device)
        self.ranges = torch.zeros(self.recipe.history, device=self.device)

    def seen(self, amax: Any) -> None:
        """Notes the range of a tensor in this step."""
        torch = torch_module()
        self.ranges[0] = torch.maximum(self.ranges[0], torch.as_tensor(amax, device=self.device, dtype=torch.float32))

    def update(self) -> None:
        """Ends a step: computes the scale of the next step, and empties slot 0."""
        amax = self.ranges[0] if self.recipe.most_recent else self.ranges.max()
        self.scale = scale_for(amax, self.largest, self.recipe.margin, self.scale)
        self.ranges = self.ranges.roll(1)
        self.ranges[0] = 0.0


def scale_for(amax: Any, largest: float, margin: int, before: Any) -> Any:
    """The scale that brings a range to the format's largest number; the scale before if there is no range."""
    torch = torch_module()
    amax = torch.as_tensor(amax, dtype=torch.float32)
    found = (largest / amax / 2**margin).clamp(max=torch.finfo(torch.float32).max)
    return torch.where(torch.isfinite(amax) & (amax > 0), found, torch.as_tensor(before, device=amax.device))


def formats() -> dict[str, Any]:
    """The two formats as types of torch."""
    torch = torch_module()
    return {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}


def quantized(x: Any, scale: Any, kind: str) -> Any:
    """A tensor times its scale, cut to the range of the format; on a GPU this is one kernel."""
    cast = _compiled_cast() if x.is_cuda else _cast
    return cast(x, scale, LARGEST[kind], formats()[kind])


def _cast(x: Any, scale: Any, largest: float, dtype: Any) -> Any:
    return (x.float() * scale).clamp(-largest, largest).to(dtype)


@lru_cache(maxsize=1)
def _compiled_cast() -> Any:
    return torch_module().compile(_cast)


def refuse_illegal(left: Any, right: Any) -> None:
    """Refuses a product in fp8 that a GPU cannot do: left in rows, right in columns, sides of 16, not both E5M2.

    Raises:
        ConfigError: with the first condition that does not hold.
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


def scaled_product(left: Any, right: Any, scales: tuple[Any, Any], dtype: Any, fast: bool) -> Any:
    """The product of two fp8 tensors, divided by their scales."""
    torch = torch_module()
    refuse_illegal(left, right)
    one, two = (1.0 / scale for scale in scales)
    out = torch.bfloat16 if dtype in (torch.bfloat16, torch.float16) else torch.float32
    return torch._scaled_mm(left, right, scale_a=one, scale_b=two, out_dtype=out, use_fast_accum=fast).to(dtype)


class Float8:
    """Products with weights in fp8, to be given to a layer; it is a context around the forward pass only.

    Scales of inputs and weights change when the context ends, scales of gradients after their use.
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
        """A product with a weight as `plain_linear`: in fp8 inside the context, plain outside."""
        if not self.inside:
            return torch_module().nn.functional.linear(x, weight, bias)
        return _function().apply(x, weight, bias, self, name)

    def cast(self, name: str, x: Any, kind: str) -> tuple[Any, Any]:
        """A tensor in fp8 and its scale: from its own range at first, and always if scaling is dynamic."""
        state = self.states.setdefault(name, ScaleState(LARGEST[kind], self.recipe, str(x.device)))
        amax = x.abs().amax().float()
        state.seen(amax)
        if not self.recipe.delayed or not state.started:
            state.scale = scale_for(amax, state.largest, self.recipe.margin, state.scale)
            state.started = True
        return quantized(x, state.scale, kind), state.scale


@lru_cache(maxsize=1)
def _function() -> Any:
    """The product and its gradients as an autograd function of torch."""
    torch = torch_module()

    class Float8Linear(torch.autograd.Function):  # type: ignore[misc, name-defined]
        """Y = X·Wᵀ + b in fp8; the gradients of X and W are in fp8, too, that of b is exact."""

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
            # Hopper multiplies only rows by columns: this makes three transposed copies with one byte for each entry.
            dx = scaled_product(gq, wq.t().contiguous().t(), (sg, sw), gradient.dtype, fast=False)
            dw = scaled_product(gq.t().contiguous(), xq.t().contiguous().t(), (sg, sx), gradient.dtype, fast=False)
            return dx.view(ctx.shape), dw, rows.sum(0), None, None

    return Float8Linear
