"""One layer of a network, measured on one device: its two passes, the optimizer, and what they are made of.

A layer is plain torch, or a module that a function of the user makes. torch's profiler says which share of a pass its
products, its fused attention and everything else take; the times themselves are measured without the profiler.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from amped.base.errors import ConfigError
from amped.kernels import dense_layer, rows
from amped.kernels.calibration import PROCESSOR, Calibration
from amped.kernels.layer_shape import Shape
from amped.kernels.machine import ACCELERATORS, machine_of
from amped.kernels.results import Result
from amped.kernels.running import Runner, timer_of, told_of
from amped.kernels.specs import spec
from amped.kernels.timers import Timer
from amped.kernels.timing import Call
from amped.kernels.torch_import import torch
from amped.measured_kernels.bench_results import processor_name
from amped.tables.tables import Tables

SCHEMA = "layer-anchor/1"
# The parts of a step, in the order in which they run.
PARTS = ("forward", "backward", "optimizer")
LEARNING_RATE = 1e-4
# How often a pass is profiled; the least time of each kernel counts, because a disturbance can only add to it.
PROFILED = 5
# The kernels that tell a processor's peak and bandwidth: a large product, and a copy of four times its largest cache.
SIDE, CACHES_OF_A_COPY = 1024, 4
# What a processor of which nothing is known loses where others ramp up.
NO_RAMPS = {
    "gemm_ramp_depth": 0,
    "bandwidth_ramp_bytes": "0 B",
    "attention_ramp_length": 0,
    "normalization_bandwidth_fraction": 1,
}
# Words in the names of torch's operators and of a GPU's kernels that compute attention or a product. Source: what the
# profiler of torch 2.13 prints; cuBLAS, CUTLASS and cuDNN name their kernels so.
NAMED = {
    "attention": ("attention", "flash", "fmha", "sdpa"),
    "products": ("aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "mkl", "_scaled_mm", "_grouped_mm", "gemm", "nvjet", "cutlass",
                 "xmma", "cublas"),
}  # fmt: skip


@dataclass(frozen=True)
class Layer:
    """A layer on a device: its module, its input, and the gradient of its output.

    Attributes:
        forward: the layer as a function of its input.
        parameters: what the optimizer updates.
    """

    forward: Callable[[Any], Any]
    parameters: list[Any]
    x: Any
    dy: Any


def plain(s: Shape, device: str, fused: bool) -> Layer:
    """The layer in plain torch, with or without fused attention."""
    p, (x, dy) = dense_layer.parameters(s, device), dense_layer.inputs(s, device)
    attention = dense_layer.fused_attention if fused else dense_layer.explicit_attention
    return Layer(lambda x: dense_layer.layer(x, p, s, attention), list(p.values()), x.requires_grad_(), dy)


def own(s: Shape, device: str, make: Callable[..., Any]) -> Layer:
    """The layer whose module a function of the user makes; the function gets all sizes by name.

    Raises:
        ConfigError: if the function fails, or if it makes no module with parameters.
    """
    try:
        module = make(**asdict(s), head_dimension=s.head_dimension, device=device)
    except Exception as error:
        what = f"{make.__name__} fails: {type(error).__name__}: {error}"
        raise ConfigError(what, "it takes the sizes by name: **sizes") from error
    parameters = list(module.parameters()) if hasattr(module, "parameters") else []
    if not parameters or not callable(module):
        what = f"{make.__name__} made no module with parameters but {type(module).__name__}"
        raise ConfigError(what, "return a torch.nn.Module")
    x, dy = dense_layer.inputs(s, device)
    return Layer(module, parameters, x.requires_grad_(), dy)


def anchored(layer: Layer, timer: Timer, cap: float) -> dict[str, Any]:
    """The measurements of a layer: the seconds of each part of a step, and of each kind of kernels in each pass.

    - `cap`: the seconds that the measurement of one part may take, about.

    Returns:
        The number of updated parameters, the seconds of each part, their statistics (`spread`), the seconds of each
        kind of kernels by pass (`parts`), and the seconds that the host takes to launch the forward pass (0 on a
        processor).

    Raises:
        ConfigError: if the layer fails, or if its output has another shape than its input.
    """
    calls = _parts(layer)
    try:
        timings = dict(zip(PARTS, timer.together(calls, cap), strict=True))
        shares = {name: _shares(calls, position, timer.device) for position, name in enumerate(PARTS[:2])}
    except (RuntimeError, TypeError) as error:
        advice = f"its input is {tuple(layer.x.shape)}"
        raise ConfigError(f"the layer cannot be trained: {told_of(error)}", advice) from error
    times = {name: timing.best(timer.device) for name, timing in timings.items()}
    return {
        "updated_parameters": sum(parameter.numel() for parameter in layer.parameters), "seconds": times,
        "spread": {name: timing.as_plain() for name, timing in timings.items()},
        "parts": {name: {kind: share * times[name] for kind, share in parts.items()} for name, parts in shares.items()},
        "host_seconds": 0.0 if timer.device == "cpu" else timer.dispatched(calls[0], in_a_row=1).min,
    }  # fmt: skip


def _parts(layer: Layer) -> tuple[Call, ...]:
    """The calls of one step: forward pass, backward pass, optimizer.

    Gradient buffers are kept and set to zero, as in estimates.
    """
    saved = dict[str, Any]()
    optimizer = torch.optim.AdamW(layer.parameters, lr=LEARNING_RATE, foreach=True)

    def forward() -> None:
        saved["y"] = y = layer.forward(layer.x)
        if getattr(y, "shape", None) != layer.x.shape:
            output = tuple(y.shape) if hasattr(y, "shape") else type(y).__name__
            raise ConfigError(f"the layer makes {output} of {tuple(layer.x.shape)}", "return the output alone")

    def step() -> None:
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)

    return forward, lambda: saved["y"].backward(layer.dy), step


def _shares(calls: tuple[Call, ...], position: int, device: str) -> dict[str, float]:
    """The share of a pass that each kind of kernels takes: products, attention and rest.

    Each kernel counts with its least time of several profiled steps.

    - `calls`: the calls of one step, in their order.
    - `position`: the position of the profiled pass in `calls`.
    """
    least_times = dict[str, float]()
    for _ in range(PROFILED):
        for call in calls[:position]:
            call()
        with _profiler(device) as profiled:
            calls[position]()
            if device == "cuda":
                torch.cuda.synchronize()
        for name, seconds in _kernels(profiled, device):
            least_times[name] = min(seconds, least_times.get(name, seconds))
        for call in calls[position + 1 :]:
            call()
    times = dict.fromkeys(("rest", *NAMED), 0.0)
    for name, seconds in least_times.items():
        times[kind_of(name)] += seconds
    return {kind: seconds / sum(times.values()) for kind, seconds in times.items()}


def _kernels(profiled: Any, device: str) -> Iterator[tuple[str, float]]:
    """The name and the time of each kernel of a pass.

    On a GPU, only the kernels of the GPU count, because torch's operators have the same times again.
    """
    for event in profiled.key_averages():
        if device != "cuda":
            yield event.key, event.self_cpu_time_total
        elif event.device_type == torch.autograd.DeviceType.CUDA and not getattr(event, "is_user_annotation", False):
            yield event.key, event.self_device_time_total


def _profiler(device: str) -> Any:
    """Torch's profiler for a device. On a processor, the older one, because the newer one prints lines."""
    if device == "cuda":
        return torch.profiler.profile(acc_events=True)
    return importlib.import_module("torch.autograd.profiler_legacy").profile()


