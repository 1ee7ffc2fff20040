"""The door for Python."""

import subprocess
import sys

import pytest

import amped

UNWANTED = ("numpy", "pint", "jsonschema", "matplotlib", "torch", "rich")


def test_importing_amped_loads_nothing_heavy():
    code = f"import sys, amped; print([m for m in {UNWANTED} if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_ampeds_own_call_gives_seconds():
    seconds = amped.estimateTrainingTime("H100 PCIe")
    assert isinstance(seconds, float)
    assert amped.estimateTrainingTime("V100") > seconds > 0
    assert amped.estimateTrainingTime("H100 PCIe", "GPT-3 13B") < seconds


def test_an_estimate_takes_configs_in_every_form(tmp_path):
    mapping = {
        "neural_network_training_parameters": {
            "lookup_config": {"lookup_table_row": "GPT-2 XL"}, "parameters": {"batch_size": {"value": 64}},
        },
        "system_architecture_parameters": {
            "lookup_config": {"lookup_table_row": "DGX A100"}, "parameters": {"number_of_nodes": {"value": 1}},
        },
    }  # fmt: skip
    by_mapping = amped.estimate(mapping)
    path = tmp_path / "config.json"
    path.write_text(__import__("json").dumps(mapping))
    assert amped.estimate(path)["step_time"] == by_mapping["step_time"]
    assert amped.estimate(amped.load_config(mapping))["step_time"] == by_mapping["step_time"]
    assert by_mapping["number_of_accelerators"] == 8


def test_overrides_are_values_with_units_or_rows():
    small = amped.estimate(memory_capacity="40 GB")
    assert small["memory_capacity"] == 40e9
    assert not small["fits_in_memory"]
    assert amped.estimate(model="Megatron 18.4B", pipeline_parallel_degree=1)["layers"] == 40


def test_an_estimate_is_frozen_and_shows_itself():
    estimate = amped.estimate()
    with pytest.raises(AttributeError):
        estimate.results = None
    assert "GPT-3" in estimate._repr_html_()
    assert repr(estimate).startswith(f"<Estimate of default: step {estimate['step_time']:.4g} s, training ")
    assert sum(estimate.breakdown.values()) == pytest.approx(estimate["step_time"], rel=1e-12)


@pytest.mark.thorough
def test_explain_and_explore_answer_in_python():
    tree = amped.explain("step_time")
    assert tree.value == amped.estimate()["step_time"]
    assert "gemm_sustained_fraction" in {node.name for node in tree.walk()}
    closed = amped.explain("step_time", performance_model="amped")
    assert closed.value == amped.estimate(performance_model="amped")["step_time"]
    assert "matrix_efficiency" in {node.name for node in closed.walk()}
    found = amped.explore(number_of_accelerators=8, model="GPT-3 13B", top=3)
    assert len(found.best) == 3
    assert found.best[0]["training_time"] <= found.best[1]["training_time"]


def test_errors_are_of_one_family():
    with pytest.raises(amped.AmpedError, match="did you mean"):
        amped.estimate(model="Lama 3 70B")
    with pytest.raises(AttributeError):
        amped.nothing_of_the_kind  # noqa: B018
