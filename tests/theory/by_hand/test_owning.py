"""Renting and buying, by hand."""

import math
from typing import Any

import pytest

import amped

HOUR, YEAR = 3600.0, 31_557_600.0
# An accelerator of 35,064 USD for 4 years of 8,766 hours: one dollar an hour. Half a kilowatt and 0.2 USD/kWh: ten cents.
RUN: dict[str, Any] = {
    "number_of_accelerators": 64, "average_power_per_accelerator": "500 W", "training_time": "1000 hour",
    "system": "DGX H100", "electricity_price": "0.2 USD/kWh", "purchase_cost": "35064 USD", "useful_time": 4,
    "accelerator_price": "2.1 USD/hour", "tokens_to_train": 1e9,
}  # fmt: skip


def run(**more: Any) -> Any:
    return amped.estimate("default", **RUN | more)


def test_an_hour_of_ones_own_is_a_dollar_and_ten_cents() -> None:
    e = run()
    assert e["owning_price"] * HOUR == pytest.approx(1.10)
    assert e["owning_cost"] == pytest.approx(1.10 * 64 * 1000)
    assert e["cost"] == pytest.approx(2.1 * 64 * 1000)
    assert e["token_cost"] == pytest.approx(134_400 / 1e9)


def test_buying_pays_from_half_of_the_time_on() -> None:
    """A dollar of two that the rent leaves without electricity."""
    e = run()
    assert e["break_even_use_fraction"] == pytest.approx(0.5)
    assert run(machine_use_fraction=0.5)["owning_price"] == pytest.approx(e["accelerator_price"])
    assert run(accelerator_price="0.6 USD/hour")["break_even_use_fraction"] == pytest.approx(2)


@pytest.mark.parametrize(("more", "dollars"), [
    ({"machine_use_fraction": 0.5}, 2.10), ({"resale_fraction": 0.25}, 0.85), ({"upkeep_rate": 0.05}, 1.10 + 0.05 * 4),
    ({"power_usage_effectiveness": 1.5}, 1.15),
])  # fmt: skip
def test_each_term_by_hand(more: dict[str, float], dollars: float) -> None:
    assert run(**more)["owning_price"] * HOUR == pytest.approx(dollars)


def test_payments_with_interest_are_worth_the_purchase() -> None:
    """The sum of all discounted payments, and the discounted resale, is the price that was paid."""
    rate, years, steps = 0.08, 4, 100_000
    e = run(financing_rate=rate, resale_fraction=0.25, electricity_price=0)
    paid_a_year = e["owning_price"] * YEAR
    payments = sum(paid_a_year * years / steps * math.exp(-rate * years * (k + 0.5) / steps) for k in range(steps))
    assert payments + 0.25 * 35_064 * math.exp(-rate * years) == pytest.approx(35_064, rel=1e-6)


def test_a_small_interest_is_nearly_none() -> None:
    assert run(financing_rate=1e-9)["owning_price"] == pytest.approx(run()["owning_price"], rel=1e-6)


def test_spare_accelerators_are_paid_and_do_not_train() -> None:
    spared, none = run(number_of_spare_accelerators=8), run()
    assert spared["cost"] == pytest.approx(none["cost"] * 72 / 64)
    assert spared["owning_cost"] == pytest.approx(none["owning_cost"] * 72 / 64)


def test_without_a_purchase_cost_nothing_is_assumed() -> None:
    assert "owning_cost" not in amped.estimate("default").to_dict()
    told = amped.estimate("default", purchase_cost="35064 USD").to_dict()["owning_cost"]
    assert told == "unknown: electricity_price not given"
