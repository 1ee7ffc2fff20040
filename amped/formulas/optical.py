"""A network of optical circuits: what an accelerator's optics send, and what it takes to set a circuit anew.

Wavelengths are shared out among the partners an accelerator has at once. Where circuits end at the node, each accelerator
has its own optics, and what stays inside the node goes over the electrical links there.
"""

from amped.links import CircuitAlgorithms, Circuits
from amped.quantity import SYSTEM, parameter, quantity, records


@parameter("s", category=SYSTEM, at_least=0)
def reconfiguration_time():
    """Time to set the circuits of a step anew, the pattern being known ahead.

    Source: Farrington et al., "A demonstration of ultra-low-latency data center optical circuit switching": 2.8 µs to
    switch and 8.7 µs until receivers work. Mirrors in free space take milliseconds, others nanoseconds (arXiv 2211.15226).
    """
    return 11.5e-6


@parameter("count", category=SYSTEM, at_least=1)
def number_of_slots_per_reconfiguration():
    """Messages in a row that are sent before circuits are set anew, and share that time. Source: definition."""
    return 1


@parameter("1", category=SYSTEM, at_least=0, at_most=1)
def hidden_reconfiguration_fraction():
    """Share of the reconfiguration that runs beside what is sent before, or beside computation: none unless stated.

    Source: arXiv 2510.19322, which overlaps them.
    """
    return 0


@parameter("count", category=SYSTEM, at_least=1)
def number_of_wavelengths():
    """Wavelengths that one accelerator sends at once, over all its fibres. Source: Ayar Labs TeraPHY, 8 ports of 8."""
    return 64


@parameter("byte/s", category=SYSTEM, above=0)
def bandwidth_per_wavelength():
    """Bandwidth of one wavelength, per direction. Source: Ayar Labs TeraPHY of 2023, 4 Tbit/s both ways over 64: 32 Gbit/s."""
    return 4e9


@quantity("count", category=SYSTEM)
def number_of_circuits_per_accelerator(number_of_wavelengths):
    """Partners to whom an accelerator has circuits at once: one for each wavelength, unless switches part them less finely.

    Source: definition.
    """
    return number_of_wavelengths


@quantity("boolean", choice="network_kind", value="optical_circuit_switched", constrains="number_of_circuits_per_accelerator")  # fmt: skip
def each_circuit_has_a_wavelength__circuits(number_of_circuits_per_accelerator, number_of_wavelengths):
    """An accelerator has no more circuits than wavelengths. Source: definition."""
    return number_of_circuits_per_accelerator <= number_of_wavelengths


@parameter("boolean", category=SYSTEM)
def circuits_inside_node():
    """Whether circuits join the accelerators of one node too, in place of its electrical links. Source: definition."""
    return 0


@quantity("s")
def exposed_reconfiguration_time(
    reconfiguration_time, number_of_slots_per_reconfiguration, hidden_reconfiguration_fraction
):
    """Time that a step waits for its circuits: shared by the slots that use them, and less what is hidden.

    Source: arXiv 2510.19322; definition.
    """
    return reconfiguration_time * (1 - hidden_reconfiguration_fraction) / number_of_slots_per_reconfiguration


@quantity("byte/s", choice="network_kind", value="optical_circuit_switched")
def inter_accelerator_bandwidth__circuits(number_of_wavelengths, bandwidth_per_wavelength):
    """Bandwidth of one accelerator inside the node; without electrical links there, that of its optics. Source: definition."""
    return number_of_wavelengths * bandwidth_per_wavelength


@records(choice="collective_algorithm", value="automatic")
def circuit_algorithms__automatic():
    """Rings, halving and doubling, and k-nomial rounds, whichever is fastest. Source: definition."""
    return (CircuitAlgorithms("automatic", 0, 0, 0),)


@records(choice="collective_algorithm", value="ring")
def circuit_algorithms__ring():
    """Rings, whose circuits stay. Source: definition."""
    return (CircuitAlgorithms("ring", 0, 1, 1),)


@records(choice="collective_algorithm", value="halving_doubling")
def circuit_algorithms__halving_doubling():
    """Recursive halving and doubling, one partner at a time. Source: Rabenseifner, ICCS 2004."""
    return (CircuitAlgorithms("halving_doubling", 1, 0, 1),)


@records(choice="collective_algorithm", value="k_nomial")
def circuit_algorithms__k_nomial():
    """Rounds with as many partners at once as there are circuits. Source: Bruck et al., IEEE TPDS 8(11), 1997."""
    return (CircuitAlgorithms("k_nomial", 1, 1, 0),)


@records()
def network_circuits(
    bandwidth_per_wavelength, number_of_wavelengths, number_of_circuits_per_accelerator, exposed_reconfiguration_time,
    inter_node_efficiency, inter_node_latency, inter_node_ramp_bytes, collective_overhead_time,
    inter_accelerator_bandwidth, inter_accelerator_efficiency, inter_accelerator_latency, inter_accelerator_ramp_bytes,
    circuits_inside_node, circuit_algorithms,
):  # fmt: skip
    """All that the time of a collective over circuits depends on beside its group and payload. Source: definition.

    Efficiency, latency of a step and ramp are those of the network across nodes.
    """
    (algorithms,) = circuit_algorithms
    return (Circuits(
        name="network_circuits",
        wavelength=bandwidth_per_wavelength * inter_node_efficiency, wavelengths=number_of_wavelengths,
        circuits=number_of_circuits_per_accelerator,
        setting=exposed_reconfiguration_time, latency=inter_node_latency, ramp=inter_node_ramp_bytes,
        overhead=collective_overhead_time,
        fast=inter_accelerator_bandwidth * inter_accelerator_efficiency, fast_latency=inter_accelerator_latency,
        fast_ramp=inter_accelerator_ramp_bytes, flat=circuits_inside_node,
        no_ring=algorithms.no_ring, no_halving=algorithms.no_halving, no_k_nomial=algorithms.no_k_nomial,
    ),)  # fmt: skip
