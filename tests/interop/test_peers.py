"""Files of other performance models: their networks and mappings in amped's names."""

import json
from pathlib import Path
from typing import Any

from amped.interop.recognition import read_file
from amped.interop.records import Imported
from tests.helpers.cli import amped
from tests.helpers.interop import counted_parameters

# In the form of SimuMax's configs/models and configs/strategy (names of fields; values of published networks).
NETWORK = {
    "model_type": "moe", "model_name": "deepseek_v3", "attention_type": "mla", "hidden_size": 7168, "head_num": 128, "kv_head_num": 128,
    "head_size": 128, "intermediate_size": 18432, "moe_ffn_hidden_size": 2048, "moe_shared_expert_intermediate_size": 2048, "layer_num": 61,
    "dense_layers": 3, "expert_num": 256, "v_head_dim": 128, "qk_head_dim": 128, "qk_pos_emb_head_dim": 64, "q_lora_rank": 1536,
    "kv_lora_rank": 512, "topk": 8, "vocab_size": 129280, "use_swiglu": True,
}  # fmt: skip
STRATEGY = {
    "seq_len": 4096, "micro_batch_size": 1, "micro_batch_num": 8, "dtype": "bf16", "world_size": 64, "tp_size": 2, "pp_size": 4, "ep_size": 4,
    "etp_size": 1, "enable_sequence_parallel": True, "interleaving_size": 1, "zero_state": 1, "enable_dropout": False, "use_flash_sdp": True,
    "use_fp32_accum_grad": True, "enable_recompute": True, "recompute_granularity": "selective_recompute", "recompute_layer_num": 2,
    "attn_recompute": True, "mla_rms_recompute": True, "mlp_recompute": True, "mlp_rms_recompute": True, "mem_factor": 0.94,
}  # fmt: skip
APPLICATION = {
    "hidden": 12288,
    "feedforward": 49152,
    "seq_size": 2048,
    "attn_heads": 96,
    "attn_size": 128,
    "num_blocks": 96,
}
EXECUTION = {
    "num_procs": 64, "tensor_par": 8, "pipeline_par": 8, "data_par": 1, "tensor_par_net": 0, "batch_size": 64, "microbatch_size": 1,
    "datatype": "float16", "fused_activation": False, "activation_recompute": "full", "pipeline_interleaving": 3, "optimizer_sharding": False,
    "tensor_par_comm_type": "rs_ag", "tensor_par_overlap": "none", "data_par_overlap": False, "weight_offload": False, "optimizer_offload": True,
    "training": True,
}  # fmt: skip
LLM_ANALYSIS = {
    "name": "x", "num_layers": 32, "n_head": 32, "hidden_dim": 4096, "vocab_size": 32000, "max_seq_len": 4096,
    "num_key_value_heads": 8, "ffn_embed_dim": 14336, "mlp_gated_linear_units": True, "model_type": "llama",
}  # fmt: skip


def found(folder: Path, content: dict[str, Any]) -> Imported:
    (folder / "file.json").write_text(json.dumps(content), "utf-8")
    return read_file(folder / "file.json")


def test_a_network_of_simumax_has_the_published_size(tmp_path: Path) -> None:
    read = found(tmp_path, NETWORK)
    assert (read.source, read.report.unsupported) == ("simumax", [])
    assert counted_parameters(read) == 671_026_404_352  # as transformers' class of DeepSeek V3 has


def test_a_strategy_of_simumax(tmp_path: Path) -> None:
    read = found(tmp_path, STRATEGY)
    # 64 / (2 * 4) = 8 replicas, each with 8 micro-batches of one sequence
    expected = {"batch_size": 64, "number_of_accelerators": 64, "zero_stage": 1, "activation_recomputation": "selective", "norm_recomputation": True,
                "gradient_precision": 32, "flash_attention": True, "dropout": 0, "matrix_precision": "bf16"}  # fmt: skip
    assert {name: read.values[name] for name in expected} == expected
    assert [line.key for line in read.report.unsupported] == ["mlp_recompute"]


def test_an_execution_and_an_application_of_calculon_together(tmp_path: Path) -> None:
    (tmp_path / "app.json").write_text(json.dumps(APPLICATION), "utf-8")
    (tmp_path / "exe.json").write_text(json.dumps(EXECUTION), "utf-8")
    done = amped("import", "exe.json", "--model", "./app.json", "-o", "my.json", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    written = amped(
        "estimate", "my.json", "--system", "Selene", "--set", "tokens_to_train=1e9", "--json", folder=tmp_path
    )
    results = json.loads(written.stdout)
    # 96 layers of 12 * 12288² weights and 13 * 12288 biases and norms, and a last norm
    assert results["number_of_parameters"] == 96 * (12 * 12288**2 + 13 * 12288) + 2 * 12288
    assert (
        results["tensor_parallel_degree"],
        results["virtual_pipeline_stages"],
        results["activation_recomputation"],
    ) == (8, 3, "full")
    assert found(tmp_path, EXECUTION).values["sequence_parallel"] is True
    assert found(tmp_path, EXECUTION).values["optimizer_offload"] == 1


def test_a_network_of_llm_analysis(tmp_path: Path) -> None:
    read = found(tmp_path, LLM_ANALYSIS)
    assert (read.source, read.values["layers"], read.values["key_value_heads"]) == ("llm_analysis", 32, 8)
    assert read.report.unsupported == []
