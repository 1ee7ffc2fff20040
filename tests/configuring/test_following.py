"""Query heads that are given alone: the key heads of a multi-head network follow them, and this is told."""

import json

import pytest

import amped
from amped.configuring.scenario import read_scenario
from tests.helpers.cli import amped as command

MULTI_HEAD, GROUPED = "GPT-3 175B", "Llama 3 8B"


def test_the_command_of_a_newcomer_runs_and_says_so(tmp_path):
    done = command("estimate", "--set", "attention_heads=48", folder=tmp_path)
    told = " ".join((done.stdout + done.stderr).split())
    assert done.returncode == 0
    assert (
        f"key_value_heads follows attention_heads, because both are 96 in row '{MULTI_HEAD}'; head_dimension stays 128"
        in told
    )
    found = json.loads(command("estimate", "--set", "attention_heads=48", "--json", folder=tmp_path).stdout)
    both = json.loads(
        command(
            "estimate", "--set", "attention_heads=48", "--set", "key_value_heads=48", "--json", folder=tmp_path
        ).stdout
    )
    assert (found["step_time"], found["number_of_parameters"]) == (both["step_time"], both["number_of_parameters"])


@pytest.mark.parametrize(
    ("model", "given", "heads"),
    [
        (MULTI_HEAD, {"attention_heads": 48}, 48),
        (MULTI_HEAD, {"n_heads": 48}, 48),
        (MULTI_HEAD, {"key_value_heads": 8}, 8),
        (MULTI_HEAD, {"attention_heads": 48, "key_value_heads": 8}, 8),
        (MULTI_HEAD, {"attention_heads": 96}, 96),
        (GROUPED, {"attention_heads": 64}, 8),
    ],
)
def test_only_key_heads_that_were_as_many_follow(model, given, heads):
    assert amped.estimate("minimal", model=model, **given)["key_value_heads"] == heads


def test_a_config_with_both_numbers_is_read_in_the_same_way():
    sizes = {"layers": 2, "dimensionality": 1024, "attention_heads": 16, "key_value_heads": 16, "vocabulary_size": 1000}
    network = {"parameters": {name: {"value": value} for name, value in sizes.items()}}
    config = {"neural_network_training_parameters": network}
    scenario = read_scenario(config, {"attention_heads": 8})
    assert "key_value_heads" not in scenario.sources.given
    assert "key_value_heads follows attention_heads, because both are 16 in the config" in scenario.sources.notices
    assert read_scenario(config, {"attention_heads": 16}).sources.given["key_value_heads"] == 16


def test_a_sweep_of_query_heads_takes_the_key_heads_with_it(tmp_path):
    words = ("--model", MULTI_HEAD, "--system", "Selene", "--gpus", "1024", "--vary", "attention_heads=48,96")
    done = command("explore", *words, folder=tmp_path)
    assert (done.returncode, "fastest: 48" in done.stdout) == (0, True)
