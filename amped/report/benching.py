"""What was fitted to measured kernels, and how predictions compare with them, as tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from amped.report import human
from amped.theory.catalogue import catalogue


class Stratum(Protocol):
    """Errors of a part of the records."""

    family: str
    name: str
    count: int
    train: float
    held_out: float
    bias: float


def table(*heads: str, left: int = 1) -> Table:
    """An empty table without lines; the first columns are text."""
    made = Table(box=None, pad_edge=False, header_style="bold")
    for number, head in enumerate(heads):
        made.add_column(head, justify="left" if number < left else "right", no_wrap=number > 0)
    return made


def calibration(
    machine: str,
    values: Mapping[str, float],
    strata: Sequence[Stratum],
    refused: Mapping[str, str],
    layouts: Mapping[str, float],
    network: Mapping[str, Any] | None = None,
) -> RenderableType:
    """The coefficients of a machine, their errors by family and stratum, and what was not fitted."""
    parts: list[RenderableType] = [Text(f"Coefficients of {machine}", style="bold"), _coefficients(values), Text("")]
    errors = table("family", "part", "records", "error", "held out", "bias", left=2)
    for s in strata:
        first = s.family if s.name == "all" else ""
        errors.add_row(first, s.name, str(s.count), human.percent(s.train), human.percent(s.held_out), f"{s.bias:+.1%}")
    parts += [_links(network), Text("")] if network else []
    parts += [errors] if strata else []
    told = [f"{name}: {reason}" for name, reason in refused.items()]
    if layouts:
        told.append("products by layout, relative to TN: " + ", ".join(f"{n} {v:.3f}" for n, v in layouts.items()))
    told.append("error: mean absolute, by the fit to all records; held out: each half by a fit to the other")
    return Group(*parts, Text(""), *map(Text, told))


def _links(network: Mapping[str, Any]) -> Table:
    """What each kind of collective reaches between processes."""
    made = table(f"{network['ranks']} processes, {network['backend']}", "rate", "of the fastest", "latency of a step")
    for kind, rate in network["rates"].items():
        latency, share = human.value(network["latencies"][kind], "s"), human.percent(rate / network["bandwidth"])
        made.add_row(kind, human.value(rate, "byte/s"), share, latency)
    return made


def _coefficients(values: Mapping[str, float]) -> Table:
    made = table("coefficient", "value")
    for name, value in values.items():
        made.add_row(name, human.value(value, catalogue()[name].mark.unit))
    return made


def comparison(families: Sequence[Any], worst: Sequence[Any], left_out: Sequence[str]) -> RenderableType:
    """Errors by family, the worst records, and what was not compared."""
    errors = table("family", "part", "records", "error", "bias", "p90", "largest", "by time", "R2", left=2)
    for f in families:
        errors.add_row(f.family if f.name == "all" else "", f.name, str(f.count), f"{f.mape:.1%}", f"{f.bias:+.1%}",
                       f"{f.p90:.1%}", f"{f.largest:.1%}", f"{f.time_weighted:.1%}",
                       "" if f.r_squared is None else f"{f.r_squared:.3f}")  # fmt: skip
    rows = table("kernel", "measured", "predicted", "error")
    for point in worst:
        flags = f" ({', '.join(point.flags)})" if point.flags else ""
        rows.add_row(
            point.name + flags, human.duration(point.measured), human.duration(point.predicted), f"{point.error:+.1%}"
        )
    parts: list[RenderableType] = [errors, Text(""), Text("Worst", style="bold"), rows, *map(Text, left_out)]
    return Group(*parts)


def drift(families: Mapping[str, tuple[float, int]], names: tuple[str, str]) -> RenderableType:
    """How much slower the second run is than the first, by family."""
    rows = table("family", "records", f"{names[1]} / {names[0]}")
    for family, (ratio, count) in families.items():
        rows.add_row(family, str(count), f"{ratio:.3f}")
    return Group(rows, Text("geometric mean of times; 1 is no drift"))


def ladder(rungs: Sequence[Mapping[str, Any]], title: str) -> RenderableType:
    """The rungs of a ladder: measured, predicted, error, rate, memory, and how far each is off the first."""
    rows = table("rung", "ms", "median", "predicted", "error", "TFLOP/s", "memory", "off", "gradients")
    skipped = []
    for r in rungs:
        if r["ms"] is None:
            skipped.append(f"{r['rung']}: {r['skipped']}")
            continue
        predicted, error = r.get("predicted_ms"), r.get("error")
        off, gradients = (
            f"{r[n]:.0e}" if r[n] is not None else "" for n in ("output_difference", "gradient_difference")
        )
        memory = human.scaled(r["peak_memory_bytes"], "B", 3) if r["peak_memory_bytes"] else ""
        rows.add_row(r["rung"], f"{r['ms']:.3f}", f"{r['median_ms']:.3f}", f"{predicted:.3f}" if predicted else "",
                     f"{error:+.1%}" if error is not None else "", f"{r['tflops']:.3g}", memory,
                     off, gradients if r["agrees"] else f"{gradients} !")  # fmt: skip
    told = ["off, gradients: difference of output and of the worst gradient from the first rung, in norm; !: too much"]
    return Group(Text(title, style="bold"), rows, *map(Text, skipped), *map(Text, told))


def step(
    name: str,
    network: Mapping[str, Any],
    pairs: Mapping[str, tuple[float, float]],
    losses: Sequence[float],
    memory: Mapping[str, float | None],
) -> RenderableType:
    """A real step beside its estimate."""
    rows = table("", "measured", "predicted", "error")
    units = {"step_time": "s", "memory_bytes": "byte"}
    for what, (measured, predicted) in pairs.items():
        shown = (human.value(number, units[what]) for number in (measured, predicted))
        rows.add_row(human.label(what), *shown, f"{predicted / measured - 1:+.1%}")
    told = ", ".join(f"{human.label(n)} {v}" for n, v in network.items())
    lines = [f"loss {losses[0]:.3f} to {losses[-1]:.3f}", _process(memory)]
    return Group(Text(name, style="bold"), Text(told), rows, *(Text(line) for line in lines if line))


def _process(memory: Mapping[str, float | None]) -> str:
    """What a process takes beside its tensors; nothing where it was not measured, as on GPUs."""
    loaded, grown, tensors = (memory[part] or 0.0 for part in ("loaded", "process", "tensors"))
    if not loaded or not tensors:
        return ""
    shown = [human.value(v, "byte") for v in (grown, tensors, loaded, max(0.0, grown - tensors - loaded))]
    return (
        f"memory: the process grew by {shown[0]}: {shown[1]} tensors, {shown[2]} code, {shown[3]} kept by its allocator"
    )
