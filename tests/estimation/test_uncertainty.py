"""How far an estimate may be off: classes by hand on a toy table, the shipped errors, and what estimates say."""

import json
import math
from dataclasses import replace

import pytest

from amped.estimation.uncertainty import (
    COVERED,
    MEMORY_LAW,
    NEAREST,
    TIME_LAW,
    Ground,
    Validated,
    as_file,
    conformal_quantile,
    error_band,
    validated,
)
from amped.library import estimate
from amped.tables.table_files import ACCELERATORS
from amped.tables.tables import Tables
from amped.validation.accuracy import of_memory
from tests.helpers.cli import amped
from tests.helpers.validation import shipped, validate

HERE = Ground("chip", "generation", "stack", "16 bit", 1.0, 2.0, 16.0, 1e9, 2048.0)


def run(error, number=0, confidence="high", **other):
    return Validated(f"run {number}", confidence, error, replace(HERE, **other))


def runs(errors, **other):
    return [run(error, i, **other) for i, error in enumerate(errors)]


def readings(errors, **other):
    """Runs whose memory was read."""
    return [replace(each, quantity=MEMORY_LAW.quantity) for each in runs(errors, **other)]


def of(law):
    """The shipped errors of one quantity."""
    return [r for r in validated() if r.quantity == law.quantity]


# --- the band ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("number", "place"), [(3, None), (4, 4), (8, 8), (9, 8), (14, 12), (99, 80)])
def test_the_quantile_by_hand(number, place):
    """80 % of n runs to come lie within the ceil(0.8 (n + 1))-th of n errors; of three even the largest says too little."""
    sizes = [float(n) for n in range(number, 0, -1)]
    assert conformal_quantile(sizes) == place


def test_the_band_holds_what_it_promises():
    """Of many tables of nine errors, the next error lies in the band as often as promised, and not much more often."""
    from numpy.random import default_rng

    drawn = default_rng(5).normal(0, 1, (4000, 10)).__abs__()
    held = sum(conformal_quantile(list(row[:9])) >= row[9] for row in drawn) / len(drawn)
    assert COVERED - 0.02 < held < COVERED + 0.02


def test_too_fast_and_too_slow_count_alike():
    """Half the time and twice the time are as far off: the band goes from step_time / 2 to step_time * 2."""
    assert error_band(HERE, runs([-0.5, -0.5, -0.5, -0.5])).error_fraction == pytest.approx(1.0)
    assert error_band(HERE, runs([1.0, 1.0, 1.0, 1.0])).error_fraction == pytest.approx(1.0)


def test_the_nearest_class_with_enough_runs_speaks():
    near, chip = runs([0.01] * 4), runs([0.1] * 8, number_of_accelerators=512.0)
    other = runs([0.3] * 20, accelerator="other")
    assert error_band(HERE, near + chip + other).error_fraction == pytest.approx(0.01)
    found = error_band(HERE, near[:3] + chip + other)
    assert (found.runs, found.error_fraction, found.alike) == (11, pytest.approx(0.1), "chip, stack, dense")
    found = error_band(HERE, near[:1] + other)
    assert (found.runs, found.alike, found.error_fraction) == (21, "generation, stack, dense", pytest.approx(0.3))


def test_another_software_stack_is_another_class():
    mine, others = runs([0.02] * 4), runs([0.4] * 4, software="eager")
    assert error_band(HERE, mine + others).error_fraction == pytest.approx(0.02)
    assert error_band(replace(HERE, software="eager"), mine + others).error_fraction == pytest.approx(0.4)
    unknown = error_band(replace(HERE, software="new"), mine + others)
    assert unknown.alike == "chip, dense, several nodes"
    assert unknown.beyond == ("no software like this one (new)",)


def test_runs_whose_inputs_are_known_badly_say_nothing():
    assert error_band(HERE, runs([0.01] * 4) + runs([0.9] * 40, confidence="low")).runs == 4


def test_classes_widen_from_the_nearest_to_all():
    assert NEAREST[-1] == ()
    assert NEAREST[0] == ("accelerator", "software", "experts", "scale")


def test_without_any_run_nothing_is_known():
    found = error_band(HERE, [])
    assert math.isnan(found.error_fraction)
    assert found.runs == 0


def test_memory_is_judged_by_its_software_from_five_readings_on():
    """Of five errors the largest holds 80 %; of nine, the eighth."""
    mine, others = readings([0.01, -0.02, 0.03, 0.02, 0.04]), readings([0.3] * 4, software="eager")
    found = error_band(HERE, mine + others, MEMORY_LAW)
    assert (found.error_fraction, found.runs, found.alike) == (pytest.approx(0.04), 5, "stack")
    found = error_band(HERE, mine[:4] + others + readings([0.3], software="eager"), MEMORY_LAW)
    assert (found.error_fraction, found.runs, found.alike) == (pytest.approx(0.3), 9, "all of them")


