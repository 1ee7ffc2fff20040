"""A chosen mapping leaves free what the estimate of its memory may be off, and what that costs is told."""

import json

import pytest

import amped
from amped.drafting.asking import Asking
from amped.drafting.chooser import completed
from amped.estimation.estimation import estimated
from amped.estimation.uncertainty import MEMORY_LAW, error_band
from amped.exploration.search_space import HEADROOM, HEADROOM_BYTES
from tests.helpers.cli import printed, refused
from tests.helpers.interop import default_of

# What people ask first: the network, the number of accelerators, and the machine if it is not H100.
COMMON = [
    ("Llama 3 8B", 8, {}), ("Llama 3 8B", 64, {}), ("Llama 3 70B", 64, {}), ("Llama 3 70B", 512, {}),
    ("Mixtral 8x7B", 16, {}), ("Mixtral 8x22B", 128, {}), ("DeepSeek V3", 512, {}),
    ("DeepSeek V3", 256, {"system": "GB200 NVL72"}), ("Kimi K2", 2048, {}), ("Llama 3.1 405B", 1024, {}),
    ("Qwen3 32B", 64, {"accelerator": "A100"}), ("Llama 3 70B", 64, {"accelerator": "B200"}),
    ("Qwen3 235B-A22B", 256, {}), ("Llama 3 70B", 64, {"accelerator": "MI355X"}), ("GPT-3 175B", 256, {}),
]  # fmt: skip
FAST = (("Llama 3 8B", 8), ("Llama 3 70B", 64), ("Llama 3 70B", 512))


def as_case(model, number, machine):
    """A question with its mark: three run always, and one of them on three machines."""
    name = " ".join((model, str(number), *machine.values()))
    return pytest.param(
        model, number, machine, id=name, marks=[] if (model, number) in FAST else [pytest.mark.thorough]
    )


@pytest.mark.parametrize(("model", "number", "machine"), [as_case(*each) for each in COMMON])
def test_common_questions_leave_the_error_of_memory_free(model, number, machine):
    e = estimated(completed({"model": model, "number_of_accelerators": number, **machine}))
    needed = e["memory_per_accelerator_bytes"] * (1 + e.memory_band.error_fraction)
    assert needed <= e["available_memory_bytes"]
    assert e["keeps_memory_headroom"] == 1


def test_the_faster_mapping_without_headroom_is_told_and_can_be_asked_for():
    asked = ("estimate", "--model", "Llama 3 8B", "--gpus", 8)
    careful = " ".join(printed(*asked).split())
    assert "faster fits without headroom: --headroom 0" in careful
    assert "but it is close" not in careful
    daring = " ".join(printed(*asked, "--headroom", 0).split())
    assert "but it is close" in daring
    assert "headroom" not in daring
    faster, slower = (json.loads(printed(*asked, *more, "--json"))["step_time"] for more in (("--headroom", 0), ()))
    assert f"{100 * (1 - faster / slower):.1f} % faster" in careful


@pytest.mark.parametrize(
    ("written", "name", "value"), [("20%", HEADROOM, 0.2), ("0.2", HEADROOM, 0.2), ("12 GB", HEADROOM_BYTES, 12e9)]
)
def test_headroom_is_a_share_or_bytes(written, name, value):
    e = amped.estimate(model="Llama 3 8B", number_of_accelerators=8, headroom=written)
    assert e.scenario.sources.given[name] == value
    free = e["available_memory_bytes"] - e["memory_per_accelerator_bytes"]
    assert free >= (value if name == HEADROOM_BYTES else value * e["memory_per_accelerator_bytes"])


def test_a_headroom_that_is_none_is_refused():
    code, told = refused("estimate", "--model", "Llama 3 8B", "--gpus", 8, "--headroom", "some")
    assert code == 2
    assert "is not a number" in told


def test_where_nothing_leaves_headroom_the_fastest_that_fits_is_taken_and_told():
    asked = ("--model", "Llama 3 8B", "--gpus", 8, "--headroom", "10")
    told = printed("estimate", *asked)
    assert told.splitlines()[1].startswith("FITS")
    assert "note: no mapping that amped tried leaves the headroom free" in " ".join(told.split())
    searched = " ".join(printed("explore", *asked, "--top", 2).split())
    assert "No candidate leaves the memory headroom free (--headroom); these fit without it." in searched


def test_a_search_keeps_the_headroom_too():
    asked = {"model": "Llama 3 8B", "number_of_accelerators": 8, "space": "quick", "top": 5}
    found, every = amped.explore(**asked), amped.explore(**asked, headroom=0)
    error = amped.estimate(model="Llama 3 8B", number_of_accelerators=8).memory_band.error_fraction
    room = amped.estimate(model="Llama 3 8B", number_of_accelerators=8)["available_memory_bytes"]
    assert all(row["memory_per_accelerator_bytes"] * (1 + error) <= room for row in found.best)
    assert every.best[0]["step_time"] < found.best[0]["step_time"]
    assert not found.lacks_headroom


def test_a_config_keeps_no_headroom_unless_it_is_given():
    e = amped.estimate("default")
    assert (e[HEADROOM], e["keeps_memory_headroom"]) == (0, e["fits_in_memory"])


@pytest.mark.thorough
def test_the_headroom_holds_what_is_not_modeled(tmp_path):
    """A mixture of attentions: its own products and values may come on top of all that is counted."""
    config = default_of("jetmoe")
    (tmp_path / "config.json").write_text(json.dumps(config), "utf-8")
    asked = Asking(None, {"model": str(tmp_path), "number_of_accelerators": 32})
    e = estimated(asked.completed())
    error, more = error_band(e.ground, law=MEMORY_LAW).error_fraction, e.unmodeled.memory_on_top
    assert 0 < more < 0.5
    assert e[HEADROOM] == pytest.approx((1 + error) * (1 + more) - 1, abs=0.02)
    assert e["keeps_memory_headroom"] == 1
    assert any("% for what is not modeled" in notice for notice in e.scenario.sources.notices)
    daring = estimated(asked.completed({"headroom": 0}))
    assert not any("not modeled" in notice for notice in daring.scenario.sources.notices)
