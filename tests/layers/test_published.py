"""Published times of single layers, by amped's operators; no coefficient was fitted to the ladder or to Tempo."""

import json

import pytest

from amped.layers.ladder import layer_time
from amped.layers.published import QUICKSTART, figures
from tests.helpers.cli import verb

FIGURES = list(figures())


@pytest.mark.parametrize("each", [f for f in FIGURES if f.source == "Transformer Engine"], ids=lambda f: f.what)
def test_published_rungs_are_within_a_sixth(each):
    assert abs(each.error) < 1 / 6


@pytest.mark.parametrize("each", [f for f in FIGURES if f.unit == "sequences"], ids=lambda f: f.what)
def test_published_batches_are_within_one_sequence(each):
    assert each.predicted == pytest.approx(each.published, abs=1)


def test_all_figures_are_there_and_the_verb_prints_them(capsys):
    assert [sum(f.source == s for f in FIGURES) for s in ("Transformer Engine", "Substation", "Tempo")] == [6, 4, 12]
    verb("bench", "published", "--json")
    told = json.loads(capsys.readouterr().out)["figures"]
    assert [each["published"] for each in told[:3]] == [43.07, 39.99, 28.61]
    assert [each["published"] for each in told[6:10]] == [9.14, 6.71, 18.43, 15.42]
    assert all(
        each["error"] == pytest.approx(each["predicted"] / each["published"] - 1) for each in told if each["unit"]
    )
    verb("bench", "published")
    assert "Transformer Engine" in capsys.readouterr().out


@pytest.mark.parametrize("accelerator", ["H100 PCIe", "H100 SXM", "H200 SXM"])
def test_each_rung_is_faster_than_the_one_below(accelerator):
    own = {**QUICKSTART, "microbatch_size": 4, "matrix_precision": "bf16", "causal": False}
    times = [layer_time(accelerator, rung, **own) for rung in ("eager", "sdpa", "compiled", "fp8_delayed")]
    assert times == sorted(times, reverse=True)


def test_an_sxm_board_cannot_have_made_the_first_table():
    own = {**QUICKSTART, "microbatch_size": 4, "matrix_precision": "fp16", "causal": False}
    assert layer_time("H100 SXM", "eager", **own) < 0.75 * 43.07e-3
