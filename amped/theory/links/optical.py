"""Time of a collective on optical circuits, which are reconfigured for each step or stay set.

The partners with which an accelerator communicates at once share its wavelengths. If circuits end at the node, each
accelerator has optics of its own, and messages inside the node use the electrical links there.
"""

import numpy as np

from amped.theory.link_records import Algorithm, Circuits, Link
from amped.theory.quantity import family, quantity, records
from amped.theory.records import Group

# --- rounds ----------------------------------------------------------------------------------------------------------


# Rounding may leave a logarithm a little below a whole number. This tolerance is far smaller than 1 / size of a group.
ROUNDING = 1e-9


def bandwidth_of(partners, net):
    """The bandwidth of one circuit, if an accelerator has several partners at once: a whole number of wavelengths.

    Source: definition.
    """
    return np.floor(net.wavelengths / partners) * net.wavelength.bandwidth


def round_time(volume, partners, net):
    """The time of a round: circuits are set, and each accelerator sends `volume` to each of its partners at once.

    That is:

        setting + latency + (volume + ramp) / (bandwidth of a circuit)

    Source: Hockney, 1994 (α–β); arXiv 2211.15226, abstract (reconfiguration).
    """
    return net.setting + net.wavelength.latency + (volume + net.wavelength.ramp) / bandwidth_of(partners, net)


def rounds_time(size, volume, partners, net):
    """The time to gather, or in reverse order to scatter, in ⌈log_k size⌉ rounds with k − 1 partners.

    No part is sent twice. In each round an accelerator passes on all parts that it holds, so that it holds k times as
    many afterwards. After r = ⌊log_k size⌋ full rounds it holds k^r parts. If size > k^r, one more round follows, with
    only ⌈(size − k^r) / k^r⌉ partners. That is:

        r · (setting + latency) + (r · ramp + volume/size · (k^r − 1)/(k − 1)) / bandwidth + (last round)

    Source: Bruck et al., IEEE TPDS 8(11), 1997; Träff, arXiv 2410.14234, abstract. Differs: for sizes that are not a
    power of two Rabenseifner first folds the rest into a power of two, which sends the payload twice more.
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
    """The time to pass the shares of a payload around a ring `passes` times; the circuits of the ring stay set.

    Source: Thakur et al., IJHPCA 19(1).
    """
    size = c.group.degree
    moved = (size - 1) / size * c.volume + net.wavelength.ramp
    return net.setting + passes * ((size - 1) * net.wavelength.latency + moved / bandwidth_of(1, net))


def halving_and_doubling_time(c, passes, net):
    """The time of rounds with one partner each, `passes` times: recursive halving, recursive doubling, or both.

    Source: Rabenseifner, ICCS 2004.
    """
    return passes * rounds_time(c.group.degree, c.volume, 1, net)


def k_nomial_time(c, passes, net):
    """The time of rounds with as many partners at once as an accelerator has circuits, `passes` times.

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
    """The sizes of the two tiers of a group: how many accelerators electrical links join, and how many circuits join.

    Source: definition.
    """
    inside = np.where(net.flat > 0, 1, c.intra)
    return inside, c.group.degree / inside


def in_tiers(c, passes, net):
    """The time to gather or scatter by a ring inside the node, and by circuits the part that each accelerator has left.

    Source: arXiv 1807.11205, section on improvements of communication strategies (hierarchical all-reduce).
    """
    inside, across = tiers(c, net)
    near = net.inside.time((inside - 1) / inside * c.volume, inside - 1)
    left = c.of(Group("joined by circuits", intra=1, inter=across), c.volume / inside)
    return passes * near * (inside > 1) + net.fastest(left, passes, net.algorithms) * (across > 1)


def all_reduce_time(c, net):
    """The time of an all-reduce: a reduce-scatter and an all-gather. For powers of two it is Rabenseifner's algorithm.

    Source: Rabenseifner, ICCS 2004.
    """
    return in_tiers(c, 2, net)


def gather_time(c, net):
    """The time of an all-gather or a reduce-scatter. Source: Thakur et al., IJHPCA 19(1), 2005."""
    return in_tiers(c, 1, net)


