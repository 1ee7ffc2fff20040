"""Runs the rungs of the ladder: each rung is compared with the first one, timed, and set beside its prediction."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from amped.base.errors import ConfigError
from amped.kernels import dense_layer as layers
from amped.kernels.cuda_timer import warmed_aside
from amped.kernels.ladder.fp8 import Float8
from amped.kernels.ladder.speed import Speed, clock_laps, event_laps, speedometer
from amped.kernels.layer_shape import Shape
from amped.kernels.process_memory import forget_peak, peak_bytes
from amped.kernels.refusals import refuse_unknown
from amped.kernels.running import freed, told_of
from amped.kernels.timers import host_clock
from amped.kernels.timing import Call
from amped.kernels.torch_import import has_fp8, torch

RUNGS = ("eager", "functional", "sdpa", "compiled", "graph", "fp8_dynamic", "fp8_delayed", "transformer_engine")
# How far a rung's output may differ from that of the first rung, in norm.
TOLERANCE = {"float32": 1e-5, "float16": 1e-2, "bfloat16": 1e-2, "fp8": 8e-2}
# How far its gradients may differ, relative to theirs: E5M2 and E4M3 are off by 6 % in each product (two and three bits
# of mantissa), and a gradient passes through four products: 0.06 times the root of 4.
GRADIENTS = {"float32": 2.0, "float16": 2.0, "bfloat16": 2.0, "fp8": 1.5}
Row = dict[str, Any]


class Unavailable(Exception):  # noqa: N818 (no mistake: a rung that this machine does not have)
    """The reason why a rung is not possible here."""


@dataclass
class Rung:
    """A way to run the layer.

    Attributes:
        context: makes the context of the forward pass.
        captured: whether a whole pass is captured in a CUDA graph.
        shares_parameters: whether its parameters are those of the other rungs, so that outputs can be compared.
    """

    forward: Callable[[Any], Any]
    context: Callable[[], AbstractContextManager[Any]] = nullcontext
    is_fp8: bool = False
    captured: bool = False
    shares_parameters: bool = True

    def once(self, x: Any, dy: Any) -> Any:
        """Runs one pass: forward in the context, then backward outside of it. Returns the output."""
        with self.context():
            y = self.forward(x)
        y.backward(dy)
        return y


def climbed(
    s: Shape,
    device: str,
    rungs: Sequence[str],
    expected: Mapping[str, float] | None,
    peak: float | None,
    warm_up: int,
    passes: int,
) -> Iterator[Row]:
    """The row of each rung: its times, and how far its results differ from those of the first rung.

    A rung that this machine does not have, or that fails, has the reason (`skipped`) and no times. `expected` are the
    predicted seconds by rung, `peak` the flop/s of the machine, if they are known.
    """
    for name in rungs:
        refuse_unknown(name, RUNGS, f"there is no rung {name!r}")
    p, (x, dy) = layers.parameters(s, device), layers.inputs(s, device)
    without_dropout = replace(s, dropout=0.0)

    def pass_of(rung: Rung) -> Call:
        return partial(rung.once, x, dy)

    first = _outcome(pass_of(made("eager", p, without_dropout, device)), p)
    for name in rungs:
        row: Row = {"rung": name, "ms": None, "predicted_ms": None, "skipped": ""}
        try:
            rung = made(name, p, s, device)
            differences = None
            if rung.shares_parameters:
                differences = _differences(pass_of(made(name, p, without_dropout, device)), p, first)
            _clear(p)
            forget_peak(device)
            speed = _speed(pass_of(rung), p, rung.captured, device, warm_up, passes)
            row |= _row(speed, s, differences, "fp8" if rung.is_fp8 else s.dtype, device, peak)
            predicted = (expected or {}).get(name)
            if predicted is not None and (has_fp8(device) or not rung.is_fp8):  # an emulation is not predicted
                row |= {"predicted_ms": predicted * 1e3, "error": predicted * 1e3 / row["ms"] - 1}
        except (Unavailable, RuntimeError, MemoryError, ConfigError) as error:
            row["skipped"] = told_of(error)
            freed(device)
        yield row


def _row(
    speed: Speed, s: Shape, differences: tuple[float, float] | None, kind: str, device: str, peak: float | None
) -> Row:  # fmt: skip
    """The measured part of a rung's row.

    `differences` are those of outputs and gradients from the first rung; None counts as agreement. `kind` is the format
    whose tolerance applies.
    """
    best = speed.least if device == "cpu" else speed.mean
    tolerance = TOLERANCE[kind]
    return {
        "ms": best * 1e3, **{f"{name}_ms": seconds * 1e3 for name, seconds in vars(speed).items()},
        "tflops": s.step_flops / best / 1e12,
        "output_difference": differences and differences[0], "gradient_difference": differences and differences[1],
        "peak_memory_bytes": peak_bytes(device),
        "agrees": differences is None or (differences[0] <= tolerance and differences[1] <= tolerance * GRADIENTS[kind]),
        "mfu": s.step_flops / best / peak if peak else None,
    }  # fmt: skip


def made(name: str, p: layers.Parameters, s: Shape, device: str) -> Rung:
    """The rung with this name.

    Raises:
        Unavailable: if this machine does not have it.
    """
    if name == "transformer_engine":
        from amped.kernels.ladder.engine import engine_rung

        return engine_rung(s, device)
    if name.startswith("fp8"):
        return _in_fp8(p, s, Float8(delayed=name == "fp8_delayed"), has_fp8(device))
    if name == "graph" and device != "cuda":
        raise Unavailable("CUDA graphs need a GPU")
    attention = layers.explicit_attention if name in ("eager", "functional") else layers.fused_attention
    one_product = name != "eager"

    def forward(x: Any) -> Any:
        return layers.layer(x, p, s, attention, one_product=one_product)

    compiled = name in ("compiled", "graph")
    return Rung(torch.compile(forward, dynamic=False) if compiled else forward, captured=name == "graph")


def _in_fp8(p: layers.Parameters, s: Shape, float8: Float8, compiled: bool) -> Rung:
    """A rung whose products are in fp8. Its rest is compiled, as predictions assume, unless fp8 is an emulation."""
    linear = torch.compiler.disable(float8.linear) if compiled else float8.linear

    def forward(x: Any) -> Any:
        return layers.layer(x, p, s, layers.fused_attention, linear)

    return Rung(torch.compile(forward, dynamic=False) if compiled else forward, lambda: float8, is_fp8=True)


def _outcome(once: Call, p: layers.Parameters) -> tuple[Any, ...]:
    """The output of one pass, and then the gradients of all parameters in the order of their names."""
    _clear(p)
    y = once()
    return (y.detach(), *(p[name].grad.detach().clone() for name in sorted(p)))


def _differences(once: Call, p: layers.Parameters, first: tuple[Any, ...]) -> tuple[float, float]:
    """The relative difference of the output from that of the first rung, and the largest one of any gradient, in norm."""
    outcome = _outcome(once, p)
    differences = [
        float((a.float() - b.float()).norm() / b.float().norm().clamp_min(1e-30))
        for a, b in zip(outcome, first, strict=True)
    ]
    return differences[0], max(differences[1:])


def _clear(p: layers.Parameters) -> None:
    for tensor in p.values():
        tensor.grad = None


def _speed(once: Call, p: layers.Parameters, captured: bool, device: str, warm_up: int, passes: int) -> Speed:
    """The speed of a rung's passes; if `captured`, they are replayed from a CUDA graph."""
    once = _captured(once, p) if captured else once
    laps = event_laps(torch.cuda) if device == "cuda" else clock_laps(host_clock())
    return speedometer(once, laps, warm_up, passes)


def _captured(once: Call, p: layers.Parameters) -> Call:
    """A function that replays a captured pass.

    Gradients exist before, so that a pass adds to them as in other rungs.
    """
    cuda = torch.cuda
    stream = warmed_aside(cuda, once)
    for tensor in p.values():
        tensor.grad.zero_()
    graph = cuda.CUDAGraph()
    with cuda.graph(graph, stream=stream):
        once()
    return graph.replay
