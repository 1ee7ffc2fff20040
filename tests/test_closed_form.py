"""The closed-form model against what does not come from it: a slow twin, work by hand, and printed results."""

from math import isfinite

import pytest
import slow_twin
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import amped

KINDS = ("data", "tensor", "pipeline", "context", "expert")
DEGREES = tuple(f"{part}{kind}_parallel_degree" for kind in KINDS for part in ("", "intra_node_", "inter_node_"))
# What nobody computes: numbers of a config, of a table's row, or a registered default.
LEAVES = (
    "layers", "dimensionality", "attention_heads", "key_value_heads", "head_dimension", "feedforward_dimension",
    "gated_mlp", "vocabulary_size", "context", "batch_size", "number_of_experts", "experts_per_token",
    "number_of_shared_experts", "shared_experts_feedforward_dimension", "expert_feedforward_dimension",
    "number_of_MoE_layers", "norm_vectors", "norms_per_layer", "query_key_value_bias", "attention_output_bias",
    "mlp_bias", "position_table", "tied_embeddings", "number_of_microbatches_per_minibatch",
    "virtual_pipeline_stages", "exposed_bubble_fraction", "zero_stage", "sequence_parallel", "flash_attention",
    "dropout", "weight_precision", "activation_precision", "gradient_precision", "optimizer_state_precision",
    "logits_precision", "matrix_efficiency", "multiply_accumulate_unit_width", "nonlinear_unit_width",
    "memory_bandwidth", "inter_accelerator_bandwidth", "inter_accelerator_efficiency", "inter_accelerator_latency",
    "number_of_network_cards_per_node", "bandwidth_per_network_card", "oversubscription",
    "number_of_accelerators_per_node", "inter_node_efficiency", "inter_node_latency",
)  # fmt: skip
STEP_PARTS = (
    "compute_forward_time", "compute_backward_time", "recomputation_time", "weight_update_time", "optimizer_time",
    "exposed_tensor_communication_time", "exposed_pipeline_communication_time", "exposed_data_communication_time",
    "exposed_context_communication_time", "exposed_expert_communication_time", "pipeline_bubble_time",
)  # fmt: skip
MEMORY_PARTS = ("weight_bytes", "gradient_bytes", "optimizer_state_bytes", "activation_bytes", "temporary_bytes")
RATES = ("hardware_flop_rate_per_accelerator", "model_flop_rate_per_accelerator")


# --- the slow twin --------------------------------------------------------------------------------------------------


def leaves(estimate):
    """The twin's inputs: values that are given or looked up, degrees, and no result of the model."""
    p = {name: estimate[name] for name in (*LEAVES, *DEGREES)}
    p["matrix_peak_flop_rate"] = estimate[f"{estimate.choices['matrix_precision']}_peak_flop_rate"]
    p["nonlinear_operation_rate"] = estimate["vector_flop_rate"] / estimate["flops_per_nonlinear_operation"]
    p["optimizer_states_per_parameter"] = estimate["adam_states_per_parameter"]
    p["activation_recomputation"] = estimate.choices["activation_recomputation"]
    if p["activation_recomputation"] == "block":
        p["number_of_recomputed_layers"] = estimate["number_of_recomputed_layers"]
    return p


def assert_the_twin_agrees(estimate):
    twin = slow_twin.step(leaves(estimate))
    assert set(twin) == {*STEP_PARTS, *MEMORY_PARTS, *RATES, "step_time", "number_of_parameters"}
    assert all(isfinite(value) for value in twin.values())
    assert {name: estimate[name] for name in twin} == pytest.approx(twin, rel=1e-9, abs=0)


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
        "activation_recomputation": "selective", "zero_stage": 3,
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
}  # fmt: skip


@pytest.mark.parametrize("overrides", [pytest.param(o, id=name) for name, o in CONFIGURATIONS.items()])
def test_twin_agrees_on(overrides):
    assert_the_twin_agrees(amped.estimate("default", **overrides))


