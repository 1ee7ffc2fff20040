"""An executed step in the trace-event format, which Perfetto and Chrome open: stages as processes, streams as threads.

Format: "Trace Event Format", Google, docs/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU; times are microseconds.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from amped.estimation.estimation import Estimation
from amped.estimation.execution import ExecutedStep
from amped.estimation.memory_over_time import MemoryOverTime, memory_over_time
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
    """The step as text in the trace-event format, one event per line."""
    shown, pipe, memory = shown_microbatches(step), step.timeline.pipe, memory_over_time(e, step)
    left_out = max(pipe.microbatches - 2 * shown, 0)
    events = [*_names(pipe.stages), *sorted(_events(step, memory, shown), key=lambda event: float(event["ts"]))]
    other_data = {"config": e.scenario.label, "schedule": e.choices["pipeline_schedule"], "stages": pipe.stages,
             "microbatches": pipe.microbatches, "microbatches_left_out": left_out, "executed_step_time": step.step_time,
             "estimated_step_time": step.estimated_time}  # fmt: skip
    lines = ",\n".join(json.dumps(event, ensure_ascii=False) for event in events)
    return f'{{"displayTimeUnit": "ms",\n"otherData": {json.dumps(other_data, ensure_ascii=False)},\n"traceEvents": [\n{lines}\n]}}\n'


def _names(stages: int) -> Iterator[Event]:
    """The metadata events of each stage: the names of its process and threads, and its place in the order of stages."""
    for stage in range(stages):
        threads = (("thread_name", thread, {"name": TITLES[stream]}) for stream, thread in THREADS.items())
        process = (("process_name", 0, {"name": f"stage {stage}"}), ("process_sort_index", 0, {"sort_index": stage}))
        for name, thread, arguments in (*process, *threads):
            yield {"name": name, "ph": "M", "pid": stage, "tid": thread, "args": arguments}


def _events(step: ExecutedStep, memory: MemoryOverTime, shown_at_each_end: int) -> Iterator[Event]:
    """The events of each stage, in no order of time.

    These are spans of the first and the last `shown_at_each_end` micro-batches, a counter of the memory that
    the stage holds, and gradient reduction and optimizer after the last pass.
    """
    line, first_of_the_last = step.timeline, step.timeline.pipe.microbatches - shown_at_each_end
    after = {"gradients and weights, exposed": step.reduction_time, "optimizer": step.optimizer_time}
    for stage in range(line.pipe.stages):
        shown_spans = {stream: [
            span for span in line.of_stage(stage, stream)
            if span.microbatch < shown_at_each_end or span.microbatch >= first_of_the_last]
                for stream in (COMPUTE, FORTH, BACK)}  # fmt: skip
        yield from (_span(span) for spans in shown_spans.values() for span in spans)
        moments = {moment for span in shown_spans[COMPUTE] for moment in (span.start, span.end)}
        yield from _memory(stage, memory, moments)
        start = line.makespan
        for name, seconds in after.items():
            span = Span(stage, "data_parallel", "update", 0, 0, start, start + seconds)
            yield _complete(name, span, {})
            start = span.end


def _span(span: Span) -> Event:
    """The event of one pass, or of one transfer between stages, named by the pass and the micro-batch: F3, F3 sent."""
    arguments = {"microbatch": span.microbatch, "chunk": span.chunk, "pass": span.kind}
    return _complete(
        f"{LETTERS[span.kind]}{span.microbatch}" + ("" if span.stream == COMPUTE else " sent"), span, arguments
    )


def _complete(name: str, span: Span, arguments: Event) -> Event:
    """A complete event (phase X) with the start and the duration of a span in microseconds."""
    start = span.start * MICROSECONDS
    return {"name": name, "cat": span.kind, "ph": "X", "ts": start, "dur": max(span.end * MICROSECONDS - start, 0.0),
            "pid": span.stage, "tid": THREADS[span.stream], "args": arguments}  # fmt: skip


def _memory(stage: int, memory: MemoryOverTime, moments: set[float]) -> Iterator[Event]:
    """The counter events of the bytes that a stage holds, by kind, at the shown moments and at the peak."""
    shown = sorted(moments | {memory.peaks[stage].moment})
    held = memory.held(stage, shown)
    for place, moment in enumerate(shown):
        yield {"name": "memory", "ph": "C", "ts": moment * MICROSECONDS, "pid": stage, "tid": 0,
               "args": {kind: amounts[place] for kind, amounts in held.items()}}  # fmt: skip
