"""Configs of published networks (`tests/data/published_networks.jsonl`: the row, and its config.json), and small ones like them."""

import json
from functools import cache
from typing import Any

from tests.helpers.places import ROOT

Config = dict[str, Any]
# Nulls that a class does not have by default.
NULLS: dict[str, dict[str, None]] = {"Moonlight 16B-A3B": {"q_lora_rank": None}}


@cache
def published() -> dict[str, Config]:
    """The published config of each network, without nulls."""
    lines = (ROOT / "tests" / "data" / "published_networks.jsonl").read_text("utf-8").splitlines()
    configs = {(each := json.loads(line))["row"]: each["config"] for line in lines}
    return {row: {key: value for key, value in config.items() if value is not None} for row, config in configs.items()}


def made_class(config: Config) -> Any:
    """The causal model that transformers makes of a config, with random weights."""
    import transformers

    library: Any = transformers  # whose functions have no types
    kind, given = config["model_type"], {key: value for key, value in config.items() if key != "model_type"}
    return library.AutoModelForCausalLM.from_config(library.AutoConfig.for_model(kind, **given))


# Sizes of small networks, by key. All experts of LongCat's compute here, because few tokens choose them unevenly.
SMALL = {
    "num_hidden_layers": 4, "num_layers": 2, "hidden_size": 128, "head_dim": 16, "intermediate_size": 256, "ffn_hidden_size": 256,
    "vocab_size": 512, "moe_intermediate_size": 48, "expert_ffn_hidden_size": 48, "q_lora_rank": 64, "kv_lora_rank": 32,
    "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 16, "index_n_heads": 4, "index_head_dim": 16, "index_topk": 8,
    "n_routed_experts": 16, "num_experts": 16, "num_local_experts": 16, "moe_num_experts": 16, "zero_expert_num": 0, "sliding_window": 8,
    "shared_intermediate_size": 256, "moe_layer_end_index": 3, "max_position_embeddings": 64, "linear_num_key_heads": 2,
    "linear_num_value_heads": 4, "linear_key_head_dim": 16, "linear_value_head_dim": 16, "linear_num_heads": 4, "linear_head_dim": 16,
    "mamba_num_heads": 8, "mamba_head_dim": 16, "ssm_state_size": 16, "n_groups": 8, "chunk_size": 64, "block_size": 16,
    "shared_expert_intermediate_size": 48, "moe_shared_expert_intermediate_size": 96,
    "mamba_d_state": 16, "mamba_dt_rank": 8, "state_size": 16, "time_step_rank": 8, "lru_width": 128, "mamba_n_heads": 8, "mamba_d_head": 8, "mamba_d_ssm": 64, "num_heads": 16,
    "mamba_chunk_size": 64, "attn_layer_offset": 2, "laurel_rank": 8, "altup_num_inputs": 2, "hidden_size_per_layer_input": 16, "vocab_size_per_layer_input": 512, "num_kv_shared_layers": 2, "gated_norm_rank": 8, "router_hidden_size": 16,
    "dim_head": 16, "dim_ff": 256, "d_model": 128, "n_layer": 4, "n_head": 8, "d_head": 16, "d_inner": 256,
}  # fmt: skip
CHOSEN = ("num_experts_per_tok", "moe_topk", "moe_k")


def small(config: Config) -> Config:
    """A network of the same kind with four small layers; it has as many heads for each key head, and as many dense layers at first."""
    cut = {
        key: min(value, SMALL[key]) if key in SMALL and isinstance(value, int) and value else value
        for key, value in config.items()
    }
    if "num_attention_heads" in config:
        groups = config["num_attention_heads"] // config.get("num_key_value_heads", config["num_attention_heads"])
        cut |= {"num_attention_heads": 8, "num_key_value_heads": 2 if groups > 1 else 8}
    cut["pad_token_id"] = 0
    for groups, heads in (("mamba_n_groups", "mamba_n_heads"), ("n_groups", "num_heads")):
        if {groups, heads} <= config.keys():  # transformers repeats groups for heads
            cut[groups] = cut[heads]
    cut |= {key: min(config[key], 3) for key in CHOSEN if key in config}
    cut |= {
        key: config[key][:4]
        for key in ("layer_types", "mlp_layer_types", "activation_sparsity_pattern")
        if key in config
    }
    if "per_layer_config" in config:  # the last layer has no window, and wider heads; as does one whose keys it reads
        others = ["sliding_attention", "full_attention" if config.get("num_kv_shared_layers") else "sliding_attention"]
        kinds = [*others, "sliding_attention", "full_attention"]
        wider = {str(place): {"head_dim": 32} for place, kind in enumerate(kinds) if kind == "full_attention"}
        cut |= {"layer_types": kinds, "per_layer_config": wider}
    if isinstance(config.get("intermediate_size"), list):
        cut["intermediate_size"] = 256
    if "hybrid_override_pattern" in config:
        cut |= {
            "hybrid_override_pattern": "MEM*-" if "E" in config["hybrid_override_pattern"] else "M-M*-",
            "num_hidden_layers": 5,
        }
    if config["model_type"] == "granitemoehybrid":
        cut |= {"num_local_experts": 0, "num_experts_per_tok": 0, "shared_intermediate_size": 256}
    if "kv_lora_rank" in config:
        cut |= {"head_dim": 8}
    return cut
