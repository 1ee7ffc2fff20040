"""Optical circuits: what an accelerator's optics send, and what it takes to set a circuit anew."""

from amped.theory.quantity import SYSTEM, parameter, quantity


@parameter("s", category=SYSTEM, at_least=0)
def reconfiguration_time():
    """Time to set the circuits of a step anew, the pattern being known ahead.

    Source: Farrington et al., "A demonstration of ultra-low-latency data center optical circuit switching": 2.8 µs to
    switch and 8.7 µs until receivers work. Mirrors in free space take milliseconds, others nanoseconds (arXiv 2211.15226).
    """
    return 11.5e-6


@parameter("count", category=SYSTEM, at_least=1)
def number_of_messages_per_reconfiguration():
    """Messages in a row that are sent before circuits are set anew, and share that time. Source: definition."""
    return 1


@parameter("1", category=SYSTEM, at_least=0, at_most=1)
def overlapped_reconfiguration_fraction():
    """Share of the reconfiguration that runs beside what is sent before, or beside computation: none unless stated.

    Source: arXiv 2510.19322, which overlaps them.
    """
    return 0


@parameter("count", category=SYSTEM, at_least=1)
def number_of_wavelengths():
    """Wavelengths that one accelerator sends at once, over all its fibers. Source: Ayar Labs TeraPHY, 8 ports of 8."""
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


@quantity(
    "boolean", choice="network_kind", value="optical_circuit_switched", constrains="number_of_circuits_per_accelerator"
)
def each_circuit_has_a_wavelength__circuits(number_of_circuits_per_accelerator, number_of_wavelengths):
    """An accelerator has no more circuits than wavelengths. Source: definition."""
    return number_of_circuits_per_accelerator <= number_of_wavelengths


@parameter("boolean", category=SYSTEM)
def circuits_inside_node():
    """Whether circuits join the accelerators of one node too, in place of its electrical links. Source: definition."""
    return 0


@quantity("byte/s", choice="network_kind", value="optical_circuit_switched")
def inter_accelerator_bandwidth__circuits(number_of_wavelengths, bandwidth_per_wavelength):
    """Bandwidth of one accelerator inside the node; without electrical links there, that of its optics. Source: definition."""
    return number_of_wavelengths * bandwidth_per_wavelength
