"""Python and the command line are asked the same, and choose the same."""

import json

import pytest

import amped
from tests.helpers.cli import amped as command

ROWS = {"model": "Llama 3 8B", "system": "DGX H100"}
NAMED = ("--model", ROWS["model"], "--system", ROWS["system"])
MAPPING = ("tensor_parallel_degree", "pipeline_parallel_degree", "data_parallel_degree", "microbatch_size", "batch_size",
           "tokens_to_train", "step_time", "memory_per_accelerator_bytes")  # fmt: skip


@pytest.fixture
def told(tmp_path):
    return lambda *words: json.loads(command(*words, "--json", folder=tmp_path).stdout)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"gpus": 8}, ("--gpus", "8")),
        ({"gpus": 16, "tp": 2, "precision": "fp8"}, ("--gpus", "16", "--tp", "2", "--precision", "fp8")),
        ({"nodes": 2, "software": "NeMo"}, ("--nodes", "2", "--software", "NeMo")),
    ],
)
def test_an_estimate_chooses_as_the_command_does(told, given, words):
    ours, theirs = amped.estimate(**ROWS, **given).to_dict(), told("estimate", *NAMED, *words)
    assert {name: ours[name] for name in MAPPING} == {name: theirs[name] for name in MAPPING}


def test_an_estimate_says_what_it_is_of():
    assert repr(amped.estimate(**ROWS, gpus=8)).startswith("<Estimate of Llama 3 8B on DGX H100: step ")


@pytest.mark.thorough
def test_an_accelerator_alone_leaves_the_rest_open_too(told):
    ours = amped.estimate(accelerator="V100", number_of_accelerators=8, model="BERT large").to_dict()
    theirs = told("estimate", "--accelerator", "V100", "--gpus", "8", "--model", "BERT large")
    assert {name: ours[name] for name in MAPPING} == {name: theirs[name] for name in MAPPING}


def test_explain_and_sensitivity_choose_too():
    step = amped.estimate(**ROWS, gpus=8)["step_time"]
    assert amped.explain("step", **ROWS, gpus=8).value == step
    assert amped.sensitivity(**ROWS, gpus=8, kinds=["accelerator"]).value == step


def test_a_search_holds_the_same_and_finds_the_same(told):
    words = ("explore", *NAMED, "--gpus", "8", "--space", "quick", "--top", "3")
    found = amped.explore(**ROWS, gpus=8, space="quick", top=3)
    theirs = told(*words)
    assert (found.candidates, found.best) == (theirs["candidates"], theirs["best"])


@pytest.mark.parametrize("swept", ["vary", "list"])
def test_a_sweep_is_ranked_together_as_with_top(told, swept):
    listed = {"number_of_accelerators": [8, 16]}
    how = {"vary": listed} if swept == "vary" else listed
    found = amped.explore(**ROWS, **how, space="quick", top=2)
    theirs = told("explore", *NAMED, "--vary", "gpus=8,16", "--space", "quick", "--top", "2")
    assert (found.candidates, found.best) == (theirs["candidates"], theirs["best"])


def test_swept_rows_leave_the_rest_open():
    found = amped.explore(gpus=8, model="Llama 3 8B", vary={"system": ["DGX A100", "DGX H100"]}, space="quick", top=1)
    alone = amped.explore(gpus=8, **ROWS, space="quick", top=1)
    assert (found.best[0]["system"], found.best[0]["step_time"]) == ("DGX H100", alone.best[0]["step_time"])


def test_a_list_is_tried_by_sensitivity_and_refused_by_an_estimate():
    found = amped.sensitivity(**ROWS, gpus=8, memory_bandwidth=["3.35 TB/s", "4.8 TB/s"], kinds=["accelerator"])
    assert [trial.value for trial in found["memory_bandwidth"].trials] == [4.8e12]
    with pytest.raises(amped.AmpedError, match="is a list, and an estimate takes one value"):
        amped.estimate(**ROWS, gpus=8, context=[2048, 4096])


def test_a_config_that_is_named_means_what_it_says():
    default = amped.estimate("default")
    assert amped.estimate()["step_time"] == default["step_time"]
    kept = amped.estimate("default", model="GPT-3 13B", accelerator="H100 PCIe")
    assert kept["tensor_parallel_degree"] == default["tensor_parallel_degree"]
    assert kept["training_time"] == amped.estimateTrainingTime("H100 PCIe", "GPT-3 13B")


def test_a_model_may_be_a_file(told, tmp_path):
    sizes = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 4096, "num_hidden_layers": 32,
             "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256,
             "max_position_embeddings": 8192}  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(sizes))
    path = str(tmp_path / "config.json")
    ours = amped.estimate(model=path, system="DGX H100", gpus=8)["step_time"]
    assert ours == told("estimate", "--model", path, "--system", "DGX H100", "--gpus", "8")["step_time"]
