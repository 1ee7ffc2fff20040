"""A layer that runs a plan against torch's own layer, on this device: their outputs must agree; then both are timed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

from amped.base.errors import ConfigError
from amped.kernels.device import one_thread
from amped.kernels.layer_shape import Dimensions
from amped.kernels.refusals import first_line
from amped.kernels.tensor_layouts.bench import Bench, about
from amped.kernels.tensor_layouts.encoder import from_torch, torch_layer
from amped.kernels.tensor_layouts.fused import launch_errors
from amped.kernels.tensor_layouts.plan import Plan, row_major
from amped.kernels.timers import timer_for
from amped.kernels.torch_import import torch

# How far outputs may differ, relative to the largest value: the sums are in another order.
TOLERANCE = {"float64": 1e-10, "float32": 1e-4, "float16": 2e-2, "bfloat16": 5e-2}
COMPILED = "torch.compile"


@dataclass(frozen=True)
class Contender:
    """A layer to be timed, and the context that it runs in; `layer` is None if it is left out."""

    name: str
    layer: Any
    context: Callable[[], AbstractContextManager[Any]] = nullcontext


@dataclass(frozen=True)
class Run:
    """The result of one contender.

    Attributes:
        forward, backward: seconds of each pass; None if it did not run.
        error: the largest difference of its output from torch's, relative to torch's largest value.
        calls: the number of timed calls.
        why_not: the reason if it did not run.
    """

    name: str
    forward: float | None = None
    backward: float | None = None
    error: float | None = None
    calls: int = 0
    why_not: str = ""

    @property
    def total(self) -> float | None:
        """The time of forward and backward pass."""
        return None if self.forward is None or self.backward is None else self.forward + self.backward


def contenders(
    plan: Plan, dimensions: Dimensions, dropout: float, like: Mapping[str, Any], compiled: bool
) -> Iterator[Contender]:
    """The layers to compare, with equal weights.

    They are torch's layer in eager mode with explicit attention, with SDPA, and compiled (if `compiled`); and the layer
    with layouts, in a row-major plan and in this plan.
    """
    from torch.nn.attention import SDPBackend, sdpa_kernel

    eager = torch_layer(dimensions, dropout=dropout, **like)
    yield Contender("torch, explicit attention", eager, lambda: sdpa_kernel(SDPBackend.MATH))
    yield Contender("torch, SDPA", eager)
    yield Contender(COMPILED, torch.compile(eager) if compiled else None)  # this loads the compiler
    for name, layouts in {"row-major layouts": row_major(dimensions, plan.attention), "the plan": plan}.items():
        yield Contender(name, from_torch(eager, layouts, dimensions.batch, dimensions.seq))


def compare(
    plan: Plan, dimensions: Dimensions, device: str, dtype: str, dropout: float, budget: float, compiled: bool,
) -> tuple[dict[str, Any], list[Run]]:  # fmt: skip
    """The description of the measurement, and the result of each contender, with the reason if it cannot run.

    Raises:
        ConfigError: if there is no such device or dtype, or if a layer's output differs from torch's.
    """
    bench = Bench(dimensions, device, dtype, dropout, plan.attention)
    options = {"device": device, "dtype": getattr(torch, bench.dtype)}
    values = torch.randn(dimensions.batch, dimensions.seq, dimensions.hidden, **options)
    runs: list[Run] = []
    # Such as: out of memory, no C++ compiler, no room for a tile.
    failures: tuple[type[Exception], ...] = (RuntimeError, OSError, ImportError, *launch_errors())
    with one_thread(device):
        reference = None
        for contender in contenders(plan, dimensions, dropout, options, compiled):
            if contender.layer is None:
                runs.append(Run(contender.name, why_not="left out (--no-compile)"))
                continue
            try:
                with contender.context():
                    output = _without_dropout(contender.layer, values, dropout)
                    reference = output if reference is None else reference
                    error = float((output - reference).abs().max() / reference.abs().max())
                    runs.append(_timed(contender, values, error, device, budget / 5))
            except failures as problem:
                runs.append(Run(contender.name, why_not=first_line(problem)[:120]))
    wrong = [run.name for run in runs if run.error is not None and not run.error <= TOLERANCE[bench.dtype]]
    if wrong:
        raise ConfigError(f"{', '.join(wrong)}: the output is not torch's", "please report it, with the plan")
    return about(bench), runs


def _without_dropout(layer: Any, values: Any, dropout: float) -> Any:
    """The output of a layer without dropout, in training mode (for inference, torch uses another path)."""
    try:
        _set_dropout(layer, 0.0)
        return layer(values).detach().clone()
    finally:
        _set_dropout(layer, dropout)


def _set_dropout(layer: Any, dropout: float) -> None:
    """Sets the dropout of torch's layer or of the layer with layouts."""
    for module in layer.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = dropout
    if hasattr(layer, "self_attn"):
        layer.self_attn.dropout = dropout
    if hasattr(layer, "choices"):
        layer.choices = replace(layer.choices, keep=1.0 - dropout)


def _timed(contender: Contender, values: Any, error: float, device: str, budget: float) -> Run:
    """The result of a contender whose forward and backward pass are timed in turns.

    The input needs no gradient; the gradients of weights accumulate. On a GPU, the times are those of its kernels for
    every contender: a plan is a sum of kernels, and dispatching its operators one by one from Python takes longer than
    large GPUs need to run them.
    """
    output: Any = None

    def forward() -> None:
        nonlocal output
        output = contender.layer(values).sum()

    def backward() -> None:
        output.backward()

    passes = timer_for(device).together([forward, backward], budget / 2)
    first, second = (timing.best(device) for timing in passes)
    return Run(contender.name, first, second, error, passes[0].n)
