"""What the steps of a log come to: their middle, their spread, and the steps that are left out, each with its reason."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from statistics import median

from amped.base.errors import FileError, Problem
from amped.base.record import dataclass
from amped.interop.logs.reading import CLOCK, MILLISECONDS, SAMPLES, SECONDS, TOKENS, Log

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
    steps, notices = _seconds(log, batch, tokens), [*_notices(log, batch, tokens)]
    warm_up = min(max(round(WARM_UP_SHARE * len(steps)), LEAST_WARM_UP), MOST_WARM_UP)
    rest = steps[warm_up:]
    if len(rest) < FEWEST:
        few = f"it has {len(steps)} steps, of which the first {warm_up} are no measure"
        raise FileError(Problem(few, advice=f"give a log with at least {LEAST_WARM_UP + FEWEST} steps"), file=str(path))
    middle = median(seconds for _, _, seconds in rest)
    left_out = [LeftOut(*step, why="far longer than the others") for step in rest if step[2] > OUTLIER * middle]
    counted = sorted(seconds for _, _, seconds in rest if seconds <= OUTLIER * middle)
    low, high = (counted[min(int(share * len(counted)), len(counted) - 1)] for share in SPREAD)
    return Measured(
        log.format.name,
        median(counted),
        low,
        high,
        len(counted),
        warm_up,
        tuple(left_out),
        log.memory_bytes,
        tuple(notices),
    )


def _seconds(log: Log, batch: float, tokens: float) -> list[tuple[int, int, float]]:
    """The number, the line and the seconds of each step; steps that a restart repeats count again."""
    if log.format.measure == CLOCK:
        return [*_of_clock(log)]
    amounts = {SECONDS: None, MILLISECONDS: None, TOKENS: tokens, SAMPLES: batch}
    amount = amounts[log.format.measure]
    return [
        (number, line, value if amount is None else amount / value)
        for number, line, value in zip(log.numbers, log.lines, log.values, strict=True)
        if value > 0
    ]


def _of_clock(log: Log) -> Iterator[tuple[int, int, float]]:
    """The seconds of steps between two times of a clock that shows whole seconds: over as many steps as take `CLOCK_SECONDS`."""
    before = (log.numbers[0], log.values[0])
    for number, line, clock in zip(log.numbers, log.lines, log.values, strict=True):
        if number < before[0]:
            before = (number, clock)
        elif clock - before[1] >= CLOCK_SECONDS and number > before[0]:
            yield number, line, (clock - before[1]) / (number - before[0])
            before = (number, clock)


def _notices(log: Log, batch: float, tokens: float) -> Iterator[str]:
    """What to know of the steps of a log."""
    if log.format.measure == TOKENS:
        yield f"steps follow from tokens a second, with {tokens:,.0f} tokens of a step on an accelerator as in the config"
    if log.format.measure == SAMPLES:
        yield f"steps follow from samples a second, with {batch:g} sequences of a batch as in the config"
    if log.format.measure == CLOCK:
        yield "steps follow from the clock of the progress bar, which shows whole seconds"
    if log.cut:
        yield f"the log ends in the middle of a step (line {log.cut})"
    restarts = [
        line
        for line, before, after in zip(log.lines[1:], log.numbers, log.numbers[1:], strict=False)
        if after <= before
    ]
    if restarts:
        times = "once" if len(restarts) == 1 else f"{len(restarts)} times"
        yield f"the run starts again {times} (first in line {restarts[0]})"
    if others := [size for size in log.batches if size != batch]:
        yield f"the log says a global batch of {', '.join(map(str, others))}, and the config {batch:g}"
