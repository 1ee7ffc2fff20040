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
# If there are more spans than this (about 10 MB), only the first and the last micro-batches are written.
MOST_SPANS = 50_000
MICROSECONDS = 1e6


def shown_microbatches(step: ExecutedStep) -> int:
    """How many of the first and of the last micro-batches are written; all of them if they are not too many."""
    pipe = step.timeline.pipe
    spans = max(len(step.timeline.spans) // pipe.microbatches, 1)
    return pipe.microbatches if len(step.timeline.spans) <= MOST_SPANS else max(MOST_SPANS // spans // 2, 1)


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
    """The names of processes and threads, and the order in which they are shown."""
    for stage in range(stages):
        threads = (("thread_name", thread, {"name": TITLES[stream]}) for stream, thread in THREADS.items())
        process = (("process_name", 0, {"name": f"stage {stage}"}), ("process_sort_index", 0, {"sort_index": stage}))
        for name, thread, arguments in (*process, *threads):
            yield {"name": name, "ph": "M", "pid": stage, "tid": thread, "args": arguments}


def _events(step: ExecutedStep, shown: int) -> Iterator[Event]:
    """The spans, the activations that each stage holds, and what follows after all passes are done."""
    line, late = step.timeline, step.timeline.pipe.microbatches - shown
    after = {"gradients and weights, exposed": step.reduction_time, "optimizer": step.optimizer_time}
    for stage in range(line.pipe.stages):
        kept = {stream: [s for s in line.of_stage(stage, stream) if s.microbatch < shown or s.microbatch >= late]
                for stream in (COMPUTE, FORTH, BACK)}  # fmt: skip
        yield from (_span(span) for spans in kept.values() for span in spans)
        moments = {moment for span in kept[COMPUTE] for moment in (span.start, span.end)}
        yield from _counter(stage, line.held(stage, step.sizes[stage]), moments)
        start = line.makespan
        for name, seconds in after.items():
            span = Span(stage, "data_parallel", "update", 0, 0, start, start + seconds)
            yield _complete(name, span, {})
            start = span.end


def _span(span: Span) -> Event:
    """One pass, or one transfer between stages."""
    arguments = {"microbatch": span.microbatch, "chunk": span.chunk, "pass": span.kind}
    return _complete(
        f"{LETTERS[span.kind]}{span.microbatch}" + ("" if span.stream == COMPUTE else " sent"), span, arguments
    )


def _complete(name: str, span: Span, arguments: Event) -> Event:
    begun = span.start * MICROSECONDS
    return {"name": name, "cat": span.kind, "ph": "X", "ts": begun, "dur": max(span.end * MICROSECONDS - begun, 0.0),
            "pid": span.stage, "tid": THREADS[span.stream], "args": arguments}  # fmt: skip


def _counter(stage: int, held: Iterable[tuple[float, float]], moments: set[float]) -> Iterator[Event]:
    """The bytes of activations that a stage holds: at the moments that are shown, and at their maximum."""
    held = list(held)
    most = max(held, key=lambda pair: pair[1])
    for moment, amount in held:
        if moment in moments or (moment, amount) == most:
            yield {"name": "activations kept", "ph": "C", "ts": moment * MICROSECONDS, "pid": stage, "tid": 0,
                   "args": {"bytes": max(amount, 0.0)}}  # fmt: skip
