"""Records of pipeline stages: what a layout lists for them, what they hold, and how long they take."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from amped.theory.records import Record, total


@dataclass(frozen=True, slots=True)
class Share(Record):
    """What a layout lists for one pipeline stage: for each of its chunks, the number of layers of each kind.

    The last kind are multi-token prediction modules, which `layers` does not count.
    """

    chunks: tuple[tuple[Any, ...], ...]

    @property
    def kinds(self) -> tuple[Any, ...]:
        """The number of layers of each kind in all chunks."""
        return tuple(total(chunk[kind] for chunk in self.chunks) for kind in range(len(self.chunks[0])))

    @property
    def layers(self) -> Any:
        """The number of layers of the network in all chunks, without multi-token prediction."""
        return total(self.kinds[:-1])


# Whether a stage has the embedding or the output head, if that is known before a run.
YES, NO = "yes", "no"


@dataclass(frozen=True, slots=True)
class Ends(Record):
    """Whether a pipeline stage has the embedding, and whether it has the output head: YES or NO for each."""

    embedding: str
    output_head: str


def ends_of(place: int, last: int, ends: Sequence[Ends]) -> tuple[str, str]:
    """Whether the stage at `place` has the embedding, and whether it has the output head; the last is at `last`."""
    own = [end for end, at in zip(ends, (0, last), strict=True) if at == place]
    return (
        YES if any(end.embedding == YES for end in own) else NO,
        YES if any(end.output_head == YES for end in own) else NO,
    )


@dataclass(frozen=True, slots=True)
class Stage(Record):
    """A pipeline stage that represents all stages like it. Of several, it is the last one.

    Attributes:
        layers: the number of layers of the stage, of all kinds.
        kinds, kinds_before, kinds_after: the number of layers of each kind on the stage, and on all stages before and
            after it.
        index, stages_after: the number of stages before it, and after it.
        most_stages_after: the number of stages after the first of the stages that it represents.
        has_embedding, has_output_head: whether it has the embedding and the output head: YES, NO, or an array of 1 and
            0.
    """

    layers: Any
    kinds: tuple[Any, ...]
    kinds_before: tuple[Any, ...]
    kinds_after: tuple[Any, ...]
    index: Any
    stages_after: Any
    most_stages_after: Any
    has_embedding: Any
    has_output_head: Any


def had(has: Any, value: Any) -> Any:
    """The value of the embedding or output head on a stage that has it; zero on a stage that does not."""
    return {YES: value, NO: 0.0}[has] if isinstance(has, str) else has * value


def lacked(has: Any, value: Any) -> Any:
    """The value of the embedding or output head on all other stages: zero if the stage has it, else the whole value."""
    return {YES: 0.0, NO: value}[has] if isinstance(has, str) else (1 - has) * value


@dataclass(frozen=True, slots=True)
class ParameterGroup(Record):
    """Parameters that are split and sharded alike: the shared parameters, or those of the routed experts.

    Attributes:
        per_layer: the parameters of a layer, averaged over the layers.
        split_degree: the number of shares into which model parallelism splits them.
        weight_shards, gradient_shards, optimizer_state_shards: the number of shares into which ZeRO splits the states
            of an accelerator.
    """

    per_layer: Any
    split_degree: Any
    weight_shards: Any
    gradient_shards: Any
    optimizer_state_shards: Any


@dataclass(frozen=True, slots=True)
class Parameters(Record):
    """The parameters on one accelerator of a stage before ZeRO: the shared ones, and those of routed experts."""

    shared: Any
    expert: Any


@dataclass(frozen=True, slots=True)
class ModelState(Record):
    """What is kept for each parameter: a weight, a gradient or an optimizer_state.

    Attributes:
        shared, expert: the bytes in the shard of one accelerator for a shared parameter, and for one of a routed
            expert.
        offload: the share of these bytes that lies on the host.
    """

    shared: Any
    expert: Any
    offload: Any

    def of(self, shared: Any, expert: Any) -> Any:
        """The bytes for the parameters of an accelerator, on the accelerator and on the host."""
        return shared * self.shared + expert * self.expert


@dataclass(frozen=True, slots=True)
class InFlight(Record):
    """The number of micro-batches whose activations a stage holds at once.

    Attributes:
        layers: for the activations of its layers.
        embedding: for the activations of the embedding.
        embedding_beside_head: for the activations of the embedding, while those of the output head are held too.
        output_head: for the activations of the output head.
    """

    layers: Any
    embedding: Any
    embedding_beside_head: Any
    output_head: Any


@dataclass(frozen=True, slots=True)
class ChunksInFlight(Record):
    """The micro-batches that a stage holds in each of its chunks, at each moment that may need the most memory."""

    moments: tuple[tuple[Any, ...], ...]


def alike(stages: Sequence[Stage], count: Any, output_head: Any) -> tuple[InFlight, ...]:
    """The micro-batches in flight of stages that all hold `count` of them, and `output_head` in the output head."""
    return tuple(InFlight(s.name, count, count, count, output_head) for s in stages)


@dataclass(frozen=True, slots=True)
class Held(Record):
    """The bytes that an accelerator of a stage holds."""

    bytes: Any


@dataclass(frozen=True, slots=True)
class LayerTimes(Record):
    """The seconds that a micro-batch takes in one layer of a kind, pass by pass, with all waiting."""

    forward: Any
    input_gradient: Any
    weight_gradient: Any


def on(kinds: Sequence[Any], values: Iterable[Any]) -> Any:
    """The sum over layers, with the number of layers and the value of one layer for each kind."""
    return total(count * value for count, value in zip(kinds, values, strict=True))


@dataclass(frozen=True, slots=True)
class Bottleneck(Record):
    """The bottleneck stage: its layers and ends as in `Stage`, and the seconds that a micro-batch takes there."""

    kinds: tuple[Any, ...]
    has_embedding: Any
    has_output_head: Any
    time: Any


@dataclass(frozen=True, slots=True)
class LayerShares(Record):
    """The share of layers with a dense feed-forward network, and the share with a mixture of experts."""

    dense: Any
    mixture: Any

    def mean(self, dense: Any, mixture: Any) -> Any:
        """The mean over these layers of a value for each kind of layer."""
        return self.dense * dense + self.mixture * mixture


@dataclass(frozen=True, slots=True)
class PassTimes(Record):
    """The seconds of a micro-batch in one kind of pass: in a layer of each kind, the embedding, the output head."""

    kinds: tuple[Any, ...]
    embedding: Any
    output_head: Any

    def in_chunks(self, chunks: Any) -> PassTimes:
        """These times for one of several chunks of layers."""
        return replace(self, kinds=tuple(layer / chunks for layer in self.kinds))

    def of_layers(self, kinds: Sequence[Any]) -> Any:
        """The seconds in the given number of layers of each kind."""
        return on(kinds, self.kinds)

    def of(self, stage: Stage) -> Any:
        """The seconds on a stage."""
        ends = had(stage.has_embedding, self.embedding) + had(stage.has_output_head, self.output_head)
        return self.of_layers(stage.kinds) + ends

    def before(self, stage: Stage) -> Any:
        """The seconds on all stages before a stage."""
        return self.of_layers(stage.kinds_before) + lacked(stage.has_embedding, self.embedding)

    def after(self, stage: Stage) -> Any:
        """The seconds on all stages after a stage."""
        return self.of_layers(stage.kinds_after) + lacked(stage.has_output_head, self.output_head)


@dataclass(frozen=True, slots=True)
class ChunkTimes(Record):
    """The seconds of a micro-batch in a chunk of layers, forward and backward, with the time that sends block."""

    forward: Any
    backward: Any
