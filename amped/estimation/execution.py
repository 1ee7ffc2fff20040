"""The step of an estimate, executed pass by pass.

The times and bytes are those of formulas, the order is the schedule's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from amped.base.errors import MappingError
from amped.estimation.estimation import Estimation
from amped.theory.nouns.parallelisms import IN_LAYERS
from amped.theory.nouns.stage_records import on
from amped.theory.schedules.orders import SCHEDULES
from amped.theory.schedules.timeline import Timeline, Work, executed

# The layers of each kind, for each stage and each of its chunks.
Layers = Sequence[Sequence[Sequence[float]]]
# The most passes of a step that are executed; a million take some seconds.
MOST_PASSES = 3_000_000


@dataclass(frozen=True)
class ExecutedStep:
    """An executed step, and what follows after its last pass.

    Attributes:
        timeline: the passes and transfers of every stage, until the pipeline is empty.
        flushes: how often the pipeline is emptied in a step.
        sizes: the bytes that a micro-batch keeps, for each chunk of each stage.
        reduction_time: seconds of exposed data-parallel communication, after the last pass.
        optimizer_time: seconds of the optimizer after that.
        estimated_time: the step time of the estimate's equations.
    """

    timeline: Timeline
    flushes: int
    sizes: Sequence[Sequence[float]]
    reduction_time: float
    optimizer_time: float
    estimated_time: float

    @property
    def step_time(self) -> float:
        """The seconds of the executed step."""
        return self.timeline.makespan * self.flushes + self.reduction_time + self.optimizer_time

    @property
    def deviation(self) -> float:
        """The relative difference of the executed step's time from the estimated one; above 0 if the executed step is longer."""
        return self.step_time / self.estimated_time - 1


def executed_step(e: Estimation) -> ExecutedStep:
    """Executes the step of an estimate.

    Raises:
        MappingError: for a step with too many passes.
    """
    stages, microbatches = int(e["pipeline_parallel_degree"]), int(e["microbatches_per_flush"])
    chunks, flushes = int(e["chunks_per_stage"]), int(e["pipeline_flushes_per_step"])
    if (passes := 3 * stages * microbatches * chunks) > MOST_PASSES:
        raise MappingError(f"a step of {passes:,} passes is too long to execute pass by pass",
                           f"up to {MOST_PASSES:,} are: raise microbatch_size, or leave --timeline out")  # fmt: skip
    layers = layers_of(e)
    closed = e.choices["performance_model"] == "amped"
    work = _even_work(e, stages, chunks) if closed else _work(e, layers, chunks)
    exposed = e["exposed_pipeline_communication_time"]
    send = exposed / (2 * microbatches * flushes * chunks) if closed else e["stage_send_time"]
    overlapped = not closed and bool(e["overlap_pipeline_communication"])
    return ExecutedStep(
        timeline=executed(e.choices["pipeline_schedule"], microbatches, work, send if stages > 1 else 0.0, overlapped),
        flushes=flushes,
        sizes=_sizes(e, layers, chunks),
        reduction_time=e["exposed_data_communication_time"],
        optimizer_time=e["optimizer_time"],
        estimated_time=e["step_time"],
    )


def layers_of(e: Estimation) -> Layers:
    """The layers of each kind in each chunk of each stage."""
    stages, chunks = int(e["pipeline_parallel_degree"]), int(e["chunks_per_stage"])
    if "pipeline_layout" in e.results.cells:
        return [share.chunks for share in e.results.records("pipeline_layout")]
    ends = [e["first_stage_layers"], *[e["middle_stage_layers"]] * (stages - 2), e["last_stage_layers"]]
    return [[(n / chunks,)] * chunks for n in ([e["layers"]] if stages == 1 else ends)]


def _ends(e: Estimation, layers: Layers, chunks: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """The stage and chunk of the embedding, and those of the output head."""
    at_first = SCHEDULES[e.choices["pipeline_schedule"]].first_has_the_output_head
    return (0, 0), (0 if at_first else len(layers) - 1, chunks - 1)


def _work(e: Estimation, layers: Layers, chunks: int) -> list[list[Work]]:
    """The times of the passes of each chunk of each stage."""
    passes, (first, last) = e.results.records("pass_times"), _ends(e, layers, chunks)

    def work(place: tuple[int, int], kinds: Sequence[float]) -> Work:
        ends = place == first, place == last
        return Work(*(t.of_layers(kinds) + t.embedding * ends[0] + t.output_head * ends[1] for t in passes))

    return [[work((s, c), kinds) for c, kinds in enumerate(stage)] for s, stage in enumerate(layers)]


def _even_work(e: Estimation, stages: int, chunks: int) -> list[list[Work]]:
    """The times of the passes of each chunk of each stage by AMPeD's closed form, in which all stages are equal."""
    share = 1 / (e["number_of_microbatches_per_minibatch"] * chunks)
    waited = sum(e[f"exposed_{kind}_communication_time"] for kind in IN_LAYERS)
    forward = e["compute_forward_time"] + waited / e["communication_rounds"]
    back = e["compute_backward_time"] + e["recomputation_time"] + waited * (1 - 1 / e["communication_rounds"])
    return [[Work(forward * share, back * share, e["weight_update_time"] * share)] * chunks] * stages


def _sizes(e: Estimation, layers: Layers, chunks: int) -> list[list[float]]:
    """The bytes that a micro-batch keeps in each chunk of each stage."""
    first, last = _ends(e, layers, chunks)
    embedded, head = e["embedding_activation_bytes"], e["output_head_activation_bytes"]
    kept = [kind.bytes for kind in e.results.records("kind_activations")]
    return [
        [on(kinds, kept) + embedded * ((s, c) == first) + head * ((s, c) == last) for c, kinds in enumerate(stage)]
        for s, stage in enumerate(layers)
    ]
