"""AMPeD's closed-form model against its own equations counted out: every layer, every micro-batch, every call."""

from math import isfinite

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import amped
from tests.helpers.contract import CONTRACT_PARTS, KINDS, RATES
from tests.helpers.counted.step import step

CHOICES = ("context_parallel_kind", "activation_recomputation", "matrix_precision")
DEGREES = tuple(f"{part}{kind}_parallel_degree" for kind in KINDS for part in ("", "intra_node_", "inter_node_"))
# What nobody computes: numbers of a config, of a table's row, or a registered default.
LEAVES = (
    "layers", "dimensionality", "attention_heads", "key_value_heads", "head_dimension", "feedforward_dimension",
    "gated_mlp", "vocabulary_size", "context", "batch_size", "number_of_experts", "experts_per_token",
    "number_of_shared_experts", "shared_experts_feedforward_dimension", "expert_feedforward_dimension",
    "number_of_MoE_layers", "norm_vectors", "norms_per_layer", "query_key_value_bias", "attention_output_bias",
    "mlp_bias", "position_table", "tied_embeddings", "number_of_microbatches_per_minibatch",
    "virtual_pipeline_stages", "exposed_bubble_fraction", "zero_stage", "weight_precision", "activation_precision",
    "gradient_precision", "optimizer_state_precision", "matrix_efficiency", "multiply_accumulate_unit_width",
    "nonlinear_unit_width", "memory_bandwidth", "inter_accelerator_bandwidth", "inter_accelerator_efficiency",
    "inter_accelerator_latency", "number_of_network_cards_per_node", "bandwidth_per_network_card", "oversubscription",
    "number_of_accelerators_per_node", "inter_node_efficiency", "inter_node_latency", "sharding_degree",
    "expert_tensor_parallel_degree", "number_of_first_stage_layers", "number_of_last_stage_layers",
)  # fmt: skip


def closed_form(**overrides):
    return amped.estimate("default", performance_model="amped", **overrides)


def leaves(estimate):
    """What is counted with: values that are given or looked up, degrees, and no result of the model."""
    p = {name: estimate[name] for name in (*LEAVES, *DEGREES)} | {name: estimate.choices[name] for name in CHOICES}
    p["matrix_peak_flop_rate"] = estimate[f"{p['matrix_precision']}_peak_flop_rate"]
    p["nonlinear_operation_rate"] = estimate["vector_flop_rate"] / estimate["flops_per_nonlinear_operation"]
    p["optimizer_states_per_parameter"] = estimate["optimizer_states_per_parameter"]
    if p["activation_recomputation"] == "block":
        p["number_of_recomputed_layers"] = estimate["number_of_recomputed_layers"]
    return p


def assert_as_counted(estimate):
    counted = step(leaves(estimate))
    assert set(counted) == {*CONTRACT_PARTS, *RATES, "step_time", "number_of_parameters"}
    assert all(isfinite(value) for value in counted.values())
    assert {name: estimate[name] for name in counted} == pytest.approx(counted, rel=1e-9, abs=0)


H100 = {"system": "DGX H100", "accelerator": "H100 SXM"}
LLAMA = {**H100, "model": "Llama 3 70B", "number_of_accelerators": 512, "batch_size": 1024, "dropout": 0,
         "flash_attention": True}  # fmt: skip
MIXTRAL = {**H100, "model": "Mixtral 8x7B", "number_of_accelerators": 128, "batch_size": 256, "context": 4096,
           "dropout": 0}  # fmt: skip
