"""Records of pipeline stages: what a layout lists for them, what they hold, and how long they take."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from operator import add
from typing import Any

from amped.base.record import record
from amped.theory.nouns.records import Record, total


@record
class Share(Record):
    """What a layout lists for one pipeline stage.

    Attributes:
        chunks: for each chunk of layers of the stage, the number of layers of each kind. The last kind is a module of
            multi-token prediction.
    """

    chunks: tuple[tuple[Any, ...], ...]

    @property
    def kinds(self) -> tuple[Any, ...]:
        """The number of layers of each kind in all chunks together."""
        return tuple(total(chunk[kind] for chunk in self.chunks) for kind in range(len(self.chunks[0])))

    @property
    def layers(self) -> Any:
        """The number of layers in all chunks together, without the modules of multi-token prediction."""
        return total(self.kinds[:-1])


# Whether a stage has the embedding or the output head, if that is known before a run.
YES, NO = "yes", "no"


@record
class Ends(Record):
    """Whether a stage has the embedding and the output head, each YES or NO."""

    embedding: str
    output_head: str


def ends_of(place: int, last: int, ends: Sequence[Ends]) -> tuple[str, str]:
    """Whether a stage has the embedding, and whether it has the output head, each YES or NO.

    Args:
        place: the index of the stage.
        last: the index of the last stage.
        ends: what the first stage has, and what the last stage has.
    """
    ends_of_stage = [end for end, index in zip(ends, (0, last), strict=True) if index == place]
    return (
        YES if any(end.embedding == YES for end in ends_of_stage) else NO,
        YES if any(end.output_head == YES for end in ends_of_stage) else NO,
    )


@record
class Stage(Record):
    """A pipeline stage, which represents all stages that are equal to it. It has the place of the last of these stages.

    Attributes:
        layers: the number of layers of the stage, of all kinds together.
        kinds: the number of layers of each kind on the stage.
        kinds_before, kinds_after: the number of layers of each kind on all stages before it, and on all stages after
            it.
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

    @property
    def kinds_up_to(self) -> tuple[Any, ...]:
        """The number of layers of each kind on the stage and on all stages before it."""
        return tuple(map(add, self.kinds, self.kinds_before))


def had(has: Any, value: Any) -> Any:
    """The value of one end of the network if a stage has this end, else zero.

    Args:
        has: whether the stage has the embedding, or the output head: YES, NO, or an array of 1 and 0.
        value: the value of this end.
    """
    return {YES: value, NO: 0.0}[has] if isinstance(has, str) else has * value


def lacked(has: Any, value: Any) -> Any:
    """The value of one end of the network if a stage lacks this end, else zero. Another stage then has it.

    Args:
        has: whether the stage has the embedding, or the output head: YES, NO, or an array of 1 and 0.
        value: the value of this end.
    """
    return {YES: 0.0, NO: value}[has] if isinstance(has, str) else (1 - has) * value


@record
class InFlight(Record):
    """The numbers of micro-batches whose activations a stage holds at the same time.

    Attributes:
        layers: the number for the activations of the layers.
        embedding: the number for the activations of the embedding.
        embedding_beside_head: the number for the embedding, at the time when the output head also holds activations.
        output_head: the number for the activations of the output head.
    """

    layers: Any
    embedding: Any
    embedding_beside_head: Any
    output_head: Any


@record
class ChunksInFlight(Record):
    """The numbers of micro-batches that a stage holds in each chunk, at each moment that may need the most memory."""

    moments: tuple[tuple[Any, ...], ...]


def equally_in_flight(stages: Sequence[Stage], count: Any, output_head: Any) -> tuple[InFlight, ...]:
    """The micro-batches in flight of several stages, if all stages hold the same number.

    Args:
        stages: the stages.
        count: the number for the activations of the layers and of the embedding.
        output_head: the number for the activations of the output head.
    """
    return tuple(
        InFlight(s.name, layers=count, embedding=count, embedding_beside_head=count, output_head=output_head)
        for s in stages
    )


@record
class Held(Record):
    """The number of bytes that an accelerator of a stage holds."""

    bytes: Any


@record
class HeldStates(Record):
    """The bytes of the states of parameters that an accelerator of a stage holds, without what the host keeps.

    Attributes:
        weight, gradient, optimizer_state: the bytes of each state.
        bytes: the bytes of all states.
    """

    weight: Any
    gradient: Any
    optimizer_state: Any
    bytes: Any


@record
class SendHold(Record):
    """The seconds of a send for which a stage cannot compute."""

    time: Any


def on(kinds: Sequence[Any], values: Iterable[Any]) -> Any:
    """The sum of a value over several layers.

    Args:
        kinds: the number of layers of each kind.
        values: the value of one layer of each kind, in the same order.
    """
    return total(count * value for count, value in zip(kinds, values, strict=True))


def modules_as_layers(counts: Sequence[Any], kinds: int) -> tuple[Any, ...]:
    """The number of layers of each kind, where modules of multi-token prediction count as layers of the last kind.

    Args:
        counts: the number of layers of each kind, and after them the number of modules, if there are any.
        kinds: the number of kinds.
    """
    return (*counts[: kinds - 1], total(counts[kinds - 1 :]))


@record
class Bottleneck(Record):
    """The stage that takes longest for a micro-batch.

    Attributes:
        kinds, has_embedding, has_output_head: as in `Stage`.
        time: the seconds of a micro-batch on the stage.
    """

    kinds: tuple[Any, ...]
    has_embedding: Any
    has_output_head: Any
    time: Any


@record
class LayerShares(Record):
    """The share of a stage's layers that are of each kind; modules of multi-token prediction are of the last kind."""

    shares: tuple[Any, ...]

    def mean(self, values: Sequence[Any]) -> Any:
        """The mean of a number over the layers of the stage; `values` has the number of one layer of each kind."""
        return values[0] if len(values) == 1 else on(self.shares, values)


@record
class PassTimes(Record):
    """The seconds of a micro-batch in one kind of pass.

    Attributes:
        kinds: the seconds in one layer of each kind.
        embedding, output_head: the seconds in the embedding and in the output head.
    """

    kinds: tuple[Any, ...]
    embedding: Any
    output_head: Any

    def in_chunks(self, chunks: Any) -> PassTimes:
        """The times of one chunk, if the layers of a stage are divided into several equal chunks."""
        return replace(self, kinds=tuple(layer / chunks for layer in self.kinds))

    def of_layers(self, kinds: Sequence[Any]) -> Any:
        """The seconds that a micro-batch spends in several layers; `kinds` is the number of layers of each kind."""
        return on(kinds, self.kinds)

    def of(self, stage: Stage) -> Any:
        """The seconds of a micro-batch on a stage: in its layers, its embedding and its output head, if any."""
        ends = had(stage.has_embedding, self.embedding) + had(stage.has_output_head, self.output_head)
        return self.of_layers(stage.kinds) + ends

    def before(self, stage: Stage) -> Any:
        """The seconds that a micro-batch spends on all stages before a stage, in the embedding and in their layers."""
        return self.of_layers(stage.kinds_before) + lacked(stage.has_embedding, self.embedding)

    def after(self, stage: Stage) -> Any:
        """The seconds that a micro-batch spends on all stages after a stage, in their layers and the output head."""
        return self.of_layers(stage.kinds_after) + lacked(stage.has_output_head, self.output_head)


@record
class ChunkTimes(Record):
    """The seconds of a micro-batch in a chunk of layers, forward and backward.

    Each contains the time for which a send blocks the stage.
    """

    forward: Any
    backward: Any
