"""How far an estimate may be off: classes by hand on a toy table, the shipped errors, and what estimates say."""

import json
import math
from dataclasses import replace

import pytest

from amped.calibration.leave_out import bands_checked
from amped.estimation.uncertainty import (
    COVERED,
    MEMORY_LAW,
    TIME_LAW,
    Bands,
    conformal_quantile,
    error_band,
    quantile_of_groups,
)
from amped.estimation.validated import Ground, Left, Validated, as_file, validated
from amped.library import estimate
from amped.report.bands import plain
from amped.tables.table_files import ACCELERATORS
from amped.tables.tables import Tables
from amped.validation.accuracy import of_memory
from tests.helpers.cli import amped
from tests.helpers.validation import shipped, validate

HERE = Ground("chip", "generation", "stack", "16 bit", 1.0, 2.0, 16.0, 1e9, 2048.0)


def run(error, number=0, confidence="high", source="first", **other):
    return Validated(f"run {number}", source, confidence, error, replace(HERE, **other))


NINE = tuple(f"source {i}" for i in range(9))


def runs(errors, sources=NINE, **other):
    """Runs whose sources take turns: as few as a class needs are 18, two of each of nine sources."""
    named = "".join(str(value) for value in other.values())
    return [run(error, f"{named} {i}", source=sources[i % len(sources)], **other) for i, error in enumerate(errors)]


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
    assert error_band(HERE, runs([-0.5] * 18)).error_fraction == pytest.approx(1.0)
    assert error_band(HERE, runs([1.0] * 18)).error_fraction == pytest.approx(1.0)


def test_the_nearest_class_with_enough_runs_and_sources_speaks():
    """Nine sources and fifteen configurations are enough."""
    near, chip, other = runs([0.01] * 18), runs([0.1] * 18, software="eager"), runs([0.3] * 18, accelerator="other")
    found = error_band(HERE, near + chip + other)
    assert (found.runs, found.error_fraction, found.alike) == (18, pytest.approx(0.01), "chip, stack, dense")
    found = error_band(HERE, near[:14] + chip + other)
    assert (found.runs, found.alike, found.error_fraction) == (32, "chip, dense", pytest.approx(0.1))
    found = error_band(HERE, runs([0.01] * 40, sources=NINE[:8]) + chip + other)
    assert (found.runs, found.alike) == (58, "chip, dense")


def test_each_source_counts_once_however_many_runs_it_has():
    """Eight of nine sources are below the band, and the ninth with its hundred runs is not."""
    known = [*runs([0.02] * 16, sources=NINE[:8]), *runs([0.5] * 100, sources=NINE[8:])]
    assert error_band(HERE, known).error_fraction == pytest.approx(0.02)
    known = [*runs([0.5] * 16, sources=NINE[:8]), *runs([0.02] * 100, sources=NINE[8:])]
    assert error_band(HERE, known).error_fraction == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("model", "told"),
    [("Qwen3-VL 8B", "an encoder of images or of sound in front"), ("T5 3B", "an encoder and a decoder")],
)
def test_a_network_with_an_encoder_says_that_no_run_has_one_and_has_a_wider_band(model: str, told: str) -> None:
    bands = {
        name: estimate("minimal", model=name, system="DGX H100", number_of_accelerators=8).error_band
        for name in (model, "Llama 3 8B")
    }
    assert f"no network like this one ({told})" in bands[model].beyond
    assert bands[model].error_fraction > bands["Llama 3 8B"].error_fraction


def test_repeats_of_a_configuration_count_once():
    repeats = [replace(each, group="the same") for each in runs([0.1] * 30)]
    assert error_band(HERE, [*repeats, *runs([0.3] * 18, software="eager")]).alike == "chip, dense"


def test_runs_whose_inputs_are_known_badly_say_nothing():
    assert error_band(HERE, runs([0.01] * 18) + runs([0.9] * 40, confidence="low")).runs == 18


def test_classes_widen_from_the_nearest_to_all():
    for classes in TIME_LAW.classes.values():
        assert classes[-1] == ()
        assert all(len(near) >= len(wide) for near, wide in zip(classes, classes[2:], strict=False))
    assert TIME_LAW.classes[Left.SOURCE][0] == ("accelerator", "software", "experts")


def test_without_any_run_nothing_is_known():
    found = error_band(HERE, [])
    assert math.isnan(found.error_fraction)
    assert found.runs == 0


def test_with_few_runs_the_largest_error_speaks():
    assert error_band(HERE, runs([0.1, 0.2])).error_fraction == pytest.approx(0.2)


