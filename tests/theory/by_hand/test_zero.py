"""ZeRO on paper: who holds which shard, what is gathered and scattered when, how long that takes, and what of it hides.

Two layers of the GPT of `test_layer.py`, 800 parameters each, and a final norm of 16: 1616. Four accelerators, two in each
of two nodes: 8 B/s inside, 1 B/s a card across. Rings: of V bytes 3/4 pass each link, over both cards of a node at 2 B/s.
Source: arXiv 1910.02054 (ZeRO), sections 5 and 7; arXiv 2304.11277 (FSDP).
"""

import pytest

from tests.helpers.round_machine import ONE_BYTE_A_SECOND, trained
from tests.theory.by_hand.test_layer import GPT

PARAMETERS, MICROBATCHES = 2 * 800 + 16, 3
FOUR: dict[str, object] = GPT | {
    "layers": 2, "number_of_accelerators": 4, "batch_size": 4 * MICROBATCHES, "inter_accelerator_bandwidth": "8 B/s",
    "bandwidth_per_network_card": "1 B/s", "collective_algorithm": "ring", "overlap_data_communication": False,
}  # fmt: skip
# Once round a ring of four: gradients of 4 bytes, weights of 2.
GRADIENTS, WEIGHTS = 0.75 * PARAMETERS * 4 / 2, 0.75 * PARAMETERS * 2 / 2
STATES = {0: (2, 4, 12), 1: (2, 4, 12 / 4), 2: (2, 4 / 4, 12 / 4), 3: (2 / 4, 4 / 4, 12 / 4)}


@pytest.mark.parametrize(("stage", "bytes_of_each"), STATES.items())
def test_each_stage_shares_out_one_kind_of_state_more(stage: int, bytes_of_each: tuple[float, ...]) -> None:
    e = trained(FOUR, zero_stage=stage)
    held = [e[f"{kind}_bytes"] for kind in ("weight", "gradient", "optimizer_state")]
    assert held == [PARAMETERS * each for each in bytes_of_each]


@pytest.mark.parametrize(("stage", "seconds"), [
    (0, 2 * GRADIENTS),  # all-reduce once
    (1, GRADIENTS + WEIGHTS),  # gradients scattered, weights gathered, once
    (2, MICROBATCHES * GRADIENTS + WEIGHTS),  # gradients of every micro-batch
    (3, MICROBATCHES * (GRADIENTS + 2 * WEIGHTS)),  # and weights for its forward and backward pass
])  # fmt: skip
def test_what_travels_in_a_step(stage: int, seconds: float) -> None:
    assert trained(FOUR, zero_stage=stage)["exposed_data_communication_time"] == seconds


def test_sharded_weights_travel_layer_by_layer_each_with_its_latency() -> None:
    """Two messages of half the size: once round takes 1 step between nodes of 10 s and 2 inside of 1 s, and 5 s a call."""
    latencies = {"inter_node_latency": 10, "inter_accelerator_latency": 1, "collective_overhead_time": 5}
    e, plain = trained(FOUR, latencies, zero_stage=3), trained(FOUR, zero_stage=3)
    calls = MICROBATCHES * (2 + 2 * 2)
    assert e["exposed_data_communication_time"] - plain["exposed_data_communication_time"] == calls * (10 + 2 + 5)


def test_the_largest_layer_is_whole_while_it_runs() -> None:
    """800 parameters of 2 bytes (arXiv 1910.02054, section 5.3)."""
    assert trained(FOUR, zero_stage=3)["gathered_weight_bytes"] == 1600
    assert trained(FOUR, zero_stage=2)["gathered_weight_bytes"] == 0


def test_shards_within_a_node_and_copies_across() -> None:
    """Hybrid sharding (arXiv 2304.11277, section 3.2.2): two shards at 8 B/s; the copies of a shard add up at 1 B/s.

    Scattered inside 1/2 of the gradients at 8 B/s; a half of them all-reduced by two, as many bytes as it has, at 1 B/s.
    Weights are gathered inside.
    """
    e = trained(FOUR, zero_stage=3, sharding_degree=2)
    scattered, copied, gathered = PARAMETERS * 4 / 2 / 8, PARAMETERS * 4 / 2, PARAMETERS * 2 / 2 / 8
    assert e["exposed_data_communication_time"] == MICROBATCHES * (scattered + copied + 2 * gathered)
    assert e["weight_bytes"] == PARAMETERS * 2 / 2


