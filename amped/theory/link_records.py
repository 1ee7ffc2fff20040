"""Records of networks: what one accelerator has of links and optical circuits, and which algorithms are considered."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from amped.theory.records import Collective, Duration, Record


@dataclass(frozen=True, slots=True)
class Algorithms(Record):
    """Which algorithms of an all-reduce are considered: 1 for each."""

    allows_ring: Any
    allows_tree: Any
    allows_hierarchy: Any
    allows_switch: Any


@dataclass(frozen=True, slots=True)
class Links(Record):
    """What one accelerator has of the fast network inside the node and of the slow one across nodes.

    Attributes:
        fast, slow: byte/s of large messages, per direction.
        fast_latency, slow_latency: seconds of one step of a collective.
        fast_ramp, slow_ramp: bytes lost to reaching that bandwidth; overhead: seconds of a call.
        tree: bandwidth of a tree as a share of a ring's; switch: share of `fast` that a reducing switch reaches.
        allows_ring, allows_tree, allows_hierarchy, allows_switch: 1 for each algorithm of an all-reduce that is considered.
    """

    fast: Any
    slow: Any
    fast_latency: Any
    slow_latency: Any
    fast_ramp: Any
    slow_ramp: Any
    overhead: Any
    tree: Any
    switch: Any
    allows_ring: Any
    allows_tree: Any
    allows_hierarchy: Any
    allows_switch: Any


@dataclass(frozen=True, slots=True)
class CircuitAlgorithms(Record):
    """Which ways over optical circuits are considered: 1 for each."""

    allows_ring: Any
    allows_halving: Any
    allows_k_nomial: Any


@dataclass(frozen=True, slots=True)
class Circuits(Record):
    """What one accelerator has of a network of optical circuits, and of the electrical links inside its node.

    Attributes:
        wavelength: byte/s of each of `wavelengths`, which at most `circuits` circuits at once share out.
        setting: seconds of a step until its circuits are there; latency: of the step itself; ramp, overhead: as of `Links`.
        fast, fast_latency, fast_ramp: as of `Links`; flat: 1 where circuits join the accelerators of a node too.
        allows_ring, allows_halving, allows_k_nomial: 1 for each algorithm that is considered.
    """

    wavelength: Any
    wavelengths: Any
    circuits: Any
    setting: Any
    latency: Any
    ramp: Any
    overhead: Any
    fast: Any
    fast_latency: Any
    fast_ramp: Any
    flat: Any
    allows_ring: Any
    allows_halving: Any
    allows_k_nomial: Any


def durations_on(
    network: Links | Circuits, times: Mapping[str, Callable[[Any, Any], Any]], collectives: Iterable[Collective]
) -> tuple[Duration, ...]:
    """The time of one call of each collective, with the overhead of a call; none in a group of one or of nothing."""
    return tuple(
        Duration(
            c.name,
            c.kind,
            "communication",
            ((c.intra * c.inter > 1) & (c.volume > 0 * c.volume)) * (network.overhead + times[c.kind](c, network)),
            1.0,
            c.count,
        )
        for c in collectives
    )
