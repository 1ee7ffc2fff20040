"""A step of a pipeline, simulated as events: when each pass runs, what it waits for, and what each stage holds.

Tests compare the equations of the schedules with this simulation, which shares only the order of passes with them. Each
stage runs its passes in the order of its schedule, each as soon as the stage is free and its input has arrived.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from typing import Any, NamedTuple

from amped.base.errors import MappingError
from amped.theory.nouns.pass_records import BACKWARD, FORWARD, INPUT, WEIGHT, Order, Pass, Pipe
from amped.theory.schedules.orders import homes_of, scheduled

COMPUTE, FORTH, BACK = "compute", "send_forward", "send_backward"


class Work(NamedTuple):
    """The seconds of a micro-batch in a chunk of layers, for each pass. `input_gradient` contains recomputation."""

    forward: float
    input_gradient: float
    weight_gradient: float

    def of(self, kind: str) -> float:
        """The seconds of a pass of the given kind."""
        backward = self.input_gradient + self.weight_gradient
        return {FORWARD: self.forward, BACKWARD: backward, INPUT: self.input_gradient, WEIGHT: self.weight_gradient}[
            kind
        ]


class Span(NamedTuple):
    """What one stream of a stage does from `start` to `end`, in seconds.

    A stream computes, or sends in one direction.
    """

    stage: int
    stream: str
    kind: str
    microbatch: int
    chunk: int
    start: float
    end: float


@dataclass(frozen=True)
class Timeline:
    """A simulated step: what each stage does, and when.

    Attributes:
        pipe: the numbers of stages, micro-batches and chunks.
        spans: what each stage does; the spans of each stage are in the order of time.
    """

    pipe: Pipe
    spans: Sequence[Span] = field(repr=False)

    @cached_property
    def makespan(self) -> float:
        """The seconds from the start of the first pass to the end of the last pass."""
        return max(span.end for span in self.spans)

    @cached_property
    def _streams(self) -> Mapping[tuple[int, str], list[Span]]:
        """The spans of each stream, by stage and stream."""
        streams: dict[tuple[int, str], list[Span]] = {}
        for span in self.spans:
            streams.setdefault((span.stage, span.stream), []).append(span)
        return streams

    def of_stage(self, stage: int, stream: str = COMPUTE) -> list[Span]:
        """The spans of one stream of a stage, in their order."""
        return self._streams.get((stage, stream), [])

    def held(self, stage: int, sizes: Sequence[float]) -> list[tuple[float, float]]:
        """The amounts that a stage holds: pairs of a time in seconds, and of the amount from this time on.

        From the forward pass of a chunk until its last gradient, a stage holds the size of the chunk (`sizes`).
        """
        changes = []
        for span in self.of_stage(stage):
            if span.kind == FORWARD:
                changes.append((span.start, sizes[span.chunk]))
            elif span.kind in (BACKWARD, WEIGHT):
                changes.append((span.end, -sizes[span.chunk]))
        amounts = accumulate(change for _, change in changes)  # passes follow one another: changes are in order of time
        return [(moment, amount) for (moment, _), amount in zip(changes, amounts, strict=True)]


def executed(
    schedule: str, microbatches: int, work: Sequence[Sequence[Work]], send: float = 0.0, overlapped: bool = True
) -> Timeline:
    """Simulates a step under a schedule.

    Args:
        schedule: a name of the table `SCHEDULES`; "1f1b" with several chunks is interleaved.
        microbatches: the number of micro-batches in a step.
        work: the seconds of each pass, for each stage and each of its chunks.
        send: the seconds to send a micro-batch to another stage.
        overlapped: whether a stage computes while it sends; it always waits for what it receives.

    Raises:
        MappingError: for a number of chunks or micro-batches that the schedule cannot run.
    """
    pipe = Pipe(len(work), microbatches, len(work[0]))
    return _Execution(pipe, scheduled(schedule, pipe), schedule, work, send, overlapped).run()


class _Execution:
    """A simulation that runs the passes of all stages.

    It refuses orders in which stages wait for one another for ever. `orders` has the passes of each stage; the other
    arguments are those of `executed`.
    """

    def __init__(
        self,
        pipe: Pipe,
        orders: list[Order],
        schedule: str,
        work: Sequence[Sequence[Work]],
        send: float,
        overlapped: bool,
    ) -> None:
        self.pipe, self.work, self.send, self.overlapped = pipe, work, send, overlapped
        self.rest = [*map(deque, orders)]
        self.homes = homes_of(schedule, pipe)
        self.places = {home: place for place, home in self.homes.items()}
        self.arrived: dict[tuple[str, int, int], float] = {}  # direction, micro-batch, place
        self.done: set[tuple[int, Pass]] = set()
        self.free: dict[tuple[int, str], float] = {}
        self.spans: list[Span] = []

    def run(self) -> Timeline:
        """Runs the passes of each stage until the stage must wait; a stage that receives something is tried again.

        Raises:
            MappingError: if stages wait for one another for ever.
        """
        waiting = deque(range(self.pipe.stages))
        while waiting:
            stage = waiting.popleft()
            order = self.rest[stage]
            while order and None not in (ready := self._inputs(stage, order)):
                passes = [order.popleft() for _ in ready]
                waiting.extend(self._run(stage, passes, max(ready)))
        waits = [f"stage {s} for {' '.join(map(str, order[0][:3]))}" for s, order in enumerate(self.rest) if order]
        if waits:
            raise MappingError(f"the stages wait for one another for ever: {', '.join(waits)}")
        return Timeline(self.pipe, tuple(self.spans))

    def _inputs(self, stage: int, order: Sequence[Pass]) -> list[Any]:
        """The seconds at which the input of the next pass, or of both passes of a pair, has arrived; else None."""
        return [self._ready(stage, order[n]) for n in range(1 + order[0].joined)]

    def _ready(self, stage: int, one_pass: Pass) -> float | None:
        """The seconds at which the input of a pass has arrived; None if the input has not arrived."""
        place, last = self.places[stage, one_pass.chunk], len(self.places) - 1
        if one_pass.kind == FORWARD:
            return 0.0 if place == 0 else self.arrived.get((FORTH, one_pass.microbatch, place))
        if one_pass.kind == WEIGHT:
            return 0.0 if (stage, one_pass._replace(kind=INPUT)) in self.done else None
        if (stage, one_pass._replace(kind=FORWARD)) not in self.done:
            return None
        return 0.0 if place == last else self.arrived.get((BACK, one_pass.microbatch, place))

    def _run(self, stage: int, passes: Sequence[Pass], ready: float) -> list[int]:
        """Runs a pass, or both passes of a pair, whose input has arrived, and sends the results.

        Args:
            stage: the stage that runs the pass.
            passes: the pass, or the two passes.
            ready: the seconds at which their input has arrived.

        Returns:
            The stages that may be able to continue after that.
        """
        end = max(ready, self.free.get((stage, COMPUTE), 0.0))
        for one_pass in passes:
            start, end = end, end + self.work[stage][one_pass.chunk].of(one_pass.kind)
            self._note(stage, COMPUTE, one_pass, start, end)
            self.done.add((stage, one_pass._replace(joined=False)))
        # The second pass of a pair sends first. A send that holds the stage delays the other one.
        return [other for one_pass in passes[::-1] for other in self._hand_on(stage, one_pass)]

    def _hand_on(self, stage: int, one_pass: Pass) -> list[int]:
        """Hands on the result of a pass that is done. Returns the stage that receives it, if it is another one."""
        end = self.free[stage, COMPUTE]
        if one_pass.kind == WEIGHT:
            return []
        direction, step = (FORTH, 1) if one_pass.kind == FORWARD else (BACK, -1)
        target = self.places[stage, one_pass.chunk] + step
        if target not in self.homes:
            return []
        other = self.homes[target][0]
        if other != stage:
            end = self._sent(stage, one_pass, direction, end)
        self.arrived[direction, one_pass.microbatch, target] = end
        return [other] if other != stage else []

    def _sent(self, stage: int, one_pass: Pass, direction: str, ready: float) -> float:
        """Sends the result of a pass. Returns the seconds at which the result arrives.

        Args:
            stage: the stage that sends.
            one_pass: the pass.
            direction: FORTH or BACK.
            ready: the seconds at which the result is ready.
        """
        if not self.send:
            return ready
        start = max(ready, self.free.get((stage, direction), 0.0))
        self._note(stage, direction, one_pass, start, start + self.send)
        if not self.overlapped:
            self.free[stage, COMPUTE] = start + self.send
        return start + self.send

    def _note(self, stage: int, stream: str, one_pass: Pass, start: float, end: float) -> None:
        """Adds a span to the timeline; the stream is free again at its end."""
        self.spans.append(Span(stage, stream, *one_pass[:3], start, end))
        self.free[stage, stream] = end
