"""A mixture of experts on paper: who computes which token, what its kernels move, what travels, what is kept.

Layers without attention, so that everything but norms and sums is the mixture: a sequence of 8 tokens of width 8 on each of
2 accelerators; 4 experts of 6 hidden units with a gate, 2 of them on each accelerator; each token visits 2 experts.
Source: arXiv 2006.16668 (GShard), sections 2.2 and 3.
"""

import pytest

import amped
from amped.base.errors import MappingError
from tests.helpers.layers import computed, whole_bytes
from tests.helpers.round_machine import ONE_BYTE_A_SECOND, ONE_PRODUCT_A_SECOND, trained

MIXTURE: dict[str, object] = {
    "layers": 1, "number_of_MoE_layers": 1, "number_of_attention_layers": 0, "dimensionality": 8, "attention_heads": 2,
    "head_dimension": 4, "feedforward_dimension": 6, "gated_mlp": True, "norm_vectors": 1, "vocabulary_size": 0,
    "number_of_experts": 4, "experts_per_token": 2, "expert_feedforward_dimension": 6, "context": 8, "batch_size": 2,
    "microbatch_size": 1, "number_of_accelerators": 2, "expert_parallel_degree": 2, "dropout": 0,
    "activation_recomputation": "none",
}  # fmt: skip
SHARED_EXPERT = {
    "tensor_parallel_degree": 2,
    "expert_tensor_parallel_degree": 2,
    "expert_parallel_degree": 1,
    "batch_size": 1,
}
TOKENS, WIDTH, VISITS = 8, 8, 16
ROUTER, UP, DOWN = TOKENS * WIDTH * 4, VISITS * WIDTH * 2 * 6, VISITS * 6 * WIDTH  # 256, 1536, 768 products


def passes(*worlds: dict[str, object], **given: object) -> list[float]:
    e = trained(MIXTURE, *worlds, **given)
    return [getattr(computed(e), name) for name in ("forward", "input_gradient", "weight_gradient")]


def test_the_products_of_a_mixture() -> None:
    """Each of 16 visits is a row of one expert; as many come to an accelerator as leave it."""
    assert passes(ONE_PRODUCT_A_SECOND) == [ROUTER + UP + DOWN] * 3


def test_places_that_nobody_takes_are_computed_and_not_useful() -> None:
    """A capacity of 1.5 times what comes if all are alike: 24 rows. Useful are 16 (arXiv 2006.16668, section 2.2)."""
    assert passes(ONE_PRODUCT_A_SECOND, expert_capacity_factor=1.5) == [ROUTER + 1.5 * (UP + DOWN)] * 3
    useful = trained(MIXTURE, expert_capacity_factor=1.5)["model_flops_per_accelerator"]
    assert useful == 3 * 2 * (ROUTER + UP + DOWN)
    # Of 8 places where 16 come half are dropped: then less is useful too.
    assert trained(MIXTURE, expert_capacity_factor=0.5)["model_flops_per_accelerator"] == 3 * 2 * (
        ROUTER + (UP + DOWN) / 2
    )


def test_one_kernel_for_all_experts_of_an_accelerator_is_less_efficient() -> None:
    assert passes(ONE_PRODUCT_A_SECOND, grouped_gemm_efficiency=0.5) == [ROUTER + 2 * (UP + DOWN)] * 3


# Bytes of tensors: the stream and tokens 8·8·2, visits 16·8·2, gate and up 16·12·2, hidden units 16·6·2, probabilities in
# full precision 8·4·4; weights of a norm 8·2, of the router 8·4·2, of two experts 2·8·12·2 and 2·6·8·2.
STREAM, VISIT, BOTH, HIDDEN, PROBABILITIES, NORM = 128, 256, 384, 192, 128, 16
WEIGHTS_UP, WEIGHTS_DOWN = 384, 192
FORWARD = {
    "two norms": 2 * (2 * STREAM + NORM), "sum behind the network": 3 * STREAM, "router": STREAM + 64 + 64,
    "choice of experts": 6 * PROBABILITIES, "own visits in order, and back": 2 * 2 * VISIT,
    "visits that came in order, and back": 2 * 2 * VISIT, "up": VISIT + WEIGHTS_UP + BOTH, "activation": BOTH + HIDDEN,
    "down": HIDDEN + WEIGHTS_DOWN + VISIT,
}  # fmt: skip
INPUT_GRADIENT = FORWARD | {
    "two norms": 2 * (5 * STREAM + 2 * NORM), "choice of experts": 5 * PROBABILITIES, "activation": 2 * BOTH + HIDDEN,
}  # fmt: skip
# Each weight's gradient of 4 bytes an entry is read and written.
WEIGHT_GRADIENT = (STREAM + 64 + 8 * 32) + (VISIT + BOTH + 8 * 192) + (HIDDEN + VISIT + 8 * 96)


