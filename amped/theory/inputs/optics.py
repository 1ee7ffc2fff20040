"""Optical circuits: what an accelerator's optics send, and what it takes to set a circuit anew."""

from amped.theory.quantity import quantity


@quantity(
    "boolean", choice="network_kind", value="optical_circuit_switched", constrains="number_of_circuits_per_accelerator"
)
def each_circuit_has_a_wavelength__circuits(number_of_circuits_per_accelerator, number_of_wavelengths):
    """An accelerator has no more circuits than wavelengths. Source: definition."""
    return number_of_circuits_per_accelerator <= number_of_wavelengths


@quantity("byte/s", choice="network_kind", value="optical_circuit_switched")
def inter_accelerator_bandwidth__circuits(number_of_wavelengths, bandwidth_per_wavelength):
    """Bandwidth of one accelerator inside the node; without electrical links there, that of its optics.

    Source: definition.
    """
    return number_of_wavelengths * bandwidth_per_wavelength
