"""Every operator of a step: its shape, work, traffic, what bounds it, its time, and how well it uses the machine."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from amped.estimation.estimation import Estimation
from amped.theory.nouns.records import CONTRACTIONS, WITH_WEIGHTS, Collective, Duration, Kernels, Operator
from amped.theory.roofline.kernels import traffic_time, work_time

# The parts of a step that have operators, in the order of the forward pass.
PARTS = ("tower", "embedding", "layer", "output_head")
# Where the time of an operator comes from. A shape is the measured one up to the diagonal of a causal attention, which
# some count and some do not.
MEASURED, INTERPOLATED, LAW = "measured", "interpolated", "law"
SAME_SHAPE = 1e-3
# The equations of the theory, which have no type annotations.
WORK_TIME: Callable[[Operator, Kernels], float] = work_time
TRAFFIC_TIME: Callable[[Operator, Kernels], float] = traffic_time


@dataclass(frozen=True)
class Message:
    """One call of a collective of the forward pass, which sends what an operator computed.

    Attributes:
        bytes: the whole payload that an accelerator holds before or after the call.
        intra, inter: the accelerators of the group in each node, and its nodes.
        time: the seconds of a call; None if AMPeD's closed form gives the times, which are those of whole passes.
    """

    name: str
    kind: str
    bytes: float
    intra: float
    inter: float
    time: float | None


@dataclass(frozen=True)
class OperatorLine:
    """One operator in one pass on one accelerator; work, traffic and time are sums over all its calls in a step.

    `bound` is compute, memory or launch. `time_by` tells where the time comes from: `measured` if the shape itself was
    measured, `interpolated` if a shape near it was, else `law`; `measured_distance` is the distance of that shape, or None
    for `law`. No number includes recomputation. `peak_fraction` is the share of the matrix
    peak; `memory_use_efficiency` (MUE) is the share of the peak bandwidth that compulsory traffic uses.

    Of an operator in the forward pass of a layer: `stash` are the bytes that it keeps for the backward pass of one
    micro-batch, unless they are recomputed; `weights` are the bytes of the matrix that it multiplies with, as the
    accelerator holds it for the product (biases and norms are not counted); `messages` send its result.
    """

    name: str
    kind: str
    phase: str
    m: float
    n: float
    k: float
    batch: float
    count: float
    flops: float
    bytes: float
    bound: str
    time: float
    share: float
    peak_fraction: float
    memory_use_efficiency: float
    time_by: str
    measured_distance: float | None
    stash: float
    weights: float
    messages: tuple[Message, ...] = ()

    @property
    def intensity(self) -> float:
        """Flops per byte."""
        return self.flops / self.bytes if self.bytes else 0.0


def gemm_lines(estimation: Estimation) -> list[OperatorLine]:
    """All matrix products of a step. Recomputed products are not listed again; their time is `recomputation_time`."""
    return [line for line in step_lines(estimation) if line.kind in CONTRACTIONS]


def layer_lines(estimation: Estimation) -> list[OperatorLine]:
    """All operators of one layer for one micro-batch, in the order of the forward pass, each with its gradients.

    Operators that run only in the backward pass are at the end.
    """
    order = list(forward_pass(estimation))
    lines = _with_messages(estimation, [*_lines(estimation, "layer", 1.0)])
    return sorted(lines, key=lambda line: order.index(line.name) if line.name in order else len(order))


def tower_lines(estimation: Estimation) -> list[OperatorLine]:
    """All operators of a tower for one micro-batch, forward and backward; empty if the network has no tower.

    Their names are those of operators of a layer.
    """
    return [replace(line, name=line.name.removeprefix("tower_")) for line in _lines(estimation, "tower", 1.0)]


def step_lines(estimation: Estimation) -> list[OperatorLine]:
    """All operators of a step without those of the optimizer, each on a stage that has it."""
    return [line for part in PARTS for line in _lines(estimation, part, _calls(estimation, part))]


def forward_pass(e: Estimation) -> dict[str, tuple[str, ...]]:
    """For each operator and collective of the forward pass, the names of those it waits for; in an order in which they can run.

    Operators that the network does not have, or has only in the backward pass, are listed too: what comes after one of
    them waits for what comes before it.
    """
    operators = (o for part in PARTS for o in e.results.records(f"{part}_operators"))
    nodes = {o.name: o.after for o in operators if o.phase == "forward" or o.after}
    nodes |= {node_of(c): c.after for c, _ in collectives(e)}
    ordered: dict[str, tuple[str, ...]] = {}

    def visit(name: str) -> None:
        if name in nodes and name not in ordered:
            for before in nodes[name]:
                visit(before)
            ordered[name] = tuple(before for before in nodes[name] if before in nodes)

    for name in nodes:
        visit(name)
    return ordered


def present_before(name: str, waits: Mapping[str, tuple[str, ...]], present: Collection[str]) -> Iterator[str]:
    """The names of the present nodes that a node waits for; a node that is absent is replaced by those that it waits for."""
    for before in waits[name]:
        yield from (before,) if before in present else present_before(before, waits, present)


def collectives(e: Estimation) -> Iterator[tuple[Collective, float]]:
    """The collectives of the forward pass, each with the time of a call; in the closed form, times are zero."""
    for name in (name for name in e.results.cells if name.endswith("_collectives")):
        records: tuple[Collective, ...] = e.results.records(name)
        timed = name.replace("collectives", "durations")
        times = [d.time for d in e.results.records(timed)] if timed in e.results.cells else [0.0] * len(records)
        yield from ((c, time) for c, time in zip(records, times, strict=False) if c.after)


def _with_messages(e: Estimation, lines: list[OperatorLine]) -> Iterator[OperatorLine]:
    """The lines, each operator of the forward pass with the messages that wait for it."""
    waits, present = forward_pass(e), {line.name for line in lines}
    sent: dict[str, list[Message]] = {}
    for c, time in collectives(e):
        if c.group.degree > 1 and c.count > 0:
            message = Message(name=c.name, kind=c.kind, bytes=c.volume, intra=c.intra, inter=c.inter, time=time or None)
            sent.setdefault(next(present_before(node_of(c), waits, present), ""), []).append(message)
    for line in lines:
        yield replace(line, messages=tuple(sent.get(line.name, ()))) if line.phase == "forward" else line


def node_of(collective: Collective) -> str:
    """The name of a collective as a node of the compute graph."""
    return f"{collective.name} {collective.kind}"


def _calls(e: Estimation, part: str) -> float:
    """The number of forward passes of a part in a step on one accelerator: of layers, or of an end of the network."""
    if part == "layer":
        return e["layer_passes" if _is_closed(e) else "bottleneck_stage_layer_passes"]
    return e["number_of_microbatches_per_minibatch"] / (e["pipeline_parallel_degree"] if _is_closed(e) else 1.0)


def _is_closed(e: Estimation) -> bool:
    """Whether AMPeD's closed form gives the times; then only products have times."""
    return e.choices["performance_model"] == "amped"


