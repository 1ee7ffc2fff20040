"""What of a configuration is modeled is said exactly, and what of it is validated is counted."""

import json
from pathlib import Path

import pytest

from amped.configuring.scenario import read_scenario
from amped.estimation.estimation import estimated
from amped.estimation.grade import FAR, LAW, MEASURED, NEAR
from amped.interop import bridge, huggingface, torchtitan
from amped.theory.language.catalogue import catalogue
from amped.validation.support import support, validated_runs_with_values
from amped.validation.table import read_table
from tests.helpers.cli import amped, refused
from tests.helpers.interop import default_of
from tests.interop.test_huggingface import LLAMA
from tests.interop.test_megatron import SCRIPT
from tests.interop.test_sections import BRIDGE

# Ten things that are hard, and exactly what amped has not of each, by key: hybrids with state-space layers (falcon_h1, with the Infinity that Python writes), sparse attention
# (deepseek_v32), attention in fp8 (a launch), an optimizer that amped has not (a launch), further tokens (deepseek_v3), windows
# (gpt_oss, mistral), encoder and decoder (t5), LoRA (a YAML), and linear attention (qwen3_next).
# What is modeled of these has no key: multi-token prediction, windows, linear attention, gates, and two stacks.
HARD = {
    "falcon_h1": set[str](),
    "qwen3_next": set[str](),
    "deepseek_v32": set[str](),
    "afmoe": set[str](),
    "mimo_v2_flash": {"model_type mimo_v2_flash", "v_head_dim"},
    "olmo2": set[str](),
    "gpt_oss": set[str](),
    "mistral": set[str](),
    "deepseek_v3": set[str](),
    "t5": set[str](),
}
CHANGED = {"index_topk": 2048, "hc_mult": 4}
LORA = """
distributed: {strategy: fsdp2, dp_size: 64, tp_size: 1}
step_scheduler: {global_batch_size: 128, local_batch_size: 2, max_steps: 100}
packed_sequence: {packed_sequence_size: 4096}
peft: {_target_: nemo_automodel.components._peft.lora.PeftConfig, dim: 8, alpha: 32, target_modules: ["*.gate"]}
"""
LAUNCHES = {
    "--optimizer soap": {"--optimizer"},
    "--bf16 --fp8-format hybrid --fp8-dot-product-attention": {"fp8_dot_product_attention"},
    "--rampup-batch-size 16 16 1000": {"rampup_batch_size"},
    "--recompute-granularity selective --recompute-modules mlp": {"--recompute-modules"},
}


def told(folder: Path, *arguments: object) -> tuple[int, set[str]]:
    """The exit code, and the keys of what is not modeled."""
    done = amped(
        "support", *arguments, "--system", "DGX H100", "--gpus", 64, "--must", "modelled", "--json", folder=folder
    )
    assert done.returncode in (0, 3), done.stderr
    return done.returncode, {line.partition(":")[0] for line in json.loads(done.stdout)["not_modeled"]}


@pytest.mark.thorough
@pytest.mark.parametrize(("name", "keys"), HARD.items())
def test_exactly_what_is_not_modeled_of_a_network_is_told(tmp_path: Path, name: str, keys: set[str]) -> None:
    (tmp_path / "config.json").write_text(json.dumps(default_of(name)), "utf-8")
    assert told(tmp_path, "config.json") == (3 if keys else 0, keys)


@pytest.mark.parametrize(("flags", "keys"), LAUNCHES.items())
def test_exactly_what_is_not_modeled_of_a_launch_is_told(tmp_path: Path, flags: str, keys: set[str]) -> None:
    script = SCRIPT.replace("--recompute-granularity selective --recompute-modules core_attn layernorm", "")
    (tmp_path / "launch.sh").write_text(script.replace("--lr 1e-4", f"--lr 1e-4 {flags}"), "utf-8")
    done = amped("support", "launch.sh", "--system", "DGX H100", "--must", "modelled", "--json", folder=tmp_path)
    assert (done.returncode, {line.partition(":")[0] for line in json.loads(done.stdout)["not_modeled"]}) == (
        3,
        keys,
    ), done.stderr


@pytest.mark.parametrize(("key", "value"), CHANGED.items())
def test_one_key_of_a_network_is_told_alone(key: str, value: int) -> None:
    """What one key adds to a network like Llama's: sparse attention, residual streams, narrow experts."""
    assert [line.key for line in huggingface.read({**LLAMA, key: value}, "f").report.unsupported] == [key]


def test_lora_is_told(tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text(LORA, "utf-8")
    done = amped(
        "support",
        "run.yaml",
        "--model",
        "Llama 3 8B",
        "--system",
        "DGX H100",
        "--must",
        "modelled",
        "--json",
        folder=tmp_path,
    )
    assert done.returncode == 3, done.stderr
    assert {line.partition(":")[0] for line in json.loads(done.stdout)["not_modeled"]} == {"peft.target_modules"}
    saved = BRIDGE + "peft: {dim: 8, alpha: 32}\n"
    assert "peft.dim" in {line.key for line in bridge.read(saved, "f").report.unsupported}, (
        "it does not say which adapters"
    )
    changed = torchtitan.read(
        {"model": {"converters": ["float8", "lora"]}, "parallelism": {}, "training": {"seq_len": 2048}}, "f"
    )
    assert [line.key for line in changed.report.unsupported] == ["model.converters"]


def test_a_model_by_path_is_flagged_too(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({**LLAMA, "index_topk": 2048}), "utf-8")
    code, keys = told(tmp_path, "--model", tmp_path)
    assert (code, len(keys)) == (3, 1)


def grades(name: str, **overrides: object) -> dict[str, str]:
    return {each.name: each.grade for each in support(estimated(read_scenario(name, overrides))).aspects}


def test_grades_follow_the_runs() -> None:
    runs = validated_runs_with_values()
    assert len(runs) > 200
    assert grades("llama-3-70b")["tensor_parallel_degree"] == NEAR
    # No run used a grid of SUMMA, or optical switches
    grid = grades(
        "default",
        tensor_parallel_strategy="2d_summa",
        tensor_parallel_columns=2,
        tensor_parallel_degree=8,
        sequence_parallel=False,
    )
    assert grid["tensor_parallel_strategy"] == LAW
    assert grades("optical-glam-1.2T")["network_kind"] == LAW
    # Latent attention was measured, but not on V100
    assert (
        grades("minimal", model="DeepSeek V2 Lite", system="DGX-2", accelerator="V100 SXM2 32GB", number_of_nodes=16)[
            "key_value_latent_dimension"
        ]
        == FAR
    )


def test_a_configuration_that_was_measured_is_found() -> None:
    row = next(row for row in read_table(None, catalogue()) if row.texts.get("id") == "01-0006")
    found = support(estimated(read_scenario({}, row.settings)))
    assert "01-0006" in found.same
    assert MEASURED in {each.grade for each in found.aspects}


def test_an_own_config_is_read_as_ever_and_has_a_screen(tmp_path: Path) -> None:
    done = amped("support", "llama-3-70b", "--must", "modelled", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Everything in it is modeled." in done.stdout
    assert "validated near" in done.stdout
    assert refused("support", "llama-3-70b", "--must", "fly")[0] == 2
    assert refused("support", "no-such-config")[0] == 2
