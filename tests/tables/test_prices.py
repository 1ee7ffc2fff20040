"""Prices as a market: the shipped list, a provider's price for an accelerator, and lists of the user."""

import json
from datetime import date
from pathlib import Path

import pytest

import amped
from amped.base.errors import AmpedError, TableError
from amped.base.files import shipped_text
from amped.estimation.estimation import Estimation
from amped.tables.prices import COLUMNS, TERMS, Price, price_of, prices, read_prices
from amped.tables.table_files import ACCELERATORS, SYSTEMS, shipped

RUN = {"model": "Llama 3 8B", "system": "DGX H100", "number_of_accelerators": 16}
HEAD = ",".join(COLUMNS)


def dollars(e: Estimation) -> float:
    return e["accelerator_price"] * 3600


def test_every_price_is_of_a_row_and_has_provider_region_term_and_source() -> None:
    rows = {*shipped(ACCELERATORS), *shipped(SYSTEMS)}
    for price in prices():
        assert price.row in rows
        assert price.provider
        assert price.region
        assert price.source
        assert price.term in TERMS
    keys = [(p.provider, p.row, p.region, p.term, p.date) for p in prices()]
    assert len(set(keys)) == len(keys)


def test_every_price_of_an_accelerator_s_row_is_in_the_list_of_one_provider() -> None:
    priced = {
        name: row["accelerator_price"] for name, row in shipped(ACCELERATORS).items() if row.get("accelerator_price")
    }
    for name, written in priced.items():
        value = float(str(written).split()[0])
        assert len({p.provider for p in prices() if p.row == name and p.median == value and p.term != "spot"}) == 1, (
            name
        )


@pytest.mark.parametrize(
    ("asked", "price"),
    [
        ({"cloud": "nebius"}, 2.95), ({"cloud": "NEBIUS", "term": "spot"}, 1.25), ({"cloud": "oci"}, 10),
        ({"cloud": "aws", "region": "us-east-1"}, 6.88), ({"cloud": "aws"}, (6.88 + 8.944) / 2),
        ({"cloud": "oci", "region": "anywhere"}, 10), ({"accelerator_price": "2.50 USD/h"}, 2.5), ({}, 2.95),
    ],
)  # fmt: skip
def test_a_provider_s_price_is_what_the_training_costs(asked: dict[str, str], price: float) -> None:
    e = amped.estimate(**RUN, **asked)
    assert dollars(e) == pytest.approx(price)
    assert e["cost"] == pytest.approx(price / 3600 * 16 * e["training_time"])


def test_several_regions_are_the_lowest_the_median_and_the_highest() -> None:
    found = price_of(prices(), ["H100 SXM"], "aws")
    assert found
    assert (found.low, found.high, found.region) == (6.88, 8.944, "2 regions")
    assert found.median == pytest.approx(7.912)


def test_the_newest_price_counts() -> None:
    found = price_of(prices(), ["V100 SXM2 16GB"], "lambda")
    assert found
    assert (found.median, found.date) == (0.79, "2026-06")


def test_a_config_says_it_too() -> None:
    config = json.loads(shipped_text("configs", "default.json")) | {"cloud": "oci", "term": "on_demand"}
    assert dollars(amped.estimate(config)) == pytest.approx(4)
    assert dollars(amped.estimate(config, cloud="lambda")) == pytest.approx(2.79)
    given = amped.estimate(config, accelerator_price=3)
    assert dollars(given) == pytest.approx(3)
    assert "a price is given: cloud of the config changes nothing" in given.notices


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"cloud": "ocj"}, "did you mean 'oci'?"), ({"cloud": "aws", "region": "mars"}, "its regions are"),
        ({"cloud": "aws", "term": "forever"}, "write one of on_demand"), ({"region": "us-east-1"}, "give cloud"),
        ({"cloud": "aws", "accelerator_price": 3}, "keep one: accelerator_price or cloud"),
    ],
)  # fmt: skip
def test_what_no_list_has_is_refused(asked: dict[str, object], words: str) -> None:
    with pytest.raises(AmpedError, match=words.replace("?", r"\?")):
        amped.estimate(**RUN, **asked)


def test_without_a_price_there_is_no_cost() -> None:
    e = amped.estimate(**RUN, cloud="gcp")
    assert "cost" not in e
    assert e.scenario.sources.price is None
    assert "no price of H100 SXM is known at gcp: so no cost" in e.notices


def test_a_user_s_list_is_added_and_a_price_of_a_system_is_its_accelerators_price(tmp_path: Path) -> None:
    (tmp_path / "own.json").write_text('{"table": "system_specifications", "rows": {}}')
    (tmp_path / "prices.csv").write_text(f"{HEAD}\nours,DGX H100,cellar,1y,2026-10-01,1,2,3,offer 7,\n")
    e = amped.estimate(**RUN, cloud="ours", term="1y", lookup_tables=tmp_path)
    assert dollars(e) == pytest.approx(2)
    assert e.scenario.sources.price == Price("ours", "DGX H100", "cellar", "1y", "2026-10-01", 1, 2, 3, "offer 7")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("provider,row\na,b\n", "has no column region"), (f"{HEAD}\na,b,c,spot,2026-06,3,2,4,s,\n", "do not ascend"),
        (f"{HEAD}\na,b,c,spot,June,1,2,4,s,\n", "line 2"), (f"{HEAD}\na,b\n", "could not convert"),
    ],
)  # fmt: skip
def test_a_file_that_is_no_list_is_refused_with_its_line(text: str, words: str) -> None:
    with pytest.raises(TableError, match=words):
        read_prices(text, "prices.csv")


@pytest.mark.parametrize(
    ("written", "is_old"), [("2026-06-01", False), ("2026-05-31", True), ("2026-05", True), ("", True)]
)
def test_a_price_is_old_after_180_days_or_without_a_date(written: str, is_old: bool) -> None:
    assert Price("aws", date=written).is_old(date(2026, 11, 28)) is is_old
