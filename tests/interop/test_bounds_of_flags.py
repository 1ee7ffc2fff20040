"""Flags of other tools that amped does not model: their bounds by hand, those that cost nothing, and those that are refused."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

import amped
from amped.configuring.not_modeled import SHARES, SIZES, entries
from amped.configuring.scenario import read_scenario
from amped.estimation.estimation import Estimation, estimated
from amped.interop import deepspeed, megatron
from amped.interop.as_config import as_config
from amped.interop.fields import table
from amped.interop.records import Imported
from amped.interop.rest import costly_feature, without_effect
from tests.helpers.cli import amped as run
from tests.helpers.cli import refused
from tests.helpers.culprits import for_each

SCRIPT = """torchrun --nnodes 8 --nproc-per-node 8 pretrain_gpt.py --num-layers 30 --hidden-size 8192 --num-attention-heads 64
--seq-length 4096 --tensor-model-parallel-size 4 --sequence-parallel --pipeline-model-parallel-size 4
--num-virtual-stages-per-pipeline-rank 2 --account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split
--micro-batch-size 1 --global-batch-size 256 --train-iters 1000 --bf16 --swiglu --use-distributed-optimizer --vocab-size 32000"""
FORMS = ("megatron", "deepspeed", "torchtitan", "automodel", "keys")
# What scripts in the wild have and amped models not at all.
HARMLESS = (
    "lr", "log_interval", "no_initialization", "timing_log_level", "inference_max_seq_length", "muon_num_ns_steps", "seed",
    "grpo_kl_beta", "distributed_timeout_minutes", "ddp_average_in_collective", "fp8_amax_history_len", "no_load_rng",
    "softmax_scale", "enable_ft_package", "high_priority_stream_groups", "data_parallel_random_init", "save_interval",
    "tiktoken_pattern", "no_mmap_bin_files", "no_create_attention_mask_in_dataloader", "dino_bottleneck_size", "squared_relu",
)  # fmt: skip
BOUNDED = (
    "disable_tp_comm_overlap_ag", "ddp_bucket_size", "fp32_residual_connection", "delay_wgrad_compute",
    "moe_shared_expert_overlap", "fp8_param_gather", "deterministic_mode", "batch_p2p_comm",
    "overlap_param_gather_with_optimizer_step", "fsdp_double_buffer", "moe_deepep_num_sms", "fp8_wgrad",
)  # fmt: skip
UNBOUNDED = (
    "rampup_batch_size", "use_torch_fsdp2", "fine_grained_activation_offloading", "perform_rl_step",
    "defer_embedding_wgrad_compute", "cpu_offloading", "variable_seq_lengths", "use_kitchen", "encoder_num_layers",
)  # fmt: skip


def script(*flags: str) -> Imported:
    return megatron.read(" ".join((*SCRIPT.split(), *flags)), "run.sh")


def estimate(found: Imported, **values: object) -> Estimation:
    return estimated(read_scenario(as_config(found), {"system": "DGX H100", **values}))


@for_each((form, row) for form in FORMS for row in table(form)["unsupported"])
def test_a_row_has_a_reason_for_its_bound_and_names_parts_that_there_are(form: str, row: dict[str, Any]) -> None:
    sizes, shares = {*SIZES} & row.keys(), {*SHARES} & row.keys()
    assert row.keys() - sizes - shares <= {"what", "keys", "why", "source"}
    assert bool(sizes or shares) == bool(row.get("why") or row.get("source")), form
    re.compile(row["keys"])
    parts = {name: dict.fromkeys(row[name], 1.0) for name in shares}
    (entry,) = entries([{"what": row["what"], **dict.fromkeys(sizes, 1.0), **parts}])
    assert entry.is_bounded == bool(sizes or shares)


@for_each(HARMLESS)
def test_common_flags_that_cost_nothing_are_told_so(name: str) -> None:
    assert (costly_feature("megatron", name), bool(without_effect("megatron", name))) == (None, True)


@for_each(BOUNDED)
def test_common_flags_that_are_not_modeled_have_a_bound(name: str) -> None:
    row = costly_feature("megatron", name)
    assert row is not None
    assert {*SHARES, *SIZES} & row.keys()


@for_each(UNBOUNDED)
def test_what_has_no_bound_stays_so(name: str) -> None:
    row = costly_feature("megatron", name)
    assert row is not None
    assert not {*SHARES, *SIZES} & row.keys()


def test_the_bound_of_messages_is_their_share_of_a_step() -> None:
    e = estimate(script("--disable-tp-comm-overlap-ag"))
    (bound,) = e.not_modeled
    exposed, hidden = (e[f"{which}_tensor_communication_time"] / e["step_time"] for which in ("exposed", "hidden"))
    assert exposed > 0
    assert bound.on_time == pytest.approx(max(exposed / (1 - exposed), hidden))
    assert bound.on_memory == 0
    assert e.error_band is not None
    assert e["step_time"] == estimate(script())["step_time"]


def test_the_bound_of_a_wider_residual_is_what_it_keeps_and_moves() -> None:
    e = estimate(script("--fp32-residual-connection"))
    (bound,) = e.not_modeled
    values = (
        30 * 2 * 8192 * 4096 * 2 / 4
    )  # layers, residuals, width, tokens, bytes that are added, tensor-parallel ranks
    assert bound.shares["kept"].own == pytest.approx(values / (e["layer_activation_bytes"] * 30))


def test_the_ends_of_a_pipeline_count_as_layers_where_the_script_says_so() -> None:
    found = script()
    assert found.values["pipeline_layout"] == "Ettt|tttt|tttt|tttt|tttt|tttt|tttt|tttL"
    assert found.values["virtual_pipeline_stages"] == 2
    assert not found.report.unsupported
    assert estimate(found)["step_time"] > 0


def test_a_layout_in_letters_says_its_chunks() -> None:
    layout = "--pipeline-model-parallel-layout 'Ettt|(tttt|)*6tttL'"
    text = SCRIPT.replace("--num-virtual-stages-per-pipeline-rank 2", layout)
    found = megatron.read(" ".join(re.sub("--account-for-[a-z-]+", "", text).split()), "run.sh")
    assert found.values["virtual_pipeline_stages"] == 2


@pytest.mark.thorough
def test_a_script_with_bounded_flags_is_estimated_and_one_without_a_bound_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run.sh").write_text(f"{' '.join(SCRIPT.split())} --ddp-bucket-size 40000000 --lr 1e-4\n")
    run("import", "run.sh", "-o", "own.json", folder=tmp_path)
    told = json.loads(run("estimate", "own.json", "--system", "DGX H100", "--json", folder=tmp_path).stdout)
    assert [entry["what"] for entry in told["not_modeled"]] == [
        "ddp_bucket_size: buckets of data-parallel messages of another size or format"
    ]
    assert 0 < told["not_modeled"][0]["bound_on_time"] < 0.1
    (tmp_path / "run.sh").write_text(f"{' '.join(SCRIPT.split())} --rampup-batch-size 16 16 100000\n")
    run("import", "run.sh", "-o", "other.json", folder=tmp_path)
    code, said = refused("estimate", str(tmp_path / "other.json"))
    assert (code, "rampup_batch_size: the batch grows" in said, "--anyway" in said) == (2, True, True)


# --- DeepSpeed -------------------------------------------------------------------------------------------------------

DEEPSPEED = {"train_batch_size": 512, "train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": True}}


def json_with(stage: int = 3, **zero: object) -> Imported:
    return deepspeed.read({**DEEPSPEED, "zero_optimization": {"stage": stage, **zero}}, "ds.json")


def with_model(found: Imported, **values: object) -> Estimation:
    asked = {"system": "DGX H100", "number_of_accelerators": 64, **values}
    return estimated(read_scenario(as_config(found, "Llama 3 8B"), asked))


def test_mics_is_the_sharding_degree_both_ways() -> None:
    assert json_with(mics_shard_size=8).values["sharding_degree"] == 8
    assert "sharding_degree" not in json_with(mics_shard_size=-1).values
    assert "stage 3 alone" in str(json_with(2, mics_shard_size=8).report.unsupported[0])
    e = amped.estimate(model="Llama 3 8B", system="DGX H100", gpus=64, zero=3, tp=1, sharding_degree=8)
    assert deepspeed.fields_of(e).fields["zero_optimization.mics_shard_size"] == 8
    back = json_with(mics_shard_size=json.loads(deepspeed.write(e))["zero_optimization"]["mics_shard_size"])
    assert with_model(back)["sharding_degree"] == e["sharding_degree"]


def test_a_second_copy_in_the_node_is_the_weights_of_a_share() -> None:
    """hpZ: 16-bit weights over 8 accelerators; states stay shared by all, so that it is no sharding degree."""
    e = with_model(json_with(zero_hpz_partition_size=8))
    (bound,) = e.not_modeled
    assert bound.on_memory == pytest.approx(
        e["number_of_parameters"] * e["weight_precision"] / 8 / e["memory_per_accelerator_bytes"]
    )
    half = e["exposed_data_communication_time"] / e["step_time"] / 2
    assert bound.on_time == pytest.approx(half / (1 - half))


def test_weights_that_live_longer_take_their_bytes() -> None:
    e = with_model(json_with(stage3_max_live_parameters=2e9))
    assert e.not_modeled[0].on_memory == pytest.approx(4e9 / e["memory_per_accelerator_bytes"])


def test_a_file_of_transformers_says_nothing_that_has_no_bound() -> None:
    """What Hugging Face's documentation shows: nearly all is "auto"."""
    auto = {"enabled": "auto"}
    found = deepspeed.read(
        {"fp16": {**auto, "loss_scale": 0}, "bf16": auto, "zero_optimization": {"stage": 3}}, "ds.json"
    )
    assert found.values["matrix_precision"] == "bf16"
    assert found.report.unsupported == []