def test_memory_is_judged_by_its_software_from_five_readings_on():
    """Of five errors the largest holds 80 %; of nine, the eighth."""
    mine, others = readings([0.01, -0.02, 0.03, 0.02, 0.04]), readings([0.3] * 4, software="eager")
    found = error_band(HERE, mine + others, MEMORY_LAW)
    assert (found.error_fraction, found.runs, found.alike) == (pytest.approx(0.04), 5, "stack")
    found = error_band(HERE, mine[:4] + others + readings([0.3], software="eager", context=1.0), MEMORY_LAW)
    assert (found.error_fraction, found.runs, found.alike) == (pytest.approx(0.3), 9, "all of them")


def test_times_say_nothing_of_memory_and_the_other_way_round():
    both = [*runs([0.2] * 18), *readings([0.01] * 9)]
    assert [error_band(HERE, both, law).error_fraction for law in (TIME_LAW, MEMORY_LAW)] == pytest.approx([0.2, 0.01])


def test_memory_of_software_that_was_never_read_is_no_better_known_than_any_other():
    known = [*readings([0.01] * 9), *readings([0.1] * 9, software="eager"), *readings([0.05] * 9, software="other")]
    found = error_band(replace(HERE, software="new"), known, MEMORY_LAW)
    assert (found.beyond, found.newness) == (("no memory was read with new",), Left.STACK)
    assert found.error_fraction == pytest.approx(1.1**1.1 - 1)
    assert error_band(HERE, known, MEMORY_LAW).beyond == ()
    new = error_band(replace(HERE, accelerator="new"), known, MEMORY_LAW)
    assert (new.beyond, new.newness) == (("no memory was read on new",), Left.ACCELERATOR)


# --- a new accelerator ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("groups", "size"),
    [
        ([[1], [2], [3]], None),  # a fourth accelerator may be worse than these three
        ([[1], [2], [3], [4]], 4),  # 4 of 5: 0.8
        ([[1], [2], [3], [4] * 50], 4),  # however many runs it has
        ([[1, 9], [2, 9], [3, 9], [4, 9], [5, 9]], 9),  # half of each is 9
        ([[1, 9], [2, 2], [3, 3], [4, 4], [5, 5]], 9),  # 4.5 of 6 below 9, and 4.8 are needed
        ([[1, 9], *[[n, n] for n in range(9)]], 8),  # 9 of 11 up to 8
    ],
)
def test_the_quantile_of_groups_by_hand(groups, size):
    assert quantile_of_groups(groups) == size


def test_groups_of_one_are_the_plain_quantile():
    sizes = [0.3, 0.1, 0.5, 0.2, 0.4, 0.9, 0.7]
    assert quantile_of_groups([[size] for size in sizes]) == conformal_quantile(sizes)


def test_a_new_group_is_held_as_often_as_promised():
    """Accelerators differ from one another more than runs on one of them do: pooled, one with many runs would decide."""
    from numpy.random import default_rng

    drawn, held, pooled = default_rng(7), [], []
    for _ in range(2000):
        own = abs(drawn.normal(0, 1, 12))
        groups = [list(abs(size + drawn.normal(0, 0.1, 40 if i == 0 else 2))) for i, size in enumerate(own[:11])]
        new = abs(own[11] + drawn.normal(0, 0.1))
        held.append(new <= quantile_of_groups(groups))
        pooled.append(new <= conformal_quantile([size for group in groups for size in group]))
    assert COVERED - 0.02 < sum(held) / len(held) < COVERED + 0.06
    assert sum(pooled) / len(pooled) < COVERED - 0.05


# --- what is new ------------------------------------------------------------------------------------------------------

NEW = {
    Left.SOURCE: {}, Left.ACCELERATOR: {"accelerator": "new"}, Left.STACK: {"software": "new"},
    Left.ALL: {"accelerator": "new", "software": "new"},
}  # fmt: skip


def test_what_is_new_decides_which_errors_count():
    """Each run has an error in a fit without each of the four; software without a name is new."""
    errors = {left.column: 0.1 * (place + 1) for place, left in enumerate(Left)}
    known = [replace(each, **errors) for each in runs([0.01] * 18)]
    for left, other in NEW.items():
        band = error_band(replace(HERE, **other), known)
        assert (band.newness, band.error_fraction) == (left, pytest.approx(errors[left.column]))
    assert error_band(replace(HERE, software=""), known).newness is Left.STACK


def test_what_is_left_out_has_names():
    assert Left.ALL.names("mine", "chip", "stack") == ("mine", "chip", "stack")
    assert Left.STACK.names("mine", "chip", "stack") == ("mine", "stack")


