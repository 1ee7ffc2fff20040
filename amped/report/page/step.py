"""Where the time of a step goes: its parts, and its passes on each stage."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate

from amped.base.errors import MappingError
from amped.estimation.estimation import Estimation
from amped.estimation.execution import ExecutedStep, executed_step
from amped.estimation.parts import STEP_PARTS
from amped.estimation.waterfall import waterfall
from amped.report import human
from amped.report.page.answer import where
from amped.report.page.content import Number, Picture, Plain, Section, Table, said, table
from amped.report.page.numbers import numbers
from amped.report.plots import KINDS
from amped.report.verdicts import kind_of
from amped.report.waterfall import causes, rounded
from amped.report.waterfall import said as said_of_bar
from amped.theory.schedules.timeline import COMPUTE

# The most spans that are drawn; of a longer step, the first and the last micro-batches.
MOST_SPANS = 3000
LEFT_OUT = "left out"
PASSES = {"forward": "forward", "backward": "backward", "input_gradient": "input gradients", "weight_gradient": "weight gradients"}  # fmt: skip
SPAN = ("stage", "kind|pass", "microbatch|micro-batch", "chunk",
        "start|start|s", "end|end|s")  # fmt: skip


def parts(e: Estimation) -> Section:
    """The section with the parts of a step as bars."""
    sentence = f"Of a step of {human.duration(e['step_time'])}: {where(e)}."
    bars = Picture(
        "parts", "Time of one step by part", "bars", sentence, parts_table([e]),
        {"along": "part", "values": ["time"], "kind_of": "kind"},
    )  # fmt: skip
    return Section("parts", "Time by part", said(sentence), pictures=[bars])


def waterfall_of(e: Estimation) -> Section:
    """The section with the waterfall from the peak rate to the step, in the figures of `amped why`."""
    title, sentence, bars = "From the peak rate to the step", causes(e), waterfall(e)
    figures = rounded(bars, e["step_time"])
    starts = accumulate(figures.times, initial=0.0)
    rows = [
        (said_of_bar(bar), KINDS[kind_of(bar.name)], start * figures.size, time * figures.size, bar.time / e["step_time"], bar.utilization)
        for bar, start, time in zip(bars, starts, figures.times, strict=False)
        if time
    ]  # fmt: skip
    columns = (
        "cause",
        "kind",
        "start|from|s",
        "time|time|s",
        "share|share of the step|share",
        "utilization|MFU left|share",
    )
    how = {"along": "cause", "values": ["time"], "from": "start", "kind_of": "kind"}
    picture = Picture("waterfall", title, "bars", sentence, table("Waterfall of one step", columns, rows), how)
    return Section("waterfall", title, said(sentence), pictures=[picture])


def parts_table(estimations: Sequence[Estimation], names: Sequence[str] = ("time",)) -> Table:
    """The seconds of each part of a step in each configuration; parts that no configuration has are left out.

    Of a single configuration, the table also has the share of each part. `names` are the heads of the configurations.
    """
    several = len(estimations) > 1
    results = [numbers(e, place if several else None) for place, e in enumerate(estimations)]
    columns = ["part", "kind", *(f"{name}||s" for name in names)]
    rows: list[list[Plain | Number]] = []
    for name in STEP_PARTS:
        if any(e[name] > 0 for e in estimations):
            shares = [] if several else [estimations[0][name] / estimations[0]["step_time"]]
            rows.append([human.label(name), KINDS[kind_of(name)], *(by_name[name] for by_name in results), *shares])
    share_column = [] if several else ["share|share of the step|share"]
    return table("Parts of one step", [*columns, *share_column], rows)


def timeline(e: Estimation, most: int = MOST_SPANS) -> Section:
    """The section with the passes of a step on each stage, in the order of the schedule; at most `most` are drawn."""
    title = "Timeline of one step"
    try:
        step = executed_step(e)
    except MappingError as error:
        return Section("timeline", title, said(error.problems[0].what))
    drawn, left_out = _drawn(step, most)
    picture = Picture(
        "timeline", title, "spans", _in_words(e, step), _by_stage(step), {"rows_of": "stage"},
        table("Passes", SPAN, drawn),
    )  # fmt: skip
    notes = [f"The picture shows one of {step.flushes} times that the pipeline is emptied."] if step.flushes > 1 else []
    notes += [f"The picture leaves {left_out} micro-batches out of its middle."] if left_out else []
    return Section("timeline", title, said(picture.sentence, *notes), pictures=[picture])


def _in_words(e: Estimation, step: ExecutedStep) -> str:
    """A sentence on how the step is executed, and on its time by execution and by the equations."""
    pipe = step.timeline.pipe
    stages = human.counted(pipe.stages, "stage")
    return (f"Executed pass by pass on {stages} with {human.digits(pipe.microbatches)} micro-batches "
            f"in the schedule {e.choices['pipeline_schedule']}, a step takes {human.duration(step.step_time)}; by the equations "
            f"{human.duration(step.estimated_time)} ({-step.deviation / (1 + step.deviation):+.2%}).")  # fmt: skip


def _by_stage(step: ExecutedStep) -> Table:
    """For each stage: how long its passes take, and how long it waits until the pipeline is empty."""
    line = step.timeline
    columns = ("stage", "passes", "busy_time|in passes|s",
               "idle_time|waits|s", "end|last pass ends|s")  # fmt: skip
    rows = []
    for stage in range(line.pipe.stages):
        spans = line.of_stage(stage, COMPUTE)
        busy = sum(span.end - span.start for span in spans)
        rows.append((float(stage), float(len(spans)), busy, line.makespan - busy, spans[-1].end))
    return table("Passes of each stage", columns, rows)


def _drawn(step: ExecutedStep, most: int) -> tuple[list[tuple[Plain, ...]], int]:
    """The cells of the drawn spans, and the number of micro-batches that are left out of the middle."""
    line = step.timeline
    pipe = line.pipe
    spans = [span for stage in range(pipe.stages) for span in line.of_stage(stage, COMPUTE)]
    number_at_each_end = max(most * pipe.microbatches // len(spans) // 2, 1) if len(spans) > most else pipe.microbatches
    first_of_the_last = max(pipe.microbatches - number_at_each_end, 0)
    drawn_spans = [
        span for span in spans if span.microbatch < number_at_each_end or span.microbatch >= first_of_the_last
    ]
    rows: list[tuple[Plain, ...]] = [
        (float(span.stage), PASSES[span.kind], float(span.microbatch), float(span.chunk), span.start, span.end)
        for span in drawn_spans
    ]
    return [*rows, *_after(step)], max(first_of_the_last - number_at_each_end, 0)


def _after(step: ExecutedStep) -> Iterator[tuple[Plain, ...]]:
    """The cells of gradient reduction and of the optimizer, which follow on every stage after the last pass."""
    start = step.timeline.makespan
    for kind, seconds in (("gradients and weights", step.reduction_time), ("optimizer", step.optimizer_time)):
        if seconds > 0:
            yield from (
                (float(stage), kind, None, None, start, start + seconds) for stage in range(step.timeline.pipe.stages)
            )
            start += seconds
