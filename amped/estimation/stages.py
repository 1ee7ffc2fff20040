"""Every stage of the pipeline: its layers, the memory of one of its accelerators, and how long it works and waits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from amped.estimation.estimation import Estimation
from amped.theory.nouns.stage_records import Stage, had

MODULES = "multi_token_prediction"
# What is told of a stage, by the records that say it.
RECORDS = ("pipeline_stages", "stage_parameters", "stage_states", "stage_activations", "stage_working")


@dataclass(frozen=True)
class StageLine:
    """One stage of the pipeline.

    Attributes:
        stage: the place of the stage, from 0.
        layers: the number of layers of each kind; if there is only one kind, it is called "layers".
        ends: what this stage has of the ends of the network: a tower, the embedding, the output head.
        parameters: the network's parameters on this stage, before sharding; a tied embedding counts on its first stage.
        weight_bytes, gradient_bytes, optimizer_state_bytes, activation_bytes, temporary_bytes: the memory of one
            accelerator, by use.
        busy_time, idle_time: seconds of a step in which the stage runs its passes, and in which it waits for others.
    """

    stage: int
    layers: dict[str, float]
    ends: tuple[str, ...]
    parameters: float
    weight_bytes: float
    gradient_bytes: float
    optimizer_state_bytes: float
    activation_bytes: float
    temporary_bytes: float
    busy_time: float
    idle_time: float

    @property
    def bytes(self) -> float:
        """All bytes in the memory of an accelerator of the stage."""
        states = self.weight_bytes + self.gradient_bytes + self.optimizer_state_bytes
        return states + self.activation_bytes + self.temporary_bytes


def stage_lines(e: Estimation) -> list[StageLine]:
    """The stages of an estimate, in order."""
    number = int(e["pipeline_parallel_degree"])
    records = {name: e.results.records(name) for name in RECORDS}
    listed = len(records["pipeline_stages"])
    places = [place if listed == number else min(place, 1) for place in range(number - 1)] + [listed - 1]
    times = _times(e, records["pipeline_stages"])
    rows = [*zip(*records.values(), times, strict=True)]
    return [_line(e, stage, *rows[place]) for stage, place in enumerate(places)]


def _times(e: Estimation, stages: tuple[Stage, ...]) -> list[tuple[float, float]]:
    """The busy and the idle seconds of each stage in a step.

    A stage works for all its micro-batches, and waits for the bottleneck and for the bubble. The closed form knows only the
    average stage.
    """
    idle = e["pipeline_bubble_time"]
    if "whole_pass_times" not in e.results.cells:
        waited = idle + e["optimizer_time"] + e["exposed_data_communication_time"]
        return [(e["step_time"] - waited, idle)] * len(stages)
    passes, microbatches = e.results.records("whole_pass_times")[1], e["number_of_microbatches_per_minibatch"]
    (bottleneck,) = e.results.records("bottleneck_stage")
    busy_times = [microbatches * float(passes.of(stage)) for stage in stages]
    return [(busy, idle + microbatches * float(bottleneck.time) - busy) for busy in busy_times]


def _line(
    e: Estimation,
    place: int,
    stage: Any,
    parameters: Any,
    states: Any,
    activations: Any,
    working: Any,
    times: tuple[float, float],
) -> StageLine:
    """The line of a stage at a place (from 0), from its records and its busy and idle times; a tied head counts only at place 0."""
    whole = parameters.whole(e.results.records("parameter_classes"), e.results.records("parameter_groups"))
    copies = had(stage.has_output_head, e["tied_embedding_parameters"]) if place else 0.0
    busy_time, idle_time = times
    return StageLine(
        stage=place, layers=_layers(e, stage), ends=tuple(_ends(e, stage)), parameters=whole - copies,
        weight_bytes=states.weight, gradient_bytes=states.gradient, optimizer_state_bytes=states.optimizer_state,
        activation_bytes=activations.bytes, temporary_bytes=working.bytes + e["weight_buffer_bytes"],
        busy_time=busy_time, idle_time=idle_time,
    )  # fmt: skip


def _layers(e: Estimation, stage: Any) -> dict[str, float]:
    """The number of layers of a stage by kind, and of multi-token prediction modules if the network has them."""
    names = tuple(kind.name for kind in e.results.records("layer_kinds"))
    modules = stage.kinds[-1] if len(stage.kinds) > len(names) else had(stage.has_output_head, e[f"{MODULES}_layers"])
    layers = dict(zip(names, map(float, stage.kinds), strict=False))
    return layers | ({MODULES: float(modules)} if e[f"{MODULES}_layers"] else {})


def _ends(e: Estimation, stage: Any) -> Iterator[str]:
    """The names of the ends of the network that a stage has: a tower, the embedding, the output head."""
    if had(stage.has_embedding, 1.0):
        yield from ("tower",) if e.choices["tower"] != "none" else ()
        yield "embedding"
    if had(stage.has_output_head, 1.0):
        yield "output head"
