"""A network becomes a config.json: the class that loses least, its keys, and what it loses, which comes first."""

import json
from pathlib import Path
from typing import Any

import pytest

from amped.configuring.config import shipped_configs
from amped.configuring.scenario import read_scenario
from amped.estimation.estimation import Estimation, estimated
from amped.interop import huggingface, huggingface_out
from amped.interop.exporting import TARGETS
from amped.interop.fields import table
from tests.helpers.cli import amped, refused
from tests.helpers.interop import counted_parameters, default_of, winners


def of(model: str, **overrides: Any) -> Estimation:
    return estimated(read_scenario("minimal", {"model": model, **overrides}))


def written(model: str, **overrides: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(TARGETS["huggingface"].write(of(model, **overrides)))
    return found


def lost(model: str, **overrides: Any) -> list[str]:
    return [line.key for line in huggingface_out.fields_of(of(model, **overrides)).lost]


# The class that a network of amped's table is written in, where nothing of it is lost.
CLASSES = {
    "Llama 3 8B": "llama", "Qwen2.5 7B": "qwen2", "Qwen3 8B": "qwen3", "Mistral 7B": "mistral", "Gemma 2 9B": "gemma2",
    "Gemma 3 12B": "gemma3_text", "Mixtral 8x7B": "mixtral", "Qwen3 30B-A3B": "qwen3_moe", "gpt-oss-20b": "gpt_oss",
    "Llama 4 Scout": "glm4_moe", "GPT-3 175B": "gpt2", "GPT-NeoX 20B": "gpt_neox", "BLOOM 176B": "bloom",
}  # fmt: skip


@pytest.mark.parametrize(("model", "kind"), CLASSES.items())
def test_a_network_keeps_its_size(model: str, kind: str) -> None:
    """Nothing is lost but the training, and what is read back has as many parameters."""
    text = written(model)
    assert (text["model_type"], lost(model)) == (kind, ["the training"])
    assert counted_parameters(huggingface.read(text, "f")) == of(model)["number_of_parameters"]


@pytest.mark.parametrize("kind", sorted(table("huggingface")["classes"]))
def test_a_class_writes_its_own_keys(kind: str) -> None:
    """Each key is one of the class in transformers 5.23.0, or one that its model reads where it is given."""
    beside = {
        "head_dim", "n_inner", "sliding_window", "layer_types", "use_sliding_window", "num_experts", "dtype", "architectures",
        "attention_bias", "use_qk_norm", "mlp_bias", "first_k_dense_replace", "n_shared_experts", "num_nextn_predict_layers",
    }  # fmt: skip
    assert set(huggingface_out.class_of(kind)["keys"].values()) <= {*default_of(kind), *beside}


def test_dense_layers_before_mixtures_are_counted() -> None:
    assert written("DeepSeek V3", mixture_layer_pattern="0*3,1*58")["first_k_dense_replace"] == 3
    assert lost("DeepSeek V3", mixture_layer_pattern="1*58,0*3") == [
        "number_of_MoE_layers", "mixture_layer_pattern", "router_bias", "the training",
    ]  # fmt: skip
    assert written("Qwen3 30B-A3B", mixture_layer_pattern="0,1*46,0", number_of_MoE_layers=46)["mlp_only_layers"] == [
        0,
        47,
    ]


def test_what_cannot_be_expressed_comes_first() -> None:
    text = written("BERT base", expert_capacity_factor=0)
    assert list(text)[:2] == ["_comment", "_cannot_be_expressed"]
    assert "causal: False: GPT2LMHeadModel has 1" in text["_cannot_be_expressed"]
    assert "positions" in lost("LaMDA 137B")
    assert text["_reasons"]["n_layer"] == "layers of the network"


def test_one_key_that_says_two_things_loses_the_second() -> None:
    assert written("Llama 3 8B", query_key_value_bias=True)["model_type"] == "qwen2"
    assert lost("Llama 3 8B", attention_output_bias=True) == ["attention_output_bias", "the training"]


def test_the_command_writes_a_file_that_stands_for_a_model(tmp_path: Path) -> None:
    done = amped("export", "llama-3-70b", "--for", "huggingface", "-o", "config.json", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    size = amped(
        "estimate", "--model", "./config.json", "--system", "DGX H100", "--gpus", 64, "--json", folder=tmp_path
    )
    assert json.loads(size.stdout)["number_of_parameters"] == 70_553_706_496, size.stderr
    assert "warning" not in size.stderr
    assert refused("export", "llama-3-70b", "--for", "huggingfac")[0] == 2


def test_winners_have_a_file_of_their_own_beside_their_config(tmp_path: Path) -> None:
    """Where a framework's file is JSON, too, it does not take the name of the config."""
    assert winners(tmp_path, 1, "deepspeed") == ["best-01.deepspeed.json", "best-01.json"]


def test_every_shipped_config_is_written() -> None:
    for name in shipped_configs():
        made = json.loads(TARGETS["huggingface"].write(estimated(read_scenario(name))))
        assert made["model_type"] in table("huggingface")["classes"]