def _lines(e: Estimation, part: str, calls: float) -> Iterator[OperatorLine]:
    """The operators of a part of the step, with sums over `calls` runs; shares are of the step, or of one run if `calls` is 1."""
    operators = e.results.records("layer_products" if _is_closed(e) and part == "layer" else f"{part}_operators")
    times = e.results.records(f"{part}_durations")
    whole = e["step_time"] if calls != 1.0 else sum(d.time * d.count for d in times) or 1.0
    balance = e["matrix_peak_flop_rate"] / e["memory_bandwidth"]
    rates = () if _is_closed(e) else e.results.records("kernel_rates")
    for operator, duration in zip(operators, times, strict=True):
        number = operator.count * calls
        if number and operator.bytes:
            closed = "compute" if operator.flops >= operator.bytes * balance else "memory"
            yield _line(e, operator, duration, number, whole, _bound(operator, *rates) if rates else closed)


def _line(e: Estimation, o: Operator, d: Duration, calls: float, whole: float, bound: str) -> OperatorLine:
    """The line of an operator with its duration; sums are over `calls` calls, and its share is of `whole` seconds."""
    time: float = d.time
    peak, bandwidth = e["matrix_peak_flop_rate"], e["memory_bandwidth"]
    return OperatorLine(
        name=o.name, kind=o.kind, phase=o.phase, m=o.m, n=o.n, k=o.k, batch=o.batch, count=calls,
        flops=o.flops * calls, bytes=o.bytes * calls, bound=bound, time=time * calls, share=time * calls / whole,
        peak_fraction=o.flops / (time * peak) if time else 0.0,
        memory_use_efficiency=o.bytes / (time * bandwidth) if time else 0.0,
        time_by=_time_by(d.distance), measured_distance=d.distance if math.isfinite(d.distance) else None,
        stash=o.stash * o.count, weights=_weights(o) * e["weight_precision"],
    )  # fmt: skip


def _weights(o: Operator) -> float:
    """The number of weights that an operator of the forward pass multiplies with, on average over the layers."""
    is_product = o.kind in (*WITH_WEIGHTS, "output_head_contraction") and o.phase == "forward"
    return float(o.k * o.n * o.batch * o.count) if is_product else 0.0


def _time_by(distance: float) -> str:
    """Where a time comes from, by the distance of the nearest measured shape."""
    return MEASURED if distance <= SAME_SHAPE else INTERPOLATED if math.isfinite(distance) else LAW


def _bound(o: Operator, rates: Kernels) -> str:
    """The longest part of a call of an operator: "launch", "memory" (its traffic) or "compute" (its work)."""
    work, traffic = WORK_TIME(o, rates), TRAFFIC_TIME(o, rates)
    if rates.overhead > max(work, traffic):
        return "launch"
    return "memory" if traffic >= work else "compute"