def test_context_shares_hold_the_same_weights_and_share_them_out() -> None:
    """Two replicas of two shares of a sequence: four that hold the same (arXiv 2407.21783, section 3.3.2)."""
    shared = trained(FOUR, zero_stage=3, context_parallel_degree=2, batch_size=2 * MICROBATCHES)
    assert shared["weight_bytes"] == PARAMETERS * 2 / 4


def test_gradients_that_are_added_up_whole_are_scattered_once() -> None:
    """FSDP without synchronization: 4 bytes of each parameter until the last micro-batch, whatever the shards.

    They are scattered in these 4 bytes, also where the shards are kept in 2. One micro-batch adds nothing up.
    """
    whole = {"whole_gradient_accumulation": True, "gradient_precision": 16, "zero_stage": 3}
    e = trained(FOUR, whole)
    assert e["gradient_bytes"] == PARAMETERS * 4
    assert e["exposed_data_communication_time"] == GRADIENTS + MICROBATCHES * 2 * WEIGHTS
    assert trained(FOUR, whole, batch_size=4)["gradient_bytes"] == PARAMETERS * 2 / 4


def test_weights_that_stay_gathered_are_gathered_once_and_kept_beside_their_shards() -> None:
    e = trained(FOUR, zero_stage=3, weights_stay_gathered=True)
    assert e["weight_bytes"] == PARAMETERS * (2 / 4 + 2)
    assert e["gathered_weight_bytes"] == 0
    assert e["exposed_data_communication_time"] == MICROBATCHES * GRADIENTS + WEIGHTS


def test_a_pipeline_of_pytorch_keeps_states_whole_until_the_last_microbatch() -> None:
    """Gathered once, added up whole, scattered once: as if both were asked for. Without stages nothing changes."""
    two = {"pipeline_parallel_degree": 2, "pipelined_weight_sharding": True, "zero_stage": 3}
    asked = {"weights_stay_gathered": True, "whole_gradient_accumulation": True}
    kept, told, plain = (trained(FOUR, two, more) for more in ({"pipelines_keep_states_whole": True}, asked, {}))
    for name in ("weight_bytes", "gradient_bytes", "step_time", "memory_per_accelerator_bytes"):
        assert kept[name] == told[name]
        assert kept[name] != plain[name]
    alone = [trained(FOUR, zero_stage=3, pipelines_keep_states_whole=on)["gradient_bytes"] for on in (True, False)]
    assert alone[0] == alone[1]


def test_gradients_of_a_backward_pass_take_the_place_of_activations() -> None:
    """nanotron: 2 bytes of each parameter at the end of a pass, when the activations of its micro-batch are free."""
    one, plain = (trained(FOUR, narrow_gradients_of_a_pass=on) for on in (True, False))
    freed = 2 * plain["kept_activation_bytes_per_layer"]
    more = one["memory_per_accelerator_bytes"] - plain["memory_per_accelerator_bytes"]
    assert more == max(PARAMETERS * 2 - freed, 0)
    assert one["gradient_bytes"] == plain["gradient_bytes"]


def test_copies_that_a_stack_keeps() -> None:
    """DeepSpeed's bf16 optimizer: gradients of 2 bytes beside those of 4. Its weights have no second copy."""
    plain = trained(FOUR, zero_stage=1)
    beside = trained(FOUR, zero_stage=1, narrow_gradients_stay=True)
    assert beside["gradient_bytes"] - plain["gradient_bytes"] == PARAMETERS * 2
    assert beside["weight_bytes"] == plain["weight_bytes"]
    narrow = trained(FOUR, zero_stage=1, gradient_precision=16, narrow_gradients_stay=True)
    assert narrow["gradient_bytes"] == PARAMETERS * 2  # the gradients of the backward pass are the ones that are kept


def test_replicas_that_shard_only_states_may_sum_whole_gradients() -> None:
    """nanotron, ZeRO 1: an all-reduce, which is twice once round. Sharded gradients are scattered all the same."""
    whole = trained(FOUR, zero_stage=1, whole_gradient_exchange=True)
    assert whole["exposed_data_communication_time"] == 2 * GRADIENTS + WEIGHTS
    two = [trained(FOUR, zero_stage=2, whole_gradient_exchange=w)["step_time"] for w in (True, False)]
    assert two[0] == two[1]


