"""Records of networks: links, algorithms, and the networks that compute the duration of a collective."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from amped.base.record import record
from amped.theory.nouns.records import Collective, Duration, Record, least

# The time of an algorithm that is not allowed is multiplied with this number, so that no minimum takes it.
NEVER = 1e300


@record
class Link(Record):
    """The link of one accelerator to a network.

    The time of a message is (bytes + `ramp`) / `bandwidth` + steps · `latency`.

    Attributes:
        bandwidth: bytes a second of large messages, in each direction.
        latency: seconds of each step of a message.
        ramp: the bytes by which a message counts as longer than it is, because short messages are slower.
    """

    bandwidth: Any
    latency: Any
    ramp: Any = 0.0

    def time(self, volume: Any, steps: Any = 1.0) -> Any:
        """The time to send `volume` bytes in `steps` steps. Source: Hockney, 1994 (α–β)."""
        return (volume + self.ramp) / self.bandwidth + steps * self.latency


@record
class ExchangeKernel(Record):
    """What a core spends on an exchange of tokens between experts by a kernel of its own, in a unit of time.

    The cores that send and those that receive work side by side.

    Attributes:
        token: for each token.
        copy: for each copy of a token, one for each accelerator that has an expert of it.
        sent: for each byte of a copy that it sends.
        crossing: for each byte of a copy that crosses nodes, in addition.
        received: for each token that it writes to its place.
        written: for each byte of such a token.
        added: for each byte of a copy that it adds up.
        start: time of a call besides all work.
    """

    token: float
    copy: float
    sent: float
    crossing: float
    received: float
    written: float
    added: float
    start: float


@record
class Algorithm(Record):
    """An algorithm for an all-reduce, which may also serve for an all-gather or a reduce-scatter.

    Attributes:
        time: the function that computes the time. It takes the collective, the number of rounds (1 for an all-gather or
            a reduce-scatter, 2 for an all-reduce), and the network.
        gathers: whether an all-gather or a reduce-scatter may use the algorithm too.
        allowed: 1 if the algorithm may be used, else 0.
    """

    time: Callable[[Any, Any, Any], Any]
    gathers: bool = True
    allowed: Any = 1.0


@record
class Network(Record):
    """A network: all values on which the time of a collective depends, besides its group and its payload.

    Attributes:
        times: the function that computes the time, for each kind of collective.
        algorithms: the algorithms that may be used; the fastest one is taken.
        overhead: fixed seconds of each call.
        inside: the link inside the node.
    """

    times: Mapping[str, Callable[[Any, Any], Any]]
    algorithms: tuple[Algorithm, ...]
    overhead: Any
    inside: Link

    def durations(self, collectives: Iterable[Collective]) -> tuple[Duration, ...]:
        """The time of one call of each collective, with the fixed time that each call costs.

        Source: NCCL src/graph/tuning.cc (a base latency for each call).
        """
        return tuple(
            Duration(
                collective.name,
                collective.kind,
                "communication",
                time=self.time(collective),
                kernels=1.0,
                count=collective.count,
                part=collective.part,
            )
            for collective in collectives
        )

    def time(self, collective: Collective) -> Any:
        """The time of one call of a collective; zero if its group has one accelerator or its payload is empty."""
        zeros = 0 * collective.volume  # a processor compares an array with an array faster than with a number
        sends = (collective.group.degree > 1) & (collective.volume > zeros)
        return sends * (self.overhead + self.times[collective.kind](collective, self))

    def fastest(self, collective: Collective, rounds: int, algorithms: Iterable[Algorithm]) -> Any:
        """The time of a collective by the fastest of several algorithms.

        Args:
            collective: the collective.
            rounds: 1 for an all-gather or a reduce-scatter, 2 for an all-reduce.
            algorithms: the algorithms; at least one of them is allowed.
        """
        return least(
            algorithm.time(collective, rounds, self) * np.where(algorithm.allowed, 1.0, NEVER)
            for algorithm in algorithms
        )


@record
class Links(Network):
    """An electrical network: a fast network inside each node, and a slower network across nodes.

    Attributes:
        across: the link across nodes.
        tree: the bandwidth of a tree as a share of the bandwidth of a ring.
        chain: seconds of each step along a chain, besides the latency of the link.
        switch: the bandwidth of a reduction in the switch as a share of the bandwidth inside the node.
        mesh: the number of accelerators that links without a switch join in a full mesh; 1 with a switch.
    """

    across: Link
    tree: Any
    switch: Any
    chain: Any = 0.0
    mesh: Any = 1.0


@record
class Circuits(Network):
    """A network of optical circuits across nodes, and of electrical links inside each node.

    Attributes:
        wavelength: the link of one wavelength.
        wavelengths: the number of wavelengths of an accelerator. Its circuits share the wavelengths.
        circuits: the greatest number of circuits that an accelerator has at the same time.
        setting: seconds for which each step waits until its circuits are set.
        flat: 1 if circuits also connect the accelerators of one node, else 0.
    """

    wavelength: Link
    wavelengths: Any
    circuits: Any
    setting: Any
    flat: Any
