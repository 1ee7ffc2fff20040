"""What a step of a trace is made of: seconds by class, seconds in which nothing runs by cause; they add up to the step.

Where several kernels run at one time, the time is that of the first of their classes: of messages and copies only what
nothing hides is counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median

import numpy as np

from amped.base.record import dataclass
from amped.interop.traces.classes import class_of, classes, unassigned
from amped.interop.traces.intervals import Stretches, between, both, covered, length, union, within
from amped.interop.traces.trace import OPTIMIZER, RECOMPUTATION, Floats, Integers, Step, Trace, Work

# A step that takes 1.5 times the middle is no plain step.
OUTLIER = 1.5
# The kinds of work that an estimate tells apart: passes, passes that are repeated, and the optimizer.
PASSES, AGAIN, UPDATE = "passes", "recomputation", "optimizer"
KINDS = (PASSES, AGAIN, UPDATE)
# Why nothing runs.
LATE, WAITED, LOADING, BETWEEN, UNTOLD, PYTHON = (
    "the host launches too late", "the host waited for the device", "the host waits for data",
    "gaps between kernels that are launched in time", "the trace does not say why", "no operator runs",
)  # fmt: skip
MOST_NAMED = 5


@dataclass(frozen=True)
class Share:
    """A share of a step.

    Attributes:
        name: the class of the kernels, or why nothing runs.
        group: what an estimate compares it with; `idle` if nothing runs.
        kind: of kernels, one of `KINDS`.
        time: seconds of a step.
    """

    name: str
    group: str
    kind: str
    time: float


@dataclass(frozen=True)
class Sent:
    """Messages of a class: the seconds of a step in which they run, and those of them beside computation."""

    name: str
    time: float
    hidden: float


@dataclass(frozen=True)
class MeasuredStep:
    """A step of one process, on average over the steps that count.

    Attributes:
        file, rank, device, source: of the trace.
        step_time: seconds.
        counted: how many steps count; `left_out` are the names of the others.
        shares: they add up to `step_time`.
        sent: the messages.
        kernels: how many kernels a step has; without an accelerator, pieces of operators.
        late_fraction: the share of kernels that the device waits for because the host launches them too late; None without
            an accelerator.
        unassigned: the names without a class that take most time, with their seconds of a step.
        odd_product_fraction: the share of the time of products of which a size is no multiple of 64; None if the trace
            has no shapes.
    """

    file: str
    source: str
    rank: int
    device: str
    step_time: float
    counted: int
    left_out: tuple[str, ...]
    shares: tuple[Share, ...]
    sent: tuple[Sent, ...]
    kernels: float
    late_fraction: float | None
    unassigned: tuple[tuple[str, float], ...]
    odd_product_fraction: float | None

    def time_of(self, *groups: str, kinds: Sequence[str] = KINDS) -> float:
        """The seconds of all shares of some groups."""
        return sum(share.time for share in self.shares if share.group in groups and share.kind in kinds)


IDLE = "idle"


def measured_step(trace: Trace) -> MeasuredStep:
    """What a step of a trace is made of."""
    steps = _plain_steps(trace.steps)
    bounds = np.array([[step.start for step in steps], [step.end for step in steps]])
    place = classes_of(trace)
    shares, busy = _shares(trace.work, place, bounds)
    idle, late = _idle(trace, busy, bounds)
    in_steps = _inside(trace.work, bounds)
    return MeasuredStep(
        file=trace.file,
        source=trace.source,
        rank=trace.rank,
        device=trace.device,
        step_time=float((bounds[1] - bounds[0]).mean()),
        counted=len(steps),
        left_out=tuple(step.name for step in trace.steps if step not in steps),
        shares=(*shares, *idle),
        sent=tuple(_sent(trace.work, place, bounds)),
        kernels=float(in_steps.sum()) / len(steps),
        late_fraction=late,
        unassigned=tuple(_without_class(trace, place, in_steps, len(steps))),
        odd_product_fraction=_odd_products(trace, place, in_steps),
    )


def _plain_steps(steps: Sequence[Step]) -> list[Step]:
    """The steps without those that take far longer than the middle one."""
    middle = median(step.end - step.start for step in steps)
    return [step for step in steps if step.end - step.start <= OUTLIER * middle]


def classes_of(trace: Trace) -> Integers:
    """The place of the class of each entry of the work.

    A kernel has the class of its name. Inside an operator that holds all it calls it has that of the operator, and so has
    a kernel whose name no pattern fits, if the operator has a class, and a message whose operator says which one it is.
    Of a processor the operator counts.
    """
    of_name = np.array([class_of(name) for name in trace.names], np.int64)
    known = classes()
    holds = np.array([known[place].holds for place in of_name])
    computes, sends = np.array([each.computes for each in known]), np.array([each.sends for each in known])
    own, has = of_name[trace.work.name], trace.work.operator >= 0
    of_operator = of_name[trace.work.operator]
    takes = computes[own] & (holds[trace.work.operator] | (own == unassigned()) | (not trace.device))
    return np.where(has & (takes | (sends[own] & sends[of_operator])), of_operator, own)


def _shares(work: Work, place: Integers, bounds: Floats) -> tuple[list[Share], Stretches]:
    """The share of each class and kind, and the stretches in which anything runs."""
    kind = np.select([work.part == RECOMPUTATION, work.part == OPTIMIZER], [1, 2], 0)
    all_before: Stretches = (np.empty(0), np.empty(0))
    shares, seconds = list[Share](), np.zeros(bounds.shape[1])
    for order, each in enumerate(classes()):
        for number, name in enumerate(KINDS):
            which = (place == order) & (kind == number)
            if not which.any():
                continue
            all_before = union(np.append(all_before[0], work.start[which]), np.append(all_before[1], work.end[which]))
            until = covered(all_before, bounds[1]) - covered(all_before, bounds[0])
            if (time := float((until - seconds).mean())) > 0:
                shares.append(Share(each.name, each.group, name, time))
            seconds = until
    return shares, all_before


def _inside(work: Work, bounds: Floats) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Which entries of the work begin in a step that counts."""
    step = np.searchsorted(bounds[0], work.start, side="right") - 1
    return np.asarray((step >= 0) & (work.start < bounds[1][step]), np.bool_)


