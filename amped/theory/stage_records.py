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
        layers, before, behind: layers of the stage, and of the stages before and behind it.
        place, after: the stages before and behind it.
        embeds, heads: 1 where it has the embedding and the output head.
    """

    layers: Any
    before: Any
    behind: Any
    place: Any
    after: Any
    embeds: Any
    heads: Any


@dataclass(frozen=True, slots=True)
class PassTimes(Record):
    """Seconds that a micro-batch takes in one kind of pass: in a layer, in the embedding, in the output head."""

    layer: Any
    embedding: Any
    head: Any

    def of(self, stage: Stage) -> Any:
        """Seconds on a stage."""
        return stage.layers * self.layer + stage.embeds * self.embedding + stage.heads * self.head

    def before(self, stage: Stage) -> Any:
        """Seconds on all stages before one."""
        return stage.before * self.layer + (1 - stage.embeds) * self.embedding

    def behind(self, stage: Stage) -> Any:
        """Seconds on all stages behind one."""
        return stage.behind * self.layer + (1 - stage.heads) * self.head


@dataclass(frozen=True, slots=True)
class ChunkTimes(Record):
    """Seconds that a micro-batch takes in a chunk of layers, forward and in both gradients, with what a hand-over holds up."""

    forward: Any
    backward: Any
