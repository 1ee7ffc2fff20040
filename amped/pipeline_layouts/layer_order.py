"""The kind of each layer of a network, in order: from patterns that the user gives, or spread as networks usually are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from amped.base.errors import MappingError
from amped.base.record import dataclass
from amped.configuring.layout_text import Blocks, Pattern
from amped.theory.nouns.layer_kinds import ATTENTION, DENSE, EITHER, KINDS, LINEAR, MIXTURE, KindRow

Item = TypeVar("Item")
MIXTURE_PATTERN, LINEAR_PATTERN, BLOCKS = "mixture_layer_pattern", "linear_layer_pattern", "single_block_pattern"
MIXTURES, DENSES, LINEARS = "number_of_MoE_layers", "number_of_dense_layers", "number_of_linear_attention_layers"
ATTENTIONS, DENSE_LINEARS = "number_of_attention_layers", "number_of_dense_linear_layers"
COUNTED = (ATTENTIONS, LINEARS, DENSES, MIXTURES)
LETTERS = {"M": LINEAR, "*": ATTENTION, "-": DENSE, "E": MIXTURE}
OF_COUNT = dict(zip(COUNTED, (ATTENTION, LINEAR, DENSE, MIXTURE), strict=True))


@dataclass(frozen=True)
class LayerOrder:
    """The kinds of the layers of a network.

    Attributes:
        name: the value of `kinds_of_layers`; empty if all layers are alike.
        places: for each layer, the place of its kind among the kinds of that name; 0 if all are alike.
    """

    name: str
    places: Sequence[int]

    @property
    def number_of_kinds(self) -> int:
        """How many kinds a layout counts."""
        return len(KINDS[self.name]) if self.name else 1


def layer_order(choices: Mapping[str, object], numbers: Mapping[str, int], has_mixtures: bool) -> LayerOrder:
    """The kinds of the layers, in order.

    Args:
        choices: the values of patterns, as far as they are given.
        numbers: the number of layers, and of each of `COUNTED`.
        has_mixtures: whether some layers may have mixtures of experts.
    """
    layers = numbers["layers"]
    if numbers[LINEARS] and sum(numbers[name] for name in COUNTED) == layers:
        return _kinds([{block} for block in _single_blocks(choices, numbers)])
    networks = [MIXTURE if marked else DENSE for marked in _mixture_marks(choices, numbers, has_mixtures)]
    if not numbers[LINEARS] or numbers[LINEARS] + numbers[ATTENTIONS] != layers:
        return _kinds([{ATTENTION, network} for network in networks])
    mixers = [LINEAR if marked else ATTENTION for marked in _linear_marks(choices, numbers)]
    return _kinds([{mixer, network} for mixer, network in zip(mixers, networks, strict=True)])


def patterned_numbers(choices: Mapping[str, object], numbers: Mapping[str, int]) -> dict[str, float]:
    """The numbers of layers that given patterns list, by name; empty without patterns.

    Raises:
        MappingError: for a pattern that lists another number of layers than the network has.
    """
    layers, found = numbers["layers"], dict[str, float]()
    for name, counted in ((MIXTURE_PATTERN, MIXTURES), (LINEAR_PATTERN, LINEARS)):
        if (pattern := choices.get(name)) is not None:
            found[counted] = float(sum(_listed(name, Pattern(pattern).of(layers), layers)))
    if LINEARS in found:
        found[ATTENTIONS] = layers - found[LINEARS]
    if (written := choices.get(BLOCKS)) is not None:
        letters = _listed(BLOCKS, list(Blocks(written).letters), layers)
        blocks = [LETTERS[letter] for letter in letters]
        found |= {name: float(blocks.count(block)) for name, block in OF_COUNT.items()}
    if {MIXTURE_PATTERN, LINEAR_PATTERN} <= choices.keys():
        dense = [not mark for mark in Pattern(choices[MIXTURE_PATTERN]).of(layers) or ()]
        linear = Pattern(choices[LINEAR_PATTERN]).of(layers) or ()
        found[DENSE_LINEARS] = float(sum(map(lambda d, marked: d and marked, dense, linear)))
    return found


def _listed(name: str, items: Sequence[Item] | None, layers: int) -> Sequence[Item]:
    """The items of a pattern, one for each layer.

    Raises:
        MappingError: if there are more or fewer.
    """
    if items is None or len(items) != layers:
        raise MappingError(f"{name} lists other layers than the {layers} that there are",
                           f"list {layers}, or give a whole number n for every n-th")  # fmt: skip
    return items


def _mixture_marks(choices: Mapping[str, object], numbers: Mapping[str, int], has_mixtures: bool) -> list[bool]:
    """For each layer, whether it is a mixture of experts.

    Without a pattern, every n-th layer is a mixture, if the number of mixtures divides the layers. Else the dense layers
    come first.
    """
    layers, mixtures = numbers["layers"], numbers[MIXTURES] if has_mixtures else 0
    if has_mixtures and (pattern := choices.get(MIXTURE_PATTERN)) is not None:
        return Pattern(pattern).of(layers) or []
    if 0 < mixtures < layers and layers % mixtures == 0:
        return [(place + 1) % (layers // mixtures) == 0 for place in range(layers)]
    return [place >= layers - mixtures for place in range(layers)]


def _linear_marks(choices: Mapping[str, object], numbers: Mapping[str, int]) -> list[bool]:
    """For each layer, whether it has linear attention; without a pattern, layers with attention are spread evenly."""
    layers, attentions = numbers["layers"], numbers[ATTENTIONS]
    if (pattern := choices.get(LINEAR_PATTERN)) is not None:
        return Pattern(pattern).of(layers) or []
    return [(place + 1) * attentions // layers == place * attentions // layers for place in range(layers)]


def _single_blocks(choices: Mapping[str, object], numbers: Mapping[str, int]) -> list[str]:
    """The block of each layer; without a pattern, each layer has the block that is furthest behind its share."""
    if (written := choices.get(BLOCKS)) is not None:
        return [LETTERS[letter] for letter in Blocks(written).letters]
    layers, blocks = numbers["layers"], list[str]()
    for place in range(layers):
        behind = {block: numbers[name] * (place + 1) / layers - blocks.count(block) for name, block in OF_COUNT.items()}
        blocks.append(max(behind, key=behind.__getitem__))
    return blocks


def _kinds(layers: Sequence[set[str]]) -> LayerOrder:
    """The smallest set of kinds that tells layers with these blocks apart; none if they are alike."""
    if all(blocks == layers[0] for blocks in layers):
        return LayerOrder("", [0] * len(layers))
    for name, rows in KINDS.items():
        places = [_place(blocks, rows) for blocks in layers]
        if None not in places and _tells_apart(rows, layers):
            return LayerOrder(name, [place for place in places if place is not None])
    return LayerOrder("", [0] * len(layers))


def _place(blocks: set[str], rows: Sequence[KindRow]) -> int | None:
    """The place of the one row that has all these blocks; None if several have, or none."""
    having = [place for place, row in enumerate(rows) if blocks <= {*row.blocks}]
    return having[0] if len(having) == 1 else None


def _tells_apart(rows: Sequence[KindRow], layers: Sequence[set[str]]) -> bool:
    """Whether blocks of which a layer has one are the same in all layers of a row."""
    used = set().union(*layers)
    common = {block for block in used if all(block in row.blocks for row in rows)}
    return all(len(common.intersection(pair)) < len(pair) for pair in EITHER.values())
