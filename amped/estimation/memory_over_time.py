"""The memory of each stage over a step, from the order of its passes: what is allocated when, and where the peak is.

Weights, gradients and optimizer states stay. Each forward pass keeps the activations of its layers one after the other, and
the backward pass of the same micro-batch gives them back in the opposite order. While a backward pass runs, it also needs
its working memory. The bytes are those of formulas, the order is the schedule's.

Source: arXiv 2205.05198, section 4.2.3. Differs: passes give back layer by layer, not as a whole.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np

from amped.base.record import dataclass
from amped.estimation.estimation import Estimation
from amped.estimation.execution import ExecutedStep, layers_of
from amped.theory.nouns.pass_records import BACKWARD, FORWARD, INPUT, WEIGHT
from amped.theory.schedules.timeline import Span

STATES = ("weight", "gradient", "optimizer_state")
ACTIVATION, WORKING = "activation", "working"
KINDS = (*STATES, ACTIVATION, WORKING)
# If a step has more layers to keep than this, the layers of a pass are kept as one.
MOST_ALLOCATIONS = 200_000


@dataclass(frozen=True)
class Allocation:
    """Memory that a stage holds for a time.

    Attributes:
        kind: one of `KINDS`.
        name: what it is, in words.
        bytes: its size.
        start, end: seconds of the step; `end` is infinite for what stays.
    """

    kind: str
    name: str
    bytes: float
    start: float
    end: float


@dataclass(frozen=True)
class Peak:
    """Where a stage holds most.

    Attributes:
        stage: the stage.
        moment: seconds of the step.
        bytes: what it holds; `by_kind` has the parts.
        running: the pass that runs then; None between passes.
        microbatches: of how many micro-batches it holds activations.
    """

    stage: int
    moment: float
    bytes: float
    by_kind: dict[str, float]
    running: Span | None
    microbatches: int


@dataclass(frozen=True)
class MemoryOverTime:
    """The allocations of each stage in a step."""

    step: ExecutedStep
    stages: Sequence[Sequence[Allocation]]

    @cached_property
    def peaks(self) -> list[Peak]:
        """The peak of each stage."""
        return [self._peak(stage) for stage in range(len(self.stages))]

    @property
    def peak(self) -> Peak:
        """The peak of the fullest stage."""
        return max(self.peaks, key=lambda peak: peak.bytes)

    def held(self, stage: int, moments: Sequence[float]) -> dict[str, list[float]]:
        """What a stage holds from each moment on, by kind."""
        return {kind: self._held(stage, kind, moments) for kind in KINDS}

    def _held(self, stage: int, kind: str, moments: Sequence[float]) -> list[float]:
        """What a stage holds of a kind from each moment on."""
        rows = [each for each in self.stages[stage] if each.kind == kind]
        starts = np.array(sorted((each.start, each.bytes) for each in rows)).reshape(-1, 2)
        ends = np.array(sorted((each.end, each.bytes) for each in rows)).reshape(-1, 2)
        taken, given = (
            np.append(0.0, np.cumsum(side[:, 1]))[np.searchsorted(side[:, 0], moments, side="right")]
            for side in (starts, ends)
        )
        return [max(float(held), 0.0) for held in taken - given]

    def _peak(self, stage: int) -> Peak:
        """The peak of a stage: memory is only taken where an allocation begins."""
        rows = self.stages[stage]
        moments = sorted({each.start for each in rows})
        by_kind = self.held(stage, moments)
        sums = [math.fsum(parts) for parts in zip(*by_kind.values(), strict=True)]
        place = max(range(len(sums)), key=sums.__getitem__)
        moment = moments[place]
        spans = self.step.timeline.of_stage(stage)
        running = next((span for span in spans if span.start <= moment < span.end), None)
        held = {each.name for each in rows if each.kind == ACTIVATION and each.start <= moment < each.end}
        numbers = {name.partition(",")[0] for name in held}
        return Peak(
            stage, moment, sums[place], {kind: held[place] for kind, held in by_kind.items()}, running, len(numbers)
        )


def memory_over_time(e: Estimation, step: ExecutedStep) -> MemoryOverTime:
    """The memory of each stage of an executed step."""
    pipe = step.timeline.pipe
    layers = layers_of(e)
    number = sum(sum(kinds) for stage in layers for kinds in stage) * pipe.microbatches
    whole = number > MOST_ALLOCATIONS
    return MemoryOverTime(
        step, [[*_states(e, stage), *_passes(e, step, stage, layers[stage], whole)] for stage in range(pipe.stages)]
    )


def _states(e: Estimation, stage: int) -> Iterator[Allocation]:
    """What stays: weights, gradients and optimizer states."""
    held = e.results.records("stage_states")[_record(e, stage)]
    for kind in STATES:
        if size := float(getattr(held, kind)):
            yield Allocation(kind, f"{kind.replace('_', ' ')}s", size, 0.0, math.inf)


def _record(e: Estimation, stage: int) -> int:
    """The place of the record of a stage: without a list of all stages, all between the first and the last share one."""
    number, stages = len(e.results.records("pipeline_stages")), int(e["pipeline_parallel_degree"])
    if stages == 1:  # it is the first and the last
        return int(e["fullest_stage_index"])
    if number == stages:
        return stage
    return 0 if stage == 0 else number - 1 if stage == stages - 1 else 1


def _passes(
    e: Estimation, step: ExecutedStep, stage: int, chunks: Sequence[Sequence[float]], whole: bool
) -> Iterator[Allocation]:
    """The activations that passes keep, and the working memory of backward passes."""
    spans = step.timeline.of_stage(stage)
    longest = float(e.results.number("longest_microbatch_factor"))
    last = {(span.microbatch, span.chunk): span for span in spans if span.kind in (BACKWARD, WEIGHT)}
    working = _working(e, stage)
    for span in spans:
        if span.kind == FORWARD:
            size = step.sizes[stage][span.chunk] * longest
            number = 1 if whole else max(round(sum(chunks[span.chunk])), 1)
            yield from _kept(span, last[span.microbatch, span.chunk], size, number)
        elif span.kind in (BACKWARD, INPUT) and working:
            yield Allocation(WORKING, "working memory of a backward pass", working, span.start, span.end)


def _kept(forward: Span, backward: Span, size: float, number: int) -> Iterator[Allocation]:
    """The activations of a micro-batch in the layers of a chunk: the last layer gives back first."""
    takes, gives = forward.end - forward.start, backward.end - backward.start
    for layer in range(number):
        name = f"micro-batch {forward.microbatch}, chunk {forward.chunk}, layer {layer}: activations"
        start, end = forward.start + takes * layer / number, backward.end - gives * layer / number
        yield Allocation(ACTIVATION, name, size / number, start, end)


def _working(e: Estimation, stage: int) -> float:
    """The working memory of a backward pass of a stage, with the buffers of weights."""
    working = float(e.results.records("stage_working")[_record(e, stage)].bytes)
    is_fullest = _record(e, stage) == e["fullest_stage_index"]
    return float(e["temporary_bytes"]) if is_fullest else working + e["weight_buffer_bytes"]
