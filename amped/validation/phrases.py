"""The phrases that sources use: parameters, what software does, numbers measured, and where the numbers are from.

A phrase stands here because sources write it, never because of one row.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

# Facts of a network as key=value, by amped's names; the others as Megatron-LM, Hugging Face or the tables write them.
KEYS = {
    "head_dim": "head_dimension", "qk_head_dim": "head_dimension", "qk_nope_head_dim": "unrotated_head_dimension",
    "qk_nope": "unrotated_head_dimension", "qk_rope_head_dim": "rotary_head_dimension",
    "qk_rope": "rotary_head_dimension", "v_head_dim": "value_head_dimension", "v_head": "value_head_dimension",
    "q_lora_rank": "query_latent_dimension", "q_lora": "query_latent_dimension",
    "kv_lora_rank": "key_value_latent_dimension", "kv_lora": "key_value_latent_dimension",
    "shared_experts": "number_of_shared_experts", "n_shared_experts": "number_of_shared_experts",
    "num_shared_experts": "number_of_shared_experts", "moe_shared_experts": "number_of_shared_experts",
    "shared_expert_ffn": "shared_experts_feedforward_dimension",
    "shared_ffn": "shared_experts_feedforward_dimension",
    "shared_expert_intermediate_size": "shared_experts_feedforward_dimension",
    "moe_shared_expert_intermediate_size": "shared_experts_feedforward_dimension",
    "dense_ffn": "feedforward_dimension", "dense_ffn_hidden_size": "feedforward_dimension",
    "dense_layers": "number_of_dense_layers", "first_k_dense": "number_of_dense_layers",
    "first_k_dense_replace": "number_of_dense_layers", "n_dense_layers": "number_of_dense_layers",
    "etp": "expert_tensor_parallel_degree", "expert_tp": "expert_tensor_parallel_degree",
    "edp": "expert_data_degree", "mtp": "multi_token_prediction_layers", "mtp_layers": "multi_token_prediction_layers",
    "mtp_num_layers": "multi_token_prediction_layers", "capacity_factor": "expert_capacity_factor",
    "grad_accum": "number_of_microbatches_per_minibatch", "max_position_embeddings": "position_table",
    "sliding_window": "attention_window", "n_params": "number_of_parameters", "recompute_num_layers": "number_of_recomputed_layers",
    "first_stage_layers": "number_of_first_stage_layers", "last_stage_layers": "number_of_last_stage_layers",
}  # fmt: skip
Sets = Mapping[str, Any] | Callable[[re.Match[str]], Mapping[str, Any]]


@dataclass(frozen=True)
class Phrase:
    """Words of sources, and what they say: `sets` values by name, nothing where they only tell of the source."""

    pattern: re.Pattern[str]
    sets: Sets

    def said_by(self, found: re.Match[str]) -> Mapping[str, Any]:
        """The values that a match gives."""
        return self.sets(found) if callable(self.sets) else self.sets


def _phrases(table: Mapping[str, Sets]) -> tuple[Phrase, ...]:
    return tuple(Phrase(re.compile(pattern, re.IGNORECASE), sets) for pattern, sets in table.items())


def _number(name: str, scale: float = 1.0) -> Callable[[re.Match[str]], Mapping[str, Any]]:
    return lambda found: {name: float(found[1]) * scale}


# Parameters. Values are of amped's parameters; those that amped does not have yet are told by row.
FACTS = _phrases({
    r"full \(non-causal\)|attention (?:is )?counted as full|full[ -]attention|counts? (?:the )?full attention|\(full attention\)|12LHS":
        {"attention_flop_convention": "full"},
    r"causal attention FLOPs|\(causal\)|causal FLOPs reproduce": {"attention_flop_convention": "causal"},
    r"scatter/gather optimization on": {"overlap_pipeline_communication": False},
    r"(?<!no )dropout (?:is )?0?(\.\d+)": _number("dropout"),
    r"\bno dropout": {"dropout": 0},
    r"no flash attention": {"flash_attention": False},
    r"Adam not sharded": {"optimizer": "adam"},
    r"DecoupledAdamW|torch\.optim\.Adam\b": {"optimizer": "adam"},
    r"all-?reduce overlapped": {"overlap_data_communication": True},
    r"fp16 gradients": {"gradient_precision": 16},
    r"not overlapped|no gradient bucketing|not bucketed": {"overlap_data_communication": False},
    r"overlapped data-parallel traffic|overlap-grad-reduce": {"overlap_data_communication": True},
    r"tp-comm-overlap on|tp-comm-overlap(?= on| and|,)": {"overlap_tensor_communication": True,
                                                         "overlap_forward_tensor_communication": True},
    r"overlaps the TP all-reduce": {"overlap_tensor_communication": True},
    r"\(?fp32 reduce\)|reduce-scatter fp32": {"gradient_precision": 32},
    r"bf16 gradient reduce": {"gradient_precision": 16},
    r"mixed_precision=DEFAULT": {"gradient_precision": 32, "weight_precision": 16},
    r"mixed_precision=PURE": {"gradient_precision": 16, "weight_precision": 16},
    r"all-gather bf16": {"weight_precision": 16},
    r"low_precision_layernorm": {"activation_precision": 16},
    r"forward prefetch on": {"overlap_data_communication": True},
    r"learned position(?:s| embeddings)|learned absolute position(?:s| embeddings)": {"positions": "learned"},
    r"absolute position embeddings \((\d+)\)": _number("position_table"),
    r"local batch (\d+)": _number("microbatch_size"),
    r"grad accum (\d+)": _number("number_of_microbatches_per_minibatch"),
    r"\bMBS (\d+) assumed": _number("microbatch_size"),
    r"FSDP degree (\d+)|FSDP2 over (\d+)|FSDP2 (\d+) with": lambda m: {"sharding_degree": float(m[1] or m[2] or m[3])},
    r"(?:fake|force|forced|random forced)[ -](?:balanced|load balancing|balancing)[ -]?(?:gate|routing)?|perfect balance":
        {"expert_imbalance_factor": 1},
    r"fake balanced gate": {"expert_assignment": "in_turn"},
    r"token-?drop.*capacity factor (\d+(?:\.\d+)?)": _number("expert_capacity_factor"),
    r"no grad(?:ient)? clipping": {"gradient_clipping": False},
    r"(?<!no )gradient clipping(?= and|,)": {"gradient_clipping": True},
    r"sliding[_ ]window[= ](\d+) on ([\d.]+) of layers":
        lambda m: {"attention_window": float(m[1]), "windowed_layer_fraction": float(m[2])},
    r"sliding window (\d+) on every second layer": lambda m: {"attention_window": float(m[1]), "windowed_layer_fraction": 0.5},
    r"attention sinks": {"attention_sinks": True},
    r"\(ETP\)=(\d+)": _number("expert_tensor_parallel_degree"),
    r"ETP\)=same as TP|ETP = attention TP": {"expert_tensor_parallel_degree": "tp"},
    r"\b1f1b\b": {"pipeline_schedule": "1f1b"},
    r"use_checkpoint=true|whole-block checkpointing": {"activation_recomputation": "full"},
    r"activation_checkpointing true": {"activation_recomputation": "full"},
    r"activation_checkpointing false": {"activation_recomputation": "none"},
    r"every (?:other|second) layer (?:wholly )?checkpointed|selective layer\b":
        {"activation_recomputation": "block", "recomputed_layers_fraction": 0.5},
    r"selective op\b|selective AC \(op\)|op-level: SDPA": {"activation_recomputation": "alternate_products"},
    r"\bNCCL Ring": {"collective_algorithm": "ring"},
    r"padded to (\d+)": _number("vocabulary_size"),
    r"pads to a multiple of 128 x TP \(= (\d+) here\)": _number("vocabulary_size"),
    r"unfused cross entropy": {"cross_entropy_kernels": 6},
    r"without sequence parallelism": {"sequence_parallel": False},
    r"no optimizer": {"optimizer": "none"},
    r"no embedding(?:/logits| or logits)?(?!\w)": {"vocabulary_size": 0},
    r"no data[ -]parallel(?:ism| traffic)": {"gradient_communication_time": 0, "weight_communication_time": 0},
    r"attention not included|no attention\b|MoE (?:layer|block) only": {"number_of_attention_layers": 0},
    r"non-gated|not gated": {"gated_mlp": False},
    r"bidirectional attention": {"causal": False},
    r"encoder layer": {"norm_position": "post", "causal": False, "query_key_value_bias": True,
                       "attention_output_bias": True, "mlp_bias": True},
    r"Transformer Engine|kernels TE\b|Float8 (?:linear|on linear)|FP8 presumably on linear layers|attention 16-bit":
        {"attention_precision": 16},
    r"FlashAttention-2": {"attention_kernel": "flash_2"},
    r"\bFlex(?:Attn|Attention)": {"attention_kernel": "flex"},
    r"FlashAttention-1": {"attention_kernel": "flash_1"},
    r"deterministic mode": {"deterministic": True},
    r"no gradient-accumulation fusion": {"weight_gradient_accumulation": "separate"},
    r"\b(?:DeepEP|HybridEP)": {"deduplicated_dispatch": True},
    r"block-?wise": {"fp8_scaling": "blocks"},
    r"dispatcher a2a": {"deduplicated_dispatch": False},
})  # fmt: skip
# What the software stack does, for which amped has no parameter of its own; the values are kept with the row.
SOFTWARE = _phrases({
    r"torch\.compile (?:off|is off)|^eager$": {"compiled": False},
    r"torch\.compile on\b|^torch\.compile( \+ Float8 linear)?$": {"compiled": True},
    r"parameter-norm and zero-count logging": {"logs_norms": True},
    r"FP8-CS|FP8 current scaling|dynamic scaling": {"fp8_scaling": "current"},
    r"\bLoRA": {"adapters": "lora"},
})  # fmt: skip
# Numbers measured beside those of the columns, and what measured memory is.
MEASURED = _phrases({
    r"forward ([\d.]+) ms": _number("forward_time", 1e-3),
    r"backward(?:\(\+recompute\))? ([\d.]+) ms": _number("backward_time", 1e-3),
    r"combined ([\d.]+) ms": _number("step_time", 1e-3),
    r"max_memory_allocated": {"memory_is": "allocated"},
    r"max reserved": {"memory_is": "reserved"},
    r"logged by the LAST rank|logged rank only": {"memory_of": "last stage"},
    r"^result OOM": {"out_of_memory": True},
    r"kernel-level|\bone transformer layer|MoE (?:layer|block) only|encoder layer runtime": {"row_kind": "layer"},
})  # fmt: skip
# Where the numbers are from and how exactly they are known: nothing that a model could use.
PROVENANCE = _phrases({pattern: {} for pattern in (
    r"^printed\b", r"^derived\b", r"^rounding", r"\bconfirmed\b", r"equal to the", r"\bNOT measured\b",
    r"formulas, not measurements", r"printed to 0", r"\bnot (?:stated|printed|reproduced|certain|SXM)\b",
    r"are not (?:stated|in the table)", r"^step time derived", r"printed TFLOP/s counts", r"rounding of",
    r"^TP given separately", r"^interleaved schedule chunks", r"data-parallel mode below",
    r"mfu (?:counts|= ?hfu|script|, hfu)|HFU=4/3 MFU|6N|TFLOP/s is", r"^network = ", r"recipe defaults|recipe default",
    r"not in (?:the )?table", r"recompute(?: was blank|d? not| 0 or)", r"^EP was blank", r"^CONFLICT", r"may be stale",
    r"was the 25\.09|only the preceding commit", r"DGX-H100 \(700 W\)", r"^column is decimal", r"mock data",
    r"^method \"", r"the inputs are incomplete", r"^no step time", r"layers per stage|^at MBS|VP alone",
    r"the tool must allow", r"GBS \d+ per paper", r"precision bf16 inferred|MFU peak", r"^800 Gb/s|Gb/s per node",
    r"\(assumed\)|are inferences", r"^vocab \d+ from|simulator default", r"^embeddings: not|fit UNTIED|no effect on",
    r"^step includes|throughput is a wall-clock|whole step with optimizer|includes tensor-parallel",
    r"^selective means|NOT Megatron selective|same save pattern|wk, wo, w3",
    r"no_sync|one all-gather and one reduce-scatter per microbatch|parameters are still sharded outside",
    r"the kernel does about half|score on", r"96 ?GB HBM2e|below SXM", r"one reading|readings? |golden file dates",
    r"CI regression golden|config file fully read|logged rank", r"^GB200: CI recipe|17-18% MFU", r"the SXM peak|form factor",
    r"^fig\.|without it \d|Tflop/s peak|^800 Gb/s inter-node", r"^Lassen|per-operator table not found|README says only|forward\+backward follows|can only express",
    r"gated would need|ReLU|head_dim=\d+ is not", r"Kernel is the|fallback|fell back", r"dtype of states",
    r"CP=\d+ on one node", r"^no optimizer|all three times", r"dropless", r"two of eleven|one warm-up", r"^not stated",
)})  # fmt: skip
