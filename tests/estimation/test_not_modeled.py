"""What is not modeled is a bound: worked out by hand for one network, and never narrower than the validated band."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from amped.base.errors import ConfigError
from amped.base.files import shipped_json
from amped.configuring.scenario import read_scenario
from amped.estimation.estimation import Estimation, estimated
from amped.estimation.grade import FAR, GRADES, LAW, MEASURED, MISSING, NEAR, grade
from amped.estimation.not_modeled import Share, bound, core_products
from amped.estimation.uncertainty import error_band
from amped.estimation.validated import Ground, Validated
from tests.helpers.cli import amped, refused


def estimate(*entries: dict[str, Any], **values: object) -> Estimation:
    return estimated(
        read_scenario({**shipped_json("configs", "llama-3-70b.json"), "not_modeled": list(entries)}, values)
    )


def test_a_share_is_a_bound_in_both_directions() -> None:
    """A fifth that costs nothing leaves 0.8, which is 1 / 1.25; a fifth on top is 1.2; all of it has no bound."""
    assert bound(Share(0.2, 0.0)) == pytest.approx(0.25)
    assert bound(Share(0.0, 0.2)) == pytest.approx(0.2)
    assert bound(Share(0.2, 0.5)) == pytest.approx(0.5)
    assert bound(Share(1.0, 0.0)) == math.inf


def test_the_products_of_llama_3_70b_are_those_of_paper() -> None:
    """80 layers with 64 heads of 128: scores and values are 2 * 64 * 128 * 8192 = 134,217,728 products of a token in a layer."""
    assert core_products(8192, 64, 128, 128) == 134_217_728
    (core,) = estimate({"what": "x", "touches": "attention_core", "layers": 80}, context=8192).not_modeled
    # 70,553,706,496 parameters without the embedding's 128,256 * 8192 = 1,050,673,152, and 80 times the number above.
    every = 70_553_706_496 - 1_050_673_152 + 80 * 134_217_728
    assert core.shares["products"].counted == pytest.approx(80 * 134_217_728 / every)
    assert core.shares["parameters"] == (0, 0)
    (half,) = estimate({"what": "x", "touches": "attention_core", "layers": 40}, context=8192).not_modeled
    assert half.shares["products"].counted == pytest.approx(40 * 134_217_728 / every)


def test_what_is_beside_the_network_is_added_to_it() -> None:
    e = estimate({"what": "a second network", "parameters": 7e9})
    (second,) = e.not_modeled
    assert second.shares["parameters"].own == pytest.approx(7e9 / e["number_of_parameters"])
    assert second.to_dict() == {
        "what": "a second network", "share": second.share, "bound_on_time": second.on_time, "bound_on_memory": second.on_memory
    }  # fmt: skip


def test_a_band_is_never_narrower_for_what_is_not_modeled() -> None:
    modeled, lacking = estimate(), estimate({"what": "x", "touches": "attention_core", "layers": 8})
    assert modeled.error_band is not None
    assert lacking.error_band is not None
    assert modeled.error_band == error_band(modeled.ground)
    (core,) = lacking.not_modeled
    assert 1 + lacking.error_band.error_fraction == pytest.approx(
        (1 + modeled.error_band.error_fraction) * (1 + core.on_time)
    )
    assert lacking.to_dict()["longest_step_time"] > modeled.to_dict()["longest_step_time"]


def test_several_things_add_up() -> None:
    one = {"what": "x", "touches": "attention", "layers": 20}
    assert estimate(one, one).unmodeled.on_time > 2 * estimate(one).unmodeled.on_time


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ({"what": "x"}, "no bound"), ({"what": "x", "touch": "attention"}, "did you mean 'touches'"),
        ({"what": "x", "touches": "head"}, "one of attention_core"), ({"what": "x", "parameters": -1}, "not below 0"),
        ({"touches": "layer"}, "what is not modeled"),
    ],
)  # fmt: skip
def test_an_entry_that_says_nothing_is_refused(entry: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        estimate(entry)


# --- the grade -------------------------------------------------------------------------------------------------------


def ground(**changes: Any) -> Ground:
    values = {
        "accelerator": "H100 SXM", "generation": "Hopper", "software": "S", "precision": "16 bit", "number_of_experts": 1.0,
        "number_of_nodes": 8.0, "number_of_accelerators": 64.0, "number_of_parameters": 8e9, "context": 4096.0,
        "mapping": "tensor 2 data 32",
    }  # fmt: skip
    return Ground(**{**values, **changes})


RUNS = [
    Validated("a", "s", "high", 0.0, ground()),
    Validated("b", "s", "high", 0.0, ground(accelerator="A100", generation="Ampere", software="T")),
]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, MEASURED), ({"number_of_accelerators": 32.0}, NEAR), ({"number_of_accelerators": 128.0}, FAR),
        ({"software": "T"}, FAR), ({"generation": "Volta", "accelerator": "V100"}, FAR), ({"number_of_experts": 8.0}, LAW),
        ({"precision": "fp4"}, LAW), ({"mapping": "tensor 4 data 16"}, NEAR), ({"mapping": ""}, NEAR),
    ],
)  # fmt: skip
def test_the_grade_is_that_of_the_property_with_the_least_evidence(changes: dict[str, Any], expected: str) -> None:
    assert grade(ground(**changes), RUNS) == expected


def test_the_grade_is_on_the_screen_and_in_json(tmp_path: Path) -> None:
    asked = ("estimate", "--model", "Llama 3 8B", "--gpus", 64)
    told = json.loads(amped(*asked, "--json", folder=tmp_path).stdout)
    assert told["not_modeled"] == []
    assert told["grade"] in GRADES
    screen = amped(*asked, folder=tmp_path).stdout
    assert f"EVIDENCE   {told['grade']}" in screen
    assert "NOT MODELED" not in screen
    assert told["grade"] in amped(*asked, "--full", folder=tmp_path).stdout


def test_the_first_line_says_what_is_not_modeled(tmp_path: Path) -> None:
    """All attention of a network of long sequences: more than a quarter; one layer of it: a note."""
    config = shipped_json("configs", "llama-3-70b.json")
    path = tmp_path / "my.json"
    path.write_text(
        json.dumps(config | {"not_modeled": [{"what": "x: something else", "touches": "attention", "layers": 80}]})
    )
    screen = amped("estimate", path, folder=tmp_path).stdout
    assert screen.startswith("NOT MODELED: time ±")
    assert "for x: something else" in screen.splitlines()[0]
    assert f"EVIDENCE   {MISSING}" in screen
    path.write_text(
        json.dumps(config | {"not_modeled": [{"what": "x: something else", "touches": "attention", "layers": 1}]})
    )
    screen = amped("estimate", path, folder=tmp_path).stdout
    assert "NOT MODELED" not in screen
    assert "warning: not modeled: x: something else (time ±" in screen
    code, said = refused("estimate", path, "--set", "not_modeled=1")
    assert (code, "unknown parameter" in said) == (2, True)
