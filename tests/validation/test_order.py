"""`amped validate --order`: pairs of runs that are alike, by hand, and what is printed of them."""

import csv
import io
import json

import pytest

from amped.base.errors import ConfigError
from amped.validation.measurements import Measurement
from amped.validation.order import pairs
from amped.validation.residuals import Residual
from amped.validation.table import Row
from tests.estimation.test_uncertainty import HERE, replace
from tests.helpers.cli import verb
from tests.helpers.validation import shipped, validate


def row(name, measured, predicted, tokens=1000.0, confidence="high", group=None, **other):
    """A run with its measured and its predicted time of a step, in seconds."""
    texts = {"id": name, "group": group or name, "confidence": confidence}
    settings = {"microbatch_size": other.pop("microbatch_size", 1)}
    measurement = Measurement(Row(1, texts, settings, {"step_time": measured}), settings)
    return Residual(
        measurement, "step_time", measured, predicted, ground=replace(HERE, **other), step_time=predicted, tokens=tokens
    )


def test_the_run_with_more_tokens_per_second_is_the_faster_one():
    (pair,) = pairs([row("slow", 2.0, 2.1), row("fast", 1.0, 1.1)])
    assert (pair.faster.measurement.id, pair.slower.measurement.id) == ("fast", "slow")
    assert (pair.measured, pair.predicted, pair.is_right) == (pytest.approx(2), pytest.approx(2.1 / 1.1), True)
    (pair,) = pairs([row("slow", 2.0, 1.0), row("fast", 2.0, 1.5, tokens=2000.0)])
    assert (pair.faster.measurement.id, pair.predicted) == ("fast", pytest.approx(4 / 3))


def test_rates_that_hardly_differ_and_runs_that_are_not_alike_make_no_pair():
    one = row("one", 1.0, 1.0)
    assert pairs([one, row("other", 1.04, 2.0)]) == []
    for other in (
        {"accelerator": "b"},
        {"software": "b"},
        {"precision": "fp8"},
        {"number_of_parameters": 2e9},
        {"number_of_experts": 8.0},
    ):
        assert pairs([one, row("other", 2.0, 2.0, **other)]) == []
    assert pairs([one, row("other", 2.0, 2.0, confidence="low")]) == []
    assert len(pairs([one, row("other", 2.0, 2.0, number_of_accelerators=512.0)])) == 1


def test_repeats_are_one_run_with_the_mean_of_their_rates():
    (pair,) = pairs([row("a", 1.0, 1.0, group="g"), row("b", 0.5, 1.0, group="g"), row("c", 2.0, 2.0)])
    assert pair.measured == pytest.approx((1000 + 2000) / 2 / 500)


def test_the_cause_is_what_differs():
    (pair,) = pairs([row("slow", 2.0, 1.0), row("fast", 1.0, 1.1, microbatch_size=4)])
    assert not pair.is_right
    assert pair.differences == ["microbatch_size = 4 / 1"]


def test_all_three_forms_tell_the_same_of_the_shipped_table(tmp_path):
    found = pairs(shipped())
    wrong = [pair for pair in found if not pair.is_right]
    told = json.loads(validate("--order", "--json", folder=tmp_path))
    assert told["order"]["all"] == {
        "pairs": len(found),
        "right": len(found) - len(wrong),
        "share": 1 - len(wrong) / len(found),
    }
    lines = [*csv.DictReader(io.StringIO(validate("--order", "--csv", folder=tmp_path)))]
    assert len(lines) == len(told["turned"]) == len(wrong)
    assert [line["faster"] for line in lines] == [entry["faster"] for entry in told["turned"]]
    text = validate("--order", folder=tmp_path)
    assert max(map(len, text.splitlines())) <= 100
    assert f"{len(found)}" in text
    assert "mixture of experts" in text


@pytest.mark.thorough
def test_it_has_no_other_form():
    with pytest.raises(ConfigError, match="no form"):
        verb("validate", "--order", "--residuals")
