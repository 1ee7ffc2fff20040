"""The blocks of which layers are made, and the kinds of layers of a network: which blocks each has."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from amped.base.record import dataclass, record
from amped.theory.nouns.records import Duration, Operator, Part, Record, total


@dataclass(frozen=True)
class Block:
    """A block of a layer: what some kinds of layers have and others do not. Formulas read the rows of `BLOCKS`.

    Attributes:
        name: the block's name, in `Part.block` and in `KINDS`.
        layers: the quantity that counts the layers with this block.
        parameters: the quantity that gives the parameters of one block; routed experts are counted apart.
        vectors: the quantity that gives those of them that are vectors: biases and norms.
        operators: the records of its operators in an average layer.
        gemms: the records of its matrix products with weights.
        passes: the quantity that counts the forward passes through the block in a step, averaged over the stages.
    """

    name: str
    layers: str
    parameters: str
    vectors: str
    operators: str
    gemms: str
    passes: str


ATTENTION, LINEAR, DENSE, MIXTURE = "attention", "linear attention", "dense", "mixture"
# Small products beside these blocks, of which each layer has the average.
BRANCHES = "branches"
# What mixes tokens: attention or linear attention. What does not: a dense feed-forward network or a mixture.
MIXER, NETWORK = "mixer", "network"
# What tensor parallelism splits beside mixers: a dense feed-forward network, or the shared experts of a mixture.
SPLIT_NETWORK = "split network"
# The blocks of which each of these consists.
EITHER = {MIXER: (ATTENTION, LINEAR), NETWORK: (DENSE, MIXTURE)}
# Parts of a layer that several pages name: of both feed-forward networks, and of the two halves of a mixture.
IN_DENSE, LAST_IN_DENSE = Part(DENSE), Part(DENSE, last=True)
IN_MIXTURE, IN_ROUTER, IN_EXPERTS = Part(MIXTURE), Part(MIXTURE, graph="router"), Part(MIXTURE, graph="experts")
IN_MIXER, IN_NETWORK, IN_LINEAR = Part(MIXER), Part(NETWORK), Part(LINEAR)
IN_BRANCHES = Part(BRANCHES)
NETWORK_NORM, IN_SPLIT_NETWORK, OF_GRADIENTS = Part(NETWORK, graph="router"), Part(SPLIT_NETWORK), Part(gradients=True)
BLOCKS = (
    Block(
        ATTENTION,
        layers="number_of_attention_layers",
        parameters="attention_parameters",
        vectors="attention_vector_parameters",
        operators="attention_operators",
        gemms="projection_gemms",
        passes="attention_passes",
    ),
    Block(
        LINEAR,
        layers="number_of_linear_attention_layers",
        parameters="linear_attention_parameters",
        vectors="linear_attention_vector_parameters",
        operators="linear_attention_operators",
        gemms="linear_attention_gemms",
        passes="linear_attention_passes",
    ),
    Block(
        DENSE,
        layers="number_of_dense_layers",
        parameters="feedforward_parameters",
        vectors="feedforward_vector_parameters",
        operators="feedforward_operators",
        gemms="feedforward_gemms",
        passes="dense_layer_passes",
    ),
    Block(
        MIXTURE,
        layers="number_of_MoE_layers",
        parameters="router_and_shared_expert_parameters",
        vectors="router_vector_parameters",
        operators="expert_operators",
        gemms="expert_gemms",
        passes="MoE_layer_passes",
    ),
    Block(
        BRANCHES,
        layers="number_of_branch_layers",
        parameters="branch_parameters",
        vectors="branch_vector_parameters",
        operators="branch_operators",
        gemms="branch_gemms",
        passes="branch_passes",
    ),
)
COUNTS = tuple(block.layers for block in BLOCKS)
PARAMETERS = tuple(block.parameters for block in BLOCKS)
VECTOR_PARAMETERS = tuple(block.vectors for block in BLOCKS)
OPERATORS = tuple(block.operators for block in BLOCKS)
GEMMS = tuple(block.gemms for block in BLOCKS)
PASSES = tuple(block.passes for block in BLOCKS)


@dataclass(frozen=True)
class KindRow:
    """A kind of layer in a network whose layers are not alike.

    Attributes:
        name: the kind's name.
        blocks: the blocks that a layer of this kind has.
        counted: the names of `COUNTED` whose numbers of layers add up to the number of layers of this kind.
        besides: the names whose numbers of layers are taken away from that.
    """

    name: str
    blocks: tuple[str, ...]
    counted: tuple[str, ...]
    besides: tuple[str, ...] = ()


# What is counted in a network of several kinds: the layers with each block, and those with linear attention and a dense
# feed-forward network.
DENSE_LINEAR = "dense, linear attention"
COUNTED = (*(block.name for block in BLOCKS), DENSE_LINEAR)
# For each value of `kinds_of_layers`: the kinds of layers, in the order of a layout. Blocks that all kinds of a row
# have are averages over the layers.
KINDS = {
    "dense_and_mixture": (
        KindRow("dense", (ATTENTION, LINEAR, DENSE), counted=(DENSE,)),
        KindRow("mixture", (ATTENTION, LINEAR, MIXTURE), counted=(MIXTURE,)),
    ),
    "linear_and_attention": (
        KindRow("linear attention", (LINEAR, DENSE, MIXTURE), counted=(LINEAR,)),
        KindRow("attention", (ATTENTION, DENSE, MIXTURE), counted=(ATTENTION,)),
    ),
    "mixers_and_networks": (
        KindRow("dense, linear attention", (LINEAR, DENSE), counted=(DENSE_LINEAR,)),
        KindRow("dense, attention", (ATTENTION, DENSE), counted=(DENSE,), besides=(DENSE_LINEAR,)),
        KindRow("mixture, linear attention", (LINEAR, MIXTURE), counted=(LINEAR,), besides=(DENSE_LINEAR,)),
        KindRow("mixture, attention", (ATTENTION, MIXTURE), counted=(ATTENTION, DENSE_LINEAR), besides=(DENSE,)),
    ),
    "single_blocks": (
        KindRow("linear attention", (LINEAR,), counted=(LINEAR,)),
        KindRow("attention", (ATTENTION,), counted=(ATTENTION,)),
        KindRow("dense", (DENSE,), counted=(DENSE,)),
        KindRow("mixture", (MIXTURE,), counted=(MIXTURE,)),
    ),
}


@record
class LayerKind(Record):
    """A kind of layer, described by what it has more or less of than the average layer of the network.

    Attributes:
        share: the share of the network's layers that are of this kind.
        mixtures: the number of mixtures of experts in a layer of this kind.
        blocks: the blocks of operators and messages of which a layer of this kind has not as many as the average layer.
        multiples: for each of these blocks, how many of it the layer has, as a multiple of the average layer.
    """

    share: Any
    mixtures: Any
    blocks: tuple[str, ...] = ()
    multiples: tuple[Any, ...] = ()

    def multiple(self, block: str) -> Any:
        """The number of blocks of the given name in a layer of this kind, divided by the number in an average layer."""
        return self.multiples[self.blocks.index(block)] if block in self.blocks else 1.0

    def stash(self, operators: Iterable[Operator]) -> Any:
        """The bytes that a layer of this kind keeps for the backward pass, from the operators of the average layer."""
        forward = (o for o in operators if o.phase == "forward")
        return total(o.stash * o.count * self.multiple(o.part.block) for o in forward)

    def durations(self, durations: Iterable[Duration]) -> tuple[Duration, ...]:
        """The times of the operators or collectives of a layer of this kind, from those of the average layer."""
        return tuple(
            replace(d, count=d.count * self.multiple(d.part.block)) if d.part.block in self.blocks else d
            for d in durations
        )


def average_layer(kinds: Sequence[LayerKind], records: Sequence[Any]) -> Any:
    """The record of an average layer of the network. Each of its numbers is the mean over the kinds of layers.

    Args:
        kinds: the kinds of layers of the network.
        records: the record of a layer of each kind, all of the same class.
    """
    if len(records) == 1:
        return records[0]
    fields = [field for field in records[0].__match_args__ if field != "name"]
    means = {field: _mean(kinds, [getattr(record, field) for record in records]) for field in fields}
    return replace(records[0], name="network", **means)


def of_each_kind(own: Sequence[Any], average: Any) -> Sequence[Any]:
    """A number for a layer of each kind: its own; layers that are alike have that of the average layer.

    Args:
        own: the number for a layer of each kind.
        average: the number for the average layer.
    """
    return own if len(own) > 1 else [average]


def _mean(kinds: Sequence[LayerKind], values: Sequence[Any]) -> Any:
    """The mean of a number over all layers of the network.

    Args:
        kinds: the kinds of layers of the network.
        values: the number for a layer of each kind; or a tuple of numbers for each kind, which gives a tuple of means.
    """
    if isinstance(values[0], tuple):
        return tuple(_mean(kinds, column) for column in zip(*values, strict=True))
    return total(kind.share * value for kind, value in zip(kinds, values, strict=True))
