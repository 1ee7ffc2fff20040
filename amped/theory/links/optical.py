"""Time of a collective on optical circuits, which are reconfigured for each step or stay set.

The partners with which an accelerator communicates at once share its wavelengths. If circuits end at the node, each
accelerator has optics of its own, and messages inside the node use the electrical links there.

In all functions `collective` is a record of `Collective`, and `network` is a record of `Circuits`.
"""

import numpy as np

from amped.theory.language.quantity import family, quantity, records
from amped.theory.nouns.link_records import Algorithm, Circuits, Link
from amped.theory.nouns.records import Group

# --- rounds ----------------------------------------------------------------------------------------------------------


# Rounding may leave a logarithm a little below a whole number. This tolerance is far smaller than 1 / size of a group.
ROUNDING = 1e-9


def bandwidth_of(partners, network):
    """The bandwidth of one circuit of an accelerator that communicates with `partners` others at the same time.

    Each partner has one circuit. All circuits have the same whole number of wavelengths.

    Source: definition.
    """
    return np.floor(network.wavelengths / partners) * network.wavelength.bandwidth


def round_time(volume, partners, network):
    """The time of a round: circuits are set, and each accelerator sends `volume` bytes to each of its partners at once.

        setting + latency + (volume + ramp) / (bandwidth of a circuit)

    `setting` is the time for which the round waits for its circuits, and `ramp` the bytes by which a message counts as
    longer than it is.

    Source: Hockney, 1994 (α–β); SWOT (overlap4ocs at 03bb9d3), docs/math_model.md, equations 2, 4, 5.
    """
    link = network.wavelength
    return network.setting + link.latency + (volume + link.ramp) / bandwidth_of(partners, network)


def rounds_time(size, volume, partners, network):
    """The time of an all-gather or a reduce-scatter in rounds in which each accelerator has k − 1 partners.

        r · (setting + latency) + (r · ramp + volume/size · (k^r − 1)/(k − 1)) / bandwidth + (last round)

    `size` is the number of accelerators, `volume` the bytes of the payload, and `partners` is k − 1. In each round an
    accelerator sends all parts that it holds to each partner; after the round it holds k times as many parts. After
    r = ⌊log_k size⌋ rounds it holds k^r parts. If size > k^r, a last round follows with only ⌈(size − k^r) / k^r⌉
    partners. No part is sent twice. A reduce-scatter runs the rounds in reverse order. `setting` is the time to wait
    for circuits, and `ramp` the bytes by which a message counts as longer than it is.

    Source: Bruck et al., IEEE TPDS 8(11), 1997; MPICH 4.3, allgather_intra_k_brucks.c. Differs: for sizes that are not
    a power of two Rabenseifner first folds the rest into a power of two, which sends the payload twice more. In MPICH
    the last partner of the last round gets fewer parts than the others; here all get equally many.
    """
    radix, part = partners + 1, volume / size
    full_rounds = np.floor(np.log(size) / np.log(radix) + ROUNDING)
    held_parts = np.rint(radix**full_rounds)
    last = np.maximum(np.ceil((size - held_parts) / held_parts), 1)
    moved = full_rounds * network.wavelength.ramp + part * (held_parts - 1) / partners
    regular = full_rounds * (network.setting + network.wavelength.latency) + moved / bandwidth_of(partners, network)
    return regular + round_time(part * np.ceil((size - held_parts) / last), last, network) * (size > held_parts)


# --- algorithms to gather or to scatter, and to do both --------------------------------------------------------------


def ring_time(collective, passes, network):
    """The time to pass the shares of a payload around a ring `passes` times. The circuits are set once before that.

    Source: Thakur et al., IJHPCA 19(1).
    """
    size = collective.group.degree
    moved = (size - 1) / size * collective.volume + network.wavelength.ramp
    return network.setting + passes * ((size - 1) * network.wavelength.latency + moved / bandwidth_of(1, network))


def halving_and_doubling_time(collective, passes, network):
    """The time of an all-gather or reduce-scatter (`passes` = 1) or an all-reduce (2) in rounds with one partner.

    A reduce-scatter is a recursive halving, and an all-gather is a recursive doubling.

    Source: Rabenseifner, ICCS 2004.
    """
    return passes * rounds_time(collective.group.degree, collective.volume, 1, network)


