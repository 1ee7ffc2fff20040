"""Pipelines of unlike stages and chunks, some without a layer: the closed page against the executed timeline."""

from functools import cache
from random import Random
from typing import Any, NamedTuple

import pytest

from amped.configuring.layout_text import counted
from amped.configuring.sources import Sources
from amped.engine.evaluate import run
from amped.engine.resolve import plan
from amped.theory.language.catalogue import catalogue
from amped.theory.schedules.timeline import Timeline, Work, executed
from tests.helpers.layers import GIVEN_PASSES, given_passes
from tests.helpers.schedules import VS

TARGETS = ("pipeline_idle_time", "pipeline_communication_time", "bottleneck_stage")
NUMBER, EXACT, LARGEST_MISS = 1000, 0.99, 0.01


class Drawn(NamedTuple):
    """A step: for each stage and chunk how many layers, and modules that predict further tokens."""

    schedule: str
    counts: list[list[list[int]]]
    microbatches: int
    layer: Work
    embedding: Work
    head: Work
    send: float
    overlapped: bool

    @property
    def chunks(self) -> int:
        return len(self.counts[0])

    def executed(self) -> Timeline:
        """The step, pass by pass: a module takes as long as a layer."""
        work = [[Work(*(sum(chunk) * t for t in self.layer)) for chunk in stage] for stage in self.counts]
        home = (0 if self.schedule in VS else len(work) - 1), self.chunks - 1
        for (stage, chunk), end in (((0, 0), self.embedding), (home, self.head)):
            work[stage][chunk] = Work(*(a + b for a, b in zip(work[stage][chunk], end, strict=True)))
        return executed(self.schedule, self.microbatches, work, self.send, self.overlapped)

    def computed(self) -> tuple[float, float, float]:
        """Seconds by the formulas in which the bottleneck stage computes, sends, and waits."""
        virtual = self.chunks if self.schedule == "1f1b" else 1
        given: dict[str, Any] = {
            "layers": float(sum(chunk[0] for stage in self.counts for chunk in stage)),
            "multi_token_prediction_layers": float(sum(chunk[1] for stage in self.counts for chunk in stage)),
            "pipeline_parallel_degree": float(len(self.counts)), "virtual_pipeline_stages": float(virtual),
            "stage_send_time": self.send, "number_of_microbatches_per_minibatch": float(self.microbatches),
            **given_passes(self.layer), "vocabulary_parallel_communication_time": 0.0,
            "embedding_forward_time": self.embedding.forward, "embedding_backward_time": self.embedding.input_gradient,
            "output_head_forward_time": self.head.forward, "output_head_input_gradient_time": self.head.input_gradient,
            "output_head_weight_gradient_time": self.head.weight_gradient,
            "overlapped_stage_send_time": self.send * self.overlapped, "pipeline_layout": counted(self.counts),
        }  # fmt: skip
        sources = Sources(given=given, choices={"pipeline_schedule": self.schedule})
        found = run(plan(catalogue((GIVEN_PASSES,)), TARGETS, sources), given)
        sent = 0.0 if self.overlapped else found.number("pipeline_communication_time")
        work = self.microbatches * float(found.records("bottleneck_stage")[0].time)
        return work, sent, found.number("pipeline_idle_time")


def drawn(random: Random, schedule: str) -> Drawn:
    """A random step whose chunks have 0 to 5 layers; modules stand in the last chunk, or in the one before."""
    p = random.choice([2, 2, 3, 4, 4, 5, 6, 8])
    chunks = {"1f1b": random.choice([1, 2, 3]), "zero_bubble_v": 2, "dualpipe_v": 2}.get(schedule, 1)
    least = {"gpipe": 1, "1f1b": 1, "zero_bubble_h1": p, "zero_bubble_v": 2 * p - 1, "dualpipe_v": 2 * p}[schedule]
    m = p * random.randint(1, 7) if chunks > 1 and schedule == "1f1b" else random.randint(least, 7 * p)
    counts = [[[random.choice([0, 1, 2, 3, 4, 5]), 0] for _ in range(chunks)] for _ in range(p)]
    counts[0][0][0] = max(counts[0][0][0], 1)
    counts[0 if schedule in VS else -1][-1][1] = random.choice([0, 0, 1])
    layer = Work(1.0, random.uniform(1.0, 1.3) + random.choice([0, 0, 1]), random.uniform(0.7, 1.0))
    first, last = random.uniform(0, 0.3), random.uniform(0, 2.5)
    send = random.choice([0.0, random.uniform(0, 0.1)]) * sum(layer)
    ends = Work(first, first, 0.0), Work(last, last, last)
    return Drawn(schedule, counts, m, layer, *ends, send, random.random() < 0.5)


@cache
def steps() -> list[tuple[Drawn, float, float]]:
    """Random steps, each with how far the formulas are off what was executed, and the idle time by the formulas."""
    random = Random(20261122)
    kinds = ("gpipe", "1f1b", "1f1b", "1f1b", "zero_bubble_h1", "zero_bubble_v", "dualpipe_v")
    every = [drawn(random, kinds[n % len(kinds)]) for n in range(NUMBER)]
    times = [(step, step.computed()) for step in every]
    return [(step, sum(parts) / step.executed().makespan - 1, parts[-1]) for step, parts in times]


@pytest.mark.thorough
def test_unlike_stages_with_empty_chunks_take_as_long_as_executed():
    misses = [(off, step) for step, off, _ in steps() if abs(off) > 1e-9]
    assert max((abs(off) for off, _ in misses), default=0.0) < LARGEST_MISS, misses
    assert len(misses) <= (1 - EXACT) * NUMBER, misses


@pytest.mark.thorough
def test_no_stage_waits_for_less_than_no_time():
    """The bottleneck stage is not counted with more sends than it has."""
    assert [(idle, step) for step, _, idle in steps() if idle < -1e-9] == []


@pytest.mark.thorough
@pytest.mark.parametrize("schedule", ["gpipe", "1f1b", "zero_bubble_h1", "zero_bubble_v", "dualpipe_v"])
def test_each_schedule_is_drawn_with_empty_chunks_and_with_many_micro_batches(schedule):
    own = [step for step, *_ in steps() if step.schedule == schedule]
    assert any(chunk == [0, 0] for step in own for stage in step.counts for chunk in stage)
    assert any(step.microbatches > 6 * len(step.counts) for step in own)
