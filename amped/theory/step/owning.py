"""Owning the machine instead of renting it: what an hour costs, and from which use on it is the cheaper way."""

import numpy as np

from amped.theory.language.quantity import quantity


@quantity("dollar/s")
def capital_price(purchase_cost, resale_fraction, useful_time, financing_rate):
    """The price of a second of a bought accelerator: equal payments with interest over its useful time.

    Source: Brealey, Myers and Allen, Principles of Corporate Finance, equivalent annual cost. Differs: interest is paid
    all the time, not yearly.
    """
    lent = financing_rate * useful_time > 0
    interest = np.where(lent, financing_rate * useful_time, 1.0)
    discounted = useful_time * np.where(lent, -np.expm1(-interest) / interest, 1.0)
    paid = purchase_cost * (1 - resale_fraction * np.exp(-financing_rate * useful_time))
    return paid / discounted


@quantity("dollar/s")
def grid_price(facility_energy, electricity_price, number_of_accelerators, training_time):
    """The price of the electricity of one accelerator for a second of training. Source: definition."""
    return facility_energy * electricity_price / (number_of_accelerators * training_time)


@quantity("dollar/s")
def owning_price(capital_price, purchase_cost, upkeep_rate, machine_use_fraction, grid_price):
    """The price of a second of a bought accelerator that trains: what it costs all the time, and electricity.

    Source: definition. Differs: a machine without work draws no power.
    """
    return (capital_price + purchase_cost * upkeep_rate) / machine_use_fraction + grid_price


@quantity("dollar")
def owning_cost(owning_price, number_of_accelerators, number_of_spare_accelerators, training_time):
    """What the training costs on a bought machine. Source: definition."""
    return owning_price * (number_of_accelerators + number_of_spare_accelerators) * training_time


@quantity("1")
def break_even_use_fraction(capital_price, purchase_cost, upkeep_rate, accelerator_price, grid_price):
    """The share of its useful time in which a bought machine must have work to cost as much as a rented one.

    Above 1, renting is cheaper always. A rent below the price of electricity counts as a thousandth above it.

    Source: definition.
    """
    saved = np.maximum(accelerator_price - grid_price, accelerator_price / 1000)
    return (capital_price + purchase_cost * upkeep_rate) / saved


@quantity("dollar")
def token_cost(cost, tokens_to_train):
    """The price of training on one token, on rented accelerators. Source: definition."""
    return cost / tokens_to_train
