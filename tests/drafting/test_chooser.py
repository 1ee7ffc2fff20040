"""What nobody gave is chosen; what is given is kept; the answer is one screen."""

import json
import math
import re

import pytest

from amped.base.errors import AmpedError
from amped.configuring.sources import CHOSEN
from amped.drafting.chooser import completed
from amped.drafting.improvements import improvements
from amped.estimation.estimation import estimated
from tests.helpers.cli import amped, printed, refused

# A first question, and the MFU that a published run of the kind reached, with its source; None where none was found.
FIRST = {
    "Llama 3 70B on 64 H100": ({"model": "Llama 3 70B", "system": "DGX H100", "number_of_accelerators": 64}, 0.43),  # 2407.21783, table 4
    "Mixtral on 16": ({"model": "Mixtral 8x7B", "system": "DGX H100", "number_of_accelerators": 16}, 0.47),  # 2504.14960, MCore
    "half a server": ({"model": "Llama 3 8B", "system": "DGX H100", "number_of_accelerators": 4}, None),
    "a network of 2018 on a V100": ({"model": "BERT large", "system": "DGX-1 V100", "number_of_accelerators": 8}, None),
    "images": ({"model": "ViT-22B", "system": "TPU v4 pod", "number_of_accelerators": 64}, 0.549),  # 2302.05442, section 3.2
}  # fmt: skip


@pytest.mark.parametrize(("asked", "published"), FIRST.values(), ids=FIRST)
def test_a_first_question_is_answered_as_an_expert_would(asked, published):
    e = estimated(completed(asked))
    assert e["fits_in_memory"] == 1
    lowest, highest = (published / 2, published * 1.5) if published else (0.15, 0.7)
    assert lowest <= e["model_flops_utilization"] <= highest
    assert e.scenario.sources.rows.keys() >= {"neural_network_training_parameters", "system_architecture_parameters"}


@pytest.mark.thorough
def test_short_sequences_get_larger_micro_batches_and_every_batch_divides():
    e = estimated(completed({"model": "ViT-L/16", "number_of_accelerators": 8}))
    assert e["microbatch_size"] > 4
    assert 0.15 <= e["model_flops_utilization"] <= 0.6
    for number in (3, 6, 7, 12):
        e = estimated(completed({"model": "GPT-2 XL", "number_of_accelerators": number}))
        assert e["batch_size"] / number == 2 ** round(math.log2(e["batch_size"] / number))
        assert e["fits_in_memory"] == 1


@pytest.mark.thorough
def test_the_screen_calls_a_format_as_the_user_does_and_says_what_was_not_searched():
    asked = ("--model", "Llama 3 70B", "--gpus", "8", "--precision", "mxfp8")
    told = printed("estimate", *asked, "--set", "optimizer_offload=0")
    assert ", blockwise fp8" in told.splitlines()[0]  # H100 has fp8, and no mxfp8
    assert ", mxfp8" in printed("estimate", *asked, "--system", "DGX B200").splitlines()[0]
    assert "fit: --set " in told.replace("\n" + 11 * " ", " ")
    assert "chosen without" not in told


def test_what_is_given_is_kept_and_what_is_chosen_is_told():
    asked = {"model": "Llama 3 8B", "system": "DGX H100", "number_of_accelerators": 16, "tensor_parallel_degree": 4,
             "zero_stage": 3, "batch_size": 64, "tokens_to_train": 1e12, "software": "Megatron-Core"}  # fmt: skip
    scenario = completed(asked)
    e = estimated(scenario)
    numbers = {name: value for name, value in asked.items() if not isinstance(value, str)}
    assert {name: e[name] for name in numbers} == numbers
    told = {name for name, origin in scenario.sources.origins.items() if getattr(origin, "where", "") == CHOSEN}
    assert told & asked.keys() == set()
    assert {"microbatch_size", "pipeline_parallel_degree", "flash_attention"} <= told


def test_what_cannot_be_is_refused_and_not_chosen_around():
    with pytest.raises(AmpedError, match="--tp 5 does not divide 8 accelerators"):
        estimated(completed({"model": "Llama 3 8B", "number_of_accelerators": 8, "tensor_parallel_degree": 5}))