def test_the_bytes_of_a_mixture() -> None:
    assert passes(ONE_BYTE_A_SECOND) == [sum(FORWARD.values()), sum(INPUT_GRADIENT.values()), WEIGHT_GRADIENT]


def test_a_dispatch_that_reorders_as_it_sends_spares_the_order_of_own_visits() -> None:
    plain, once = passes(ONE_BYTE_A_SECOND), passes(ONE_BYTE_A_SECOND, deduplicated_dispatch=True)
    assert plain[0] - once[0] == 4 * VISIT


def test_rows_in_the_order_of_an_index_may_move_at_half_the_rate() -> None:
    """Own visits and those that came, in order and back, of 2 · 256 bytes each. Masks move rows of a capacity at the full rate."""
    halved = {"indexed_row_bandwidth_fraction": 0.5}
    plain, slow = passes(ONE_BYTE_A_SECOND), passes(ONE_BYTE_A_SECOND, halved)
    assert [b - a for a, b in zip(plain, slow, strict=True)] == [8 * VISIT, 8 * VISIT, 0]
    assert passes(ONE_BYTE_A_SECOND, halved, expert_capacity_factor=1) == passes(
        ONE_BYTE_A_SECOND, expert_capacity_factor=1
    )


def test_what_a_mixture_keeps_and_works_with() -> None:
    """Kept: inputs of two norms and of the router, probabilities, visits, gate and up, hidden units.

    Worked with: visits as experts leave them, in the order of their senders, exchanged, and as they came. Deduplicated,
    gradients of gate and up are more.
    """
    e, once = trained(MIXTURE), trained(MIXTURE, deduplicated_dispatch=True)
    assert whole_bytes(e) == 3 * STREAM + PROBABILITIES + VISIT + BOTH + HIDDEN
    assert (e["layer_working_bytes"], once["layer_working_bytes"]) == (4 * VISIT, 2 * BOTH)


def test_a_dispatcher_that_gathers_all_tokens_sends_them_to_every_accelerator() -> None:
    """16 tokens of 16 bytes and their 4 probabilities of 4 bytes, of which half are there already, over 2 B/s; results
    go back without probabilities. Forward and backward. Source: Megatron-Core, MoEAllGatherTokenDispatcher."""
    links = {"inter_accelerator_bandwidth": "2 B/s", "inter_accelerator_latency": 3, "dispatcher": "allgather"}
    assert trained(MIXTURE, links)["exposed_expert_communication_time"] == 2 * (64 + 64 + 3) + 2 * (64 + 3)
    # It sends as much however many experts a token visits.
    one = trained(MIXTURE, links, experts_per_token=1)
    assert one["exposed_expert_communication_time"] == 2 * (64 + 64 + 3) + 2 * (64 + 3)


def test_a_dispatcher_that_gathers_all_tokens_orders_none_before_it_sends() -> None:
    plain, gathered = passes(ONE_BYTE_A_SECOND), passes(ONE_BYTE_A_SECOND, dispatcher="allgather")
    assert plain[0] - gathered[0] == 4 * VISIT
    worked = trained(MIXTURE, dispatcher="allgather")["expert_working_bytes"]
    assert worked == 2 * VISIT + 2 * 2 * STREAM


@pytest.mark.parametrize("dispatcher", ["deepep", "hybridep"])
def test_some_dispatchers_send_a_token_once_to_an_accelerator(dispatcher: str) -> None:
    named, once = (trained(MIXTURE, ONE_BYTE_A_SECOND, way) for way in (
        {"dispatcher": dispatcher}, {"deduplicated_dispatch": True}))  # fmt: skip
    assert named["step_time"] == once["step_time"]


def test_what_is_gathered_is_not_deduplicated() -> None:
    with pytest.raises(MappingError, match="all-gather"):
        trained(MIXTURE, dispatcher="allgather", deduplicated_dispatch=True)


