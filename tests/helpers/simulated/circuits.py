"""Collectives over optical circuits, message by message: who holds what after each round, and when it is there.

Plain loops, from Bruck et al. (IEEE TPDS 8(11), 1997), Rabenseifner (ICCS 2004) and Thakur et al. (IJHPCA 19(1), 2005).
An accelerator's wavelengths are shared out evenly among the partners it has in a round, whole ones only.
"""

from collections import Counter
from dataclasses import dataclass

# A round: who receives, from whom, which parts.
Message = tuple[int, int, tuple[int, ...]]


@dataclass
class Fabric:
    """A clock, and optics that are the same for each accelerator."""

    wavelengths: int
    rate: float
    setting: float
    latency: float
    ramp: float
    clock: float = 0.0

    def round(self, sizes: dict[tuple[int, int], float], at_least: int = 1) -> None:
        """Sets circuits, and sends `sizes` bytes from each sender to each receiver; the slowest ends the round."""
        sent, received = Counter(one for one, _ in sizes), Counter(other for _, other in sizes)
        ends = []
        for (sender, receiver), volume in sizes.items():
            partners = max(sent[sender], received[receiver], at_least)
            assert partners <= self.wavelengths
            ends.append((volume + self.ramp) / (self.wavelengths // partners * self.rate))
        self.clock += self.setting + self.latency + max(ends)


def gathering(size: int, partners: int) -> list[list[Message]]:
    """The rounds in which all come to hold all parts: in each, from `partners` others at growing distance."""
    rounds, held = [], 1
    while held < size:
        lacking = size - held
        if held * (partners + 1) <= size:
            several, share = partners, held
        else:
            several = -(-lacking // held)
            share = -(-lacking // several)
        this: list[Message] = []
        for one in range(size):
            for turn in range(several):
                first = held + turn * share
                parts = tuple((one + first + i) % size for i in range(min(share, size - first)))
                this.append((one, (one + first) % size, parts))
        rounds.append(this)
        held = min(size, held + several * share)
    return rounds


def all_gather(fabric: Fabric, size: int, volume: float, partners: int) -> None:
    holds = [{one} for one in range(size)]
    for this in gathering(size, partners):
        before = [set(parts) for parts in holds]
        for one, other, parts in this:
            assert set(parts) <= before[other]
            assert not set(parts) & holds[one]
            holds[one] |= set(parts)
        fabric.round({(other, one): len(parts) * volume / size for one, other, parts in this})
    assert all(parts == set(range(size)) for parts in holds)


def reduce_scatter(fabric: Fabric, size: int, volume: float, partners: int) -> None:
    """The same rounds backwards: each sends on the sums of parts it was to receive, and keeps its own."""
    sums = [{part: {one} for part in range(size)} for one in range(size)]
    for this in reversed(gathering(size, partners)):
        before = [dict(own) for own in sums]
        for one, other, parts in this:
            for part in parts:
                assert not sums[other][part] & before[one][part]
                sums[other][part] = sums[other][part] | before[one][part]
                del sums[one][part]
        fabric.round({(one, other): len(parts) * volume / size for one, other, parts in this})
    assert all(own == {one: set(range(size))} for one, own in enumerate(sums))


def halving_and_doubling(fabric: Fabric, size: int, volume: float) -> None:
    """Rabenseifner's all-reduce of a power of two: half of what is left to the partner, then all that is held to each."""
    sums = [{part: {one} for part in range(size)} for one in range(size)]
    distance = size // 2
    while distance:
        before, sizes = [dict(own) for own in sums], {}
        for one in range(size):
            partner = one ^ distance
            kept = [part for part in before[one] if part & distance == one & distance]
            sums[one] = {part: before[one][part] | before[partner][part] for part in kept}
            sizes[one, partner] = (len(before[one]) - len(kept)) * volume / size
        fabric.round(sizes)
        distance //= 2
    distance = 1
    while distance < size:
        before, sizes = [dict(own) for own in sums], {}
        for one in range(size):
            sums[one] = before[one] | before[one ^ distance]
            sizes[one, one ^ distance] = len(before[one]) * volume / size
        fabric.round(sizes)
        distance *= 2
    assert all(own == {part: set(range(size)) for part in range(size)} for own in sums)


def ring_gather(fabric: Fabric, size: int, volume: float) -> None:
    """Each hands on to its neighbor what it got last; circuits are set once, and one stream fills the ramp once."""
    rate = fabric.wavelengths * fabric.rate
    holds = [[one] for one in range(size)]
    fabric.clock += fabric.setting + fabric.ramp / rate
    for _ in range(size - 1):
        last = [parts[-1] for parts in holds]
        for one in range(size):
            holds[one].append(last[one - 1])
        fabric.clock += fabric.latency + volume / size / rate
    assert all(sorted(parts) == list(range(size)) for parts in holds)


def tree_broadcast(fabric: Fabric, size: int, volume: float, partners: int) -> None:
    """All that know it tell `partners` others each."""
    partners, knowing = min(partners, size - 1), [0]
    while len(knowing) < size:
        new = list(range(len(knowing), min(size, len(knowing) * (partners + 1))))
        sizes = {(knowing[i // partners], one): volume for i, one in enumerate(new)}
        fabric.round(sizes, at_least=partners)
        knowing += new
    assert knowing == list(range(size))


def scatter(fabric: Fabric, size: int, volume: float, partners: int) -> None:
    """The way of each part to accelerator 0 in a gathering, backwards."""
    holds: list[set[int]] = [set(range(size)), *(set() for _ in range(size - 1))]
    for this in reversed(gathering(size, partners)):
        before, sizes = [set(parts) for parts in holds], {}
        for one, other, parts in this:
            moved = before[one] & set(parts)
            if moved:
                holds[one] -= moved
                holds[other] |= moved
                sizes[one, other] = len(moved) * volume / size
        fabric.round(sizes)
    assert holds == [{one} for one in range(size)]


def exchange_in_turns(fabric: Fabric, size: int, volume: float, partners: int) -> None:
    got = [{one} for one in range(size)]
    distances = list(range(1, size))
    while distances:
        now, distances = distances[:partners], distances[partners:]
        for one in range(size):
            got[one] |= {(one - distance) % size for distance in now}
        fabric.round({(one, (one + distance) % size): volume / size for one in range(size) for distance in now})
    assert all(parts == set(range(size)) for parts in got)


def exchange_round_the_ring(fabric: Fabric, size: int, volume: float) -> None:
    """Each hands on to its neighbor all that is not for itself; circuits are set once."""
    rate = fabric.wavelengths * fabric.rate
    fabric.clock += fabric.setting
    got = [{one} for one in range(size)]
    moving = [[(one, other) for other in range(size) if other != one] for one in range(size)]
    while any(moving):
        most = max(len(parts) for parts in moving)
        fabric.clock += fabric.latency + (most * volume / size + fabric.ramp) / rate
        moving = [moving[one - 1] for one in range(size)]
        for one in range(size):
            got[one] |= {sender for sender, receiver in moving[one] if receiver == one}
            moving[one] = [(sender, receiver) for sender, receiver in moving[one] if receiver != one]
    assert all(parts == set(range(size)) for parts in got)