def k_nomial_time(collective, passes, network):
    """The time of an all-gather or reduce-scatter (`passes` = 1) or an all-reduce (2) in rounds with several partners.

    An accelerator has as many partners in a round as it can have circuits at the same time.

    Source: Bruck et al., IEEE TPDS 8(11), 1997.
    """
    return passes * rounds_time(collective.group.degree, collective.volume, network.circuits, network)


ALGORITHMS = {
    algorithm.name: algorithm
    for algorithm in (
        Algorithm("ring", ring_time),
        Algorithm("halving_doubling", halving_and_doubling_time),
        Algorithm("k_nomial", k_nomial_time),
    )
}

# --- collectives -----------------------------------------------------------------------------------------------------


def tiers(collective, network):
    """The sizes of the two tiers of a group: how many accelerators electrical links join, and how many circuits join.

    Electrical links join the accelerators of the group in each node, and circuits join the nodes. In a flat network
    circuits join all accelerators of the group, so that the first size is 1.

    Source: definition.
    """
    inside = np.where(network.flat > 0, 1, collective.intra)
    return inside, collective.group.degree / inside


def in_tiers(collective, passes, network):
    """The time of an all-gather or reduce-scatter (`passes` = 1) or an all-reduce (2) in two tiers.

    The payload passes around a ring inside each node. Over the circuits each accelerator then sends only the part that
    it has.

    Source: arXiv 1807.11205, section on improvements of communication strategies (hierarchical all-reduce).
    """
    inside, across = tiers(collective, network)
    near = network.inside.time((inside - 1) / inside * collective.volume, inside - 1)
    part = collective.having(
        group=Group("joined by circuits", intra=1, inter=across), volume=collective.volume / inside
    )
    return passes * near * (inside > 1) + network.fastest(part, passes, network.algorithms) * (across > 1)


def all_reduce_time(collective, network):
    """The time of an all-reduce: a reduce-scatter and an all-gather.

    For a power of two accelerators, halving and doubling are the algorithm of Rabenseifner.

    Source: Rabenseifner, ICCS 2004.
    """
    return in_tiers(collective, 2, network)


def gather_time(collective, network):
    """The time of an all-gather or a reduce-scatter. Source: Thakur et al., IJHPCA 19(1), 2005."""
    return in_tiers(collective, 1, network)


def spread_time(size, volume, network):
    """The time of a broadcast or a reduce over circuits, by the fastest of three ways.

        chain = setting + (size − 1) · latency + (volume + ramp) / bandwidth
        tree  = ⌈log_k size⌉ rounds with the whole volume, for k − 1 partners
        both  = 2 · (the time to gather)

    The ways are a chain whose circuits are set only once, a tree in which an accelerator has k − 1 partners at the same
    time, and a scatter followed by an all-gather. `size` is the number of accelerators, `volume` the payload,
    `bandwidth` that of a circuit, `setting` the time to wait for circuits, and `ramp` the bytes by which a message
    counts as longer than it is.

    Source: Thakur et al., IJHPCA 19(1), 2005, with van de Geijn's scatter and gather.
    """
    link = network.wavelength
    chain = network.setting + (size - 1) * link.latency + (volume + link.ramp) / bandwidth_of(1, network)
    partners = np.maximum(np.minimum(network.circuits, size - 1), 1)
    tree = np.ceil(np.log(size) / np.log(partners + 1) - ROUNDING) * round_time(volume, partners, network)
    halves = 2 * np.minimum(rounds_time(size, volume, 1, network), rounds_time(size, volume, network.circuits, network))
    return np.minimum(np.minimum(chain, tree), halves)


def broadcast_time(collective, network):
    """The time of a broadcast or a reduce: over circuits among nodes, and along a chain inside the node.

    Source: Thakur et al., IJHPCA 19(1), 2005.
    """
    inside, across = tiers(collective, network)
    near = network.inside.time(collective.volume, inside - 1)
    return near * (inside > 1) + spread_time(across, collective.volume, network) * (across > 1)


def turns_time(size, volume, partners, network):
    """The time of an all-to-all in turns: in each turn an accelerator exchanges shares with `partners` others.

    Each of the `size` accelerators gets its own share of the `volume` bytes of the payload.

    Source: definition.
    """
    turns = np.floor((size - 1) / partners)
    remaining = size - 1 - turns * partners
    last_turn = round_time(volume / size, np.maximum(remaining, 1), network) * (remaining > 0)
    return turns * round_time(volume / size, partners, network) + last_turn


