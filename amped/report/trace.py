"""An executed step in the trace-event format, which Perfetto and Chrome open: stages as processes, streams as threads.

Format: "Trace Event Format", Google, docs/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU; times are microseconds.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from amped.estimation.estimation import Estimation
from amped.estimation.execution import ExecutedStep
from amped.theory.schedules.timeline import BACK, COMPUTE, FORTH, Span

Event = dict[str, Any]
THREADS = {COMPUTE: 1, FORTH: 2, BACK: 3, "data_parallel": 4}
TITLES = {COMPUTE: "compute", FORTH: "send forward", BACK: "send backward", "data_parallel": "data parallel, optimizer"}
LETTERS = {"forward": "F", "backward": "B", "input_gradient": "I", "weight_gradient": "W"}
# Above so many spans, the first and the last micro-batches are shown, about as many as this: some 10 MB.
MOST_SPANS = 50_000
MICROSECONDS = 1e6


def shown_microbatches(step: ExecutedStep) -> int:
    """How many of the first and of the last micro-batches are written; all where that is not too many."""
    pipe = step.timeline.pipe
    each = max(len(step.timeline.spans) // pipe.microbatches, 1)
    return pipe.microbatches if len(step.timeline.spans) <= MOST_SPANS else max(MOST_SPANS // each // 2, 1)


def as_trace(step: ExecutedStep, e: Estimation) -> str:
    """The step as text in the trace-event format, one event a line."""
    shown, pipe = shown_microbatches(step), step.timeline.pipe
    left_out = max(pipe.microbatches - 2 * shown, 0)
    events = [*_names(pipe.stages), *sorted(_events(step, shown), key=lambda event: float(event["ts"]))]
    about = {"config": e.scenario.label, "schedule": e.choices["pipeline_schedule"], "stages": pipe.stages,
             "microbatches": pipe.microbatches, "microbatches_left_out": left_out, "executed_step_time": step.step_time,
             "estimated_step_time": step.estimated_time}  # fmt: skip
    lines = ",\n".join(json.dumps(event, ensure_ascii=False) for event in events)
    return f'{{"displayTimeUnit": "ms",\n"otherData": {json.dumps(about, ensure_ascii=False)},\n"traceEvents": [\n{lines}\n]}}\n'


def _names(stages: int) -> Iterator[Event]:
    """Names of processes and threads, and the order in which they stand."""
    for stage in range(stages):
        yield {"name": "process_name", "ph": "M", "pid": stage, "tid": 0, "args": {"name": f"stage {stage}"}}
        yield {"name": "process_sort_index", "ph": "M", "pid": stage, "tid": 0, "args": {"sort_index": stage}}
        for stream, thread in THREADS.items():
            yield {"name": "thread_name", "ph": "M", "pid": stage, "tid": thread, "args": {"name": TITLES[stream]}}


def _events(step: ExecutedStep, shown: int) -> Iterator[Event]:
    """Spans, what a stage holds, and what follows when all passes are done."""
    line, late = step.timeline, step.timeline.pipe.microbatches - shown
    for stage in range(line.pipe.stages):
        kept = [s for s in line.of_stage(stage) if s.microbatch < shown or s.microbatch >= late]
        yield from (_span(s) for s in kept)
        yield from (_span(s) for stream in (FORTH, BACK) for s in line.of_stage(stage, stream)
                    if s.microbatch < shown or s.microbatch >= late)  # fmt: skip
        moments = {moment for s in kept for moment in (s.start, s.end)}
        yield from _counter(stage, line.held(stage, step.sizes[stage]), moments)
        start = line.makespan
        for name, seconds in (
            ("gradients and weights, exposed", step.reduction_time),
            ("optimizer", step.optimizer_time),
        ):
            yield _complete(name, "update", stage, "data_parallel", start, start + seconds, {})
            start += seconds


def _span(span: Span) -> Event:
    """One pass, or one hand-over."""
    arguments = {"microbatch": span.microbatch, "chunk": span.chunk, "pass": span.kind}
    name = f"{LETTERS[span.kind]}{span.microbatch}" + ("" if span.stream == COMPUTE else " sent")
    return _complete(name, span.kind, span.stage, span.stream, span.start, span.end, arguments)


def _complete(
    name: str, kind: str, stage: int, stream: str, start: float, end: float, arguments: Event
) -> Event:  # fmt: skip
    begun = start * MICROSECONDS
    return {"name": name, "cat": kind, "ph": "X", "ts": begun, "dur": max(end * MICROSECONDS - begun, 0.0), "pid": stage,
            "tid": THREADS[stream], "args": arguments}  # fmt: skip


def _counter(stage: int, held: Iterable[tuple[float, float]], moments: set[float]) -> Iterator[Event]:
    """The bytes of activations that a stage holds: at the moments shown, and where they are most."""
    held = list(held)
    most = max(held, key=lambda pair: pair[1])
    for moment, amount in held:
        if moment in moments or (moment, amount) == most:
            yield {"name": "activations kept", "ph": "C", "ts": moment * MICROSECONDS, "pid": stage, "tid": 0,
                   "args": {"bytes": max(amount, 0.0)}}  # fmt: skip