def test_times_say_nothing_of_memory_and_the_other_way_round():
    both = [*runs([0.2] * 9), *readings([0.01] * 9)]
    assert [error_band(HERE, both, law).error_fraction for law in (TIME_LAW, MEMORY_LAW)] == pytest.approx([0.2, 0.01])


def test_memory_of_software_that_was_never_read_is_less_well_known():
    found = error_band(replace(HERE, software="new"), readings([0.1] * 9), MEMORY_LAW)
    assert found.beyond == ("no memory was read with new",)
    assert found.error_fraction == pytest.approx(1.1**1.1 - 1)
    assert error_band(replace(HERE, accelerator="new"), readings([0.1] * 9), MEMORY_LAW).beyond == ()


# --- beyond -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("other", "told"),
    [
        ({}, ()),
        ({"accelerator": "new"}, ("no run on new was validated",)),
        ({"number_of_experts": 8.0}, ("no network like this one (mixture of experts)",)),
        ({"precision": "fp8"}, ("no precision like this one (fp8)",)),
        ({"number_of_accelerators": 4096.0}, ("number_of_accelerators 4,096, validated up to 16",)),
        ({"number_of_parameters": 2e9}, ("number_of_parameters 2,000,000,000, validated up to 1,000,000,000",)),
        ({"context": 65536.0}, ("context 65,536, validated up to 2,048",)),
    ],
)
def test_what_no_validated_run_has_is_told(other, told):
    assert error_band(replace(HERE, **other), runs([0.1] * 9)).beyond == told


# --- the shipped errors -----------------------------------------------------------------------------------------------


def test_every_step_is_there_and_no_single_layer():
    compared = {r.measurement.id: r.measurement.kind for r in shipped() if r.of_time and not r.missed}
    assert {r.id for r in of(TIME_LAW)} == {name for name, kind in compared.items() if kind == "training_step"}
    assert {"layer", "training_step"} == set(compared.values())


def test_every_reading_of_memory_is_there():
    told = {r.measurement.id for r in of_memory(shipped()) if not r.missed and r.measurement.kind == "training_step"}
    assert {r.id for r in of(MEMORY_LAW)} == told
    assert len(told) > 60


def test_the_file_reads_back_as_it_was_written(monkeypatch):
    from amped.estimation import uncertainty

    text = as_file(runs([0.1, -0.2]))
    monkeypatch.setattr(uncertainty, "shipped_text", lambda *_: text)
    assert list(validated.__wrapped__()) == runs([0.1, -0.2])


def test_the_shipped_errors_are_those_that_validate_gives_now(tmp_path, monkeypatch):
    """Else: amped validate --residuals > errors.csv && mv errors.csv lookup_tables/validation_residuals.csv"""
    from amped.estimation import uncertainty

    printed = validate("--residuals", folder=tmp_path)
    monkeypatch.setattr(uncertainty, "shipped_text", lambda *_: printed)
    now = validated.__wrapped__()
    assert [(r.id, r.quantity, r.confidence) for r in validated()] == [(r.id, r.quantity, r.confidence) for r in now]
    for kept, run_now in zip(validated(), now, strict=True):
        assert kept.error_fraction == pytest.approx(run_now.error_fraction, abs=1.1e-5)
        assert kept.ground == run_now.ground


def test_errors_are_printed_in_one_form(tmp_path):
    assert "exclude one another" in amped("validate", "--residuals", "--json", folder=tmp_path).stderr


# --- what estimates say -----------------------------------------------------------------------------------------------


def test_an_estimate_has_its_band_in_seconds():
    e = estimate("default")
    told, band = e.to_dict(), e.error_band
    assert told["step_time_error_fraction"] == band.error_fraction > 0
    assert told["longest_step_time"] == pytest.approx(e["step_time"] * (1 + band.error_fraction))
    assert told["shortest_step_time"] == pytest.approx(e["step_time"] / (1 + band.error_fraction))
    assert told["number_of_validated_runs"] == band.runs >= 4
    assert told["training_time_error_fraction"] == told["cost_error_fraction"] == band.error_fraction
    assert told["memory_error_fraction"] == e.memory_band.error_fraction > 0
    assert told["validated_class"].startswith("A100 SXM 80GB")
    assert told["beyond_validated_runs"] == ""


