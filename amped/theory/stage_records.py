"""Records of pipeline stages: what a layout lists, what they hold, and how long they take."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from amped.theory.records import Record, total


@dataclass(frozen=True, slots=True)
class Share(Record):
    """What a layout lists for one pipeline stage: for each of its chunks, how many layers of each kind.

    The last kind are modules that predict further tokens, which `layers` does not count.
    """

    chunks: tuple[tuple[Any, ...], ...]

    @property
    def kinds(self) -> tuple[Any, ...]:
        """Layers of each kind in all chunks."""
        return tuple(total(chunk[kind] for chunk in self.chunks) for kind in range(len(self.chunks[0])))

    @property
    def layers(self) -> Any:
        """Layers of the network in all chunks."""
        return total(self.kinds[:-1])


# Whether a stage has an end of the network, where that is structure.
YES, NO = "yes", "no"


@dataclass(frozen=True, slots=True)
class Ends(Record):
    """Which ends of the network a pipeline stage has: YES or NO for each."""

    embedding: str
    output_head: str


def ends_of(place: int, last: int, ends: Sequence[Ends]) -> tuple[str, str]:
    """Whether the stage at a place, of so many, has the embedding, and whether it has the output head."""
    own = [end for end, at in zip(ends, (0, last), strict=True) if at == place]
    return (
        YES if any(end.embedding == YES for end in own) else NO,
        YES if any(end.output_head == YES for end in own) else NO,
    )


@dataclass(frozen=True, slots=True)
class Stage(Record):
    """A pipeline stage that stands for all that are like it. Of several, it is the last one.

    Attributes:
        layers: layers of the stage, of all kinds.
        kinds, kinds_before, kinds_after: layers of each kind on the stage, and on all stages before and after it.
        index, stages_after: the stages before and after it.
        most_stages_after: the stages after the first of those that it stands for.
        has_embedding, has_output_head: whether it has the embedding and the output head: YES, NO, or 1 where it has
            and 0 elsewhere.
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
    """The value of an end of the network on a stage that has it; nothing on one that has not."""
    return {YES: value, NO: 0.0}[has] if isinstance(has, str) else has * value


def lacked(has: Any, value: Any) -> Any:
    """The value of an end of the network on the other stages."""
    return {YES: 0.0, NO: value}[has] if isinstance(has, str) else (1 - has) * value


@dataclass(frozen=True, slots=True)
class ParameterGroup(Record):
    """Parameters that are cut and shared out alike: the shared ones, or those of the routed experts.

    Attributes:
        per_layer: parameters of a layer, averaged over the layers.
        split_degree: shares into which model parallelism cuts them.
        weight_shards, gradient_shards, optimizer_state_shards: shares into which ZeRO cuts what an accelerator holds.
    """

    per_layer: Any
    split_degree: Any
    weight_shards: Any
    gradient_shards: Any
    optimizer_state_shards: Any


@dataclass(frozen=True, slots=True)
class Parameters(Record):
    """Parameters on one accelerator of a stage, unsharded by ZeRO: the shared ones, and those of the routed experts."""

    shared: Any
    expert: Any


@dataclass(frozen=True, slots=True)
class ModelState(Record):
    """What is kept for each parameter: weight, gradient or optimizer_state.

    Attributes:
        shared, expert: bytes for a shared parameter, and for one of a routed expert, as one accelerator's share.
        offload: share of these bytes that lies on the host.
    """

    shared: Any
    expert: Any
    offload: Any

    def of(self, shared: Any, expert: Any) -> Any:
        """Bytes for the parameters of an accelerator, wherever they lie."""
        return shared * self.shared + expert * self.expert


@dataclass(frozen=True, slots=True)
class InFlight(Record):
    """Micro-batches whose activations a stage holds at once.

    Attributes:
        layers: those of its layers.
        embedding: those of the embedding, and `embedding_beside_head` while the output head's are held too.
        output_head: those of the output head.
    """

    layers: Any
    embedding: Any
    embedding_beside_head: Any
    output_head: Any


@dataclass(frozen=True, slots=True)
class ChunksInFlight(Record):
    """Micro-batches that a stage holds in each of its chunks, at each moment that may be the fullest."""

    moments: tuple[tuple[Any, ...], ...]


def alike(stages: Sequence[Stage], count: Any, output_head: Any) -> tuple[InFlight, ...]:
    """Stages that hold equally many micro-batches, in the output head as many as is said."""
    return tuple(InFlight(s.name, count, count, count, output_head) for s in stages)


@dataclass(frozen=True, slots=True)
class Held(Record):
    """Bytes that an accelerator of a stage holds."""

    bytes: Any


@dataclass(frozen=True, slots=True)
class LayerTimes(Record):
    """Seconds that a micro-batch takes in one layer of a kind, pass by pass, with what it waits for."""

    forward: Any
    input_gradient: Any
    weight_gradient: Any


def on(kinds: Sequence[Any], values: Iterable[Any]) -> Any:
    """The sum over some layers of each kind, with the value of one layer of each."""
    return total(count * value for count, value in zip(kinds, values, strict=True))


@dataclass(frozen=True, slots=True)
class Bottleneck(Record):
    """What the stage that paces the pipeline has, as of `Stage`, and the seconds that a micro-batch takes there."""

    kinds: tuple[Any, ...]
    has_embedding: Any
    has_output_head: Any
    time: Any


@dataclass(frozen=True, slots=True)
class LayerShares(Record):
    """Shares of some layers that have a dense feed-forward network and a mixture of experts."""

    dense: Any
    mixture: Any

    def mean(self, dense: Any, mixture: Any) -> Any:
        """The mean over these layers of what a layer of each kind has."""
        return self.dense * dense + self.mixture * mixture


@dataclass(frozen=True, slots=True)
class PassTimes(Record):
    """Seconds that a micro-batch takes in one kind of pass: in a layer of each kind, the embedding, the output head."""

    kinds: tuple[Any, ...]
    embedding: Any
    output_head: Any

    def in_chunks(self, chunks: Any) -> PassTimes:
        """The same for one of several chunks of layers."""
        return replace(self, kinds=tuple(layer / chunks for layer in self.kinds))

    def of_layers(self, kinds: Sequence[Any]) -> Any:
        """Seconds in some layers of each kind."""
        return on(kinds, self.kinds)

    def of(self, stage: Stage) -> Any:
        """Seconds on a stage."""
        ends = had(stage.has_embedding, self.embedding) + had(stage.has_output_head, self.output_head)
        return self.of_layers(stage.kinds) + ends

    def before(self, stage: Stage) -> Any:
        """Seconds on all stages before one."""
        return self.of_layers(stage.kinds_before) + lacked(stage.has_embedding, self.embedding)

    def after(self, stage: Stage) -> Any:
        """Seconds on all stages after one."""
        return self.of_layers(stage.kinds_after) + lacked(stage.has_output_head, self.output_head)


@dataclass(frozen=True, slots=True)
class ChunkTimes(Record):
    """Seconds that a micro-batch takes in a chunk of layers, forward and backward, with what a send holds up."""

    forward: Any
    backward: Any