def test_half_of_the_visits_leave_four_times() -> None:
    """Dispatch and combine, forward and backward: half of 256 bytes over 2 B/s, and a step of 3 s (arXiv 2006.16668)."""
    links = {"inter_accelerator_bandwidth": "2 B/s", "inter_accelerator_latency": 3}
    assert trained(MIXTURE, links)["exposed_expert_communication_time"] == 4 * (64 + 3)
    # With everything computed again both go once more; where recomputing stops early, nothing needs the combined again.
    again = trained(MIXTURE, links, activation_recomputation="full")
    assert again["exposed_expert_communication_time"] == 6 * 67
    early = trained(MIXTURE, links, activation_recomputation="full", recomputation_stops_early=True)
    assert early["exposed_expert_communication_time"] == 5 * 67


def test_experts_on_other_nodes_are_reached_over_the_network_cards() -> None:
    """Four experts on 2 nodes of 2: of a token's visits a half goes to the other node, a quarter to the neighbor.

    128 of 256 bytes over 1 B/s, 64 over 2 B/s at the same time.
    """
    links = {"inter_accelerator_bandwidth": "2 B/s", "bandwidth_per_network_card": "1 B/s"}
    mapping = {"number_of_accelerators": 4, "expert_parallel_degree": 4, "batch_size": 4}
    assert trained(MIXTURE, links, mapping)["exposed_expert_communication_time"] == 4 * 128
    slow_inside = trained(MIXTURE, links, mapping, inter_accelerator_bandwidth="0.25 B/s")
    assert slow_inside["exposed_expert_communication_time"] == 4 * 64 / 0.25


def test_two_share_the_matrices_of_every_expert() -> None:
    """Each routes its half of a sequence, 4 tokens, and gets the other's: 16 visits, 3 hidden units of each expert.

    Visits of both, 2 · 128 bytes, are gathered, and their results scattered: half of 256 bytes over 2 B/s, forward and
    backward. Without sequence parallelism the tokens, 8·8·2 bytes, are gathered behind the network in both passes too.
    """
    halves = passes(ONE_PRODUCT_A_SECOND, SHARED_EXPERT, sequence_parallel=True)
    assert halves == [ROUTER / 2 + (UP + DOWN) / 2] * 3
    links = {"inter_accelerator_bandwidth": "2 B/s"}
    e = trained(MIXTURE, SHARED_EXPERT, links, sequence_parallel=True)
    assert e["exposed_expert_communication_time"] == 2 * (64 + 64)
    apart = trained(MIXTURE, SHARED_EXPERT, links, sequence_parallel=False)
    assert apart["exposed_expert_communication_time"] == 2 * (64 + 64 + 32)


def test_the_parameters_of_a_mixture() -> None:
    """Two norms and a final one of 8, a router of 8·4, four experts of 3·8·6 = 144; a token visits two of them."""
    e = trained(MIXTURE)
    assert e["number_of_parameters"] == 3 * 8 + 32 + 4 * 144
    assert e["active_parameters"] == 3 * 8 + 32 + 2 * 144
    assert e["weight_bytes"] == 2 * (3 * 8 + 32 + 2 * 144)


@pytest.mark.parametrize(("stage", "shared", "experts"), [(0, 18, 18), (1, 6 + 12 / 4, 6 + 12 / 2), (2, 2 + 16 / 4, 2 + 16 / 2),
                                                          (3, 18 / 4, 18 / 2)])  # fmt: skip
def test_states_of_experts_are_shared_by_those_that_hold_the_same(stage: int, shared: float, experts: float) -> None:
    """Four accelerators, two of which hold the same 2 experts, 288 parameters; all hold the 56 others."""
    e = trained(MIXTURE, number_of_accelerators=4, batch_size=4, zero_stage=stage)
    states = sum(e[f"{kind}_bytes"] for kind in ("weight", "gradient", "optimizer_state"))
    assert states == 56 * shared + 288 * experts


def test_gradients_of_experts_travel_between_those_that_hold_the_same() -> None:
    """Two nodes of 2, experts shared out in each: 288 gradients of 4 bytes and their weights of 2 cross between nodes.

    All-reduce of 1152 bytes between two, as many over 1 B/s. The 56 others go round a ring of four: 2 · 3/4 · 224 bytes over
    the cards of both accelerators of a node. ZeRO 3: half of that for gradients, and weights in both passes of the layer.
    """
    machine = {"number_of_accelerators": 4, "batch_size": 4, "bandwidth_per_network_card": "1 B/s",
               "collective_algorithm": "ring", "overlap_data_communication": False}  # fmt: skip
    e = trained(MIXTURE, machine, zero_stage=0)
    assert e["exposed_data_communication_time"] == 1152 + 2 * 0.75 * 224 / 2
    sharded = trained(MIXTURE, machine, zero_stage=3)
    weights = 2 * (0.5 * 576 + 0.75 * 112 / 2)
    assert sharded["exposed_data_communication_time"] == 0.5 * 1152 + 0.75 * 224 / 2 + weights
    # The experts of an accelerator are whole while they run: with router and norms, 2·(16 + 32 + 288) bytes.
    assert sharded["gathered_weight_bytes"] == 2 * (16 + 32 + 288)


