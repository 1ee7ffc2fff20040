"""torchtitan, DeepSpeed, Megatron-Bridge and AutoModel: files in sections, in and out."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from amped.configuring.scenario import read_scenario
from amped.estimation.estimation import estimated
from amped.interop import slurm, torchtitan
from amped.interop.exporting import TARGETS
from amped.interop.recognition import read_file
from amped.interop.records import Imported
from tests.helpers.cli import amped, refused
from tests.helpers.interop import default_of
from tests.helpers.places import DATA

TOML = """
[model]
name = "llama3"
flavor = "8B"
converters = ["float8"]
[training]
local_batch_size = 4
global_batch_size = 256
seq_len = 8192
steps = 1000
[parallelism]
data_parallel_shard_degree = 8
data_parallel_replicate_degree = 2
tensor_parallel_degree = 4
pipeline_parallel_degree = 1
[activation_checkpoint]
mode = "selective"
selective_ac_option = "op"
[compile]
enable = true
enable_async_tensor_parallel = true
[metrics]
log_freq = 10
"""
MAIN = {
    "parallelism": {"data_parallel_shard_degree": 8, "data_parallel_replicate_degree": 2, "tensor_parallel_degree": 4, "pipeline_parallel_degree": 1},
    "training": {"num_tokens_per_microbatch_per_dp_rank": 4 * 8192, "num_tokens_per_train_step": 256 * 8192, "max_context_length": 8192, "steps": 1000},
    "activation_checkpoint": {"mode": "selective"}, "compile": {"enable": True, "enable_async_tensor_parallel": True},
    "model": {"converters": ["float8"]},
}  # fmt: skip
DEEPSPEED = {
    "train_batch_size": 512, "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": "auto", "bf16": {"enabled": True},
    "zero_optimization": {"stage": 3, "overlap_comm": True, "offload_optimizer": {"device": "cpu", "ratio": 0.5}, "stage3_prefetch_bucket_size": 5e7,
                          "zero_quantized_weights": True},
    "data_types": {"grad_accum_dtype": "fp32"}, "optimizer": {"type": "OneBitAdam", "params": {"lr": 1e-4}}, "sequence_parallel_size": 4, "mystery": 3,
}  # fmt: skip
BRIDGE = """
model:
  _target_: megatron.bridge.models.llama.Llama3ModelProvider
  num_layers: 80
  hidden_size: 8192
  num_attention_heads: 64
  num_query_groups: 8
  ffn_hidden_size: 28672
  gated_linear_unit: true
  add_bias_linear: false
  normalization: RMSNorm
  position_embedding_type: rope
  share_embeddings_and_output_weights: false
  vocab_size: 128256
  seq_length: 8192
  tensor_model_parallel_size: 4
  pipeline_model_parallel_size: 8
  virtual_pipeline_model_parallel_size: 5
  context_parallel_size: 2
  sequence_parallel: true
train: {global_batch_size: 128, micro_batch_size: 1, train_iters: 50}
mixed_precision: bf16_with_fp8_current_scaling_mixed
ddp: {use_distributed_optimizer: true, overlap_grad_reduce: true, overlap_param_gather: true, grad_reduce_in_fp32: false}
checkpoint: {save: /nowhere}
"""
AUTOMODEL = """
model:
  _target_: nemo_automodel.NeMoAutoModelForCausalLM.from_pretrained
  pretrained_model_name_or_path: meta-llama/Llama-3-8B
