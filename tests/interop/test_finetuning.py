"""Files of fine-tuning as people have them: PEFT, TRL, Axolotl, LLaMA-Factory, torchtune, Megatron-Bridge."""

import json
from pathlib import Path

import pytest

from amped.interop.recognition import read_file
from tests.helpers.cli import amped

AXOLOTL = """
base_model: meta-llama/Llama-3.1-8B
load_in_4bit: true
adapter: qlora
lora_r: 32
lora_alpha: 16
lora_dropout: 0.05
lora_target_modules: [q_proj, k_proj, v_proj, o_proj]
sequence_len: 4096
sample_packing: true
micro_batch_size: 2
gradient_accumulation_steps: 4
num_epochs: 1
optimizer: adamw_bnb_8bit
bf16: auto
gradient_checkpointing: true
flash_attention: true
"""
FACTORY = """
model_name_or_path: meta-llama/Llama-3.1-8B-Instruct
stage: sft
finetuning_type: lora
lora_rank: 8
lora_target: all
cutoff_len: 2048
per_device_train_batch_size: 1
gradient_accumulation_steps: 8
bf16: true
"""
TORCHTUNE = """
model: {_component_: torchtune.models.llama3_1.lora_llama3_1_8b, lora_attn_modules: [q_proj, v_proj, output_proj], apply_lora_to_mlp: true,
  lora_rank: 8, lora_alpha: 16}
tokenizer: {_component_: torchtune.models.llama3.llama3_tokenizer, max_seq_len: 2048}
batch_size: 2
gradient_accumulation_steps: 8
optimizer: {_component_: torch.optim.AdamW, fused: true}
enable_activation_checkpointing: true
dtype: bf16
"""
PEFT = {"peft_type": "LORA", "base_model_name_or_path": "meta-llama/Llama-3.1-8B", "r": 16, "target_modules": ["q_proj", "v_proj"],
        "lora_dropout": 0.05, "use_dora": False}  # fmt: skip
ALL = ("query", "key", "value", "attention_output", "gate", "up", "down")
# For each file: what it says, and the projections with adapters.
FILES = {
    "axolotl.yml": (AXOLOTL, {"adapters": "lora", "adapter_rank": 32, "frozen_weight_format": "nf4_double", "optimizer": "adam_8bit",
                              "context": 4096, "microbatch_size": 2, "activation_recomputation": "full"}, ALL[:4]),
    "factory.yaml": (FACTORY, {"adapters": "lora", "adapter_rank": 8, "context": 2048, "microbatch_size": 1}, ALL),
    "tune.yaml": (TORCHTUNE, {"adapters": "lora", "adapter_rank": 8, "microbatch_size": 2, "zero_stage": 3},
                  ("query", "value", "attention_output", "gate", "up", "down")),
    "adapter_config.json": (json.dumps(PEFT), {"adapters": "lora", "adapter_rank": 16, "adapter_dropout": 0.05}, ("query", "value")),
}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_a_file_says_adapters_batch_and_optimizer(name: str, tmp_path: Path) -> None:
    text, wanted, modules = FILES[name]
    (tmp_path / name).write_text(text, "utf-8")
    found = read_file(tmp_path / name)
    assert {key: found.values.get(key) for key in wanted} == wanted
    assert tuple(module for module in ALL if found.values[f"{module}_adapters"]) == modules
    assert found.network == "Llama 3.1 8B"


def test_a_key_names_each_quantity_once(tmp_path: Path) -> None:
    (tmp_path / "axolotl.yml").write_text(AXOLOTL, "utf-8")
    (line,) = [line for line in read_file(tmp_path / "axolotl.yml").report.used if line.key == "lora_target_modules"]
    names = str(line).partition(": ")[2].split(", ")
    assert len(names) == len(set(names)) == 7


def test_what_was_imported_is_estimated(tmp_path: Path) -> None:
    (tmp_path / "axolotl.yml").write_text(AXOLOTL, "utf-8")
    assert amped("import", "axolotl.yml", "-o", "my.json", folder=tmp_path).returncode == 0
    done = amped("estimate", "my.json", "--system", "DGX H100", "--gpus", 8, folder=tmp_path)
    assert "lora, rank 32: 27.26 M trained beside 8.030 G, frozen in 4.13 bits" in done.stdout
    assert "BATCH      64 x 4,096 tokens" in done.stdout


def test_a_wrong_value_is_told_with_its_key(tmp_path: Path) -> None:
    (tmp_path / "axolotl.yml").write_text(AXOLOTL.replace("lora_r: 32", "lora_r: many"), "utf-8")
    done = amped("import", "axolotl.yml", "-o", "my.json", folder=tmp_path)
    assert done.returncode == 2
    assert "lora_r" in done.stderr


@pytest.mark.parametrize(
    ("layers", "read"), [([30, 31], 2), ([*range(32)], 32), (31, 1), ([0, 1], None), ([29, 31], None), (None, None)]
)
def test_adapters_in_the_last_layers_are_read_and_others_told(tmp_path: Path, layers: object, read: int | None) -> None:
    path = tmp_path / "adapter_config.json"
    path.write_text(json.dumps(PEFT | {"layers_to_transform": layers}), "utf-8")
    found = read_file(path)
    assert found.values.get("number_of_adapted_layers") == read
    told = [line for line in found.report.unsupported if line.key.endswith("layers_to_transform")]
    assert bool(told) == (layers is not None and read is None)


BRIDGE = """
model: {num_layers: 4, hidden_size: 256, num_attention_heads: 4, ffn_hidden_size: 1024, seq_length: 128, num_moe_experts: 8,
  moe_router_topk: 2, moe_ffn_hidden_size: 512, gated_linear_unit: true}
peft: {_target_: megatron.bridge.peft.lora.LoRA, dim: 8, target_modules: [linear_qkv, linear_fc1, linear_fc2]%s}
"""


@pytest.mark.parametrize(
    ("more", "sharing"),
    [("", "shared"), (", share_expert_adapters: true", "shared"), (", share_expert_adapters: false", "each")],
)
def test_bridge_adapts_experts_together_or_one_by_one(tmp_path: Path, more: str, sharing: str) -> None:
    path = tmp_path / "bridge.yaml"
    path.write_text(BRIDGE % more, "utf-8")
    assert read_file(path).values["expert_adapters"] == sharing
