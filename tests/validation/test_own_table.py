"""A user's own table of measurements: what is needed, what is assumed and told, and what cannot be modeled, with why."""

import csv

import pytest

from amped.base.errors import ConfigError, FileError
from amped.configuring.scenario import read_scenario
from amped.estimation.estimation import Estimation, estimated
from amped.tables.table_files import ACCELERATORS
from amped.tables.tables import Tables
from amped.validation.measurements import MEMORY, measurement, read_measurements
from amped.validation.networks import bandwidth_per_accelerator, says_something, systems_of
from amped.validation.stacks import stack_of

MINIMAL = {"id": "mine", "layers": 32, "hidden_size": 4096, "attention_heads": 32, "vocab_size": 32000, "seq_len": 4096,
           "accelerator": "h100_sxm 80gb", "gpus": 16, "global_batch": 64, "measured_step_time_s": 5.0}  # fmt: skip


def table(folder, *rows):
    path = folder / "own.csv"
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, list(dict.fromkeys(name for row in rows for name in row)), restval="")
        writer.writeheader()
        writer.writerows(rows)
    return path


@pytest.fixture
def read(tmp_path):
    return lambda **more: read_measurements(table(tmp_path, MINIMAL | more))[0]


def values(m):
    return {n: e["value"] for s in m.config.values() if isinstance(s, dict) for n, e in s["parameters"].items()}


def estimate(m):
    return estimated(read_scenario(dict(m.config)), Estimation)


def test_ten_columns_are_enough(read):
    m = read()
    assert (m.reason, m.unread, m.confidence, m.kind) == ("", (), "high", "training_step")
    assert m.measured == {"step_time": 5.0}
    assert estimate(m)["number_of_accelerators"] == 16


def test_a_row_tells_what_it_assumed_and_whose_default_that_is(read):
    m = read()
    assert (
        m.assumed["number_of_accelerators_per_node"]
        == "number_of_accelerators_per_node = 8 (as in a system built with it)"
    )
    assert m.assumed["inter_node_bandwidth"] == "inter_node_bandwidth as in DGX H100"
    assert "an unknown framework" in m.assumed["virtual_pipeline_stages"]
    assert "not stated; the fastest" in m.assumed["microbatch_size"]
    assert m.config["mapping_parameters"]["lookup_config"]["lookup_table_row"] == "default"
    assert read(micro_batch=4).assumed.keys() == m.assumed.keys() - {"microbatch_size"}


@pytest.mark.parametrize(
    ("framework", "source", "expected"),
    [
        ("Megatron-LM", "arXiv 2104.04473", "Megatron-LM 2021"),
        ("Megatron-LM", "Korthikanti2022", "Megatron-LM 2022"),
        ("Megatron-LM", "a run of 2025", "Megatron-Core"),
        ("Megatron-LM (MCore r0.8.0)", "Megatron-README-H100", "Megatron-Core"),
        ("Megatron-DeepSpeed", "vTrain", "Megatron-DeepSpeed"),
        ("NeMo AutoModel (PyTorch FSDP2)", "NeMo", "NeMo AutoModel"),
        ("torchtitan (FSDP2)", "", "torchtitan"),
        ("torchtitan (FSDP2)", "torchtitan benchmarks/llama3_h100_202412_torchtitan.md", "torchtitan 2024"),
        ("torchtitan (FSDP2)", "a run of 2025-06", "torchtitan"),
        ("NeMo 24.07 (Megatron-Core)", "", "NeMo"),
        ("NeMo 25.02", "", "Megatron-Bridge"),
        ("Megatron-Bridge 25.11", "", "Megatron-Bridge"),
        ("Hugging Face Transformers", "", "PyTorch"),
        ("JAX", "", "default"),
    ],
)
def test_a_stack_is_a_framework_of_an_era(framework, source, expected):
    assert stack_of(framework, source, Tables()).name == expected


def test_what_is_measured_is_the_time_else_tokens_else_flops(read):
    assert read(measured_tokens_per_s_per_gpu=100).measured == {"step_time": 5.0}
    tokens = read(measured_step_time_s="", measured_tokens_per_s_per_gpu=100, measured_peak_memory_GB=60)
    assert tokens.measured == {"tokens_per_second_per_accelerator": 100.0, MEMORY: 60e9}
    flops = read(measured_step_time_s="", measured_model_tflops_per_gpu=400)
    assert flops.measured == {"model_flop_rate_per_accelerator": 400e12}
    assert "attention_flop_convention" in flops.assumed


def test_a_run_out_of_memory_measures_that_alone(read):
    m = read(measured_step_time_s="", notes="result OOM at the first step")
    assert (m.out_of_memory, m.measured, m.unread) == (True, {}, ())


@pytest.mark.parametrize(
    ("cells", "why"),
    [
        ({"accelerator": "H100 Ultra"}, "no row 'H100 Ultra'"),
        ({"layers": "many"}, "'many' is not a whole number"),
        ({"layers": "1e400"}, "'1e400' is not a whole number"),
        ({"gated_mlp": "2"}, "'2' is not 0 or 1"),
        ({"activation_recompute": "some"}, "'some' is no kind of recomputation"),
        ({"notes": "LoRA rank 16"}, "no formula"),
        ({"inter_node_network": "carrier pigeons"}, "'carrier pigeons' says no bandwidth"),
    ],
)
def test_a_row_that_cannot_be_modeled_says_why_and_stays(read, cells, why):
    m = read(**cells)
    assert m.config is None
    assert why in m.reason
    assert m.measured == {"step_time": 5.0}


