"""The line PRICE below TRAINING: provider, source and date of the price, in one line; the same for machines."""

from datetime import UTC, datetime

import pytest

import amped
from amped.report.screen import answers, price_in_words

RUN = {"model": "Llama 3 8B", "number_of_accelerators": 16}


def line(**asked: object) -> str:
    word, text, _ = price_in_words(amped.estimate(**{"system": "DGX H100"} | RUN | asked))
    assert word == "PRICE"
    assert len(text) <= 69
    return text


def on(day: str, patch: pytest.MonkeyPatch) -> None:
    patch.setenv("SOURCE_DATE_EPOCH", str(int(datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp())))


def test_it_stands_below_the_training() -> None:
    words = [word for word, _, _ in answers(amped.estimate(system="DGX H100", **RUN))]
    assert words[-3:] == ["TRAINING", "DAYS", "PRICE"]


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({}, "2.95 USD/h, nebius on demand, skypilot-catalog v8 2026-06 (unsure)"),
        ({"cloud": "oci"}, "10 USD/h, oci on demand, skypilot-catalog v8 2026-06 (unsure)"),
        ({"accelerator_price": 3}, "3 USD/h, given"),
        ({"cloud": "gcp"}, 'no price is known, so no cost: --price "2.5 USD/h" or --cloud NAME'),
        ({"system": "TPU v5p pod"}, "4.2 USD/h, gcp on demand, Google Cloud price per chip, date unknown"),
    ],
)
def test_it_says_provider_source_and_date(asked: dict[str, object], told: str) -> None:
    assert line(**asked) == told


def test_a_price_of_more_than_180_days_is_told_as_old(monkeypatch: pytest.MonkeyPatch) -> None:
    on("2026-11-28", monkeypatch)
    assert line().endswith("2026-06 (unsure)")
    on("2026-11-29", monkeypatch)
    assert line().endswith("2026-06 (old)")
    assert amped.estimate(system="DGX H100", **RUN).to_dict()["price_is_old"] is True


def test_json_has_the_whole_price() -> None:
    told = amped.estimate(system="DGX H100", cloud="aws", **RUN).to_dict()
    assert {name.removeprefix("price_"): value for name, value in told.items() if name.startswith("price_")} == {
        "provider": "aws", "region": "2 regions", "term": "on_demand", "date": "2026-06",
        "source": "skypilot-catalog v8 aws (commit 00148f2a): p5.48xlarge", "low": 6.88, "high": 8.944,
        "median": pytest.approx(7.912), "unverified": "date", "is_old": False,
    }  # fmt: skip


def test_json_of_a_run_without_a_price_says_so() -> None:
    told = amped.estimate(system="DGX H100", cloud="gcp", **RUN).to_dict()
    assert told["cost"] == "unknown: accelerator_price not given"
    assert "price_provider" not in told
