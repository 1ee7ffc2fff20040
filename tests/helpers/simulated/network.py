"""Nodes of accelerators on two networks, to which collectives are sent message by message: who holds what, who is busiest."""

from collections import defaultdict
from dataclasses import dataclass, field


@dataclass
class Network:
    """Accelerators by number, so many to a node; bytes that each has sent and received inside its node and across nodes."""

    intra: int
    inter: int
    inside: float
    across: float
    moved: defaultdict[tuple[str, str, int], float] = field(default_factory=lambda: defaultdict(float))

    @property
    def size(self) -> int:
        return self.intra * self.inter

    def send(self, sender: int, receiver: int, volume: float) -> None:
        network = "inside" if sender // self.intra == receiver // self.intra else "across"
        self.moved[network, "sent", sender] += volume
        self.moved[network, "received", receiver] += volume

    def total(self, way: str) -> float:
        return sum(volume for (_, kind, _), volume in self.moved.items() if kind == way)

    def time(self, network: str) -> float:
        """Seconds of the busiest accelerator on one of both networks."""
        rate = self.inside if network == "inside" else self.across
        return max((volume / rate for (name, *_), volume in self.moved.items() if name == network), default=0.0)


def gather_round_rings(net: Network, volume: float) -> None:
    """As many rings as a node has accelerators, each leaving a node by another's card; each has a slice of every part."""
    for ring in range(net.intra):
        order = [node * net.intra + (ring + i) % net.intra for node in range(net.inter) for i in range(net.intra)]
        pass_on(net, order, volume / net.intra)


def pass_on(net: Network, order: list[int], volume: float) -> None:
    """Each hands on to the next what it got last, until all have the parts of all."""
    parts = [[one] for one in order]
    for _ in range(len(order) - 1):
        last = [held[-1] for held in parts]
        for place, one in enumerate(order):
            net.send(order[place - 1], one, volume / len(order))
            parts[place].append(last[place - 1])
    assert all(sorted(held) == sorted(order) for held in parts)


def gather_in_tiers(net: Network, volume: float) -> None:
    """Accelerators with the same place in all nodes, then those of each node."""
    for place in range(net.intra):
        pass_on(net, list(range(place, net.size, net.intra)), volume / net.intra)
    for node in range(net.inter):
        pass_on(net, list(range(node * net.intra, (node + 1) * net.intra)), volume)


def exchange(net: Network, volume: float) -> None:
    """Each sends each other its own share of what it has."""
    for sender in range(net.size):
        for receiver in range(net.size):
            if sender != receiver:
                net.send(sender, receiver, volume / net.size)