@pytest.mark.parametrize("name", [n for n in Tables().names(ACCELERATORS) if n.startswith(("A100", "B200", "MI300X"))])
def test_an_accelerator_never_measured_says_so(name):
    measured = {r.ground.accelerator for r in of(TIME_LAW)}
    told = estimate("minimal", accelerator=name).error_band.beyond
    assert (f"no run on {name} was validated" in told) == (name not in measured)


def test_the_closed_form_has_no_band():
    e = estimate("amped-style")
    assert e.choices["performance_model"] == "amped"
    assert e.error_band is None
    assert e.memory_band is None
    for name in ("step_time_error_fraction", "memory_error_fraction"):
        assert e.to_dict()[name] == "unknown: the closed form is not validated"


def test_the_summary_shows_the_band_beside_the_time(tmp_path):
    done = amped("estimate", "--full", "--gpus", 16384, "--set", "batch_size=24576", folder=tmp_path)
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("step time")]
    assert " ± " in line
    assert line.endswith(" %")
    flat = " ".join(done.stdout.split())
    assert "±: 4 of 5 validated runs of this kind had a smaller error" in flat
    assert "number_of_accelerators 16,384, validated up to" in flat
    plain = json.loads(amped("estimate", "--json", folder=tmp_path).stdout)
    assert f"± {plain['step_time_error_fraction']:.1%}".replace("%", " %") in " ".join(
        amped("estimate", "--full", folder=tmp_path).stdout.split()
    )


@pytest.mark.parametrize(
    ("share", "full", "screen"),
    [
        (0.5, "fits (", "FITS       {}"),
        (0.99, "fits, but it is close (", "FITS       {}, but it is close"),
        (1.01, "DOES NOT FIT, but it is close (", "NO FIT     DOES NOT FIT, but it is close: {}; "),
        (2, "DOES NOT FIT (", "NO FIT     DOES NOT FIT: {}; "),
    ],
)
def test_both_forms_say_where_it_is_close(share, full, screen, tmp_path):
    """The memory that is there is made as large as the estimate says, but for a share; the band is 3 % or more."""
    known = estimate("default")
    need, room = known["memory_per_accelerator_bytes"], known["memory_capacity"] - known["available_memory_bytes"]
    asked = ("estimate", "--set", f"memory_capacity={need / share + room}")
    margin = need * known.memory_band.error_fraction / 1e9
    (line,) = [li for li in amped(*asked, "--full", folder=tmp_path).stdout.splitlines() if li.startswith(full)]
    assert line.startswith(
        f"{full}{need / 1e9:.2f} ± {margin:.1f} of {need / share / 1e9:.4g} GB; 1 GB more is reserved)"
    )
    states = known["optimizer_state_bytes"] / 1e9
    told = f"{need / 1e9:.1f} ± {margin:.1f} of {need / share / 1e9:.1f} GB (optimizer state {states:.1f})"
    flat = " ".join(amped(*asked, folder=tmp_path).stdout.split())
    assert " ".join(screen.format(told).split()) in flat
    assert ("but it is close" in flat) == ("but it is close" in screen)


def test_no_estimate_waits_for_the_errors_to_be_found_again(monkeypatch):
    """The band comes from a file: nothing of validation is imported by an estimate."""
    import subprocess
    import sys

    code = (
        "import sys, amped; amped.estimate('default').to_dict(); print([m for m in sys.modules if 'validation' in m])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_band_never_shrinks_with_ignorance():
    """An accelerator without a run has a band no narrower than each of those with some, and what no run has widens it."""
    known = [*runs([0.02] * 9, accelerator="well known"), *runs([0.3] * 9, accelerator="hardly known")]
    bands = [error_band(replace(HERE, accelerator=name), known) for name in ("well known", "hardly known", "unknown")]
    assert [b.error_fraction for b in bands[:2]] == pytest.approx([0.02, 0.3])
    assert bands[2].error_fraction > bands[1].error_fraction
    larger = error_band(replace(HERE, accelerator="well known", context=1e6), known)
    assert larger.error_fraction > bands[0].error_fraction
    accelerators = {run.ground.accelerator for run in of(TIME_LAW) if run.confidence != "low"}
    unknown = error_band(replace(HERE, accelerator="none of these", software=""))
    for name in accelerators:
        own = [r for r in of(TIME_LAW) if r.ground.accelerator == name and r.confidence != "low"]
        if conformal_quantile([0.0] * len(own)) is not None:
            assert unknown.error_fraction >= error_band(replace(own[0].ground, software="", context=1.0)).error_fraction
