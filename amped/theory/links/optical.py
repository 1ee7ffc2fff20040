"""Time of a collective on optical circuits, which are set anew for a step or stay.

Wavelengths are shared out among the partners an accelerator has at once. Where circuits end at the node, each
accelerator has its own optics, and what stays inside the node goes over the electrical links there.
"""

import numpy as np

from amped.theory.link_records import Algorithm, Circuits, Link
from amped.theory.quantity import family, quantity, records
from amped.theory.records import Group

# --- rounds ----------------------------------------------------------------------------------------------------------


# A logarithm that rounding left this much under a whole number is that number; 1 / size of a group is far more.
ROUNDING = 1e-9


def bandwidth_of(partners, net):
    """What each of so many circuits has: whole wavelengths only. Source: definition."""
    return np.floor(net.wavelengths / partners) * net.wavelength.bandwidth


def round_time(volume, partners, net):
    """Time of a round: circuits are set, and each accelerator sends `volume` to each of its partners at once.

    Source: Hockney, 1994 (α–β); arXiv 2211.15226 (reconfiguration).
    """
    return net.setting + net.wavelength.latency + (volume + net.wavelength.ramp) / bandwidth_of(partners, net)


def rounds_time(size, volume, partners, net):
    """Time to gather, or backwards to scatter, in ⌈log k size⌉ rounds with k − 1 partners; no part is sent twice.

    Each round passes on all that is held, k times as much after it. The last, unless the size is a power of k, has as
    few partners as hold what lacks. Source: Bruck et al., IEEE TPDS 8(11), 1997; Träff, arXiv 2410.14234.
    Differs: Rabenseifner folds what is over a power of two into it, which sends the payload twice more.
    """
    radix, part = partners + 1, volume / size
    full = np.floor(np.log(size) / np.log(radix) + ROUNDING)
    held = np.rint(radix**full)
    last = np.maximum(np.ceil((size - held) / held), 1)
    sent = full * net.wavelength.ramp + part * (held - 1) / partners
    regular = full * (net.setting + net.wavelength.latency) + sent / bandwidth_of(partners, net)
    return regular + round_time(part * np.ceil((size - held) / last), last, net) * (size > held)


# --- algorithms to gather or to scatter, and to do both --------------------------------------------------------------


def ring_time(c, passes, net):
    """Time to send shares of a payload so often round a ring whose circuits stay.

    Source: Thakur et al., IJHPCA 19(1).
    """
    size = c.group.degree
    moved = (size - 1) / size * c.volume + net.wavelength.ramp
    return net.setting + passes * ((size - 1) * net.wavelength.latency + moved / bandwidth_of(1, net))


def halving_and_doubling_time(c, passes, net):
    """Time to share with one partner after another, as often as passes say. Source: Rabenseifner, ICCS 2004."""
    return passes * rounds_time(c.group.degree, c.volume, 1, net)


def k_nomial_time(c, passes, net):
    """Time to share with as many partners at once as there are circuits.

    Source: Bruck et al., IEEE TPDS 8(11), 1997.
    """
    return passes * rounds_time(c.group.degree, c.volume, net.circuits, net)


ALGORITHMS = {
    each.name: each
    for each in (
        Algorithm("ring", ring_time),
        Algorithm("halving_doubling", halving_and_doubling_time),
        Algorithm("k_nomial", k_nomial_time),
    )
}

# --- collectives -----------------------------------------------------------------------------------------------------


def tiers(c, net):
    """Accelerators of the group inside a node that electrical links join, and those that circuits do.

    Source: definition.
    """
    inside = np.where(net.flat > 0, 1, c.intra)
    return inside, c.group.degree / inside


def in_tiers(c, passes, net):
    """Time to gather or scatter in the node by a ring, and by circuits what that leaves to each.

    Source: arXiv 1807.11205.
    """
    inside, across = tiers(c, net)
    near = net.inside.time((inside - 1) / inside * c.volume, inside - 1)
    left = c.of(Group("joined by circuits", intra=1, inter=across), c.volume / inside)
    return passes * near * (inside > 1) + net.fastest(left, passes, net.algorithms) * (across > 1)


def all_reduce_time(c, net):
    """Time of a reduce-scatter and an all-gather: with powers of two Rabenseifner's.

    Source: Rabenseifner, ICCS 2004.
    """
    return in_tiers(c, 2, net)


def gather_time(c, net):
    """Time of an all-gather or a reduce-scatter. Source: Thakur et al., IJHPCA 19(1), 2005."""
    return in_tiers(c, 1, net)


def spread_time(size, volume, net):
    """Time to broadcast or reduce by the fastest of a chain that stays, a k-nomial tree, and a scatter with a gather.

    Source: Thakur et al., IJHPCA 19(1), 2005; van de Geijn's scatter and gather there.
    """
    chain = net.setting + (size - 1) * net.wavelength.latency + (volume + net.wavelength.ramp) / bandwidth_of(1, net)
    partners = np.maximum(np.minimum(net.circuits, size - 1), 1)
    tree = np.ceil(np.log(size) / np.log(partners + 1) - ROUNDING) * round_time(volume, partners, net)
    halves = 2 * np.minimum(rounds_time(size, volume, 1, net), rounds_time(size, volume, net.circuits, net))
    return np.minimum(np.minimum(chain, tree), halves)