def test_the_host_copies_updated_weights_slice_by_slice() -> None:
    """nanotron, all_gather_coalesced: four replicas' slices of six tensors in each of two layers, 5 s each."""
    slow = {"host_time_per_gathered_slice": "5 s"}
    steps = [trained(FOUR, slow, zero_stage=stage)["step_time"] for stage in range(4)]
    plain = [trained(FOUR, zero_stage=stage)["step_time"] for stage in range(4)]
    slices = 4 * 6 * 2
    assert [a - b for a, b in zip(steps, plain, strict=True)] == pytest.approx([0, 5 * slices, 5 * slices, 0])
    halves = trained(FOUR, slow, zero_stage=1, sharding_degree=2, weight_tensors_per_layer=9)
    assert halves["weight_slicing_time"] == 5 * 2 * 9 * 2


def test_two_stages_sum_the_gradients_of_a_tied_embedding() -> None:
    """Two stages on two nodes: 10 words of width 8 in 4 bytes, all-reduced by two, pass 1 B/s once. arXiv 1909.08053, section 3."""
    tied = {
        "vocabulary_size": 10,
        "tied_embeddings": True,
        "pipeline_parallel_degree": 2,
        "batch_size": 2 * MICROBATCHES,
    }
    e = trained(FOUR, tied)
    assert e["tied_embedding_communication_time"] == 10 * 8 * 4 / 1
    alone = trained(FOUR, tied, tied_embedding_communication_time=0)
    assert e["exposed_data_communication_time"] - alone["exposed_data_communication_time"] == pytest.approx(320)
    assert trained(FOUR, tied, tied_embeddings=False)["tied_embedding_communication_time"] == 0
    assert trained(FOUR, tied, pipeline_parallel_degree=1, batch_size=12)["tied_embedding_communication_time"] == 0


def test_empty_gradients_are_one_for_each_product_of_a_layer() -> None:
    """800 parameters a layer without the vectors of its norms, 2 bytes each (Transformer Engine, get_dummy_wgrad)."""
    vectors = 800 - trained(FOUR, placeholder_weight_gradients=True)["placeholder_gradient_bytes"] / 2
    assert vectors == 2 * 16


# --- beside computation ----------------------------------------------------------------------------------------------

# Where a second moves one byte a layer takes 4416 s forward and 5568 + 7168 = 12 736 s backward, for each micro-batch. The
# final norm of the last layer's output takes 160 s forward and 384 s backward.
# Gradients are reduced in two buckets of 808 parameters of 4 bytes.
BYTES = FOUR | ONE_BYTE_A_SECOND | {"gradient_bucket_bytes": 808 * 4}
FORWARD, BACKWARD = 2 * 4416, 2 * 12_736


def hidden(**given: object) -> float:
    e = trained(BYTES, overlap_data_communication=True, **given)
    alone = trained(BYTES, **given)
    assert (
        e["exposed_data_communication_time"]
        == alone["exposed_data_communication_time"] - e["hidden_data_communication_time"]
    )
    return e["hidden_data_communication_time"]


def test_the_last_layers_gradients_have_nothing_left_to_hide_behind() -> None:
    """Two layers: a half of the gradients, and of the weights gathered before the next step, go beside others.

    Source: arXiv 2006.15704, section 3.2.
    """
    assert hidden(zero_stage=0) == 2 * GRADIENTS / 2
    assert hidden(zero_stage=1) == (GRADIENTS + WEIGHTS) / 2
    assert hidden(zero_stage=3) == MICROBATCHES * (GRADIENTS + 2 * WEIGHTS) / 2
    # Of shards only what is prefetched in time.
    assert hidden(zero_stage=3, prefetched_sharding_fraction=0.5) == MICROBATCHES * (GRADIENTS + 2 * WEIGHTS) / 4


def test_gradients_of_a_step_hide_beside_the_last_backward_pass_only() -> None:
    """Cards a hundred times as slow: half of the gradients take longer than a backward pass with that of the norm.

    Weights that one step's update leaves are gathered beside the first forward pass.
    """
    slow = {"bandwidth_per_network_card": "0.01 B/s"}
    norm_back = 384
    assert BACKWARD + norm_back < 100 * GRADIENTS / 2
    assert hidden(**slow, zero_stage=0) == pytest.approx(BACKWARD + norm_back)
    assert FORWARD + 160 < 100 * WEIGHTS / 2
    assert hidden(**slow, zero_stage=1) == pytest.approx(BACKWARD + norm_back + FORWARD + 160)