def test_an_accelerator_without_bf16_trains_in_fp16():
    scenario = completed({"model": "BERT large", "system": "DGX-1 V100", "number_of_accelerators": 8})
    assert scenario.sources.choices["matrix_precision"] == "fp16"


SCREENS = [
    ("--model", "Llama 3 70B", "--system", "DGX H100", "--gpus", "64"), ("--model", "Llama 3 8B", "--gpus", "1"),
    ("--model", "Mixtral 8x7B", "--system", "DGX H100", "--gpus", "16", "--precision", "fp8"), (),
]  # fmt: skip


@pytest.mark.thorough
@pytest.mark.parametrize("asked", SCREENS, ids=" ".join)
def test_the_answer_is_one_plain_screen(asked):
    lines = printed("estimate", *asked).splitlines()
    assert len(lines) <= 20
    assert max(map(len, lines)) <= 100
    assert "\x1b" not in "".join(lines)
    words = [line.split(" ")[0] for line in lines]
    assert [word for word in ("TIME", "TRAINING", "WHERE", "ASSUMED") if word not in words] == []


def test_the_smallest_change_is_told_first_where_it_does_not_fit_and_must_makes_it_an_exit_code(tmp_path):
    done = amped(
        "estimate", "--model", "Llama 3.1 405B", "--system", "DGX H100", "--gpus", "8", "--must", "fit", folder=tmp_path
    )
    assert done.returncode == 3
    assert "DOES NOT FIT" in done.stdout
    assert done.stdout.index("DOES NOT FIT") < done.stdout.index("TIME")
    assert amped("estimate", "--must", "win", folder=tmp_path).returncode == 2


def test_short_options_say_what_set_says():
    short = printed("estimate", "minimal", "--tp", "2", "--mbs", "2", "--zero", "3", "--recompute", "full", "--json")
    long = printed("estimate", "minimal", "--json", *(f"--set={each}" for each in (
        "tensor_parallel_degree=2", "microbatch_size=2", "zero_stage=3", "activation_recomputation=full")))  # fmt: skip
    assert short == long


@pytest.mark.thorough
def test_every_improvement_is_faster_and_fits_as_an_estimate_of_it_says():
    from amped.configuring.scenario import asked_again, read_scenario

    scenario = read_scenario("default")
    e = estimated(scenario)
    found = improvements(scenario, e)
    assert [each.name for each in found][:1] == ["activation_recomputation"]
    for each in found:
        again = estimated(asked_again(scenario.question, {each.name: each.value}))
        assert again["fits_in_memory"] == 1
        assert again["step_time"] == each.step_time == pytest.approx(e["step_time"] * (1 - each.gain), rel=1e-12)
        assert again["step_time"] < e["step_time"]
    told = " ".join(printed("why").split())
    assert "activation_recomputation=selective" in told
    assert f"(MFU {100 * e['model_flops_utilization']:.1f} %)" in told
    assert "DOES NOT FIT" not in told


@pytest.mark.thorough
def test_why_keeps_the_layout_of_the_stages_and_one_that_is_found_anew_is_no_slower():
    from amped.configuring.scenario import asked_again, read_scenario

    scenario = read_scenario("default", {"virtual_pipeline_stages": 3, "layers": 79})
    found = improvements(scenario, estimated(scenario))
    assert {"flash_attention", "activation_recomputation"} <= {each.name for each in found}
    for each in found:
        again = estimated(asked_again(scenario.question, {each.name: each.value}))
        assert again["step_time"] <= each.step_time * (1 + 1e-12)


@pytest.mark.thorough
def test_why_marks_a_change_that_the_chooser_does_not_try():
    told = printed("why", "--model", "DeepSeek V3", "--system", "DGX H100", "--gpus", "512").splitlines()
    (chunks,) = (line for line in told if "virtual_pipeline_stages" in line)
    assert chunks.endswith("(only if asked)")
    assert not any("if asked" in line for line in printed("why", "--model", "Llama 3 8B", "--gpus", "64").splitlines())


