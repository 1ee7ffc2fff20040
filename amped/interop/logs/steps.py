"""What the steps of a log come to: their middle, their spread, and the steps that are left out, each with its reason."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from amped.base.errors import FileError, Problem
from amped.base.record import dataclass
from amped.engine.evaluate import Array
from amped.interop.logs.reading import CLOCK, SAMPLES, TOKENS, Log

# The first steps of a run allocate, compile and fill buffers: a tenth of them is left out, at least two and at most fifty.
# A step that takes 1.5 times the middle is no plain step. The middle needs three.
WARM_UP_SHARE, LEAST_WARM_UP, MOST_WARM_UP = 0.1, 2, 50
OUTLIER, FEWEST = 1.5, 3
SPREAD = (0.1, 0.9)
# A clock that shows whole seconds measures steps over at least ten of them.
CLOCK_SECONDS = 10.0


@dataclass(frozen=True)
class LeftOut:
    """A step that does not count: its number, its line, its seconds, and why."""

    number: int
    line: int
    seconds: float
    why: str


@dataclass(frozen=True)
class Measured:
    """The step of a run.

    Attributes:
        framework: who wrote the log.
        step_time: the median of the steps that count, in seconds.
        shortest, longest: the seconds below which a tenth of them is, and above which another tenth.
        counted: how many count.
        warm_up: the number of first steps that are left out.
        left_out: the other steps that do not count.
        memory_bytes: the most bytes that an accelerator reserved; 0.0 if the log does not say it.
        notices: what to know of the figures.
    """

    framework: str
    step_time: float
    shortest: float
    longest: float
    counted: int
    warm_up: int
    left_out: tuple[LeftOut, ...]
    memory_bytes: float
    notices: tuple[str, ...]


def measured(log: Log, path: Path, batch: float, tokens: float) -> Measured:
    """The step of a log.

    Args:
        log: the log.
        path: its file, for messages.
        batch: the sequences of a global batch.
        tokens: the tokens of a step on an accelerator.

    Raises:
        FileError: if too few steps are left.
    """
    steps, notices = _steps(log, batch, tokens), tuple(_notices(log, batch, tokens))
    warm_up = min(max(round(WARM_UP_SHARE * len(steps.seconds)), LEAST_WARM_UP), MOST_WARM_UP)
    rest = Steps(*(part[warm_up:] for part in steps))
    if len(rest.seconds) < FEWEST:
        few = f"it has {len(steps.seconds)} steps, of which the first {warm_up} are no measure"
        raise FileError(Problem(few, advice=f"give a log with at least {LEAST_WARM_UP + FEWEST} steps"), file=str(path))
    is_far = rest.seconds > OUTLIER * np.median(rest.seconds)
    counted = np.sort(rest.seconds[~is_far])
    low, high = (float(counted[min(int(share * len(counted)), len(counted) - 1)]) for share in SPREAD)
    left_out = tuple(
        LeftOut(int(rest.numbers[i]), int(rest.lines[i]), float(rest.seconds[i]), why="far longer than the others")
        for i in np.flatnonzero(is_far)
    )
    return Measured(
        log.format.name,
        float(np.median(counted)),
        low,
        high,
        len(counted),
        warm_up,
        left_out,
        log.memory_bytes,
        notices,
    )


class Steps(NamedTuple):
    """The numbers, the lines and the seconds of steps."""

    numbers: Array
    lines: Array
    seconds: Array


def _steps(log: Log, batch: float, tokens: float) -> Steps:
    """The steps of a log with their seconds; steps that a restart repeats count again."""
    numbers, lines, values = (np.asarray(part) for part in (log.numbers, log.lines, log.values))
    if log.format.measure == CLOCK:
        return _of_clock(log)
    is_told = values > 0
    amount = {TOKENS: tokens, SAMPLES: batch}.get(log.format.measure)
    seconds = values[is_told] if amount is None else amount / values[is_told]
    return Steps(numbers[is_told], lines[is_told], seconds)


def _of_clock(log: Log) -> Steps:
    """The seconds of steps between two times of a clock that shows whole seconds: over as many steps as take `CLOCK_SECONDS`."""
    numbers, lines, seconds = list[int](), list[int](), list[float]()
    before = (log.numbers[0], log.values[0])
    for number, line, clock in zip(log.numbers, log.lines, log.values, strict=True):
        if number < before[0]:
            before = (number, clock)
        elif clock - before[1] >= CLOCK_SECONDS and number > before[0]:
            numbers.append(number)
            lines.append(line)
            seconds.append((clock - before[1]) / (number - before[0]))
            before = (number, clock)
    return Steps(np.array(numbers), np.array(lines), np.array(seconds, dtype=float))


def _notices(log: Log, batch: float, tokens: float) -> Iterator[str]:
    """What to know of the steps of a log."""
    if log.format.measure == TOKENS:
        yield f"steps follow from tokens a second, with {tokens:,.0f} tokens of a step on an accelerator as in the config"
    if log.format.measure == SAMPLES:
        yield f"steps follow from samples a second, with {batch:g} sequences of a batch as in the config"
    if log.format.measure == CLOCK:
        yield f"steps follow from the clock of {log.format.name}, over ten seconds and more"
    if log.cut:
        yield f"the log ends in the middle of a step (line {log.cut})"
    again = np.flatnonzero(np.diff(np.asarray(log.numbers)) <= 0) + 1
    restarts = [log.lines[int(place)] for place in again]
    if restarts:
        times = "once" if len(restarts) == 1 else f"{len(restarts)} times"
        yield f"the run starts again {times} (first in line {restarts[0]})"
    if others := [size for size in log.batches if size != batch]:
        yield f"the log says a global batch of {', '.join(map(str, others))}, and the config {batch:g}"
