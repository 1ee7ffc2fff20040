"""What traces of a run say beside the estimate, on the screen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from amped.estimation.waterfall import Bar, apportioned
from amped.interop.traces.classes import classes
from amped.interop.traces.gaps import Gap
from amped.interop.traces.measuring import MeasuredStep
from amped.report import human
from amped.report.tables import Part, drawn, table
from amped.report.waterfall import rounded
from amped.report.width import columns, wrapped

MOST_SHOWN, INDENT, LEAST_SHARE = 5, "   ", 0.005
HEADS = ("part of a step", "measured", "estimate", "difference")


@drawn
def traced(steps: Sequence[MeasuredStep], found: Sequence[Gap]) -> Iterator[Part]:
    """The step of traces, its parts beside those of the estimate, and what would close the largest gaps."""
    for sentence in (_step(steps), _classes(steps), *_left_out(steps), *_unassigned(steps)):
        yield "\n".join(wrapped(sentence, columns()))
    yield ""
    yield from _table(steps, found)
    yield ""
    longer = [gap for gap in found if gap.closes][:MOST_SHOWN]
    if longer:
        yield "What takes longer than estimated, and what would close it:\n"
    for place, gap in enumerate(longer, 1):
        yield "\n".join(wrapped(f"{place}. {gap.said}: {human.duration(gap.gap)} a step more", columns()))
        yield "\n".join(INDENT + line for line in wrapped(gap.closes, columns() - len(INDENT)))
    yield ""


def _mean(steps: Sequence[MeasuredStep]) -> float:
    """The seconds of a step, on average over the processes."""
    return sum(step.step_time for step in steps) / len(steps)


def _step(steps: Sequence[MeasuredStep]) -> str:
    """Where the figures come from."""
    sources, devices = sorted({step.source for step in steps}), sorted({step.device or "processor" for step in steps})
    return (
        f"{' and '.join(sources)}, {human.counted(len(steps), 'rank')} ({', '.join(devices)}): "
        f"{human.duration(_mean(steps))} a step, the mean of {human.counted(steps[0].counted, 'step')}."
    )


def _classes(steps: Sequence[MeasuredStep]) -> str:
    """The classes of kernels with their time."""
    said = {each.name: each.said for each in classes()}
    times: dict[str, float] = {}
    for step in steps:
        for share in step.shares:
            times[share.name] = times.get(share.name, 0.0) + share.time / len(steps)
    least = LEAST_SHARE * _mean(steps)
    rows = [
        (said.get(name, name), time) for name, time in sorted(times.items(), key=lambda row: -row[1]) if time >= least
    ]
    return f"By class of kernels: {'; '.join(f'{name} {human.duration(time)}' for name, time in rows)}."


def _left_out(steps: Sequence[MeasuredStep]) -> Iterator[str]:
    """The steps that do not count."""
    if names := sorted({name for step in steps for name in step.left_out}):
        yield f"Left out as far longer than the others: {', '.join(names[:MOST_SHOWN])}."


def _unassigned(steps: Sequence[MeasuredStep]) -> Iterator[str]:
    """The kernels without a class."""
    for step in steps[:1]:
        if step.unassigned:
            names = ", ".join(f"{name[:60]} ({human.duration(time)})" for name, time in step.unassigned)
            yield f"Without a class: {names}."


def _table(steps: Sequence[MeasuredStep], found: Sequence[Gap]) -> Iterator[Part]:
    """The parts, measured and estimated, in figures that add up."""
    measured, estimated = _mean(steps), sum(gap.estimated for gap in found)
    unit = rounded([Bar("", 0.0, measured, 0.0)], measured)
    sides = [
        _in_figures(unit.size, unit.places, [gap.measured for gap in found], measured),
        _in_figures(unit.size, unit.places, [gap.estimated for gap in found], estimated),
    ]
    rows = [(gap.said, *times) for gap, *times in zip(found, *sides, strict=True)] + [("step", *map(sum, sides))]
    cells = (
        [name, *(f"{time:.{unit.places}f}" for time in times), f"{times[0] - times[1]:+.{unit.places}f}"]
        for name, *times in rows
    )
    yield f"Measured beside estimated (in {unit.unit}):\n"
    yield table(HEADS, cells)


def _in_figures(size: float, places: int, times: Sequence[float], whole: float) -> list[float]:
    """Times in a unit with some decimal places, so that they add up to the whole."""
    scale = 10**places / size
    return [number / 10**places for number in apportioned([time * scale for time in times], whole * scale, 1.0)]
