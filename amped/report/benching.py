"""Tables of measured kernels: what was fitted to them, and how predictions compare with them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.table import Table

from amped.report import human
from amped.report.tables import Part, drawn, table
from amped.theory.language.catalogue import catalogue

# In tables of errors by part: the columns of text, and those whose text may be wrapped.
PARTS = (("part",), ("family",))


@drawn
def calibration(fitted: Any) -> Iterator[Part]:
    """The coefficients of a machine, their errors by family and stratum, and the kernels that were not fitted.

    `fitted` is the result of `amped.kernels.calibration.calibrated`.
    """
    yield f"Coefficients of {fitted.machine.name}", "bold"
    values = ((name, human.value(v, catalogue()[name].mark.unit)) for name, v in fitted.values.items())
    yield table(("coefficient", "value"), values)
    yield ""
    if fitted.network:
        yield _links(fitted.network.as_plain())
        yield ""
    if fitted.strata:
        errors = (
            (*_part(s), human.percent(s.train), human.percent(s.held_out), f"{s.bias:+.1%}") for s in fitted.strata
        )
        yield table(("family", "part", "records", "error", "held out", "bias"), errors, *PARTS)
    yield ""
    yield from (f"{name}: {reason}" for name, reason in fitted.refused.items())
    if fitted.layouts:
        yield f"products by layout, relative to TN: {', '.join(f'{n} {v:.3f}' for n, v in fitted.layouts.items())}"
    yield "error: mean absolute, by the fit to all records; held out: each half by a fit to the other"


def _part(stratum: Any) -> tuple[str, str, str]:
    """The cells that name a part of the records; the family is named only on its first line."""
    return stratum.family if stratum.name == "all" else "", stratum.name, f"{stratum.count}"


def _links(network: Mapping[str, Any]) -> Table:
    """The rate and the latency that each kind of collective reaches between processes."""
    heads = (f"{network['ranks']} processes, {network['backend']}", "rate", "of the fastest", "latency of a step")
    rows = (
        (kind, human.value(rate, "byte/s"), human.percent(rate / network["bandwidth"]),
         human.duration(network["latencies"][kind]))
        for kind, rate in network["rates"].items()
    )  # fmt: skip
    return table(heads, rows, wrapped=heads[:1])


@drawn
def comparison(report: Any) -> Iterator[Part]:
    """Errors by family, the worst records, and the number of records that were not compared.

    `report` is the result of `amped.kernels.comparing.compared`.
    """
    errors = (
        (*_part(f), f"{f.mape:.1%}", f"{f.bias:+.1%}", f"{f.p90:.1%}", f"{f.largest:.1%}", f"{f.time_weighted:.1%}",
         "" if f.r_squared is None else f"{f.r_squared:.3f}")
        for f in report.families
    )  # fmt: skip
    yield table(("family", "part", "records", "error", "bias", "p90", "largest", "by time", "R2"), errors, *PARTS)
    yield "\nWorst", "bold"
    rows = (
        (p.name + (f" ({', '.join(p.flags)})" if p.flags else ""), human.duration(p.measured),
         human.duration(p.predicted), f"{p.error:+.1%}")
        for p in report.worst
    )  # fmt: skip
    yield table(("kernel", "measured", "predicted", "error"), rows, wrapped=("kernel",))
    yield from (f"not compared: {count} of {name}" for name, count in report.left_out.items())


@drawn
def drift(families: Mapping[str, tuple[float, int]], names: tuple[str, str]) -> Iterator[Part]:
    """The ratio of times of the second run to the first one, by family.

    `families` has the ratio and the number of records of each family; `names` are those of the two runs.
    """
    rows = ((family, f"{count}", f"{ratio:.3f}") for family, (ratio, count) in families.items())
    yield table(("family", "records", f"{names[1]} / {names[0]}"), rows, wrapped=("family",))
    yield "geometric mean of times; 1 is no drift"


@drawn
def ladder(rungs: Sequence[Mapping[str, Any]], title: str) -> Iterator[Part]:
    """The rungs of a ladder: measured and predicted time, error, rate, memory, and difference from the first rung."""
    heads = ("rung", "ms", "median", "predicted", "error", "TFLOP/s", "memory", "off", "gradients")
    yield title, "bold"
    yield table(heads, (_rung(r) for r in rungs if r["ms"] is not None), wrapped=("rung",))
    yield from (f"{r['rung']}: {r['skipped']}" for r in rungs if r["ms"] is None)
    yield "off, gradients: difference of output and of the worst gradient from the first rung, in norm; !: too much"


def _rung(r: Mapping[str, Any]) -> tuple[str, ...]:
    """The line of a rung that ran."""
    predicted, error = r.get("predicted_ms"), r.get("error")
    off, gradients = (f"{r[n]:.0e}" if r[n] is not None else "" for n in ("output_difference", "gradient_difference"))
    memory = human.scaled(r["peak_memory_bytes"], "B", 3) if r["peak_memory_bytes"] else ""
    return (r["rung"], f"{r['ms']:.3f}", f"{r['median_ms']:.3f}", f"{predicted:.3f}" if predicted else "",
            f"{error:+.1%}" if error is not None else "", f"{r['tflops']:.3g}", memory, off,
            gradients if r["agrees"] else f"{gradients} !")  # fmt: skip


@drawn
def published(figures: Sequence[Any]) -> Iterator[Part]:
    """Published figures of single layers beside predictions."""
    by_source: dict[str, list[Any]] = {}
    for figure in figures:
        by_source.setdefault(figure.source, []).append(figure)
    for source, of_source in by_source.items():
        yield source, "bold"
        yield table(("", "published", "predicted", "error"), map(_figure, of_source), wrapped=("",))
        yield ""
    yield "error: predicted over published; of a gain, the difference. Fitted to: PyTorch's two layers on V100; nothing else."


def _figure(figure: Any) -> tuple[str, ...]:
    """The line of a figure."""
    shown = (
        f"{v:+.1%}" if figure.unit == "" else f"{v:.4g} {figure.unit}" for v in (figure.published, figure.predicted)
    )
    return (figure.what, *shown, f"{figure.error:+.1%}")


@drawn
def step(
    name: str,
    network: Mapping[str, Any],
    pairs: Mapping[str, tuple[float, float]],
    losses: Sequence[float],
    memory: Mapping[str, float | None],
) -> Iterator[Part]:
    """A real training step beside its estimate."""
    yield name, "bold"
    yield ", ".join(f"{human.label(n)} {v}" for n, v in network.items())
    units = {"step_time": "s", "memory_bytes": "byte"}
    rows = (
        (human.label(what), human.value(m, units[what]), human.value(p, units[what]), f"{p / m - 1:+.1%}")
        for what, (m, p) in pairs.items()
    )
    yield table(("", "measured", "predicted", "error"), rows, wrapped=("",))
    yield f"loss {losses[0]:.3f} to {losses[-1]:.3f}"
    if text := _process(memory):
        yield text


def _process(memory: Mapping[str, float | None]) -> str:
    """The memory of a process besides its tensors; an empty text where it was not measured, as on GPUs."""
    loaded, grown, tensors = (memory[part] or 0.0 for part in ("loaded", "process", "tensors"))
    if not loaded or not tensors:
        return ""
    shown = [human.value(v, "byte") for v in (grown, tensors, loaded, max(0.0, grown - tensors - loaded))]
    return (
        f"memory: the process grew by {shown[0]}: {shown[1]} tensors, {shown[2]} code, {shown[3]} kept by its allocator"
    )