CONFIGURATIONS = {
    "gpt3_as_shipped": {},
    "gpt3_selective_with_sequence_parallelism": {"activation_recomputation": "selective", "sequence_parallel": True},
    "gpt3_interleaved_without_recomputation": {"activation_recomputation": "none", "virtual_pipeline_stages": 3},
    "gpt3_interleaved_with_few_microbatches": {
        "number_of_microbatches_per_minibatch": 8, "virtual_pipeline_stages": 2,
    },
    "gpt3_tensor_across_nodes": {"tensor_parallel_degree": 32, "pipeline_parallel_degree": 4},
    "gpt3_fewer_microbatches_than_stages": {"pipeline_parallel_degree": 16, "microbatch_size": 48},
    "gpt3_narrow_units": {
        "multiply_accumulate_unit_width": "8 b", "nonlinear_unit_width": "8 b", "gradient_precision": 32,
    },
    "gpt3_narrow_units_and_selective": {
        "multiply_accumulate_unit_width": "8 b", "nonlinear_unit_width": "4 b", "gradient_precision": 16,
        "activation_recomputation": "selective",
    },
    "gpt3_block_of_layers_recomputed": {"activation_recomputation": "block", "number_of_recomputed_layers": 5},
    "gpt3_no_layer_of_a_block_recomputed": {"activation_recomputation": "block", "number_of_recomputed_layers": 0},
    "gpt3_half_the_bubble_filled_on_a_narrow_network": {
        "exposed_bubble_fraction": 0.5, "oversubscription": 4, "number_of_network_cards_per_node": 2,
    },
    "gpt3_other_precisions": {
        "weight_precision": 32, "activation_precision": 8, "gradient_precision": 16, "optimizer_state_precision": 16,
    },
    "gpt2_on_one_accelerator": {
        "model": "GPT-2 small", "number_of_accelerators": 1, "tensor_parallel_degree": 1,
        "pipeline_parallel_degree": 1, "batch_size": 8, "activation_recomputation": "none",
    },
    "megatron_pipeline_inside_one_node": {
        "model": "Megatron 18.4B", "number_of_accelerators": 8, "tensor_parallel_degree": 4,
        "pipeline_parallel_degree": 2, "batch_size": 64, "virtual_pipeline_stages": 2,
    },
    "megatron_data_and_tensor_inside_one_node": {
        "model": "Megatron 7.5B", "number_of_accelerators": 8, "tensor_parallel_degree": 2,
        "pipeline_parallel_degree": 1, "batch_size": 64, "microbatch_size": 4, "activation_recomputation": "selective",
    },
    "llama_with_pipeline": {
        **LLAMA, "tensor_parallel_degree": 8, "pipeline_parallel_degree": 4, "activation_recomputation": "none",
    },
    "llama_zero_1": {**LLAMA, "tensor_parallel_degree": 8, "pipeline_parallel_degree": 1, "zero_stage": 1},
    "llama_zero_2_dropout_and_scores_kept": {
        **LLAMA, "tensor_parallel_degree": 4, "pipeline_parallel_degree": 2, "zero_stage": 2, "dropout": 0.1,
        "flash_attention": False, "activation_recomputation": "none",
    },
    "llama_zero_3": {
        **LLAMA, "tensor_parallel_degree": 1, "pipeline_parallel_degree": 1, "zero_stage": 3, "batch_size": 512,
    },
    "llama_key_heads_fewer_than_tensor_shares": {
        **LLAMA, "tensor_parallel_degree": 16, "pipeline_parallel_degree": 2, "activation_recomputation": "selective",
    },
    "llama_context_inside_and_across_nodes": {
        **LLAMA, "context": 131072, "tensor_parallel_degree": 4, "pipeline_parallel_degree": 2,
        "context_parallel_degree": 16, "batch_size": 32, "zero_stage": 1,
    },
    "llama_context_without_flash_attention": {
        **LLAMA, "tensor_parallel_degree": 2, "pipeline_parallel_degree": 1, "context_parallel_degree": 4,
        "flash_attention": False, "activation_recomputation": "selective", "zero_stage": 3,
    },
    "mixtral_experts_inside_nodes": {
        **MIXTRAL, "tensor_parallel_degree": 2, "pipeline_parallel_degree": 2, "expert_parallel_degree": 4,
        "activation_recomputation": "full", "zero_stage": 1,
    },
    "mixtral_experts_inside_and_across_nodes": {
        **MIXTRAL, "tensor_parallel_degree": 4, "pipeline_parallel_degree": 4, "expert_parallel_degree": 8,
        "activation_recomputation": "selective", "zero_stage": 3, "pipelined_weight_sharding": True,
    },
    "mixtral_experts_across_nodes_only": {
        **MIXTRAL, "tensor_parallel_degree": 8, "pipeline_parallel_degree": 1, "expert_parallel_degree": 8,
        "activation_recomputation": "none", "zero_stage": 2, "dropout": 0.1,
    },
    "mixtral_whole_experts_on_each": {
        **MIXTRAL, "tensor_parallel_degree": 8, "pipeline_parallel_degree": 4, "activation_recomputation": "none",
    },
    "mixtral_with_context_and_a_shared_expert": {
        **MIXTRAL, "tensor_parallel_degree": 2, "pipeline_parallel_degree": 2, "context_parallel_degree": 2,
        "expert_parallel_degree": 4, "number_of_shared_experts": 1, "activation_recomputation": "selective",
    },
    "mixtral_every_other_layer_dense": {
        **MIXTRAL, "tensor_parallel_degree": 2, "pipeline_parallel_degree": 2, "expert_parallel_degree": 2,
        "number_of_MoE_layers": 16, "activation_recomputation": "none",
    },
    "gpt3_fewer_layers_at_the_ends": {
        "number_of_first_stage_layers": 9, "number_of_last_stage_layers": 9, "layers": 96, "pipeline_parallel_degree": 8,
    },
    "gpt3_more_layers_at_the_start_of_two": {
        "number_of_first_stage_layers": 60, "pipeline_parallel_degree": 2, "activation_recomputation": "none",
    },
    "gpt3_one_norm_a_layer": {"norms_per_layer": 1},
    "gpt3_states_shared_in_groups_of_replicas": {
        "sharding_degree": 4, "zero_stage": 2, "tensor_parallel_degree": 8, "pipeline_parallel_degree": 4,
    },
    "mixtral_shared_in_groups_of_replicas": {
        **MIXTRAL, "tensor_parallel_degree": 2, "pipeline_parallel_degree": 2, "expert_parallel_degree": 4,
        "sharding_degree": 8, "zero_stage": 2, "activation_recomputation": "none",
    },
}  # fmt: skip


