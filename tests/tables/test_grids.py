"""Grids: the shipped list, the grid of a region and of a zone, what is given, and a list of the user."""

from pathlib import Path

import pytest

import amped
from amped.base.errors import AmpedError, TableError
from amped.tables.grids import COLUMNS, grids, read_grids

RUN = {"model": "Llama 3 8B", "system": "DGX H100", "number_of_accelerators": 16}
KILOWATT_HOUR = 3.6e6
HEAD = ",".join(COLUMNS)


def test_every_region_has_provider_zone_year_carbon_and_source() -> None:
    for grid in grids():
        assert all((grid.provider, grid.zone, grid.source, 2023 <= int(grid.year) <= 2025))
        assert 5 < grid.values["carbon_intensity"] < 900
        assert 1 <= grid.values.get("power_usage_effectiveness", 1.0) < 2
    regions = [grid.region for grid in grids()]
    assert len(set(regions)) == len(regions) > 80


@pytest.mark.parametrize(
    ("asked", "carbon", "overhead", "water", "grid"),
    [
        ({"cloud": "aws", "region": "us-east-1"}, 396.25, 1.15, 0.12, "us-east-1"),
        ({"cloud": "aws", "grid": "us-central1"}, 431.95, 1.1, None, "us-central1"),
        ({"grid": "fr"}, 15.83, 1.0, None, "FR"),  # the newest of the zone, without what is of one site
        ({"grid": "us-east-1", "carbon_intensity": "57 g/kWh"}, 57, 1.15, 0.12, "us-east-1"),
    ],
)
def test_the_electricity_is_that_of_the_region(asked, carbon, overhead, water, grid) -> None:
    e = amped.estimate(**RUN, **asked)
    kilowatt_hours = e["energy"] / KILOWATT_HOUR
    assert e["carbon_emissions"] == pytest.approx(kilowatt_hours * overhead * carbon)
    assert ("cooling_water" in e) == (water is not None)
    if water:
        assert e["cooling_water"] == pytest.approx(kilowatt_hours * water)
    assert e.to_dict()["grid"] == grid


def test_a_grid_that_no_list_has_is_refused_and_a_region_without_grid_is_not() -> None:
    with pytest.raises(AmpedError, match=r"no grid of 'us-eat-1' is known\n.*'us-east"):
        amped.estimate(**RUN, grid="us-eat-1")
    e = amped.estimate(**RUN, cloud="nebius", region="eu-north1")
    assert e.to_dict()["carbon_emissions"] == "unknown: carbon_intensity not given"


def test_a_list_of_the_user_stands_before_the_shipped_one(tmp_path: Path) -> None:
    (tmp_path / "grids.csv").write_text(f"{HEAD}\nours,us-east-1,X,2026,100,,,meter,\n")
    e = amped.estimate(**RUN, grid="us-east-1", lookup_tables=tmp_path)
    assert e["carbon_emissions"] == pytest.approx(e["energy"] / KILOWATT_HOUR * 100)
    with pytest.raises(TableError, match="line 2"):
        read_grids(f"{HEAD}\nours,here,X,2026,much,,,meter,\n", "grids.csv")
