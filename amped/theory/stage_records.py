"""Records of pipeline stages: what a layout lists, what stands for like stages, and what a micro-batch takes there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from amped.theory.records import Record


@dataclass(frozen=True, slots=True)
class Share(Record):
    """What a layout lists for one pipeline stage."""

    layers: Any


@dataclass(frozen=True, slots=True)
class Stage(Record):
    """A pipeline stage that stands for all that are like it.

    Attributes:
        layers, layers_before, layers_after: layers of the stage, and of all stages before and after it.
        index, stages_after: the stages before and after it.
        has_embedding, has_output_head: 1 where it has the embedding and the output head.
    """

    layers: Any
    layers_before: Any
    layers_after: Any
    index: Any
    stages_after: Any
    has_embedding: Any
    has_output_head: Any


@dataclass(frozen=True, slots=True)
class PassTimes(Record):
    """Seconds that a micro-batch takes in one kind of pass: in a layer, in the embedding, in the output head."""

    layer: Any
    embedding: Any
    output_head: Any

    def of(self, stage: Stage) -> Any:
        """Seconds on a stage."""
        return (
            stage.layers * self.layer + stage.has_embedding * self.embedding + stage.has_output_head * self.output_head
        )

    def before(self, stage: Stage) -> Any:
        """Seconds on all stages before one."""
        return stage.layers_before * self.layer + (1 - stage.has_embedding) * self.embedding

    def after(self, stage: Stage) -> Any:
        """Seconds on all stages after one."""
        return stage.layers_after * self.layer + (1 - stage.has_output_head) * self.output_head


@dataclass(frozen=True, slots=True)
class ChunkTimes(Record):
    """Seconds that a micro-batch takes in a chunk of layers, forward and in both gradients, with what a hand-over holds up."""

    forward: Any
    backward: Any