@pytest.mark.thorough
def test_a_format_has_its_name_wherever_it_is_told():
    asked = ("--model", "Llama 3 8B", "--system", "DGX B200", "--gpus", "8")
    told = [printed("estimate", *asked, "--precision", "mxfp8", "--full"), printed("why", *asked, "--precision", "mxfp8"),
            printed("why", "default", "--precision", "mxfp8", "--accelerator", "B200 SXM"),
            printed("compare", *asked[:4], "--precision", "mxfp8", "--vary", "gpus=8,16"),
            printed("compare", *asked, "--vary", "precision=mxfp8,bf16"),
            printed("whatif", *asked, "--set", "precision=mxfp8")]  # fmt: skip
    for screen in told:
        assert screen.count("mxfp8") == 1 + screen.count("mxfp8 (bf16")
        assert not re.search(r"(?<!mx)(?<!blockwise_)fp8", screen)


@pytest.mark.thorough
def test_why_says_what_hidden_gradients_cost():
    asked = ("--model", "Llama 3 8B", "--system", "DGX H100", "--gpus", "512", "--zero", "1", "--tp", "1", "--pp", "1")
    hidden, waited = (
        " ".join(printed("why", *asked, "-s", f"overlap_data_communication={switch}").split()) for switch in (1, 0)
    )
    sentence = "nothing hides the last gradients and the first weights"
    assert sentence in hidden
    assert sentence not in waited


@pytest.mark.thorough
def test_why_says_what_the_host_copies_slice_by_slice():
    """nanotron with ZeRO 1 over 128 replicas: 32 layers of 6 tensors, 10 us each, is 245.8 ms."""
    asked = (
        "--model",
        "Llama 3 8B",
        "--system",
        "DGX H100",
        "--gpus",
        "512",
        "--pp",
        "1",
        "--tp",
        "4",
        "--zero",
        "1",
        "--mbs",
        "2",
    )
    told = [" ".join(printed("why", *asked, "--software", name).split()) for name in ("nanotron", "Megatron-Core")]
    sentence = (
        "For 245.8 ms of the optimizer's time the host copies updated weights into place, slice by slice (ZeRO over 128"
    )
    assert [sentence in each for each in told] == [True, False]


def test_why_says_first_that_a_configuration_does_not_fit():
    told = " ".join(printed("why", "--model", "Llama 3 70B", "--system", "DGX A100", "--gpus", "1").split())
    assert told.index("DOES NOT FIT") < told.index("A step takes")


def test_what_if_shows_one_change_in_a_dozen_lines_and_keeps_what_was_chosen():
    asked = ("--model", "Llama 3 8B", "--system", "DGX H100", "--gpus", "8")
    lines = printed("whatif", *asked, "--set", "activation_recomputation=full").splitlines()
    assert len(lines) <= 18
    assert "activation recomputation none -> full" in lines
    assert [line.split("  ")[0] for line in lines[4:9]] == ["step", "training", "cost", "MFU", "memory per accelerator"]
    assert "_" not in "".join(lines)
    told = json.loads(printed("whatif", *asked, "--set", "activation_recomputation=full", "--json"))
    by_name = {each["name"]: each for each in told["inputs"]}
    assert by_name["activation_recomputation"]["other"] == "full"
    assert "tensor_parallel_degree" not in by_name
    assert refused("whatif", *asked)[0] == 2


def test_only_zero_stages_of_the_software_are_suggested():
    """FSDP2 has no stage 1."""
    from amped.configuring.scenario import read_scenario
    from amped.drafting.improvements import _changes

    e = estimated(read_scenario("llama-3-70b", {"software": "torchtitan", "zero_stage": 2}))
    assert [value for name, value in _changes(e) if name == "zero_stage"] == [3]
    assert e.scenario.offered_zero_stages == (0, 2, 3)
    other = estimated(read_scenario("llama-3-70b", {"zero_stage": 2}))
    assert [value for name, value in _changes(other) if name == "zero_stage"] == [1, 3]


@pytest.mark.thorough
def test_a_cluster_of_then_takes_the_software_of_then(tmp_path):
    """Selene of 2020 is taken with Megatron-LM 2021, unless another software is named."""
    asked = ("estimate", "--model", "GPT-3 175B", "--system", "Selene", "--gpus", "1024")
    told = amped(*asked, folder=tmp_path).stdout
    assert "Megatron-LM 2021" in told
    assert "other software" not in told