def broadcast_time(c, net):
    """Time to broadcast to, or reduce from, all nodes over circuits and in the node along a chain.

    Source: Thakur et al., IJHPCA 19(1), 2005.
    """
    inside, across = tiers(c, net)
    near = net.inside.time(c.volume, inside - 1)
    return near * (inside > 1) + spread_time(across, c.volume, net) * (across > 1)


def turns_time(size, volume, partners, net):
    """Time to exchange with all others in turns, so many at once, each its own share of the payload.

    Source: definition.
    """
    turns = np.floor((size - 1) / partners)
    left = size - 1 - turns * partners
    rest = round_time(volume / size, np.maximum(left, 1), net) * (left > 0)
    return turns * round_time(volume / size, partners, net) + rest


def exchange_time(size, volume, net):
    """Time of an all-to-all: in turns, one partner or several at once, or passed on round a ring whose circuits stay.

    Source: Bruck et al., IEEE TPDS 8(11), 1997 (index, radix n).
    Differs: its smaller radices, with fewer rounds that pass on more, are left out.
    """
    turns = np.minimum(turns_time(size, volume, 1, net), turns_time(size, volume, net.circuits, net))
    passed = (size - 1) / 2 * volume + (size - 1) * net.wavelength.ramp
    return np.minimum(turns, net.setting + (size - 1) * net.wavelength.latency + passed / bandwidth_of(1, net))


def all_to_all_time(c, net):
    """Time in which each sends every other its share of the payload, inside and across nodes at once.

    Source: arXiv 2006.16668, section 3.
    """
    inside, across = tiers(c, net)
    near = net.inside.time((inside - 1) / (inside * across) * c.volume, inside - 1)
    return np.maximum(near * (inside > 1), exchange_time(across, c.volume, net) * (across > 1))


def send_time(c, net):
    """Time to hand a payload to a neighbor, over a circuit if any neighbor is across. Source: Hockney, 1994 (α–β)."""
    _, across = tiers(c, net)
    return np.where(across > 1, round_time(c.volume, 1, net), net.inside.time(c.volume))


TIMES = {
    "all_reduce": all_reduce_time,
    "all_gather": gather_time,
    "reduce_scatter": gather_time,
    "reduce": broadcast_time,
    "broadcast": broadcast_time,
    "all_to_all": all_to_all_time,
    "send_receive": send_time,
}

# --- the network -----------------------------------------------------------------------------------------------------


@quantity("s")
def exposed_reconfiguration_time(
    reconfiguration_time, number_of_messages_per_reconfiguration, overlapped_reconfiguration_fraction
):
    """Time that a step waits for its circuits: shared by the slots that use them, and less what is hidden.

    Source: arXiv 2510.19322; definition.
    """
    return reconfiguration_time * (1 - overlapped_reconfiguration_fraction) / number_of_messages_per_reconfiguration


@records(choice="collective_algorithm", value="automatic")
def circuit_algorithms__automatic():
    """Rings, halving and doubling, and k-nomial rounds, whichever is fastest. Source: definition."""
    return tuple(ALGORITHMS.values())


@family(NAME=tuple(ALGORITHMS))
@records(choice="collective_algorithm", value="NAME")
def circuit_algorithms__NAME():
    """One algorithm alone: rings, whose circuits stay; halving and doubling; or as many partners at once as circuits.

    Source: Rabenseifner, ICCS 2004; Bruck et al., IEEE TPDS 8(11), 1997.
    """
    return (ALGORITHMS["NAME"],)


@records()
def wavelength_link(bandwidth_per_wavelength, inter_node_efficiency, inter_node_latency, inter_node_ramp_bytes):
    """One wavelength as a link: efficiency, latency and ramp are those of the network across nodes.

    Source: definition.
    """
    bandwidth = bandwidth_per_wavelength * inter_node_efficiency
    return (Link("wavelength_link", bandwidth, inter_node_latency, inter_node_ramp_bytes),)


@records(choice="network_kind", value="optical_circuit_switched")
def network__circuits(
    wavelength_link,
    number_of_wavelengths,
    number_of_circuits_per_accelerator,
    exposed_reconfiguration_time,
    collective_overhead_time,
    inter_accelerator_link,
    inter_accelerator_ramp_bytes,
    circuits_inside_node,
    circuit_algorithms,
):
    """All that the time of a collective depends on beside its group and payload. Source: definition."""
    circuits = Circuits(
        name="circuits",
        times=TIMES,
        algorithms=circuit_algorithms,
        overhead=collective_overhead_time,
        inside=inter_accelerator_link[0].losing(inter_accelerator_ramp_bytes),
        wavelength=wavelength_link[0],
        wavelengths=number_of_wavelengths,
        circuits=number_of_circuits_per_accelerator,
        setting=exposed_reconfiguration_time,
        flat=circuits_inside_node,
    )
    return (circuits,)
