"""The gate that every estimate passes: laws that hold for each training run."""

import json
import subprocess
import sys

import pytest

import amped
from amped.base.errors import ConfigError, MappingError, WrongResultError
from amped.estimation import gate
from tests.helpers.cli import amped as command

RUN = {"model": "Llama 3 8B", "system": "DGX H100", "number_of_accelerators": 8, "batch_size": 8,
       "tensor_parallel_degree": 1, "pipeline_parallel_degree": 1, "zero_stage": 1, "flash_attention": True,
       "microbatch_size": 1}  # fmt: skip


@pytest.mark.parametrize("law", gate.LAWS, ids=lambda law: law.says)
def test_every_law_holds_for_a_run_and_breaks_for_numbers_that_cannot_be(law):
    e = amped.estimate(**RUN)
    values = [e[name] for name in law.reads]
    assert law.holds(*values)
    wrong = [-1e12, *values[1:]] if len(values) != 2 else [2 * max(values), min(values)]
    wrong = [2.0] if "peak" in law.says else wrong
    assert not law.holds(*wrong)


def test_a_wrong_result_is_told_as_a_mistake_of_ampeds_with_the_config(monkeypatch, tmp_path):
    law = gate.Law("steps take a day", ("step_time",), lambda time: time == 86400)
    monkeypatch.setattr(gate, "LAWS", (*gate.LAWS, law))
    with pytest.raises(WrongResultError, match="steps take a day: step_time = ") as told:
        amped.estimate(**RUN)
    assert told.value.config["model"] == "Llama 3 8B"
    assert told.value.config["number_of_accelerators"] == 8


def test_the_command_ends_with_1_and_prints_the_config_to_send():
    broken = (
        "from amped.estimation import gate; "
        "gate.LAWS = (gate.Law('no step is this short', ('step_time',), lambda time: False),); "
        "from amped.cli.app import main; "
        "main('estimate', '--model', 'Llama 3 8B', '--system', 'DGX H100', '--gpus', '8')"
    )
    ran = subprocess.run([sys.executable, "-c", broken], capture_output=True, text=True)
    assert ran.returncode == 1
    first, second = ran.stderr.splitlines()[-2:]
    assert first.startswith("amped: this result is wrong, and not by your mistake: no step is this short: step_time = ")
    assert json.loads(second.partition("config: ")[2])["model"] == "Llama 3 8B"


def test_a_quantity_that_the_user_gives_from_inside_is_told_with_what_no_longer_agrees():
    e = amped.estimate(**RUN, compute_forward_time=1e-6, step_time=100)
    assert "step_time is given, not calculated: what it is made of need not agree with it" in e.notices
    assert any(notice.startswith("the parts of a step sum up to its time: step_time = 100,") for notice in e.notices)
    assert any("weight_bytes is given" in notice for notice in amped.estimate(**RUN, weight_bytes=1e9).notices)


def test_what_makes_an_accelerator_faster_than_its_peak_is_refused_with_the_ratio():
    refused = r"with what is given \(step_time\) the model FLOPs are [\d.]+ times the peak"
    with pytest.raises(ConfigError, match=refused + r".*\n.*leave step_time out"):
        amped.estimate(**RUN, step_time="1 ms")


def test_a_result_that_is_given_is_told_as_given(tmp_path):
    options = ("--model", "Llama 3 8B", "--system", "DGX H100", "--gpus", 64, "--set", "step_time=9 s")
    told = command("estimate", *options, folder=tmp_path)
    (time,) = [line for line in told.stdout.splitlines() if line.startswith("TIME")]
    assert "9 s a step  " in time  # and no band
    assert "(step given, not predicted)" in " ".join(told.stdout.split())
    assert (
        json.loads(command("estimate", *options, "--json", folder=tmp_path).stdout)["given_not_predicted"]
        == "step_time"
    )
    refused = command("estimate", *options[:-1], "step_time=0.5 s", folder=tmp_path)
    assert (refused.returncode, refused.stdout) == (2, "")


def test_a_run_without_such_values_has_no_such_notice():
    assert not [notice for notice in amped.estimate(**RUN).notices if "given, not calculated" in notice]


def test_a_mixture_that_is_called_dense_is_refused():
    with pytest.raises(MappingError, match=r"number_of_experts = 8.*\n.*choose another feedforward_kind: mixture"):
        amped.estimate(**RUN | {"model": "Mixtral 8x7B", "feedforward_kind": "dense"})


def test_a_utilization_that_counts_scores_outside_of_windows_is_empty():
    windowed = amped.estimate(**RUN, attention_window=1024, number_of_windowed_layers=32).to_dict()
    told = {windowed[f"{kind}_flops_utilization_counting_all_scores"] for kind in ("model", "hardware")}
    assert told == {"unknown: an attention window leaves scores out"}
    assert 0 < windowed["model_flops_utilization_counting_causal_scores"] < 1
    assert amped.estimate(**RUN).to_dict()["model_flops_utilization_counting_all_scores"] > 0
