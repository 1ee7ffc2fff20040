"""What the training consumes: energy and money, and what it emits."""

from amped.theory.language.quantity import quantity


@quantity("1")
def busy_fraction(
    compute_forward_time, compute_backward_time, recomputation_time, weight_update_time, optimizer_time, step_time
):
    """The share of the step in which an accelerator computes. Source: definition."""
    compute = compute_forward_time + compute_backward_time + recomputation_time + weight_update_time + optimizer_time
    return compute / step_time


@quantity("W")
def average_power_per_accelerator(thermal_design_power, idle_power_fraction, busy_fraction):
    """The average power of one accelerator over a step.

    It takes its design power while it computes, and its idle power while it waits.

    Source: assumption: the power is linear in the time in which the accelerator computes.
    """
    return thermal_design_power * (idle_power_fraction + (1 - idle_power_fraction) * busy_fraction)


@quantity("J")
def energy(average_power_per_accelerator, number_of_accelerators, training_time):
    """The energy of all accelerators over the training, without hosts, network and cooling. Source: definition."""
    return average_power_per_accelerator * number_of_accelerators * training_time


@quantity("dollar")
def cost(accelerator_price, number_of_accelerators, number_of_spare_accelerators, training_time):
    """The price of renting all accelerators for the training, with the spare ones. Source: definition."""
    return accelerator_price * (number_of_accelerators + number_of_spare_accelerators) * training_time


@quantity("J", when_given=("power_usage_effectiveness",))
def facility_energy__whole(energy, power_usage_effectiveness):
    """The energy that the training draws from the grid, with hosts, network and cooling. Source: definition."""
    return energy * power_usage_effectiveness


@quantity("dollar")
def electricity_cost(facility_energy, electricity_price):
    """The price of the electricity of the training; the price of renting contains it already. Source: definition."""
    return facility_energy * electricity_price


@quantity("gram")
def carbon_emissions(facility_energy, carbon_intensity):
    """The carbon dioxide (equivalent) that the electricity of the training emits, without the making of the machine.

    Source: Luccioni et al. 2022, arXiv 2211.02001, section 4 (energy times the carbon intensity of the grid).
    """
    return facility_energy * carbon_intensity


@quantity("liter")
def cooling_water(energy, water_usage_effectiveness):
    """The water that the site uses to cool the accelerators, without the water of power plants.

    Source: The Green Grid, white paper 35 (water of the site for a unit of energy of its computers). Differs: the
    energy is that of the accelerators alone.
    """
    return energy * water_usage_effectiveness