def test_one_generation_is_too_small_to_tell_about_a_new_accelerator():
    """Else a new one of a known generation could be less certain than one of which nothing is known."""
    known = runs([0.1] * 18) + runs([0.5] * 18, generation="new", accelerator="one")
    for generation in ("generation", "new", "another"):
        found = error_band(replace(HERE, accelerator="none", generation=generation, software="none"), known)
        assert found.alike == "dense"


def test_runs_of_one_source_do_not_vouch_for_an_accelerator():
    """A fit without their source does not know the accelerator: their errors without it are those of a new one."""
    others = runs([0.05] * 18, accelerator="well known")
    own = [replace(each, without_source=0.9) for each in runs([0.01] * 18, sources=("one",))]
    found = error_band(HERE, own + others)
    assert found.beyond == ("all validated runs on chip are of one source",)
    assert found.error_fraction == pytest.approx(0.05)


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
    assert error_band(replace(HERE, **other), runs([0.1] * 18)).beyond == told


# --- the shipped errors -----------------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_every_step_is_there_and_no_single_layer():
    compared = {r.measurement.id: r.measurement.kind for r in shipped() if r.of_time and not r.missed}
    assert {r.id for r in of(TIME_LAW)} == {name for name, kind in compared.items() if kind == "training_step"}
    assert {"layer", "training_step"} == set(compared.values())


@pytest.mark.thorough
def test_every_reading_of_memory_is_there():
    told = {r.measurement.id for r in of_memory(shipped()) if not r.missed and r.measurement.kind == "training_step"}
    assert {r.id for r in of(MEMORY_LAW)} == told
    assert len(told) > 60


def test_the_file_reads_back_as_it_was_written(monkeypatch):
    from amped.estimation import validated as module

    kept = [
        *runs([0.1, -0.2]),
        replace(run(0.3), group="a", without_source=0.25, without_accelerator=-0.5, without_all=0.7),
    ]
    text = as_file(kept)
    monkeypatch.setattr(module, "shipped_text", lambda *_: text)
    assert list(validated.__wrapped__()) == kept


@pytest.mark.thorough
def test_the_shipped_errors_are_those_that_validate_gives_now(tmp_path, monkeypatch):
    """Else: amped calibrate --all --write, or, if only predictions moved, amped validate --residuals > errors.csv and move that."""
    from amped.estimation import validated as module

    printed = validate("--residuals", folder=tmp_path)
    monkeypatch.setattr(module, "shipped_text", lambda *_: printed)
    now = validated.__wrapped__()
    assert [(r.id, r.quantity, r.confidence) for r in validated()] == [(r.id, r.quantity, r.confidence) for r in now]
    for kept, run_now in zip(validated(), now, strict=True):
        assert kept.error_fraction == pytest.approx(run_now.error_fraction, abs=1.1e-5)
        for left in Left:
            assert getattr(kept, left.column) == pytest.approx(getattr(run_now, left.column), abs=1e-4)
        assert (kept.source, kept.ground) == (run_now.source, run_now.ground)


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
    assert "dense" in told["validated_class"]


@pytest.mark.parametrize("name", [n for n in Tables().names(ACCELERATORS) if n.startswith(("A100", "B200", "MI300X"))])
def test_an_accelerator_never_measured_says_so(name):
    measured = {r.ground.accelerator for r in of(TIME_LAW) if r.confidence != "low"}
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
    known = [*runs([0.02] * 18, accelerator="well known"), *runs([0.3] * 18, accelerator="hardly known")]
    bands = [error_band(replace(HERE, accelerator=name), known) for name in ("well known", "hardly known", "unknown")]
    assert [b.error_fraction for b in bands[:2]] == pytest.approx([0.02, 0.3])
    assert bands[2].error_fraction >= bands[1].error_fraction
    larger = error_band(replace(HERE, accelerator="well known", context=1e6), known)
    assert larger.error_fraction > bands[0].error_fraction


def test_the_less_is_known_the_wider_the_band():
    """Of one accelerator and stack with large errors and others with small ones: new in one property, or in both."""
    known = [
        *runs([0.02] * 36), *runs([0.3] * 18, accelerator="hard", software="odd"), *runs([0.1] * 18, software="odd"),
    ]  # fmt: skip
    for name in ("chip", "hard"):
        for stack in ("stack", "odd"):
            ground = replace(HERE, accelerator=name, software=stack)
            plain, accelerator, software, both = (
                error_band(replace(ground, **other), known).error_fraction for other in NEW.values()
            )
            assert plain <= min(accelerator, software)
            assert max(accelerator, software) <= both


