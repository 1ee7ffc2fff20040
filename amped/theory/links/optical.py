"""Time of a collective on optical circuits, which are set anew for a step or stay.

Wavelengths are shared out among the partners an accelerator has at once. Where circuits end at the node, each accelerator
has its own optics, and what stays inside the node goes over the electrical links there.
"""

import numpy as np

from amped.theory.link_records import CircuitAlgorithms, Circuits, durations_on
from amped.theory.quantity import family, quantity, records
from amped.theory.records import fastest

# --- what a network has ----------------------------------------------------------------------------------------------


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
    return (CircuitAlgorithms("automatic", 1, 1, 1),)


@family(NAME=("ring", "halving_doubling", "k_nomial"))
@records(choice="collective_algorithm", value="NAME")
def circuit_algorithms__NAME():
    """One algorithm alone: rings, whose circuits stay; halving and doubling; or as many partners at once as circuits.

    Source: Rabenseifner, ICCS 2004; Bruck et al., IEEE TPDS 8(11), 1997.
    """
    return (CircuitAlgorithms("NAME", *(1 * (name == "NAME") for name in ("ring", "halving_doubling", "k_nomial"))),)


@records()
def network_circuits(
    bandwidth_per_wavelength,
    number_of_wavelengths,
    number_of_circuits_per_accelerator,
    exposed_reconfiguration_time,
    inter_node_efficiency,
    inter_node_latency,
    inter_node_ramp_bytes,
    collective_overhead_time,
    inter_accelerator_bandwidth,
    inter_accelerator_efficiency,
    inter_accelerator_latency,
    inter_accelerator_ramp_bytes,
    circuits_inside_node,
    circuit_algorithms,
):
    """All that the time of a collective over circuits depends on beside its group and payload. Source: definition.

    Efficiency, latency of a step and ramp are those of the network across nodes.
    """
    (algorithms,) = circuit_algorithms
    return (
        Circuits(
            name="network_circuits",
            wavelength=bandwidth_per_wavelength * inter_node_efficiency,
            wavelengths=number_of_wavelengths,
            circuits=number_of_circuits_per_accelerator,
            setting=exposed_reconfiguration_time,
            latency=inter_node_latency,
            ramp=inter_node_ramp_bytes,
            overhead=collective_overhead_time,
            fast=inter_accelerator_bandwidth * inter_accelerator_efficiency,
            fast_latency=inter_accelerator_latency,
            fast_ramp=inter_accelerator_ramp_bytes,
            flat=circuits_inside_node,
            allows_ring=algorithms.allows_ring,
            allows_halving=algorithms.allows_halving,
            allows_k_nomial=algorithms.allows_k_nomial,
        ),
    )


# --- equations -------------------------------------------------------------------------------------------------------


# A logarithm that rounding left this much under a whole number is that number; 1 / size of a group is far more.
ROUNDING = 1e-9


def bandwidth_of(partners, net):
    """What each of so many circuits has: whole wavelengths only. Source: definition."""
    return np.floor(net.wavelengths / partners) * net.wavelength


def round_time(volume, partners, net):
    """Time of a round: circuits are set, and each accelerator sends `volume` to each of its partners at once.

    Source: Hockney, 1994 (α–β); arXiv 2211.15226 (reconfiguration).
    """
    return net.setting + net.latency + (volume + net.ramp) / bandwidth_of(partners, net)


def rounds_time(size, volume, partners, net):
    """Time to gather, or backwards to scatter, in ⌈log k size⌉ rounds with k − 1 partners; any size, no part sent twice.

    Each round passes on all that is held, k times as much after it. The last, unless the size is a power of k, has as few
    partners as hold what lacks. Source: Bruck et al., IEEE TPDS 8(11), 1997; Träff, arXiv 2410.14234.
    Differs: Rabenseifner folds what is over a power of two into it, which sends the payload twice more.
    """
    radix, part = partners + 1, volume / size
    full = np.floor(np.log(size) / np.log(radix) + ROUNDING)
    held = np.rint(radix**full)
    last = np.maximum(np.ceil((size - held) / held), 1)
    sent = full * net.ramp + part * (held - 1) / partners
    regular = full * (net.setting + net.latency) + sent / bandwidth_of(partners, net)
    return regular + round_time(part * np.ceil((size - held) / last), last, net) * (size > held)


def ring_time(size, volume, passes, net):
    """Time to send shares of a payload so often round a ring whose circuits stay. Source: Thakur et al., IJHPCA 19(1)."""
    moved = (size - 1) / size * volume + net.ramp
    return net.setting + passes * ((size - 1) * net.latency + moved / bandwidth_of(1, net))


def shared_time(size, volume, passes, net):
    """Time to gather or scatter, in one pass, or to do both, by the fastest way that is considered. Source: definition."""
    halving, nomial = (passes * rounds_time(size, volume, partners, net) for partners in (1, net.circuits))
    ring = (net.allows_ring, ring_time(size, volume, passes, net))
    return fastest(ring, (net.allows_halving, halving), (net.allows_k_nomial, nomial))