def kind_of(name: str) -> str:
    """The kind of a kernel with this name: products, attention or rest."""
    kinds = (kind for kind, words in NAMED.items() if any(word in name.lower() for word in words))
    return next(kinds, "rest")


def rows_of(
    fresh: Result, tables: Tables, named: str | None, dtype: str, rate: float, told: tuple[str, str]
) -> tuple[str, dict[str, Any]]:
    """The name of the device's row of accelerators, and new rows by table and name.

    New rows are made only for a processor that no table has, from the times of two kernels; else there are none.

    - `named`: the row that the user names, if any.
    - `rate`: the flop/s of the layer's own products; the peak is at least as high.
    - `told`: the command and the version, for the sources of rows.

    Raises:
        TableError: for an unknown row; ConfigError: for a GPU without a row.
    """
    if fresh["device"]["kind"] != "cpu" or named is not None or tables.has(ACCELERATORS, processor_name(fresh)):
        return machine_of(fresh, tables, named, known_ones=True).name, {}
    copied_rows = CACHES_OF_A_COPY * fresh["device"]["l2_bytes"] // 4096
    product, copy = dict.fromkeys("mnk", SIDE), {"rows": copied_rows, "columns": 1024}
    Runner(fresh, timer_of(fresh)).run([spec("gemm", dtype, **product), spec("copy", "float32", **copy)])
    machine = machine_of(fresh, tables)
    machine = replace(machine, peaks={name: max(peak, rate) for name, peak in machine.peaks.items()})
    own_row = rows.accelerator_row(Calibration(machine), fresh, rows.source_of(fresh, *told))
    origin: dict[str, Any] = {"aliases": [], "sources": [], "unverified": [*NO_RAMPS]}
    kernels = {"extends": rows.ANY_ACCELERATOR, **PROCESSOR, **NO_RAMPS, **origin}
    return machine.name, {ACCELERATORS: {machine.name: own_row}, rows.KERNELS: {machine.name: kernels}}


def content_of(
    measurements: Mapping[str, Any],
    fresh: Result,
    settings: Mapping[str, Any],
    device: tuple[str, Mapping[str, Any]],
    module: str,
) -> dict[str, Any]:
    """The content of an anchor's file.

    - `measurements`: the result of `anchored`.
    - `settings`: the parameters of an estimate of this layer.
    - `device`: the result of `rows_of`.
    - `module`: the name of the measured module.
    """
    return {
        "schema": SCHEMA,
        **{name: fresh[name] for name in ("date", "device", "host", "software")},
        "accelerator": device[0],
        "module": module,
        "settings": dict(settings),
        **measurements,
        "rows": device[1],
    }