# --- what must hold ---------------------------------------------------------------------------------------------------


def mixtral(**overrides: object) -> amped.Estimate:
    return amped.estimate("mixtral-8x7b", **overrides)


def test_the_busiest_accelerator_is_waited_for() -> None:
    fair, unfair = mixtral(), mixtral(expert_imbalance_factor=1.5)
    assert unfair["step_time"] > fair["step_time"]
    assert unfair["activation_bytes"] > fair["activation_bytes"]
    assert unfair["exposed_expert_communication_time"] > fair["exposed_expert_communication_time"]
    # Useful work is the same: nobody needs what idle experts could have done.
    assert unfair["model_flops_per_accelerator"] == pytest.approx(fair["model_flops_per_accelerator"], rel=1e-12)


def test_places_that_nobody_takes_are_no_useful_work() -> None:
    dropless, padded = mixtral(), mixtral(expert_capacity_factor=1.25)
    assert padded["step_time"] > dropless["step_time"]
    assert padded["model_flops_per_accelerator"] == pytest.approx(dropless["model_flops_per_accelerator"], rel=1e-12)
    # Capacity caps what imbalance brings.
    assert mixtral(expert_capacity_factor=1.25, expert_imbalance_factor=3)["step_time"] == padded["step_time"]


def test_shares_of_an_expert_are_gathered_and_scattered() -> None:
    e = mixtral(expert_tensor_parallel_degree=2, expert_parallel_degree=4)
    shares = [c for c in e.results.records("expert_tensor_collectives") if c.name == "expert_tensor"]
    assert {(c.kind, c.intra * c.inter) for c in shares} == {("all_gather", 2), ("reduce_scatter", 2)}
    visits = e["routed_tokens"] * 2 * e["dimensionality"] * e["activation_precision"]
    assert {c.volume for c in shares} == {2 * visits}


def test_tokens_stay_where_their_sequence_is() -> None:
    """A mixture does not gather the sequence as a dense network does; shared experts do."""

    def gathers(e):
        return [c.count for c in e.results.records("tensor_collectives") if c.name == "feedforward_input"]

    assert gathers(mixtral()) == [0]
    assert gathers(mixtral(number_of_shared_experts=1)) == [1]
    assert gathers(mixtral(number_of_MoE_layers=8)) == [24 / 32]


def test_experts_of_one_node_leave_the_network_alone() -> None:
    inside, across = mixtral(expert_parallel_degree=8), mixtral(expert_parallel_degree=8, scale_up_domain_size=4)
    dispatch = [e.results.records("expert_collectives")[0] for e in (inside, across)]
    assert [(c.intra, c.inter) for c in dispatch] == [(8, 1), (4, 2)]
    assert across["exposed_expert_communication_time"] > inside["exposed_expert_communication_time"]


def test_gradients_of_experts_are_added_up_among_those_that_have_them() -> None:
    e = mixtral()
    (gradients,) = [
        c for c in e.results.records("expert_sharding_collectives") if c.count > 0 and "weights" not in c.name
    ]
    # 32 accelerators a stage, 8 of which hold all experts: 4 hold the same.
    assert gradients.intra * gradients.inter == 4
    held = 32 / 4 * e["number_of_experts"] * e["expert_parameters"] / 8
    assert e["expert_parameters_per_accelerator"] == pytest.approx(held, rel=1e-12)


# Nothing of a product but its multiply-accumulates.
ALONE = {
    "cache_intensity": 0,
    "tile_latency": 0,
    "exposed_store_fraction": 0,
    "exposed_operand_fraction": 0,
    "energy_of_operand_byte": 0,
}


def test_a_grouped_product_is_as_fast_as_its_coefficient() -> None:
    slow, fast = (
        mixtral(grouped_gemm_efficiency=0.5, kernel_overhead_time=0, **ALONE),
        mixtral(grouped_gemm_efficiency=1, kernel_overhead_time=0, **ALONE),
    )
    times = [{d.name: d.time for d in e.results.records("layer_durations")} for e in (slow, fast)]
    assert times[0]["experts_up"] == pytest.approx(2 * times[1]["experts_up"], rel=1e-9)
    assert times[0]["query_key_value"] == times[1]["query_key_value"]