def spread_time(size, volume, net):
    """The time to broadcast or reduce by the fastest of three ways.

    These are a chain whose circuits stay set, a k-nomial tree, and a scatter with a gather:

        chain = setting + (size − 1) · latency + (volume + ramp) / bandwidth
        tree  = ⌈log_k size⌉ rounds with the whole volume, for k − 1 partners
        both  = 2 · (the time to gather)

    Source: Thakur et al., IJHPCA 19(1), 2005, with van de Geijn's scatter and gather.
    """
    chain = net.setting + (size - 1) * net.wavelength.latency + (volume + net.wavelength.ramp) / bandwidth_of(1, net)
    partners = np.maximum(np.minimum(net.circuits, size - 1), 1)
    tree = np.ceil(np.log(size) / np.log(partners + 1) - ROUNDING) * round_time(volume, partners, net)
    halves = 2 * np.minimum(rounds_time(size, volume, 1, net), rounds_time(size, volume, net.circuits, net))
    return np.minimum(np.minimum(chain, tree), halves)


def broadcast_time(c, net):
    """The time of a broadcast or a reduce: over circuits among nodes, and along a chain inside the node.

    Source: Thakur et al., IJHPCA 19(1), 2005.
    """
    inside, across = tiers(c, net)
    near = net.inside.time(c.volume, inside - 1)
    return near * (inside > 1) + spread_time(across, c.volume, net) * (across > 1)


def turns_time(size, volume, partners, net):
    """The time to exchange shares of a payload with all others in turns, with `partners` of them at once.

    Each partner gets a share of its own. Source: definition.
    """
    turns = np.floor((size - 1) / partners)
    left = size - 1 - turns * partners
    rest = round_time(volume / size, np.maximum(left, 1), net) * (left > 0)
    return turns * round_time(volume / size, partners, net) + rest


def exchange_time(size, volume, net):
    """The time of an all-to-all by the fastest of three ways.

    The accelerators exchange in turns with one partner, in turns with as many as there are circuits, or they pass
    shares around a ring whose circuits stay set:

        ring = setting + (size − 1) · latency + ((size − 1)/2 · volume + (size − 1) · ramp) / bandwidth

    Source: Bruck et al., IEEE TPDS 8(11), 1997 (index, radix n). Differs: the smaller radices of the source, with fewer
    rounds that pass on more bytes, are left out.
    """
    turns = np.minimum(turns_time(size, volume, 1, net), turns_time(size, volume, net.circuits, net))
    passed = (size - 1) / 2 * volume + (size - 1) * net.wavelength.ramp
    return np.minimum(turns, net.setting + (size - 1) * net.wavelength.latency + passed / bandwidth_of(1, net))


def all_to_all_time(c, net):
    """The time in which each accelerator sends every other one its share, inside the node and across nodes at once.

    Source: arXiv 2006.16668, section 3.
    """
    inside, across = tiers(c, net)
    near = net.inside.time((inside - 1) / (inside * across) * c.volume, inside - 1)
    return np.maximum(near * (inside > 1), exchange_time(across, c.volume, net) * (across > 1))


def send_time(c, net):
    """The time to send a payload to a neighbor; over a circuit, if circuits join the group.

    Source: Hockney, 1994 (α–β).
    """
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
    """Time for which a step of a collective waits until its circuits are set.

    Several messages share one reconfiguration, and the overlapped part is left out. Source: arXiv 2510.19322, abstract
    (overlap of reconfiguration and communication); definition.
    """
    return reconfiguration_time * (1 - overlapped_reconfiguration_fraction) / number_of_messages_per_reconfiguration


@records(choice="collective_algorithm", value="automatic")
def circuit_algorithms__automatic():
    """The algorithms on circuits, of which the fastest counts: ring, halving and doubling, and k-nomial rounds.

    Source: definition.
    """
    return tuple(ALGORITHMS.values())


@family(NAME=tuple(ALGORITHMS))
@records(choice="collective_algorithm", value="NAME")
def circuit_algorithms__NAME():
    """The algorithm on circuits: NAME only.

    A ring keeps its circuits set; halving_doubling has one partner a round; k_nomial has as many partners a round as
    there are circuits. Source: Rabenseifner, ICCS 2004; Bruck et al., IEEE TPDS 8(11), 1997.
    """
    return (ALGORITHMS["NAME"],)


@records()
def wavelength_link(bandwidth_per_wavelength, inter_node_efficiency, inter_node_latency, inter_node_ramp_bytes):
    """One wavelength as a link, with the efficiency, latency and ramp of the network across nodes.

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
    """The optical network: all that the time of a collective depends on, except its group and payload.

    Source: definition.
    """
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
