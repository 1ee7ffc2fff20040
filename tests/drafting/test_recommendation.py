"""`amped recommend`: what it says does it, and nothing smaller that it tried does."""

import json

import pytest
from typer.testing import CliRunner

import amped
from amped.base.errors import ConfigError
from amped.cli.app import built
from amped.configuring.scenario import read_scenario
from amped.drafting.chooser import completed
from amped.drafting.recommendation import Limits, Recommendation, recommended
from amped.drafting.rented import machines_of
from amped.estimation.estimation import estimated
from amped.tables.tables import user_tables

NETWORK = {"model": "GPT-2 small", "batch_size": 512, "tokens_to_train": 10e9}
DAY = 86400.0


def asked(**own: object):  # type: ignore[no-untyped-def]
    return read_scenario("default", NETWORK | own)


def fastest(system: str, size: int) -> dict[str, float]:
    found = amped.explore("default", top=1, space="quick", system=system, number_of_accelerators=size, **NETWORK)
    return found.best[0]


@pytest.fixture(scope="module")
def in_time() -> list[Recommendation]:
    return recommended(
        [asked(system="DGX A100", cloud="oci"), asked(system="DGX H100", cloud="oci")], Limits(0.3 * DAY, None)
    )


def test_what_is_recommended_is_in_time_and_is_the_optimum_of_its_size(in_time: list[Recommendation]) -> None:
    for each in in_time:
        assert each.row is not None
        assert each.row["training_time"] <= 0.3 * DAY
        assert each.row["training_time"] == fastest(each.system, each.sizes[-1])["training_time"]


def test_no_smaller_size_is_in_time(in_time: list[Recommendation]) -> None:
    for each in in_time:
        smaller = [size for size in range(8, each.sizes[-1], 8) if 512 % size == 0]
        assert smaller or each.sizes == (8,)
        assert all(fastest(each.system, size)["training_time"] > 0.3 * DAY for size in smaller)


def test_the_cheapest_system_comes_first(in_time: list[Recommendation]) -> None:
    costs = [each.row["cost"] for each in in_time if each.row]
    assert len(costs) == 2
    assert costs == sorted(costs)


def test_rows_and_no_config_are_completed_as_an_estimate_completes_them() -> None:
    rows = {"model": "GPT-2 XL", "system": "DGX H100"}
    (each,) = recommended([read_scenario({}, rows)], Limits(20 * DAY, None))
    assert each.row is not None
    assert each.row["training_time"] <= 20 * DAY
    own = completed(rows | each.settings)
    assert estimated(own)["training_time"] == each.row["training_time"]
    assert own.sources.rows["mapping_parameters"].name == "Megatron-Bridge"


def test_the_settings_give_the_same_estimate(in_time: list[Recommendation]) -> None:
    each = in_time[0]
    assert each.row is not None
    again = amped.estimate("default", system=each.system, **(NETWORK | each.settings))
    assert again["training_time"] == each.row["training_time"]


@pytest.mark.thorough
def test_a_budget_is_kept_and_one_below_the_peak_is_told() -> None:
    (cheap,) = recommended([asked(system="DGX A100")], Limits(None, 1000.0))
    assert cheap.row is not None
    assert cheap.row["cost"] <= 1000.0
    (none,) = recommended([asked(system="DGX A100")], Limits(None, 1.0))
    assert (none.row, none.sizes) == (None, ())


@pytest.mark.thorough
def test_a_budget_alone_names_the_fastest_size_within_it() -> None:
    (each,) = recommended([asked(system="DGX A100")], Limits(None, 1000.0))
    assert each.row is not None
    for size in each.sizes:
        if size > each.row["number_of_accelerators"] and 512 % size == 0:
            assert fastest("DGX A100", size)["cost"] > 1000.0
        elif 512 % size == 0:
            assert fastest("DGX A100", size)["training_time"] >= each.row["training_time"]


def test_the_machines_of_a_provider_have_its_prices_and_its_shapes() -> None:
    assert machines_of(user_tables(), "aws") == ["AWS p5", "AWS p4de"]
    assert machines_of(user_tables(), "gcp")[0] == "TPU v6e pod"
    assert "GB300 NVL72 with RoCE" in machines_of(user_tables(), "oci")  # the shape that the price names


def test_without_a_limit_or_a_price_nothing_is_recommended() -> None:
    with pytest.raises(ConfigError, match="neither a deadline nor a budget"):
        recommended([asked()], Limits(None, None))


@pytest.mark.thorough
def test_the_command_prints_a_screen_and_json() -> None:
    words = [
        "recommend",
        "--model",
        "GPT-2 small",
        "--system",
        "DGX A100",
        "-s",
        "batch_size=512",
        "-s",
        "tokens_to_train=10 G",
    ]
    app = built("recommend", "estimate")
    screen = CliRunner().invoke(app, [*words, "--budget", "1 thousand USD"])
    assert screen.exit_code == 0, screen.output
    assert "amped estimate --model 'GPT-2 small'" in screen.stdout
    assert screen.stdout.count("\n") < 25
    told = json.loads(CliRunner().invoke(app, [*words, "--deadline", "1 day", "--json"]).stdout)
    assert told[0]["best"]["training_time"] <= DAY
    for wrong in (["--deadline", "soon"], ["--budget", "-3 USD"], ["--deadline", "30 USD"]):
        assert isinstance(CliRunner().invoke(app, [*words, *wrong]).exception, ConfigError)