def _idle(trace: Trace, busy: Stretches, bounds: Floats) -> tuple[list[Share], float | None]:
    """The shares in which nothing runs, by cause, and the share of kernels for which the host is late."""
    gaps = [between(busy, begin, end) for begin, end in bounds.T]
    start, end = (np.concatenate([gap[side] for gap in gaps]) for side in (0, 1))
    begins = trace.work.start
    following = np.searchsorted(begins, end, side="left")
    launched = np.append(trace.work.launched, np.inf if trace.device else np.nan)[following]
    told = ~np.isnan(launched)
    until = np.clip(np.where(told, launched, np.inf), start, end)
    waited, loading = _over(trace.waits, start), union(*trace.loading)
    data = covered(loading, until) - covered(loading, start)
    late, untold = until - start - data, UNTOLD if trace.device else PYTHON
    causes = {
        LOADING: data,
        WAITED: np.where(told & waited, late, 0.0),
        LATE: np.where(told & ~waited, late, 0.0),
        BETWEEN: np.where(told, end - until, 0.0),
        untold: np.where(told, 0.0, late),
    }
    number = bounds.shape[1]
    shares = [Share(why, IDLE, PASSES, float(time.sum()) / number) for why, time in causes.items() if time.sum() > 0]
    kernels = max(int(_inside(trace.work, bounds).sum()), 1)
    return shares, float((told & (until > start)).sum()) / kernels if trace.device else None


def _over(ranges: Stretches, moments: Floats) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Whether a range holds each of the moments."""
    start, end = union(*ranges)
    last = np.searchsorted(start, moments, side="left") - 1
    return np.asarray((last >= 0) & (np.append(end, -np.inf)[last] >= moments), np.bool_)


def _sent(work: Work, place: Integers, bounds: Floats) -> Iterator[Sent]:
    """The messages of each class, and how much of them computation hides."""
    computing = np.isin(place, [order for order, each in enumerate(classes()) if each.computes])
    beside = union(work.start[computing], work.end[computing])
    for order, each in enumerate(classes()):
        if each.sends and (which := place == order).any():
            sent = union(work.start[which], work.end[which])
            parts = [within(*sent, begin, end) for begin, end in bounds.T]
            time = sum(length(part) for part in parts)
            hidden = sum(
                both(part, within(*beside, begin, end)) for part, (begin, end) in zip(parts, bounds.T, strict=True)
            )
            yield Sent(each.name, time / len(parts), max(hidden, 0.0) / len(parts))


def _without_class(trace: Trace, place: Integers, which: object, steps: int) -> Iterator[tuple[str, float]]:
    """The names without a class that take most time, with their seconds of a step."""
    seconds: dict[str, float] = {}
    for entry in np.flatnonzero((place == unassigned()) & which):
        name = trace.names[trace.work.name[entry]]
        seconds[name] = seconds.get(name, 0.0) + float(trace.work.end[entry] - trace.work.start[entry])
    yield from sorted(((name, time / steps) for name, time in seconds.items()), key=lambda row: -row[1])[:MOST_NAMED]


# What tiles of products are multiples of. Source: NVIDIA, Matrix Multiplication Background User's Guide, section 4 (tile and
# wave quantization): tiles of 64 to 256 in both directions.
TILE = 64


def _odd_products(trace: Trace, place: Integers, which: object) -> float | None:
    """The share of the time of products of which a size is no multiple of a tile; None without shapes."""
    product = next(order for order, each in enumerate(classes()) if each.name == "product")
    entries = np.flatnonzero((place == product) & (trace.work.shape >= 0) & which)
    times = trace.work.end[entries] - trace.work.start[entries]
    odd = {shape: _is_odd(trace.shapes[shape]) for shape in set(trace.work.shape[entries].tolist())}
    is_odd = np.array([odd[shape] for shape in trace.work.shape[entries].tolist()], bool)
    return float(times[is_odd].sum() / times.sum()) if times.sum() > 0 else None


def _is_odd(shape: str) -> bool:
    """Whether the last two sizes of a tensor of at least two have one that is no multiple of a tile."""
    import ast

    tensors = [sizes for sizes in ast.literal_eval(shape) if isinstance(sizes, list) and len(sizes) > 1]
    return any(isinstance(size, int) and size % TILE for sizes in tensors for size in sizes[-2:])