def test_twin_sees_every_part_at_work():
    """No part is zero in all configurations, or the twin would have shown nothing about it."""
    places = {f"{part}_node_{kind}_parallel_degree" for kind in KINDS for part in ("intra", "inter")}
    at_work = set()
    for overrides in CONFIGURATIONS.values():
        estimate = amped.estimate("default", **overrides)
        at_work |= {name for name in (*STEP_PARTS, *MEMORY_PARTS) if estimate[name] > 0}
        at_work |= {name for name in places if estimate[name] > 1}
    assert at_work == {*STEP_PARTS, *MEMORY_PARTS} | places


def test_twin_recomputes_the_fullest_of_unlike_layers():
    overrides = {**MIXTRAL, "tensor_parallel_degree": 1, "pipeline_parallel_degree": 1, "number_of_MoE_layers": 16}
    assert_the_twin_agrees(amped.estimate("default", **overrides, activation_recomputation="full"))


def powers(most):
    return st.sampled_from([2**n for n in range(most + 1)])


@settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.filter_too_much])
@given(data=st.data())
def test_twin_agrees_on_drawn_mappings(data):
    draw, widths = data.draw, st.sampled_from([8, 16, 32])
    heads, kv = draw(powers(4), "heads"), draw(powers(4), "key heads")
    experts = draw(powers(3), "experts")
    degrees = {kind: draw(powers(3), kind) for kind in KINDS}
    m, v = draw(powers(4), "micro-batches"), draw(powers(1), "chunks")
    assume(kv <= heads)
    assume(degrees["tensor"] <= heads)
    assume(degrees["expert"] <= min(experts, degrees["data"]))
    assume(v == 1 or 1 < degrees["pipeline"] <= m)
    overrides = {
        "layers": 16, "dimensionality": 256, "attention_heads": heads, "key_value_heads": kv, "head_dimension": 32,
        "feedforward_dimension": 768, "vocabulary_size": 1000, "context": draw(st.sampled_from([64, 1024])),
        "gated_mlp": draw(st.booleans()), "tied_embeddings": draw(st.booleans()), "number_of_experts": experts,
        "experts_per_token": min(2, experts), "number_of_MoE_layers": 16 if experts > 1 else 0,
        "sequence_parallel": draw(st.booleans()), "flash_attention": draw(st.booleans()),
        "dropout": draw(st.sampled_from([0, 0.1])), "zero_stage": draw(st.integers(0, 3)),
        "activation_recomputation": draw(st.sampled_from(["none", "selective", "full", "block"])),
        "number_of_recomputed_layers": draw(st.integers(0, 16 // degrees["pipeline"])),
        "multiply_accumulate_unit_width": draw(widths), "nonlinear_unit_width": draw(widths),
        "weight_precision": draw(widths), "activation_precision": draw(widths), "gradient_precision": draw(widths),
        "virtual_pipeline_stages": v, "batch_size": degrees["data"] * m * draw(st.sampled_from([1, 3])),
        "number_of_accelerators": degrees["data"] * degrees["tensor"] * degrees["pipeline"] * degrees["context"],
    }  # fmt: skip
    overrides |= {f"{kind}_parallel_degree": degree for kind, degree in degrees.items()}
    assert_the_twin_agrees(amped.estimate("default", **overrides, number_of_microbatches_per_minibatch=m))


# --- worlds small enough to work by hand ----------------------------------------------------------------------------

NETWORK = {
    "layers": 2, "dimensionality": 10, "attention_heads": 2, "key_value_heads": 1, "head_dimension": 5,
    "feedforward_dimension": 40, "gated_mlp": False, "vocabulary_size": 100, "context": 10, "tied_embeddings": True,
    "norm_vectors": 1, "norms_per_layer": 2, "batch_size": 4, "tokens_to_train": 400, "dropout": 0.1,
    "weight_precision": 16, "activation_precision": 16, "gradient_precision": 32, "optimizer_state_precision": 32,
    "matrix_precision": "fp16",
}  # fmt: skip
# Nodes of two: inside, 100 B/s of which half is reached; across, one card of 40 B/s behind a network half as wide, so
# 40/2/2 = 10 B/s for each accelerator, of which half is reached.
SYSTEM = {
    "number_of_accelerators": 4, "number_of_accelerators_per_node": 2, "inter_accelerator_bandwidth": "100 B/s",
    "inter_accelerator_efficiency": 0.5, "inter_accelerator_latency": "0.5 s", "number_of_network_cards_per_node": 1,
    "bandwidth_per_network_card": "40 B/s", "oversubscription": 2, "inter_node_efficiency": 0.5,
    "inter_node_latency": "1 s",
}  # fmt: skip
# 2000 flop/s are 1000 MAC/s, half of which is reached: 2 ms a multiply-accumulate. 10 ms a nonlinear operation.
ACCELERATOR = {
    "fp16_peak_flop_rate": "2000 flop/s", "matrix_efficiency": 0.5, "nonlinear_operation_rate": 100,
    "memory_bandwidth": "1000 B/s", "memory_capacity": "25 kB", "thermal_design_power": "100 W",
}  # fmt: skip
PIPELINE_ACROSS = {
    "tensor_parallel_degree": 2, "pipeline_parallel_degree": 2, "number_of_microbatches_per_minibatch": 4,
    "activation_recomputation": "full", "exposed_bubble_fraction": 0.5, "zero_stage": 0,
}  # fmt: skip


def world(mapping, **network):
    sections = {
        "neural_network_training_parameters": NETWORK | network,
        "mapping_parameters": mapping,
        "system_architecture_parameters": SYSTEM,
        "accelerator_architecture_parameters": ACCELERATOR,
    }
    given_values = {name: {"parameters": {n: {"value": v} for n, v in part.items()}} for name, part in sections.items()}
    return {"performance_model": "amped"} | given_values


def assert_by_hand(estimate, by_hand):
    assert set(by_hand) >= {*STEP_PARTS, *MEMORY_PARTS, *RATES}
    assert {name: estimate[name] for name in by_hand} == pytest.approx(by_hand, rel=1e-12, abs=0)


def test_toy_world():
    """Two layers on four devices: tensor parallelism in the node, the pipeline across, everything recomputed."""
    by_hand = {
        # 4 sequences of 10 tokens on one replica: 40 tokens, in 4 micro-batches of 10.
        "microbatch_tokens": 10,
        # A layer's MACs for a token: queries, keys, values 10·5·(2+2·1) = 200; scores and values 2·10·2·5 = 200;
        #   output projection 2·5·10 = 100; feed-forward 2·10·40 = 800. Together 1300; 40 tokens: 52 000.
        # Its nonlinear operations: softmax 40·10·2 = 800; hidden units 40·40 = 1600. Together 2400.
        # U_f = (2 ms · 52 000 + 10 ms · 2400)/2 shares = (104 + 24)/2 = 64 s. One layer a stage.
        # Head: 40·10·100 = 40 000 MACs · 2 ms = 80 s, over 2 shares and 2 stages 20 s.
        "compute_forward_time": 64 + 20,
        "compute_backward_time": 64 + 20,
        "weight_update_time": 52 + 20,  # products only: 104/2
        "recomputation_time": 64,  # the layers, not the head
        # One all-reduce: 10 tokens · 10 · 2 B = 200 B, twice half of it at 50 B/s = 4 s, and 2 steps of 0.5 s: 5 s.
        # 1 layer · 4 micro-batches · 3 passes · 2 all-reduces = 24 of them.
        "exposed_tensor_communication_time": 24 * 5,
        # 40 tokens · 10 · 2 B = 800 B, halved by the scatter, forward and backward: 800 B at 5 B/s.
        "exposed_pipeline_communication_time": 160,
        "exposed_data_communication_time": 0,
        "exposed_context_communication_time": 0,
        "exposed_expert_communication_time": 0,
        # A half is exposed: 0.5 · (2-1)/4 · (84 + 84 + 72 + 64 + 120).
        "pipeline_bubble_time": 53,
        # A layer's parameters: attention 200 + 100, feed-forward 800, two norms of 10: 1120.
        # The last stage: its layer, the final norm of 10, and its copy of the 100·10 embeddings: 2130, 1065 a share.
        "weight_bytes": 1065 * 2,
        "gradient_bytes": 1065 * 4,
        "optimizer_state_bytes": 1065 * 12,
        "number_of_parameters": 2 * 1120 + 1000 + 10,  # the copy is not counted
        # 2·2130 + 4260 + 2·12 780 = 34 080 B at 1000 B/s.
        "optimizer_time": 34.08,
        "step_time": 671.08,  # 84 + 84 + 72 + 64 + 120 + 160 + 53 + 34.08
        # The input of one layer, 10·10·2 B = 200 B, of the min(2, 4) micro-batches in flight.
        "activation_bytes": 400,
        # One layer, for a token. Unsplit: inputs of 2 norms and 2 blocks 4·10·2 = 80 B, 2 masks of 10 B: 100 B.
        # Split: queries 20 B, keys and values 2·10 B, projection's input 20 B, 2·40 hidden units 160 B: 220/2 = 110 B.
        # Scores: 2·10 entries of 2 + 1 + 2 B: 100/2 = 50 B. Together 260 B, 10 tokens. No logits with two stages.
        "temporary_bytes": 2600,
        "memory_per_accelerator_bytes": 2130 + 4260 + 12780 + 400 + 2600,  # 22 170 of 25 000
        "fits_in_memory": 1,
        "largest_microbatch_size": 1,  # states leave 5830 B, a sequence takes 400 + 2600 B
        # MACs of a step forward: 2·52 000 + 40 000 = 144 000; three times 2 flop each, on 4 devices: 216 000.
        "model_flop_rate_per_accelerator": 216_000 / 671.08,
        # The layers once more: 2·104 000/4 = 52 000.
        "hardware_flop_rate_per_accelerator": 268_000 / 671.08,
        "model_flops_utilization": 216_000 / 671.08 / 2000,
        "hardware_flops_utilization": 268_000 / 671.08 / 2000,
        "tokens_per_second_per_accelerator": 40 / 671.08 / 4,
        "number_of_steps": 10,  # 400 tokens, 40 a step
        "training_time": 6710.8,
    }
    assert_by_hand(amped.estimate(world(PIPELINE_ACROSS)), by_hand)


def test_toy_world_counted_causally_has_fewer_flops_and_the_same_times():
    """Of 10·10 scores the 55 on and below the diagonal: 110 of a token's 200 MACs, 1210 of a layer's 1300."""
    full = amped.estimate(world(PIPELINE_ACROSS))
    causal = amped.estimate(world(PIPELINE_ACROSS, attention_flop_convention="causal"))
    # 2·40·1210 + 40 000 = 136 800 MACs, 3·2 flop each, on 4 devices; and 2·96 800/4 once more.
    assert causal["model_flops_per_accelerator"] == pytest.approx(205_200, rel=1e-12, abs=0)
    assert causal["hardware_flops_per_accelerator"] == pytest.approx(205_200 + 48_400, rel=1e-12, abs=0)
    assert causal.breakdown == full.breakdown


def test_toy_world_of_experts():
    """The same four devices: the sequence split in the node, data and experts across nodes, all states sharded."""
    by_hand = {
        # 2 sequences a replica, one at a time, half of each on an accelerator: 2 micro-batches of 5 tokens.
        "microbatch_tokens": 5,
        # A layer's MACs for a token: 500 for attention as before; router 10·4 = 40; two experts 2·2·10·20 = 800.
        #   1340, for 2 layers and 10 tokens 26 800: 53.6 s.
        # Nonlinear: softmax 10·10·2 = 200, hidden units 10·2·20 = 400, in 2 layers 1200: 12 s.
        # Head: 10·10·100 = 10 000 MACs: 20 s.
        "compute_forward_time": 53.6 + 12 + 20,
        "compute_backward_time": 53.6 + 12 + 20,
        "weight_update_time": 53.6 + 20,
        "recomputation_time": 0,
        "exposed_tensor_communication_time": 0,
        "exposed_pipeline_communication_time": 0,
        "pipeline_bubble_time": 0,
        # Keys and values of a whole sequence: 10 tokens · 2·5 · 2 B = 200 B; half of it at 50 B/s and 0.5 s: 2.5 s.
        # 2 layers · 2 micro-batches · (2 passes + 1 scatter of gradients) = 12 of them.
        "exposed_context_communication_time": 12 * 2.5,
        # Each of 5 tokens to 2 experts: 5·10·2 B·2 = 200 B, half of it across at 5 B/s and 1 s: 21 s.
        # 2 layers · 2 micro-batches · 2 passes · (dispatch + combine) = 16 of them.
        "exposed_expert_communication_time": 16 * 21,
        # Parameters outside the experts: 2·(300 + 20 + 40) + 1000 + 10 = 1730, gradients 6920 B, on 4 accelerators:
        #   inside 6920/50 = 138.4 s, across a half of them, 3460/5 = 692 s.
        # Experts of one accelerator: 2 layers · 2 of 4 · 2·10·20 = 1600, 6400 B, shared by the two in the node: 128 s.
        # Sharded weights: half as much again.
        "exposed_data_communication_time": 1.5 * (138.4 + 692 + 128),
        # Sharded: 1730/4 + 1600/2 = 1232.5.
        "weight_bytes": 1232.5 * 2,
        "gradient_bytes": 1232.5 * 4,
        "optimizer_state_bytes": 1232.5 * 12,
        "number_of_parameters": 2 * (360 + 4 * 400) + 1010,
        "active_parameters": 2 * (360 + 2 * 400) + 1010,
        "optimizer_time": 39.44,  # 2·2465 + 4930 + 2·14 790 = 39 440 B
        "step_time": 2087.84,  # 85.6 + 85.6 + 73.6 + 30 + 336 + 1437.6 + 39.44
        # A layer, for a token: 100 B as before; queries, keys, values, projection's input 60 B; for each of 2 experts
        #   the token itself 20 B and 2·20 hidden units 80 B; scores 100 B. 460 B, 5 tokens, 2 layers.
        "activation_bytes": 4600,
        # A layer is whole while it runs: 360 + 2 of 4 experts, 800, at 2 B. Logits: 5 tokens · 100 · 4 B.
        "temporary_bytes": 2320 + 2000,
        "memory_per_accelerator_bytes": 2465 + 4930 + 14790 + 4600 + 4320,  # 31 105 of 25 000
        "fits_in_memory": 0,
        "largest_microbatch_size": 0,  # states and the whole layer leave 495 B, a sequence takes 4600 + 2000 B
        # 2·13 400 + 10 000 = 36 800 MACs on each accelerator, 3·2 flop each.
        "model_flop_rate_per_accelerator": 220_800 / 2087.84,
        "hardware_flop_rate_per_accelerator": 220_800 / 2087.84,
    }
    mapping = {
        "data_parallel_degree": 2, "context_parallel_degree": 2, "inter_node_expert_parallel_degree": 2,
        "microbatch_size": 1, "activation_recomputation": "none", "zero_stage": 3,
    }  # fmt: skip
    experts = {"number_of_experts": 4, "experts_per_token": 2, "expert_feedforward_dimension": 20}
    assert_by_hand(amped.estimate(world(mapping, **experts)), by_hand)


# --- what was printed -----------------------------------------------------------------------------------------------

# arXiv 2104.04473 (Narayanan et al., SC 2021), Table 1, achieved TFLOP/s per GPU; micro-batch and chunks from the
# run script of the table in Megatron-LM.
TABLE_1 = [
    ("Megatron 18.4B", 135, {"tensor_parallel_degree": 8, "pipeline_parallel_degree": 1, "microbatch_size": 8,
                             "virtual_pipeline_stages": 1, "number_of_accelerators": 256, "batch_size": 1024}),
    ("Megatron 76.1B", 140, {"tensor_parallel_degree": 8, "pipeline_parallel_degree": 4, "microbatch_size": 2,
                             "virtual_pipeline_stages": 3, "number_of_accelerators": 1024, "batch_size": 1792}),
    ("Megatron 310.1B", 155, {"tensor_parallel_degree": 8, "pipeline_parallel_degree": 16, "microbatch_size": 1,
                              "virtual_pipeline_stages": 2, "number_of_accelerators": 1920, "batch_size": 2160}),
]  # fmt: skip


@pytest.mark.parametrize(("model", "teraflops", "mapping"), TABLE_1)
def test_published_flop_rates_of_megatron_on_selene_within_7_percent(model, teraflops, mapping):
    estimate = amped.estimate("default", model=model, activation_recomputation="full", **mapping)
    assert estimate["hardware_flop_rate_per_accelerator"] == pytest.approx(teraflops * 1e12, rel=0.07)


@pytest.mark.parametrize(("recomputation", "factor", "head"), [("full", 96, 16), ("none", 72, 12)])
@pytest.mark.parametrize("model", ["GPT-3 175B", "Megatron 18.4B", "Megatron 310.1B"])
def test_flops_of_a_step_are_equation_3_of_narayanan(model, recomputation, factor, head):
    """96·B·s·L·h²·(1 + s/6h + V/16Lh) with full recomputation, 72·(... V/12Lh) without. Source: arXiv 2104.04473."""
    e = amped.estimate("default", model=model, activation_recomputation=recomputation)
    names = ("batch_size", "context", "layers", "dimensionality", "vocabulary_size")
    batch, s, layers, h, v = (e[name] for name in names)
    printed = factor * batch * s * layers * h**2 * (1 + s / (6 * h) + v / (head * layers * h))
    flops = e["hardware_flops_per_accelerator"] * e["number_of_accelerators"]
    assert flops == pytest.approx(printed, rel=1e-12, abs=0)
    assert e["hardware_flop_rate_per_accelerator"] == pytest.approx(
        printed / e["step_time"] / e["number_of_accelerators"], rel=1e-12, abs=0
    )


# The networks of arXiv 2205.05198 (Korthikanti et al.), Table 3 that fit its shapes: s, h, a and the micro-batch b.
KORTHIKANTI = [pytest.param("Megatron 22B", 2048, 6144, 64, 4, id="22B"),
               pytest.param("GPT-3 175B", 2048, 12288, 96, 1, id="175B"),
               pytest.param("MT-NLG 530B", 2048, 20480, 128, 1, id="530B")]  # fmt: skip


def one_layer(model, b, t, recomputation, sequence_parallel):
    e = amped.estimate(
        "default", model=model, activation_recomputation=recomputation, tensor_parallel_degree=t,
        sequence_parallel=sequence_parallel, pipeline_parallel_degree=1, data_parallel_degree=1,
        number_of_accelerators=t, batch_size=b, microbatch_size=b, dropout=0.1, flash_attention=False,
    )  # fmt: skip
    assert e["activation_bytes"] == e["stage_activation_bytes"]
    return e["activation_bytes"] / e["layers"]


# Table 2 of the paper and section 5: s·b·h·(whole + split/t) + scores·a·s²·b/t bytes a layer.
TABLE_2 = {
    "34_and_5as_h": {"t": 1, "recompute": "none", "sequence": False, "whole": 34, "split": 0, "scores": 5},
    "tensor": {"t": 8, "recompute": "none", "sequence": False, "whole": 10, "split": 24, "scores": 5},
    "tensor_and_sequence": {"t": 8, "recompute": "none", "sequence": True, "whole": 0, "split": 34, "scores": 5},
    "selective": {"t": 8, "recompute": "selective", "sequence": False, "whole": 10, "split": 24, "scores": 0},
    "selective_sequence": {"t": 8, "recompute": "selective", "sequence": True, "whole": 0, "split": 34, "scores": 0},
    "full": {"t": 8, "recompute": "full", "sequence": False, "whole": 2, "split": 0, "scores": 0},
}


@pytest.mark.parametrize("row", [pytest.param(row, id=name) for name, row in TABLE_2.items()])
@pytest.mark.parametrize(("model", "s", "h", "a", "b"), KORTHIKANTI)
def test_activations_of_one_layer_are_to_the_byte_those_of_korthikanti(model, s, h, a, b, row):
    printed = s * b * h * row["whole"] + (s * b * h * row["split"] + row["scores"] * a * s * s * b) // row["t"]
    assert one_layer(model, b, row["t"], row["recompute"], row["sequence"]) == printed


def states(**overrides):
    e = amped.estimate("default", model="Megatron 7.5B", pipeline_parallel_degree=1, batch_size=64, **overrides)
    return (e["weight_bytes"] + e["gradient_bytes"] + e["optimizer_state_bytes"]) / e["number_of_parameters"]


def test_mixed_precision_adam_takes_18_bytes_a_parameter():
    """2 of weights, 4 of gradients, 12 of Adam. Source: arXiv 2205.05198, Figure 1 (45.6 GiB for 22B on 8)."""
    assert states(tensor_parallel_degree=1, number_of_accelerators=1) == 18
    assert states(tensor_parallel_degree=8, number_of_accelerators=64) == 18 / 8


@pytest.mark.parametrize(("stage", "kept", "shared"), [(0, 18, 0), (1, 6, 12), (2, 2, 16), (3, 0, 18)])
def test_zero_shares_out_optimizer_then_gradients_then_weights(stage, kept, shared):
    """arXiv 1910.02054, Figure 1, with gradients of 4 bytes."""
    assert states(tensor_parallel_degree=1, number_of_accelerators=64, zero_stage=stage) == kept + shared / 64


def test_latent_attention_has_the_products_of_its_paper():
    """DeepSeek V3, a token in a layer, by hand. Source: arXiv 2405.04434, eq. 9 to 19, and DeepSeek V3's config."""
    e = amped.estimate(
        "minimal", model="DeepSeek V3", batch_size=64, tensor_parallel_degree=1, microbatch_size=1,
        number_of_accelerators=64,
    )  # fmt: skip
    by_hand = {
        "query_down": 7168 * 1536,
        "query_up": 1536 * 128 * 192,  # 128 heads of 128 + 64
        "key_value_down": 7168 * (512 + 64),
        "key_value_up": 512 * 128 * (128 + 128),
        "attention_output": 128 * 128 * 7168,
    }
    tokens = e["microbatch_tokens"] * e["layer_calls"]
    products = {gemm.name: gemm.multiply_accumulates / tokens for gemm in e.results.records("projection_gemms")}
    assert products == by_hand
    core = {gemm.name: gemm.multiply_accumulates / tokens for gemm in e.results.records("attention_gemms")}
    assert core == {"attention_scores": 4096 * 128 * 192, "attention_values": 4096 * 128 * 128}
    # Its weights are those matrices and the norms of the two latent vectors.
    assert e["attention_matrix_parameters"] == sum(by_hand.values()) + 1536 + 512