def test_an_accelerator_with_few_runs_has_no_narrower_band_than_those_with_many():
    """The one run on it is exact, and says less than the many runs on the others."""
    known = [*runs([0.02] * 40, accelerator="well known"), *runs([0.3] * 18, accelerator="hardly known")]
    few = [run(0.0, accelerator="measured once")]
    band = error_band(replace(HERE, accelerator="measured once"), known + few)
    assert band.error_fraction >= 0.3
    assert error_band(replace(HERE, accelerator="never measured"), known + few).error_fraction >= band.error_fraction


@pytest.mark.parametrize("law", [TIME_LAW, MEMORY_LAW])
def test_badly_known_inputs_widen_a_band_and_never_make_it_narrower(law):
    known, new = [*runs([0.1] * 18), *readings([0.1] * 20)], replace(HERE, accelerator="new")
    without = error_band(new, known, law)
    for error in (0.001, 0.9):
        doubts = [
            replace(each, quantity=law.quantity) for each in runs([error] * 4, confidence="low", accelerator="new")
        ]
        heard = error_band(new, known + doubts, law)
        assert heard.error_fraction == pytest.approx(max(error, without.error_fraction))
        assert (heard.alike == "new, inputs known badly") == (error > 0.1)


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["MI355X", "MI300A", "Ascend 910B", "RTX PRO 6000 Blackwell Server"])
@pytest.mark.parametrize("model", ["Llama 3 70B", "Mixtral 8x7B"])
def test_bands_of_machines_hardly_known_are_no_narrower_than_those_of_the_best_known(name, model):
    asked = {"model": model, "number_of_accelerators": 64, "context": 4096}
    one, other = (estimate(**asked, accelerator=each) for each in (name, "H100 SXM"))
    assert one.error_band.error_fraction >= other.error_band.error_fraction
    assert one.memory_band.error_fraction >= other.memory_band.error_fraction


@pytest.mark.thorough
def test_an_accelerator_or_a_stack_without_a_run_has_no_narrower_band_than_each_with_some():
    """Of the same kind of network, with everything else as it was validated."""
    known = [run for run in of(TIME_LAW) if run.confidence != "low"]
    few = [name for name, runs in by_accelerator(known).items() if len(runs) < 15]
    for ground in {
        replace(run.ground, context=1.0, number_of_parameters=1.0, number_of_accelerators=1.0) for run in known
    }:
        plain, accelerator, software, both = (error_band(replace(ground, **other)) for other in NEW.values())
        if ground.accelerator not in few and "known badly" not in plain.alike + software.alike:
            assert plain.error_fraction <= accelerator.error_fraction + 1e-9
            assert software.error_fraction <= both.error_fraction + 1e-9


def by_accelerator(known):
    return {
        run.ground.accelerator: [r for r in known if r.ground.accelerator == run.ground.accelerator] for run in known
    }


LEAST_INSIDE = 0.55


@pytest.mark.thorough
def test_bands_of_other_sources_hold():
    """Of all runs 75 to 90 % (the aim is 88), and most of those on each accelerator with ten runs of several sources."""
    known = [run for run in of(TIME_LAW) if run.confidence != "low"]
    bands = {
        source: Bands([run for run in known if run.source != source], TIME_LAW)
        for source in {run.source for run in known}
    }
    held = {run.ground.accelerator: [] for run in known}
    for run in known:
        held[run.ground.accelerator].append(bands[run.source].band(run.ground).holds(run.size(Left.SOURCE)))
    every = [inside for own in held.values() for inside in own]
    assert 0.75 <= sum(every) / len(every) <= 0.9
    sources = {name: {run.source for run in runs} for name, runs in by_accelerator(known).items()}
    many = {name: sum(own) / len(own) for name, own in held.items() if len(own) >= 10 and len(sources[name]) > 1}
    assert len(many) >= 4
    assert min(many.values()) >= LEAST_INSIDE, {name: share for name, share in many.items() if share < LEAST_INSIDE}


@pytest.mark.thorough
def test_bands_of_each_class_hold():
    """As if nobody had measured the source, its accelerator, its stack: about 80 % of what was left out is inside.

    The aim is 75 to 88 %. Where only the source is new, bands are too wide today: 94 % are inside.
    """
    runs_known = [run for run in of(TIME_LAW) if run.confidence != "low"]
    shares = {name: part["share_inside"] for name, part in plain(bands_checked(runs_known)).items()}
    assert all(0.75 <= share <= 0.95 for share in shares.values()), shares
