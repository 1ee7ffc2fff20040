"""Published times of single layers, by amped's operators; no coefficient was fitted to the ladder or to Tempo."""

import json

import pytest

from amped.layers.ladder import layer_time
from amped.layers.published import QUICKSTART, figures
from amped.theory.language.catalogue import catalogue
from amped.validation.residuals import residuals_of
from amped.validation.table import read_table
from tests.helpers.cli import verb

FIGURES = list(figures())
# By sequences and causal mask, the milliseconds of rungs on an H200, of 20 passes and more in a row. Source: docs/kernels.md.
MEASURED = {
    (4, False): {"eager": 24.01, "sdpa": 19.35, "compiled": 18.89, "graph": 19.14, "fp8_dynamic": 13.98, "fp8_delayed": 13.65},
    (8, True): {"eager": 54.7, "sdpa": 34.6, "compiled": 34.5, "fp8_delayed": 22.8},
}  # fmt: skip


@pytest.mark.parametrize("each", [f for f in FIGURES if f.source == "Transformer Engine"], ids=lambda f: f.what)
def test_published_rungs_are_within_a_sixth(each):
    assert abs(each.error) < 1 / 6


@pytest.mark.parametrize("each", [f for f in FIGURES if f.unit == "sequences"], ids=lambda f: f.what)
def test_published_batches_are_within_one_sequence(each):
    assert each.predicted == pytest.approx(each.published, abs=1)


@pytest.mark.thorough
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


@pytest.mark.parametrize(("batch", "causal"), MEASURED)
def test_the_rungs_of_an_h200_are_within_the_bound_of_the_test_on_a_gpu(batch, causal):
    """Passes in a row are at the clock that power allows: at the full one, fp8 would be a quarter too fast."""
    own = {**QUICKSTART, "microbatch_size": batch, "matrix_precision": "bf16", "causal": causal}
    own.pop("training_clock_fraction")
    errors = {rung: 1e3 * layer_time("H200 SXM", rung, **own) / ms - 1 for rung, ms in MEASURED[batch, causal].items()}
    assert {rung: error for rung, error in errors.items() if abs(error) > 0.15} == {}


def test_rows_of_the_measurement_table_are_predicted_as_the_verb_does():
    ids = ("te22-0001", "te22-0002", "te22-0003", "08-0001", "08-0002", "08-0005", "08-0006")
    rows = {row.texts["id"]: row for row in read_table(None, catalogue())}
    found = [1e3 * each.predicted for each in residuals_of([rows[name] for name in ids])]
    printed = [f.predicted for f in FIGURES if f.source == "Transformer Engine"][:3]
    printed += [f.predicted for f in FIGURES if f.source == "Substation"]
    assert found == pytest.approx(printed, rel=0.01)
