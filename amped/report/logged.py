"""What a log of a run says, on the screen."""

from __future__ import annotations

from collections.abc import Iterator

from amped.interop.logs.steps import Measured
from amped.report import human
from amped.report.tables import Part, drawn
from amped.report.width import columns, wrapped

MOST_LEFT_OUT = 3


@drawn
def logged(log: Measured, estimated_bytes: float) -> Iterator[Part]:
    """The step of a run with its spread, what is left out of it, and its memory beside that of the estimate."""
    for sentence in (_step(log), *_left_out(log), *_memory(log, estimated_bytes), *log.notices):
        yield "\n".join(wrapped(sentence[:1].upper() + sentence[1:] + ".", columns()))
    yield ""


def _step(log: Measured) -> str:
    """The step and its spread."""
    return (
        f"{log.framework}'s log: {human.duration(log.step_time)} a step, the middle of {log.counted} ({human.duration(log.shortest)} "
        f"to {human.duration(log.longest)} for 80 % of them), without the first {log.warm_up}"
    )


def _left_out(log: Measured) -> Iterator[str]:
    """The steps that are left out, each with its line."""
    if log.left_out:
        named = [
            f"{step.number} (line {step.line}, {human.duration(step.seconds)})" for step in log.left_out[:MOST_LEFT_OUT]
        ]
        more = f" and {len(log.left_out) - MOST_LEFT_OUT} more" if len(log.left_out) > MOST_LEFT_OUT else ""
        yield f"left out as far longer than the others, such as a checkpoint: {', '.join(named)}{more}"


def _memory(log: Measured, estimated_bytes: float) -> Iterator[str]:
    """The memory that the log names, beside that of the estimate."""
    if log.memory_bytes:
        most, expected = (f"{size / human.GIGA:.1f} GB" for size in (log.memory_bytes, estimated_bytes))
        yield f"an accelerator holds at most {most} by the log, and {expected} by the estimate"
