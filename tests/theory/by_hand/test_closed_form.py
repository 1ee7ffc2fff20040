"""The closed-form model against worlds small enough to be worked by hand."""

import pytest

import amped
from tests.helpers.contract import CONTRACT_PARTS, MEMORY_PARTS, RATES
from tests.helpers.formulas import sectioned

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
    "memory_bandwidth": "1000 B/s", "memory_capacity": "30 kB", "reserved_memory_bytes": "2 kB", "thermal_design_power": "100 W",
}  # fmt: skip
PIPELINE_ACROSS = {
    "tensor_parallel_degree": 2, "pipeline_parallel_degree": 2, "number_of_microbatches_per_minibatch": 4,
    "activation_recomputation": "full", "exposed_bubble_fraction": 0.5, "zero_stage": 0,
}  # fmt: skip


def world(mapping, **network):
    return {"performance_model": "amped"} | sectioned(NETWORK | network | mapping | SYSTEM | ACCELERATOR)


def assert_by_hand(estimate, by_hand):
    assert set(by_hand) >= {*CONTRACT_PARTS, *MEMORY_PARTS, *RATES}
    assert {name: estimate[name] for name in by_hand} == pytest.approx(by_hand, rel=1e-12, abs=0)


PIPELINE_BY_HAND = {
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
    # The last stage: the input of its layer, of the final norm and of the head, each 10·10·2 = 200 B, and the logits of
    #   the loss, 10·100·4/2 = 2000 B. (The first: its layer's input and the embedding's mask, 10·10 B, of two
    #   micro-batches: 600 B; and 18·(1120 + 1000)/2 = 19 080 B of states, which is less.)
    "activation_bytes": 3 * 200 + 2000,
    # Of the layer computed again, for a token. Unsplit: inputs of 2 norms and 2 blocks 4·10·2 = 80 B, 2 masks of 10 B:
    #   100 B. Split: queries 20 B, keys and values 2·10 B, projection's input 20 B, 2·40 hidden units 160 B: 220/2 = 110 B.
    # Scores: 2·10 entries of 2 + 1 + 2 B: 100/2 = 50 B. Together 260 B, 10 tokens.
    # The largest gradient: of the residual stream and what it drops out, 2·200 B (hidden units: 10·40·2/2, as many);
    #   and the one it comes from. Sent to and received from the other stage: 2·200 B.
    #   2600 + 800 + 400 = 3800 B; by then what the head and the loss kept, 2·200 + 2000 B, is gone: 1400 B.
    # Before the loss, the logits and their gradient: 2 · 10·100·2/2 B, which is more.
    # (The first stage: 19 080 + 600 + 3800 = 23 480 B, less than the last.)
    "temporary_bytes": 2000,
    "memory_per_accelerator_bytes": 2130 + 4260 + 12780 + 2600 + 2000,  # 23 770 of 28 000
    "fits_in_memory": 1,
    "largest_microbatch_size": 1,  # states leave 8830 B, a sequence takes 2600 + 2000 B
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


def test_toy_world():
    """Two layers on four devices: tensor parallelism in the node, the pipeline across, everything recomputed."""
    assert_by_hand(amped.estimate(world(PIPELINE_ACROSS)), PIPELINE_BY_HAND)


def test_toy_world_counted_causally_has_fewer_flops_and_the_same_times():
    """Of 10·10 scores the 55 on and below the diagonal: 110 of a token's 200 MACs, 1210 of a layer's 1300."""
    full = amped.estimate(world(PIPELINE_ACROSS))
    causal = amped.estimate(world(PIPELINE_ACROSS, attention_flop_convention="causal"))
    # 2·40·1210 + 40 000 = 136 800 MACs, 3·2 flop each, on 4 devices; and 2·96 800/4 once more.
    assert causal["model_flops_per_accelerator"] == pytest.approx(205_200, rel=1e-12, abs=0)
    assert causal["hardware_flops_per_accelerator"] == pytest.approx(205_200 + 48_400, rel=1e-12, abs=0)
    assert causal.breakdown == full.breakdown


EXPERTS_ACROSS = {
    "data_parallel_degree": 2, "context_parallel_degree": 2, "inter_node_expert_parallel_degree": 2,
    "microbatch_size": 1, "activation_recomputation": "none", "zero_stage": 3,
    "context_parallel_kind": "all_gather", "balanced_context_work": False,
}  # fmt: skip
EXPERTS = {"number_of_experts": 4, "experts_per_token": 2, "expert_feedforward_dimension": 20}
EXPERTS_BY_HAND = {
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
    # Sharded: gradients are scattered only, half of that; weights of half the width are gathered, a quarter of it in each
    #   of 2 passes of 2 micro-batches.
    "exposed_data_communication_time": (0.5 + 4 * 0.25) * (138.4 + 692 + 128),
    # Sharded: 1730/4 + 1600/2 = 1232.5.
    "weight_bytes": 1232.5 * 2,
    "gradient_bytes": 1232.5 * 4,
    "optimizer_state_bytes": 1232.5 * 12,
    "number_of_parameters": 2 * (360 + 4 * 400) + 1010,
    "active_parameters": 2 * (360 + 2 * 400) + 1010,
    "optimizer_time": 39.44,  # 2·2465 + 4930 + 2·14 790 = 39 440 B
    "step_time": 2087.84,  # 85.6 + 85.6 + 73.6 + 30 + 336 + 1437.6 + 39.44
    # A layer, for a token: 100 B as before; queries, keys, values, projection's input 60 B; for each of 2 experts
    #   the token itself 20 B and 2·20 hidden units 80 B; scores 100 B; probabilities of 4 experts 16 B.
    #   476 B, 5 tokens, 2 layers: 4760 B.
    # The embedding's mask 5·10 B; inputs of the final norm and of the head 2·100 B; logits of the loss 5·100·4 B.
    "activation_bytes": 4760 + 50 + 200 + 2000,
    # A layer is whole while it runs: 360 + 2 of 4 experts, 800, at 2 B.
    # The largest gradient: of the hidden units of 10 visits, 10·20·2 B, and the one it comes from. Keys and
    #   values of the whole sequence, 200 B, nothing is handed on: 1000 B, less than the head and the loss kept until then.
    # Before the loss, the logits and their gradient: 2 · 5·100·2 B, which is more.
    "temporary_bytes": 2320 + 2000,
    "memory_per_accelerator_bytes": 2465 + 4930 + 14790 + 7010 + 4320,  # 33 515 of 28 000
    "fits_in_memory": 0,
    "largest_microbatch_size": 0,  # states and the whole layer leave 3495 B, a sequence takes 7010 + 2000 B
    # 2·13 400 + 10 000 = 36 800 MACs on each accelerator, 3·2 flop each.
    "model_flop_rate_per_accelerator": 220_800 / 2087.84,
    "hardware_flop_rate_per_accelerator": 220_800 / 2087.84,
}


def test_toy_world_of_experts():
    """The same four devices: the sequence split in the node, data and experts across nodes, all states sharded."""
    assert_by_hand(amped.estimate(world(EXPERTS_ACROSS, **EXPERTS)), EXPERTS_BY_HAND)
