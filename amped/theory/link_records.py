"""Records of networks: links, algorithms, and what turns a collective into a duration."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from amped.theory.records import Collective, Duration, Record, fastest

# The time of a collective on a network.
Equation = Callable[[Any, Any], Any]


@dataclass(frozen=True, slots=True)
class Link(Record):
    """What one accelerator has of a network: byte/s of large messages per direction, and seconds of one step.

    A message has the bandwidth once it is longer than `ramp`: so many bytes are lost until then.
    """

    bandwidth: Any
    latency: Any
    ramp: Any = 0.0

    def time(self, volume: Any, steps: Any = 1.0) -> Any:
        """The time to send so many bytes in so many steps. Source: Hockney, 1994 (α–β)."""
        return (volume + self.ramp) / self.bandwidth + steps * self.latency

    def losing(self, ramp: Any) -> Link:
        """The same link with so many bytes as its ramp."""
        return replace(self, ramp=ramp)


@dataclass(frozen=True, slots=True)
class Algorithm(Record):
    """A way to gather a payload, to scatter it, or to do both, which is to reduce it to all.

    Attributes:
        time: from the collective, the times that its payload goes round (1 to gather or to scatter, 2 for both), and
            the network.
        gathers: whether it is considered to gather or scatter too; else it only reduces to all.
        allowed: 1 where it is considered.
    """

    time: Callable[[Any, Any, Any], Any]
    gathers: bool = True
    allowed: Any = 1.0

    def where(self, allowed: Any) -> Algorithm:
        """The same algorithm, considered only where `allowed` is 1."""
        return replace(self, allowed=allowed)


@dataclass(frozen=True, slots=True)
class Network(Record):
    """What the time of a collective depends on beside its group and payload.

    Attributes:
        times: the equation of each kind of collective.
        algorithms: those that are considered; the fastest counts.
        overhead: seconds of a call.
        inside: the link inside the node.
    """

    times: Mapping[str, Equation]
    algorithms: tuple[Algorithm, ...]
    overhead: Any
    inside: Link

    def durations(self, collectives: Iterable[Collective]) -> tuple[Duration, ...]:
        """The time of one call of each collective, with the overhead of a call.

        Source: NCCL src/graph/tuning.cc (a base latency for each call).
        """
        return tuple(Duration(c.name, c.kind, "communication", self.time(c), 1.0, c.count) for c in collectives)

    def time(self, c: Collective) -> Any:
        """The time of one call; none in a group of one, or of nothing."""
        return ((c.group.degree > 1) & (c.volume > 0 * c.volume)) * (self.overhead + self.times[c.kind](c, self))

    def fastest(self, c: Collective, passes: int, algorithms: Iterable[Algorithm]) -> Any:
        """The time of the fastest of several algorithms."""
        return fastest(*((each.allowed, each.time(c, passes, self)) for each in algorithms))


@dataclass(frozen=True, slots=True)
class Links(Network):
    """Electrical networks: a fast one inside the node and a slow one across nodes.

    Attributes:
        across: the link across nodes.
        tree: bandwidth of a tree as a share of a ring's; switch: share of the fast bandwidth that a reducing switch
            reaches.
    """

    across: Link
    tree: Any
    switch: Any


@dataclass(frozen=True, slots=True)
class Circuits(Network):
    """Optical circuits across nodes, and electrical links inside.

    Attributes:
        wavelength: the link that one of `wavelengths` is, which at most `circuits` circuits at once share out.
        setting: seconds of a step until its circuits are there.
        flat: 1 where circuits join the accelerators of a node too.
    """

    wavelength: Link
    wavelengths: Any
    circuits: Any
    setting: Any
    flat: Any