def tiers(c, net):
    """Accelerators of the group inside a node that electrical links join, and those that circuits do. Source: definition."""
    inside = np.where(net.flat > 0, 1, c.intra)
    return inside, c.intra * c.inter / inside


def in_tiers(c, passes, net):
    """Time to gather or scatter in the node by a ring, and by circuits what that leaves to each. Source: arXiv 1807.11205."""
    inside, across = tiers(c, net)
    near = ((inside - 1) / inside * c.volume + net.fast_ramp) / net.fast + (inside - 1) * net.fast_latency
    return passes * near * (inside > 1) + shared_time(across, c.volume / inside, passes, net) * (across > 1)


def all_reduce_time(c, net):
    """Time of a reduce-scatter and an all-gather: with powers of two Rabenseifner's. Source: Rabenseifner, ICCS 2004."""
    return in_tiers(c, 2, net)


def gather_time(c, net):
    """Time of an all-gather or a reduce-scatter. Source: Thakur et al., IJHPCA 19(1), 2005."""
    return in_tiers(c, 1, net)


def spread_time(size, volume, net):
    """Time to broadcast or reduce by the fastest of a chain that stays, a k-nomial tree, and a scatter with a gather.

    Source: Thakur et al., IJHPCA 19(1), 2005; van de Geijn's scatter and gather there.
    """
    chain = net.setting + (size - 1) * net.latency + (volume + net.ramp) / bandwidth_of(1, net)
    partners = np.maximum(np.minimum(net.circuits, size - 1), 1)
    tree = np.ceil(np.log(size) / np.log(partners + 1) - ROUNDING) * round_time(volume, partners, net)
    halves = 2 * np.minimum(rounds_time(size, volume, 1, net), rounds_time(size, volume, net.circuits, net))
    return np.minimum(np.minimum(chain, tree), halves)


def broadcast_time(c, net):
    """Time to broadcast to, or reduce from, all nodes over circuits and in the node along a chain.

    Source: Thakur et al., IJHPCA 19(1), 2005.
    """
    inside, across = tiers(c, net)
    near = (inside - 1) * net.fast_latency + (c.volume + net.fast_ramp) / net.fast
    return near * (inside > 1) + spread_time(across, c.volume, net) * (across > 1)


def turns_time(size, volume, partners, net):
    """Time to exchange with all others in turns, so many at once, each its own share of the payload. Source: definition."""
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
    passed = (size - 1) / 2 * volume + (size - 1) * net.ramp
    return np.minimum(turns, net.setting + (size - 1) * net.latency + passed / bandwidth_of(1, net))


def all_to_all_time(c, net):
    """Time in which each sends every other its share of the payload, inside and across nodes at once.

    Source: arXiv 2006.16668, section 3.
    """
    inside, across = tiers(c, net)
    share = (inside - 1) / (inside * across) * c.volume
    near = (share + net.fast_ramp) / net.fast + (inside - 1) * net.fast_latency
    return np.maximum(near * (inside > 1), exchange_time(across, c.volume, net) * (across > 1))


def send_time(c, net):
    """Time to hand a payload to a neighbor, over a circuit if any neighbor is across. Source: Hockney, 1994 (α–β)."""
    _, across = tiers(c, net)
    near = net.fast_latency + (c.volume + net.fast_ramp) / net.fast
    return np.where(across > 1, round_time(c.volume, 1, net), near)


TIMES = {
    "all_reduce": all_reduce_time,
    "all_gather": gather_time,
    "reduce_scatter": gather_time,
    "reduce": broadcast_time,
    "broadcast": broadcast_time,
    "all_to_all": all_to_all_time,
    "send_receive": send_time,
}


@family(KIND=("tensor", "context", "grid_column", "expert", "expert_tensor"))
@records(choice="network_kind", value="optical_circuit_switched")
def KIND_durations__circuits(KIND_collectives, network_circuits):
    """Time of each collective of a parallelism in a layer. Source: the equations of its kinds on this page."""
    return durations_on(network_circuits[0], TIMES, KIND_collectives)


@records(choice="network_kind", value="optical_circuit_switched")
def pipeline_durations__circuits(pipeline_collectives, stage_send_gather_collectives, network_circuits):
    """Time to hand a micro-batch over a stage boundary, and to gather its parts. Source: `round_time`, `shared_time`."""
    return durations_on(network_circuits[0], TIMES, pipeline_collectives + stage_send_gather_collectives)


@records(choice="network_kind", value="optical_circuit_switched")
def data_durations__circuits(sharding_collectives, expert_sharding_collectives, network_circuits):
    """Time of each collective of data parallelism. Source: `all_reduce_time`, `shared_time`."""
    return durations_on(network_circuits[0], TIMES, sharding_collectives + expert_sharding_collectives)


@records(choice="network_kind", value="optical_circuit_switched")
def output_head_panel_durations__circuits(output_head_panels, network_circuits):
    """Time of what SUMMA sends for the output head. Source: `spread_time`."""
    return durations_on(network_circuits[0], TIMES, output_head_panels)
