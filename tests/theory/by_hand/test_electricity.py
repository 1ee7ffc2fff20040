"""What a training draws from the grid, costs and emits, by hand."""

import pytest

import amped

# 64 accelerators of 500 W that compute all the time, for 1000 hours: 64 * 0.5 kW * 1000 h = 32 MWh.
KILOWATT_HOURS = 32_000
RUN = {
    "number_of_accelerators": 64, "average_power_per_accelerator": "500 W", "training_time": "1000 hour",
    "system": "DGX H100", "electricity_price": "0.08 USD/kWh", "carbon_intensity": "400 g/kWh",
}  # fmt: skip


@pytest.mark.parametrize(("overhead", "drawn"), [({}, 1.0), ({"power_usage_effectiveness": 1.2}, 1.2)])
def test_a_run_of_32_mwh_costs_and_emits_what_the_grid_says(overhead: dict[str, float], drawn: float) -> None:
    run = amped.estimate("default", **RUN, **overhead)
    assert run["energy"] == pytest.approx(KILOWATT_HOURS * 3.6e6)
    assert run["electricity_cost"] == pytest.approx(KILOWATT_HOURS * drawn * 0.08)  # 2,560 USD; 3,072 with overhead
    assert run["carbon_emissions"] == pytest.approx(KILOWATT_HOURS * drawn * 400)  # 12.8 t; 15.36 t


def test_a_bare_number_is_dollars_or_grams_for_a_kilowatt_hour() -> None:
    bare = amped.estimate("default", **RUN | {"electricity_price": 0.08, "carbon_intensity": 400})
    assert bare["electricity_cost"] == amped.estimate("default", **RUN)["electricity_cost"]
    assert bare["carbon_emissions"] == amped.estimate("default", **RUN)["carbon_emissions"]


def test_a_grid_that_nobody_described_is_said_and_not_assumed() -> None:
    told = amped.estimate("default").to_dict()
    assert told["electricity_cost"] == "unknown: electricity_price not given"
    assert told["carbon_emissions"] == "unknown: carbon_intensity not given"