distributed: {strategy: fsdp2, dp_size: 16, tp_size: 2, cp_size: 1, activation_checkpointing: true, sequence_parallel: true}
step_scheduler: {global_batch_size: 128, local_batch_size: 2, max_steps: 100}
packed_sequence: {packed_sequence_size: 4096}
"""


def found(folder: Path, content: str | dict[str, Any], form: str | None = None) -> Imported:
    path = folder / "file"
    path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
    return read_file(path, form)


def test_a_toml_of_torchtitan(tmp_path: Path) -> None:
    values = found(tmp_path, TOML).values
    expected = {
        "number_of_accelerators": 64, "sharding_degree": 8, "zero_stage": 3, "microbatch_size": 4, "batch_size": 256, "context": 8192,
        "matrix_precision": "fp8", "fp8_scaling": "current", "activation_recomputation": "alternate_products",
        "overlap_forward_tensor_communication": True, "gradient_precision": 32,
    }  # fmt: skip
    assert {name: values[name] for name in expected} == expected
    assert found(tmp_path, TOML).software == "torchtitan compiled"


def test_the_names_of_main_count_tokens(tmp_path: Path) -> None:
    assert found(tmp_path, MAIN).values == found(tmp_path, TOML).values


def test_a_json_of_deepspeed(tmp_path: Path) -> None:
    read = found(tmp_path, DEEPSPEED)
    expected = {
        "batch_size": 512,
        "microbatch_size": 2,
        "zero_stage": 3,
        "optimizer_offload": 0.5,
        "context_parallel_degree": 4,
        "context_parallel_kind": "all_to_all",
    }
    assert {name: read.values[name] for name in expected} == expected
    assert {line.key for line in read.report.unsupported} == {
        "optimizer.type",
        "zero_optimization.zero_quantized_weights",
        "mystery",
    }
    assert any("auto" in line.what for line in read.report.defaulted)


def test_a_yaml_of_bridge(tmp_path: Path) -> None:
    read = found(tmp_path, BRIDGE)
    expected = {
        "layers": 80, "key_value_heads": 8, "gated_mlp": True, "mlp_bias": False, "tied_embeddings": False, "vocabulary_size": 128256,
        "virtual_pipeline_stages": 5, "context_parallel_degree": 2, "matrix_precision": "fp8", "fp8_scaling": "current", "gradient_precision": 16,
        "zero_stage": 1,
        "end_layer_format": "activations", "number_of_first_wide_layers": 1, "number_of_last_wide_layers": 1,
    }  # fmt: skip
    assert {name: read.values[name] for name in expected} == expected
    assert read.software == "Megatron-Bridge"
    assert read.report.unsupported == []


def test_a_yaml_of_automodel(tmp_path: Path) -> None:
    values = found(tmp_path, AUTOMODEL).values
    expected = {
        "number_of_accelerators": 32,
        "tensor_parallel_degree": 2,
        "zero_stage": 3,
        "microbatch_size": 2,
        "activation_recomputation": "full",
        "context": 4096,
    }
    assert {name: values[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("model:\n  a: !!python/object/apply:os.system [touch ran]\n", "line 2"),
        ("model:\n  - [1\n", "line 3"),
        ("model: [1]\nx: !mine 3\n", "line 2"),
        ("[training]\nseq_len = = 3\n", "line 2"),
        ("[parallelism]\ntensor_parallel_degree = 'two'\n", "tensor_parallel_degree"),
        ("distributed:\n  tp_size: many\n", "tp_size"),
        ("model:\n  num_layers: 3\n", "has no --hidden-size"),
        ("just words\n", "line 1"),
    ],
)
def test_a_wrong_file_is_refused_with_its_place_and_nothing_runs(tmp_path: Path, content: str, told: str) -> None:
    path = tmp_path / "file"
    path.write_text(content, "utf-8")
    code, said = refused("import", path, "-o", tmp_path / "my.json")
    assert (code, told in said, "Traceback" in said) == (2, True, False), said
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


def test_a_bomb_of_aliases_is_refused(tmp_path: Path) -> None:
    levels = "".join(f"x{n}: &x{n} {{{', '.join(f'k{i}: *x{n - 1}' for i in range(9))}}}\n" for n in range(1, 9))
    with pytest.raises(Exception, match="line 8: has more than 500,000 values when its aliases are written out"):
        found(tmp_path, f"model: {{a: 1}}\nx0: &x0 {{y: 1}}\n{levels}")


def test_the_network_of_a_file_without_one_is_named(tmp_path: Path) -> None:
    (tmp_path / "ds.json").write_text(json.dumps(DEEPSPEED), "utf-8")
    done = amped("import", "ds.json", "--model", "Llama 3 8B", "-o", "my.json", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    asked = ("estimate", "my.json", "--system", "DGX H100", "--gpus", 64, "--json")
    written = amped(*asked, "--anyway", folder=tmp_path)
    assert json.loads(written.stdout)["number_of_parameters"] == 8_030_261_248, written.stderr
    assert "mystery: 3" in amped(*asked, folder=tmp_path).stderr


def test_yaml_needs_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "yaml", None)
    path = tmp_path / "file"
    path.write_text(AUTOMODEL, "utf-8")
    code, said = refused("import", path)
    assert (code, "pip install 'amped[interop]'" in said) == (2, True)


# --- out -------------------------------------------------------------------------------------------------------------


def test_a_recipe_of_torchtitan_is_python_that_sets_fields() -> None:
    e = estimated(
        read_scenario("llama-3-70b", {"zero_stage": 3, "pipeline_parallel_degree": 1, "virtual_pipeline_stages": 1})
    )
    for form in ("torchtitan", "torchtitan@main"):
        text = TARGETS[form].write(e)
        compile(text, form, "exec")  # it is Python; it is not run
        assert "config = llama3_70b()" in text
    assert "config.training.local_batch_size = 1" in TARGETS["torchtitan"].write(e)
    assert "config.training.num_tokens_per_microbatch_per_dp_rank = 8192" in TARGETS["torchtitan@main"].write(e)


BASES = {
    "Llama 3 8B": "llama3_8b", "Llama 2 13B": "llama3_8b", "Llama 3.1 405B": "llama3_405b", "Qwen3 8B": "qwen3_14b", "Qwen3 30B-A3B": "qwen3_30b_a3b",
    "Qwen3 235B-A22B": "qwen3_30b_a3b", "DeepSeek V2 Lite": "deepseek_v3_16b", "DeepSeek V3": "deepseek_v3_671b", "Kimi K2": "deepseek_v3_671b",
    "gpt-oss-120b": "gpt_oss_120b",
}  # fmt: skip


@pytest.mark.parametrize("model", BASES)
def test_a_recipe_starts_from_a_network_of_its_kind(model: str) -> None:
    e = estimated(read_scenario("minimal", {"model": model}))
    assert f"    config = {BASES[model]}()\n" in TARGETS["torchtitan"].write(e)


def test_a_mixture_of_a_config_json_starts_from_a_mixture(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(default_of("qwen3_moe")), "utf-8")
    asked = ("export", "--model", "./config.json", "--system", "DGX H100", "--gpus", 64, "--for", "torchtitan")
    lines = amped(*asked, folder=tmp_path).stdout.splitlines()
    assert "    config = qwen3_30b_a3b()" in lines
    assert "#   model: torchtitan ships no such network: qwen3_30b_a3b is the nearest; change its sizes" in lines


def test_every_field_of_a_recipe_is_one_of_torchtitan() -> None:
    classes = json.loads((DATA / "torchtitan_0_3_0.json").read_text("utf-8"))["classes"]
    own = {f"{section}.{name}" for section, kind in SECTIONS.items() for name in classes[kind]}
    fields = set(torchtitan.fields_of(estimated(read_scenario("mixtral-8x7b"))).fields)
    assert {name for name in fields if name.split(".")[0] in SECTIONS} <= own


SECTIONS = {"training": "TrainingConfig", "parallelism": "ParallelismConfig", "compile": "CompileConfig"}


def test_the_json_of_deepspeed_says_what_is_in_the_program() -> None:
    written = json.loads(TARGETS["deepspeed"].write(estimated(read_scenario("llama-3-70b"))))
    assert any(line.startswith("pipeline_parallel_degree: 4") for line in written["_cannot_be_expressed"])
    assert (
        written["train_batch_size"]
        == written["train_micro_batch_size_per_gpu"] * written["gradient_accumulation_steps"] * 32
    )


def test_a_slurm_script_asks_for_the_nodes() -> None:
    lines = TARGETS["slurm"].write(estimated(read_scenario("llama-3-70b"))).splitlines()
    assert lines[:3] == ["#!/bin/bash", "#SBATCH --nodes=128", "#SBATCH --gpus-per-node=8"]
    assert lines[-1].startswith("srun torchrun --nnodes 128")


@pytest.mark.thorough
@pytest.mark.parametrize("system", ["GB200 NVL72", "GB300 NVL72"])
def test_a_rack_is_started_host_by_host(system: str, tmp_path: Path) -> None:
    """A tray of an NVL72 is a host with 4 GPUs, though 72 are in one fast network."""
    asked = ("export", "--model", "Llama 3 70B", "--system", system, "--gpus", 256, "--for")
    batch = amped(*asked, "slurm", folder=tmp_path).stdout
    assert batch.splitlines()[:4] == [
        "#!/bin/bash", "#SBATCH --nodes=64", "#SBATCH --gpus-per-node=4", "#SBATCH --ntasks-per-node=1",
    ]  # fmt: skip
    for form in ("slurm", "megatron", "torchtitan", "automodel", "bridge"):
        assert "--nnodes 64 --nproc-per-node 4 " in amped(*asked, form, folder=tmp_path).stdout


@pytest.mark.parametrize(("seconds", "asked"), [
    (30, ["0-00:01:00"]), (3600 * 25 + 1, ["1-01:01:00"]), (7 * 86_400, ["7-00:00:00"]), (7006 * 3600, ["7-00:00:00", "291-22:00:00"]),
])  # fmt: skip
def test_no_job_asks_for_more_than_a_week(seconds: float, asked: list[str]) -> None:
    lines = slurm.time_limit(seconds)
    assert re.findall(r"\d+-\d\d:\d\d:\d\d", "\n".join(lines)) == asked
    assert lines[0].startswith(f"#SBATCH --time={asked[0]}  # ")
    assert any(line.startswith("#SBATCH --requeue") for line in lines[1:]) == (len(asked) > 1)


def test_no_file_has_paths_of_data() -> None:
    e = estimated(read_scenario("mixtral-8x7b"))
    assert all("data_path" not in (text := target.write(e)) and "data-path" not in text for target in TARGETS.values())


@pytest.mark.parametrize(
    ("saved", "kind"),
    [
        (None, "none"),
        ({"preserve_rng_state": True, "determinism_check": "default", "debug": False}, "full"),
        ({"preserve_rng_state": True, "force_recompute_mm_shapes_by_fqns": ["moe.router.gate"]}, "alternate_products"),
        ({"preserve_rng_state": True, "memory_budget": 0.5}, "alternate_products"),
    ],
)
def test_a_config_that_torchtitan_saves_says_recomputation_by_its_fields(saved: Any, kind: str) -> None:
    """Source: torchtitan 0.3.0, distributed/activation_checkpoint.py (the fields of FullAC, SelectiveAC and MemoryBudgetAC)."""
    found = torchtitan.read({**MAIN, "activation_checkpoint": saved}, "saved.json")
    assert found.values["activation_recomputation"] == kind
    told = [line.key for line in found.report.unsupported]
    assert told == (["activation_checkpoint.memory_budget"] if saved and "memory_budget" in saved else [])


def test_the_rest_of_a_machine_and_of_a_batch_is_known() -> None:
    rest = {
        "parallelism": {"data_parallel_shard_degree": -1},
        "training": {"global_batch_size": -1, "local_batch_size": 8, "seq_len": 2048},
    }
    found = torchtitan.read(rest, "saved.json")
    assert found.report.unsupported == []
    assert {line.key for line in found.report.defaulted} >= {
        "parallelism.data_parallel_shard_degree",
        "training.global_batch_size",
    }


def test_overlapped_tensor_parallelism_of_torchtitan_needs_compiled_blocks() -> None:
    """Source: torchtitan 0.3.0, config/configs.py (CompileConfig refuses async TP without compile)."""
    over = {"overlap_forward_tensor_communication": True, "tensor_parallel_degree": 2, "sequence_parallel": True}
    out = torchtitan.fields_of(estimated(read_scenario("minimal", over)))
    assert out.fields["compile.enable"] is True
    assert "software" in {line.key for line in out.lost}


def test_formats_by_torch_s_names_are_megatron_s(tmp_path: Path) -> None:
    text = (
        BRIDGE
        + "optimizer:\n  use_precision_aware_optimizer: true\n  exp_avg_dtype: torch.bfloat16\n  exp_avg_sq_dtype: torch.bfloat16\n  main_params_dtype: torch.float32\n"
    )
    path = tmp_path / "run.yaml"
    path.write_text(text, "utf-8")
    found = read_file(path)
    assert found.values["moment_precision"] == 16
    assert "--exp-avg-dtype" not in {line.key for line in found.report.unsupported}


def test_a_deepspeed_file_has_the_attention_of_today_and_is_not_asked_for_a_model_that_is_given(tmp_path):
    """The row of its software has the attention of 2021, with which the scores of 8,192 tokens take most of the memory."""
    path = tmp_path / "ds.json"
    path.write_text(
        '{"train_batch_size": 8, "train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 3}}', "utf-8"
    )
    told = amped("import", path, "--model", "Llama 3 8B", "-o", tmp_path / "own.json", folder=tmp_path).stdout
    assert "flash_attention: the program says it; a fused attention is taken" in told
    assert "give --model" not in told
    assert '"flash_attention": {"value": true' in (tmp_path / "own.json").read_text("utf-8")