def exchange_time(size, volume, network):
    """The time of an all-to-all over circuits, by the fastest of three ways.

        ring = setting + (size − 1) · latency + ((size − 1)/2 · volume + (size − 1) · ramp) / bandwidth

    In the first way an accelerator exchanges with one partner at a time; in the second with as many partners as it can
    have circuits; in the third the shares pass around a ring whose circuits are set only once. `setting` is the time to
    wait for circuits, and `ramp` the bytes by which a message counts as longer than it is.

    Source: Bruck et al., IEEE TPDS 8(11), 1997 (index, radix n). Differs: the smaller radices of the source, with fewer
    rounds that pass on more bytes, are left out.
    """
    turns = np.minimum(turns_time(size, volume, 1, network), turns_time(size, volume, network.circuits, network))
    passed, latency = (size - 1) / 2 * volume + (size - 1) * network.wavelength.ramp, network.wavelength.latency
    return np.minimum(turns, network.setting + (size - 1) * latency + passed / bandwidth_of(1, network))


def all_to_all_time(collective, network):
    """The time of an all-to-all: the longer of the messages inside the node and of those over circuits.

    Source: arXiv 2006.16668, section 3.
    """
    inside, across = tiers(collective, network)
    near = network.inside.time((inside - 1) / (inside * across) * collective.volume, inside - 1)
    return np.maximum(near * (inside > 1), exchange_time(across, collective.volume, network) * (across > 1))


def send_time(collective, network):
    """The time to send a payload to a neighbor: over a circuit if circuits connect the group, else electrically.

    Source: Hockney, 1994 (α–β).
    """
    _, across = tiers(collective, network)
    return np.where(across > 1, round_time(collective.volume, 1, network), network.inside.time(collective.volume))


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
    """The time for which a step of a collective waits until its circuits are set.

    Several messages share one reconfiguration. The part of a reconfiguration that overlaps communication is left out.

    Source: definition; SWOT (overlap4ocs at 03bb9d3), docs/math_model.md, equations 5 and 13 (overlap).
    """
    return reconfiguration_time * (1 - overlapped_reconfiguration_fraction) / number_of_messages_per_reconfiguration


@records(choice="collective_algorithm", value="automatic")
def circuit_algorithms__automatic():
    """The algorithms that a collective on circuits may use: ring, halving and doubling, and k-nomial rounds.

    Source: definition.
    """
    return tuple(ALGORITHMS.values())


@family(
    named=(
        "circuit_algorithms__ring",
        "circuit_algorithms__halving_doubling",
        "circuit_algorithms__k_nomial",
    ),
    NAME=tuple(ALGORITHMS),
)
@records(choice="collective_algorithm", value="NAME")
def circuit_algorithms__NAME(*, name):
    """The only algorithm that a collective on circuits may use: NAME.

    A ring sets its circuits only once. With halving_doubling an accelerator has one partner in each round, with
    k_nomial as many partners as it can have circuits.

    Source: Rabenseifner, ICCS 2004; Bruck et al., IEEE TPDS 8(11), 1997.
    """
    return (ALGORITHMS[name],)


@records()
def wavelength_link(bandwidth_per_wavelength, inter_node_efficiency, inter_node_latency, inter_node_ramp_bytes):
    """The link of one wavelength, with the efficiency and the latency of links across nodes.

    It also has their `ramp`: the bytes by which a message counts as longer than it is, because short messages are
    slower.

    Source: definition.
    """
    bandwidth = bandwidth_per_wavelength * inter_node_efficiency
    return (Link("wavelength_link", bandwidth, latency=inter_node_latency, ramp=inter_node_ramp_bytes),)


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
    """The optical network: all values on which the time of a collective depends, except its group and its payload.

    Source: definition.
    """
    circuits = Circuits(
        name="circuits",
        times=TIMES,
        algorithms=circuit_algorithms,
        overhead=collective_overhead_time,
        inside=inter_accelerator_link[0].having(ramp=inter_accelerator_ramp_bytes),
        wavelength=wavelength_link[0],
        wavelengths=number_of_wavelengths,
        circuits=number_of_circuits_per_accelerator,
        setting=exposed_reconfiguration_time,
        flat=circuits_inside_node,
    )
    return (circuits,)
