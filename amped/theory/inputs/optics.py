"""Optical circuits: the bandwidth of an accelerator's optics, and the time to set a circuit."""

from amped.theory.language.quantity import quantity


@quantity(
    "boolean", choice="network_kind", value="optical_circuit_switched", constrains="number_of_circuits_per_accelerator"
)
def each_circuit_has_a_wavelength__circuits(number_of_circuits_per_accelerator, number_of_wavelengths):
    """An accelerator has at most as many circuits as wavelengths. Source: definition."""
    return number_of_circuits_per_accelerator <= number_of_wavelengths


@quantity("byte/s", choice="network_kind", value="optical_circuit_switched")
def inter_accelerator_bandwidth__circuits(number_of_wavelengths, bandwidth_per_wavelength):
    """The bandwidth of one accelerator inside the node, if no electrical links are given there.

    It is the bandwidth of all wavelengths of the accelerator.

    Source: definition.
    """
    return number_of_wavelengths * bandwidth_per_wavelength
