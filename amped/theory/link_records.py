"""Records of networks: links, algorithms, and the networks that compute the duration of a collective."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from amped.theory.records import Collective, Duration, Record, fastest

# A function that computes the time of a collective on a network.
Equation = Callable[[Any, Any], Any]


@dataclass(frozen=True, slots=True)
class Link(Record):
    """The link of one accelerator to a network.

    A message reaches the bandwidth when it is much longer than `ramp`.

    Attributes:
        bandwidth: bytes a second of large messages, per direction.
        latency: seconds of one step.
        ramp: bytes that are lost until a message reaches the bandwidth.
    """

    bandwidth: Any
    latency: Any
    ramp: Any = 0.0

    def time(self, volume: Any, steps: Any = 1.0) -> Any:
        """The time to send `volume` bytes in `steps` steps. Source: Hockney, 1994 (α–β)."""
        return (volume + self.ramp) / self.bandwidth + steps * self.latency

    def losing(self, ramp: Any) -> Link:
        """This link with another ramp."""
        return replace(self, ramp=ramp)


@dataclass(frozen=True, slots=True)
class Algorithm(Record):
    """An algorithm that gathers a payload, scatters it, or does both (all-reduce).

    Attributes:
        time: the function that computes the time. It takes the collective, the number of rounds (1 to gather or to
            scatter, 2 for both), and the network.
        gathers: whether the algorithm is considered for gathers and scatters too; otherwise only for an all-reduce.
        allowed: 1 if the algorithm is considered, else 0.
    """

    time: Callable[[Any, Any, Any], Any]
    gathers: bool = True
    allowed: Any = 1.0

    def where(self, allowed: Any) -> Algorithm:
        """This algorithm, considered only where `allowed` is 1."""
        return replace(self, allowed=allowed)


@dataclass(frozen=True, slots=True)
class Network(Record):
    """What determines the time of a collective, besides its group and its payload.

    Attributes:
        times: the equation of each kind of collective.
        algorithms: the algorithms that are considered; the fastest one counts.
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
        """The time of one call of a collective; zero for a group of one accelerator or an empty payload."""
        return ((c.group.degree > 1) & (c.volume > 0 * c.volume)) * (self.overhead + self.times[c.kind](c, self))

    def fastest(self, c: Collective, passes: int, algorithms: Iterable[Algorithm]) -> Any:
        """The time of the fastest of several algorithms."""
        return fastest(*((each.allowed, each.time(c, passes, self)) for each in algorithms))


@dataclass(frozen=True, slots=True)
class Links(Network):
    """Electrical networks: a fast network inside the node, and a slow network across nodes.

    Attributes:
        across: the link across nodes.
        tree: the bandwidth of a tree as a share of the bandwidth of a ring.
        switch: the share of the fast bandwidth that a reduction in the switch reaches.
    """

    across: Link
    tree: Any
    switch: Any


@dataclass(frozen=True, slots=True)
class Circuits(Network):
    """Optical circuits across nodes, and electrical links inside the node.

    Attributes:
        wavelength: the link of one wavelength.
        wavelengths: the number of wavelengths of an accelerator; its circuits share them.
        circuits: the greatest number of circuits that an accelerator has at once.
        setting: seconds for which a step waits until its circuits are set.
        flat: 1 if circuits also join the accelerators of a node.
    """

    wavelength: Link
    wavelengths: Any
    circuits: Any
    setting: Any
    flat: Any