@pytest.mark.parametrize("overrides", [pytest.param(o, id=name) for name, o in CONFIGURATIONS.items()])
def test_every_part_of_a_step_is_as_counted(overrides):
    assert_as_counted(closed_form(**overrides))


def test_every_part_is_at_work():
    """No part is zero in all configurations, or counting would have shown nothing about it."""
    places = {f"{part}_node_{kind}_parallel_degree" for kind in KINDS for part in ("intra", "inter")}
    at_work = set()
    for overrides in CONFIGURATIONS.values():
        estimate = closed_form(**overrides)
        at_work |= {name for name in CONTRACT_PARTS if estimate[name] > 0}
        at_work |= {name for name in places if estimate[name] > 1}
    assert at_work == CONTRACT_PARTS | places


def powers(most):
    return st.sampled_from([2**n for n in range(most + 1)])


@pytest.mark.thorough
@settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.filter_too_much])
@given(data=st.data())
def test_drawn_mappings_are_as_counted(data):
    draw, widths = data.draw, st.sampled_from([8, 16, 32])
    heads, kv = draw(powers(4), "heads"), draw(powers(4), "key heads")
    experts = draw(powers(3), "experts")
    degrees = {kind: draw(powers(3), kind) for kind in KINDS}
    exchange = draw(st.sampled_from(["ring", "all_gather", "all_to_all"]))
    m, v = draw(powers(4), "micro-batches"), draw(powers(1), "chunks")
    assume(kv <= heads)
    assume(degrees["tensor"] <= heads)
    assume(exchange != "all_to_all" or degrees["tensor"] * degrees["context"] <= heads)
    assume(degrees["expert"] <= min(experts, degrees["data"]))
    assume(v == 1 or 1 < degrees["pipeline"] <= m)
    overrides = {
        "context_parallel_kind": exchange, "layers": 16, "dimensionality": 256, "attention_heads": heads, "key_value_heads": kv,
        "head_dimension": 32, "feedforward_dimension": 768, "vocabulary_size": 1000,
        "context": draw(st.sampled_from([64, 1024])), "gated_mlp": draw(st.booleans()),
        "tied_embeddings": draw(st.booleans()), "number_of_experts": experts, "experts_per_token": min(2, experts),
        "number_of_MoE_layers": 16 if experts > 1 else 0, "zero_stage": draw(st.integers(0, 3)),
        "activation_recomputation": draw(st.sampled_from(["none", "selective", "full", "block"])),
        "number_of_recomputed_layers": draw(st.integers(0, 16 // degrees["pipeline"])),
        "multiply_accumulate_unit_width": draw(widths), "nonlinear_unit_width": draw(widths),
        "weight_precision": draw(widths), "activation_precision": draw(widths), "gradient_precision": draw(widths),
        "pipelined_weight_sharding": True, "virtual_pipeline_stages": v,
        "batch_size": degrees["data"] * m * draw(st.sampled_from([1, 3])),
        "number_of_accelerators": degrees["data"] * degrees["tensor"] * degrees["pipeline"] * degrees["context"],
    }  # fmt: skip
    overrides |= {f"{kind}_parallel_degree": degree for kind, degree in degrees.items()}
    assert_as_counted(closed_form(**overrides, number_of_microbatches_per_minibatch=m))
