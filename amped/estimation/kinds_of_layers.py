"""The kinds of layers of a network: how many layers are of each, and how long one takes.

Kinds of layers with different blocks have times of their own in every estimate. Kinds of attention that differ only in the keys
that they read are an average there; here, the network is estimated once with each of them in all layers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from amped.base.record import dataclass
from amped.configuring.scenario import asked_again
from amped.estimation.estimation import Estimation, estimated
from amped.theory.nouns.layer_kinds import ATTENTION

# What says the keys that layers read, as shares of the layers.
WINDOWED, INDEXED, HEAVY = "windowed_layer_fraction", "indexers_per_layer", "heavily_compressed_fraction"


@dataclass(frozen=True)
class KindLine:
    """A kind of layer.

    Attributes:
        kind: its blocks, or the keys that its attention reads.
        layers: how many layers of the network are of this kind.
        forward_time: the seconds of the forward pass of a micro-batch in such a layer, with its waits.
        backward_time: the seconds of its backward pass, with what runs again.
    """

    kind: str
    layers: int
    forward_time: float
    backward_time: float


def kind_lines(e: Estimation) -> list[KindLine]:
    """Each kind of layer once; empty if all layers are alike, or if AMPeD's closed form gives the times.

    A list of blocks and a list of attentions each count all layers: what one of them does not say is an average.
    """
    if "layer_times" not in e.results.cells:
        return []
    kinds, times = e.results.records("layer_kinds"), e.results.records("layer_times")
    shares = [float(kind.share) for kind in kinds]
    lines = [
        KindLine(kind.name, round(share * e["layers"]), float(time.forward), float(time.whole - time.forward))
        for kind, share, time in zip(kinds, shares, times, strict=True)
        if share and len(kinds) > 1
    ]
    return lines + [_line(e, words, share, values) for words, share, values in _attentions(e)]


def _attentions(e: Estimation) -> Iterator[tuple[str, float, Mapping[str, float]]]:
    """The kinds of attention, with their shares of the layers and the values of a network of them alone; none if there is one."""
    found = [(words, share, values) for words, share, values in _possible(e) if share > 1e-9]
    if len(found) > 1 and e["number_of_attention_layers"] == e["layers"]:
        yield from found


def _possible(e: Estimation) -> Iterator[tuple[str, float, Mapping[str, float]]]:
    """All kinds of attention that an estimate could have, as in `_attentions`."""
    window = f"window of {e['attention_window']:,.0f}"
    if e.choices["attention_kind"] == "compressed":
        sparse, heavy = e[INDEXED], e[HEAVY]
        yield (
            f"{e['indexed_keys']:,.0f} entries of {e['sparse_compression_ratio']:g} tokens",
            sparse,
            {INDEXED: 1, HEAVY: 0},
        )
        yield f"all entries of {e['heavy_compression_ratio']:g} tokens", heavy, {INDEXED: 0, HEAVY: 1}
        yield window, 1 - sparse - heavy, {INDEXED: 0, HEAVY: 0}
    elif "indexer_heads" in e.scenario.sources.given:
        chosen, choosing = e[WINDOWED], e[INDEXED]
        yield "chosen keys", choosing, {WINDOWED: 1, INDEXED: 1}
        yield "keys chosen by an earlier layer", chosen - choosing, {WINDOWED: 1, INDEXED: 0}
        yield "all keys", 1 - chosen, {WINDOWED: 0, INDEXED: 0}
    else:
        yield window, e[WINDOWED], {WINDOWED: 1}
        yield "all keys", 1 - e[WINDOWED], {WINDOWED: 0}


def _line(e: Estimation, words: str, share: float, values: Mapping[str, float]) -> KindLine:
    """The line of a kind of attention, from an estimate in which all layers have it."""
    other = estimated(asked_again(e.scenario.question, values))
    kinds, times = other.results.records("layer_kinds"), other.results.records("layer_times")
    forward = sum(float(kind.share * time.forward) for kind, time in zip(kinds, times, strict=True))
    whole = sum(float(kind.share * time.whole) for kind, time in zip(kinds, times, strict=True))
    return KindLine(f"{ATTENTION} to {words}", round(share * e["layers"]), forward, whole - forward)