def test_what_every_micro_batch_sends_hides_beside_every_pass() -> None:
    """ZeRO 2: beside the backward passes of all three, and weights beside the first forward; ZeRO 3: beside all passes."""
    slow = {"bandwidth_per_network_card": "0.01 B/s"}
    forward, backward = FORWARD + 160, BACKWARD + 384
    assert hidden(**slow, zero_stage=2) == pytest.approx(MICROBATCHES * backward + forward)
    assert hidden(**slow, zero_stage=3) == pytest.approx(MICROBATCHES * (backward + forward))


def test_the_last_bucket_waits_for_nothing() -> None:
    """One bucket: nothing hides. Four: the last layer still waits. 500 B for each of four replicas: 2000 B are one bucket.

    Source: arXiv 2006.15704, section 3.2; Megatron-Core, distributed_data_parallel.py.
    """
    assert hidden(zero_stage=0, gradient_bucket_bytes=0) == 0
    assert hidden(zero_stage=0, gradient_bucket_bytes=404 * 4) == 2 * GRADIENTS / 2
    larger = {"gradient_bucket_bytes": 8, "gradient_bucket_bytes_per_replica": 1212}
    assert hidden(zero_stage=0, **larger) == pytest.approx(2 * GRADIENTS * (1 - 4 * 1212 / (PARAMETERS * 4)))


def test_what_hidden_messages_cost_is_named() -> None:
    """Two buckets: the last gradients and the first weights of ZeRO 1 are a half; a quarter of the others is lost again."""
    e = trained(BYTES, overlap_data_communication=True, zero_stage=1, overlap_slowdown_fraction=0.25)
    assert e["exposed_bucket_time"] == (GRADIENTS + WEIGHTS) / 2
    assert e["data_slowdown_time"] == (GRADIENTS + WEIGHTS) / 2 / 4
    assert e["exposed_data_communication_time"] == e["exposed_bucket_time"] + e["data_slowdown_time"]
    assert trained(BYTES, zero_stage=1)["exposed_bucket_time"] == 0


def test_each_bucket_has_its_latency() -> None:
    """Two buckets instead of one message: the gradients and the weights of ZeRO 1 go round twice, in 10 + 2 · 1 + 5 s each."""
    latencies = {"inter_node_latency": 10, "inter_accelerator_latency": 1, "collective_overhead_time": 5}
    one, two = (trained(FOUR, latencies, zero_stage=1, gradient_bucket_bytes=size) for size in (0, 808 * 4))
    assert two["exposed_data_communication_time"] - one["exposed_data_communication_time"] == 2 * (10 + 2 + 5)


def test_owners_of_whole_tensors_reduce_and_send_one_after_the_other() -> None:
    """Four owners, each a chain of two steps inside (1 s) and one across (10 s), with 3 s for each slice and 5 s a call.

    Source: InternLM/InternEvo, hybrid_zero_optim.py. All bytes pass each link, at 2 B/s.
    """
    owned = {"inter_node_latency": 10, "inter_accelerator_latency": 1, "collective_overhead_time": 5,
             "chain_step_overhead_time": 3, "sharding_unit": "tensor"}  # fmt: skip
    steps = 1 * (10 + 3) + 2 * (1 + 3) + 5
    e = trained(FOUR, owned, zero_stage=1)
    assert e["exposed_data_communication_time"] == pytest.approx(PARAMETERS * (4 + 2) / 2 + 2 * 4 * steps)
    assert trained(FOUR, owned, zero_stage=0)["exposed_data_communication_time"] < PARAMETERS * 4 + 100


def test_copies_of_a_shard_are_summed_in_buckets() -> None:
    """Hybrid sharding, two layers: shards of 1616 B each, summed by two replicas in one bucket or in two; 5 s a call."""
    asked = {"zero_stage": 3, "sharding_degree": 2, "collective_overhead_time": 5}
    calls = [
        trained(FOUR, asked, gradient_bucket_bytes=size)["exposed_data_communication_time"] for size in (1e4, 8, 0)
    ]
    assert [calls[1] - calls[0], calls[2] - calls[1]] == [MICROBATCHES * 5, 0]


def test_what_runs_beside_computation_slows_it() -> None:
    e, slowed = (
        trained(BYTES, overlap_data_communication=True, overlap_slowdown_fraction=share) for share in (0, 0.25)
    )
    lost = slowed["exposed_data_communication_time"] - e["exposed_data_communication_time"]
    assert lost == 0.25 * e["hidden_data_communication_time"]