def test_what_nobody_understands_is_told(read):
    m = read(notes="bananas=3, grad_accum=4; the weather was fine", audit="Step includes optimizer", color="red")
    assert m.unread == ("bananas=3", "the weather was fine", "column 'color'")
    assert values(m)["number_of_microbatches_per_minibatch"] == 4


def test_latent_attention_and_experts_stand_as_key_values(read):
    notes = ("q_lora_rank=1536, kv_lora_rank=512, qk_nope_head_dim=128, qk_rope_head_dim=64, v_head_dim=128; "
             "shared_experts=1, dense_layers=3, dense_ffn=18432, etp=1")  # fmt: skip
    m = read(
        num_experts=256, experts_topk=8, ffn_hidden_size=2048, moe_layer_freq=1, gated_mlp=1, ep=8, tp=2, notes=notes
    )
    own = values(m)
    assert m.unread == ()
    assert (own["head_dimension"], own["rotary_head_dimension"], own["value_head_dimension"]) == (192, 64, 128)
    assert (own["query_latent_dimension"], own["key_value_latent_dimension"]) == (1536, 512)
    assert (own["number_of_MoE_layers"], own["number_of_shared_experts"]) == (29, 1)
    assert (own["feedforward_dimension"], own["expert_feedforward_dimension"]) == (18432, 2048)
    assert own["expert_tensor_parallel_degree"] == 1
    assert estimate(m).choices["attention_kind"] == "multi_latent"


def test_amped_s_own_names_are_keys_too(read):
    m = read(notes="query_key_norm=true, pipeline_schedule=gpipe, norms_per_layer=4")
    own = values(m)
    assert (own["query_key_norm"], own["pipeline_schedule"], own["norms_per_layer"]) == (True, "gpipe", 4)


def test_memory_logged_by_the_last_stage_is_compared_with_the_last_stage(read):
    m = read(pp=4, micro_batch=1, measured_peak_memory_GB=50, notes="memory logged by the LAST rank")
    e = estimate(m)
    assert e.fullest_stage == "first"
    assert m.predicted(e, MEMORY) < e[MEMORY]


@pytest.mark.parametrize(
    ("words", "bandwidth"),
    [
        ("InfiniBand HDR 8x200Gb/s per node = 25 GB/s/GPU", 25e9),
        ("InfiniBand HDR 8x200Gb/s per node", 25e9),
        ("RoCE 1600 Gb/s per node", 25e9),
        ("RDMA 400Gb/s per GPU", 50e9),
        ("InfiniBand 4xHDR 200Gb/s = 800 Gb/s per node = 12.5 GB/s/GPU", 12.5e9),
        ("NVLink4+NVSwitch 450 GB/s/GPU/dir", 450e9),
        ("NVLink5 900 GB/s/GPU/dir (2 nodes x 4 GPUs)", 900e9),
        ("InfiniBand NDR 400Gb/s", 50e9),
        ("IB HDR", 25e9),
        ("", None),
        ("single node", None),
    ],
)
def test_networks_are_read_as_people_write_them(words, bandwidth):
    assert bandwidth_per_accelerator(words, 8, Tables()) == (bandwidth and pytest.approx(bandwidth))


def test_a_network_that_is_not_stated_says_nothing():
    assert [says_something(t) for t in ("", "single node", "NVL72 or IB, not stated", "IB HDR")] == [
        False,
        False,
        False,
        True,
    ]


@pytest.mark.parametrize(
    "name", ["A100-SXM-80GB", "a100 sxm4 80gb", "H100-SXM-96GB-HBM2e-500W", "gb200", "V100-SXM2-16GB"]
)
def test_accelerators_are_found_without_case_space_or_hyphen(name):
    tables = Tables()
    assert list(systems_of(tables.row(ACCELERATORS, name), 8, tables))


def test_a_table_that_is_none_is_refused(tmp_path):
    with pytest.raises(FileError, match="no such file"):
        read_measurements(tmp_path / "none.csv")
    with pytest.raises(ConfigError, match="the column 'layers' is missing"):
        read_measurements(table(tmp_path, {"id": 1}))
    with pytest.raises(ConfigError, match="did you mean 'seq_len'"):
        read_measurements(table(tmp_path, MINIMAL | {"seq_length": 1}))
    with pytest.raises(ConfigError, match="the id 'mine' stands 2 times"):
        read_measurements(table(tmp_path, MINIMAL, MINIMAL))
    ragged = tmp_path / "ragged.csv"
    ragged.write_text("id,layers,hidden_size,seq_len,accelerator,gpus,global_batch\na,1,2\n", "utf-8")
    with pytest.raises(ConfigError, match="line 2: has not as many cells"):
        read_measurements(ragged)


def test_a_row_without_a_needed_cell_says_which(tmp_path):
    m = read_measurements(table(tmp_path, MINIMAL | {"seq_len": ""}))[0]
    assert "'seq_len' is blank" in m.reason


def test_measurements_come_from_any_tables(tmp_path):
    row = read_measurements(table(tmp_path, MINIMAL))[0].row
    from amped.theory.catalogue import catalogue

    assert measurement(row, Tables(), catalogue()).config is not None
