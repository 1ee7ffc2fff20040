"""Random pipelines, each executed pass by pass and computed by the closed forms through the catalogue."""

from collections.abc import Sequence
from random import Random
from typing import Any, NamedTuple

from amped.configuring.layout_text import Layout
from amped.configuring.sources import Sources
from amped.engine.evaluate import Results, run
from amped.engine.resolve import plan
from amped.theory.language.catalogue import catalogue
from amped.theory.schedules.timeline import COMPUTE, Timeline, Work, executed
from tests.helpers.layers import GIVEN_PASSES, given_passes

TARGETS = ("pipeline_idle_time", "pipeline_communication_time", "bottleneck_stage", "stage_microbatches_in_flight")
# Schedules whose stages have two chunks, placed like a V.
VS = ("zero_bubble_v", "dualpipe_v")


class Pipeline(NamedTuple):
    """A step to run: layers of each stage, seconds of the passes of a layer, of the embedding and of the head."""

    schedule: str
    layers: tuple[int, ...]
    chunks: int
    microbatches: int
    layer: Work
    embedding: Work
    head: Work
    send: float
    overlapped: bool

    @property
    def work(self) -> list[list[Work]]:
        """Passes of each chunk of each stage; a V has its head where it began."""
        times = [[Work(*(n / self.chunks * t for t in self.layer))] * self.chunks for n in self.layers]
        for stage, chunk, end in ((0, 0, self.embedding), (self.heads, self.chunks - 1, self.head)):
            times[stage] = list(times[stage])
            times[stage][chunk] = Work(*(a + b for a, b in zip(times[stage][chunk], end, strict=True)))
        return times

    @property
    def heads(self) -> int:
        """The stage of the head."""
        return 0 if self.schedule in VS else len(self.layers) - 1

    @property
    def is_even(self) -> bool:
        """Whether all stages take as long."""
        return len(set(self.layers)) == 1 and sum(self.embedding) + sum(self.head) == 0

    def executed(self) -> Timeline:
        """The step, pass by pass."""
        return executed(self.schedule, self.microbatches, self.work, self.send, self.overlapped)


def computed(pipe: Pipeline) -> Results:
    """The closed forms, from the numbers alone."""
    p = len(pipe.layers)
    given: dict[str, Any] = {
        "layers": float(sum(pipe.layers)), "pipeline_parallel_degree": float(p), "stage_send_time": pipe.send,
        "number_of_microbatches_per_minibatch": float(pipe.microbatches),
        "virtual_pipeline_stages": 1.0 if pipe.schedule in VS else float(pipe.chunks),
        **given_passes(pipe.layer), "vocabulary_parallel_communication_time": 0.0,
        "embedding_forward_time": pipe.embedding.forward, "embedding_backward_time": pipe.embedding.input_gradient,
        "output_head_forward_time": pipe.head.forward, "output_head_input_gradient_time": pipe.head.input_gradient,
        "output_head_weight_gradient_time": pipe.head.weight_gradient,
        "overlapped_stage_send_time": pipe.send * pipe.overlapped, "overlap_pipeline_communication": 1.0 * pipe.overlapped,
    }  # fmt: skip
    if len(set(pipe.layers)) > 1 and pipe.chunks > 1 and pipe.schedule == "1f1b":
        ends = {"number_of_first_stage_layers": pipe.layers[0], "number_of_last_stage_layers": pipe.layers[-1]}
        given |= {name: float(layers) for name, layers in ends.items()}
    elif len(set(pipe.layers)) > 1:
        given["pipeline_layout"] = Layout(",".join(map(str, pipe.layers)))
    sources = Sources(given=given, choices={"pipeline_schedule": pipe.schedule})
    return run(plan(catalogue((GIVEN_PASSES,)), TARGETS, sources), given)


def time_of(pipe: Pipeline, found: Results) -> float:
    """Seconds of the step by what the closed forms found."""
    sent = 0.0 if pipe.overlapped else found.number("pipeline_communication_time")
    work = pipe.microbatches * float(found.records("bottleneck_stage")[0].time)
    return work + sent + found.number("pipeline_idle_time")


def drawn(random: Random, schedule: str, chunks: int = 1) -> Pipeline:
    """A random step: even stages, ends beside them, or a layout (with chunks: of the first and the last stage).

    Sends take up to 3 % of a stage's work.

    Input gradients take as long as forward passes or longer, twice as long where all is computed again; weight gradients
    are no longer than forward passes.
    """
    p = random.choice([2, 2, 3, 4, 4, 5, 6, 8])
    least = {"gpipe": 1, "1f1b": 1, "zero_bubble_h1": p, "zero_bubble_v": 2 * p - 1, "dualpipe_v": 2 * p}[schedule]
    m = p * random.randint(1, 8) if chunks > 1 and schedule == "1f1b" else random.randint(least, 8 * p)
    kind = random.choice(["even", "ends"] if schedule in VS else ["even", "ends", "layout"])
    most = random.randint(2, 6)
    spread = (most - 1, most, most + 1) if kind == "layout" else (most,)
    alike = chunks > 1  # all between the first and the last
    layers = tuple(chunks * (most if alike and 0 < n < p - 1 else random.choice(spread)) for n in range(p))
    layer = Work(1.0, random.uniform(1.0, 1.3) + random.choice([0, 0, 1]), random.uniform(0.7, 1.0))
    ends = kind != "even"
    first, last = ends * random.uniform(0, 0.3), ends * random.uniform(0, 2.5)
    send = random.choice([0.0, 0.0, random.uniform(0, 0.03)]) * most * sum(layer)
    embedding, head = Work(first, first, 0.0), Work(last, last, last)
    return Pipeline(schedule, layers, chunks, m, layer, embedding, head, send, random.random() < 0.5)


def drawn_of_all(random: Random, number: int) -> list[Pipeline]:
    """As many random steps of each schedule."""
    kinds = ("gpipe", "1f1b", "interleaved", "zero_bubble_h1", "zero_bubble_v")
    return [_drawn_of(random, kinds[n % len(kinds)]) for n in range(number)]


def _drawn_of(random: Random, kind: str) -> Pipeline:
    if kind == "interleaved":
        return drawn(random, "1f1b", random.choice([2, 3, 4]))
    return drawn(random, kind, 2 if kind == "zero_bubble_v" else 1)


def idle_times(line: Timeline) -> list[float]:
    """The seconds in which each stage of a simulated step does not compute."""
    busy = [sum(span.end - span.start for span in line.of_stage(stage, COMPUTE)) for stage in range(line.pipe.stages)]
    return [line.makespan - seconds for seconds in busy]


def most_held(line: Timeline, stage: int, sizes: Sequence[float]) -> float:
    """The largest amount that a stage of a simulated step holds at any time, with the given size of each chunk."""
    return max(amount for _, amount in line.held(stage, sizes))
