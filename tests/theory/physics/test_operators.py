"""Laws of the operator model: what is better never costs time, nothing is lost or counted twice, stages wait in turn."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import amped
from amped.estimation.execution import executed_step
from amped.estimation.parts import STEP_PARTS
from amped.theory.nouns.parallelisms import PARALLELISMS
from amped.theory.nouns.records import Kernels, Operator, Products, Streams, Tiles
from amped.theory.roofline.kernels import kernel_time, product_time
from tests.helpers.layers import computed, messages, of_parallelism, repeats, whole_passes, with_waits
from tests.helpers.physics import EXPERTS, LAYERS, ONE_OF_ALL, degree, trained
from tests.helpers.stages import bottleneck

RATES = ("bf16_peak_flop_rate", "vector_flop_rate", "memory_bandwidth", "inter_accelerator_bandwidth",
         "bandwidth_per_network_card", "number_of_network_cards_per_node", "accelerator_mean_time_between_failures")  # fmt: skip
SHARES = ("gemm_sustained_fraction", "medium_tile_efficiency", "small_tile_efficiency", "smallest_tile_efficiency",
          "memory_bandwidth_efficiency", "normalization_bandwidth_fraction", "attention_forward_efficiency",
          "attention_backward_efficiency", "tree_bandwidth_fraction", "inter_accelerator_efficiency",
          "inter_node_efficiency")  # fmt: skip
LOSSES = ("kernel_overhead_time", "kernel_launch_time", "bandwidth_ramp_bytes", "gemm_ramp_depth", "wave_quantization",
          "attention_ramp_length", "attention_backward_ramp_length", "attention_edge_length", "exposed_softmax_fraction", "overlap_slowdown_fraction", "exposed_bubble_fraction",
          "inter_accelerator_latency", "inter_node_latency", "collective_overhead_time", "inter_accelerator_ramp_bytes",
          "inter_node_ramp_bytes")  # fmt: skip
PRODUCTS = ("contraction", "batched_contraction", "fused_attention")
COMPUTE = ("compute_forward_time", "compute_backward_time", "weight_update_time", "recomputation_time")
FAILING = {"accelerator_mean_time_between_failures": 1e8, "checkpoint_time": 60, "restart_time": 600}
few = settings(max_examples=30, deadline=None, derandomize=True)

mappings = st.fixed_dictionaries({
    "data_parallel_degree": degree, "tensor_parallel_degree": st.sampled_from([1, 2, 8, 16]),
    "pipeline_parallel_degree": degree, "context_parallel_degree": st.sampled_from([1, 2]),
    "microbatch_size": st.sampled_from([1, 2, 4]), "zero_stage": st.sampled_from([0, 1, 2, 3]),
    "sequence_parallel": st.booleans(), "flash_attention": st.booleans(), "causal": st.booleans(),
    "activation_recomputation": st.sampled_from(["none", "selective", "full"]),
    **{f"overlap_{kind}_communication": st.booleans() for kind in ("tensor", "pipeline", "data", "context")},
})  # fmt: skip
# All kinds hide at once: a second of computation that two of them hid beside would be worth more than a second.
ALL_HIDDEN = {f"overlap_{kind}_communication": True for kind in PARALLELISMS} | {
    "data_parallel_degree": 8, "tensor_parallel_degree": 8, "pipeline_parallel_degree": 1, "context_parallel_degree": 2,
    "microbatch_size": 1, "zero_stage": 3, "sequence_parallel": True, "flash_attention": True, "causal": False,
    "activation_recomputation": "none",
}  # fmt: skip
GRADIENTS_TOO = ALL_HIDDEN | {"zero_stage": 2, "sequence_parallel": False}
KEYS_AND_INPUTS = ALL_HIDDEN | {"zero_stage": 0, "tensor_parallel_degree": 16, "bandwidth_per_network_card": 1e9}


def exposed(kind: str) -> str:
    return f"exposed_{kind}_communication_time"


def forward_sending(told: amped.Estimate) -> float:
    """Seconds of the tensor-parallel messages of a forward pass."""
    return float(messages(told, "tensor").forward.time)


def hidden(kind: str) -> str:
    return f"hidden_{kind}_communication_time"


# --- what is better never costs time --------------------------------------------------------------------------------


@pytest.mark.thorough
@few
@given(mappings, st.sampled_from(RATES), st.sampled_from([2, 16]))
@example(ALL_HIDDEN, "bf16_peak_flop_rate", 2)
def test_a_faster_part_is_never_slower(mapping: dict[str, object], name: str, times: int) -> None:
    base = trained(**mapping, **FAILING)
    faster = trained(**mapping, **FAILING | {name: base[name] * times})
    assert faster["training_time"] <= base["training_time"] * (1 + 1e-12)


@pytest.mark.thorough
@few
@given(mappings, st.sampled_from(SHARES), st.floats(0.1, 1), st.floats(0.1, 1))
@example(ALL_HIDDEN, "attention_forward_efficiency", 0.4, 0.8)
@example(GRADIENTS_TOO, "attention_backward_efficiency", 0.4, 0.8)
@example(KEYS_AND_INPUTS, "attention_backward_efficiency", 0.4, 0.8)
@example(
    GRADIENTS_TOO | {"context_parallel_degree": 1, "tensor_parallel_degree": 16}, "small_tile_efficiency", 0.4, 0.8
)
def test_a_better_used_part_is_never_slower(mapping: dict[str, object], name: str, one: float, other: float) -> None:
    worse, better = (trained(**mapping, **{name: share})["step_time"] for share in sorted((one, other)))
    assert better <= worse * (1 + 1e-12)


@pytest.mark.thorough
@few
@given(mappings, st.sampled_from(LOSSES), st.floats(0, 1))
@example(ALL_HIDDEN, "wave_quantization", 0.5)
def test_a_lighter_loss_is_never_slower(mapping: dict[str, object], name: str, share: float) -> None:
    base = trained(**mapping)
    assert trained(**mapping, **{name: base[name] * share})["step_time"] <= base["step_time"] * (1 + 1e-12)


@few
@given(mappings, st.sampled_from([{}, EXPERTS]))
def test_no_part_is_negative_and_all_sum_to_the_step(mapping: dict[str, object], experts: dict[str, object]) -> None:
    told = trained(**mapping | {"data_parallel_degree": 4}, **experts)
    assert {name: told[name] for name in (*STEP_PARTS, *map(hidden, PARALLELISMS)) if told[name] < 0} == {}
    assert told["step_time"] == pytest.approx(sum(told[name] for name in STEP_PARTS), rel=1e-12)
    computed, hides = sum(told[name] for name in COMPUTE), sum(told[hidden(kind)] for kind in PARALLELISMS)
    if told[
        "gradients_have_own_links"
    ]:  # what tensor parallelism hides and exposes lasts no longer than it hides beside
        hides -= told[hidden("tensor")]
        computed += told[exposed("tensor")]
    if told["zero_stage"] > 1:  # what is sharded travels while the stage waits for others, too
        computed += told["pipeline_bubble_time"]
    assert hides <= computed * (1 + 1e-12)


@pytest.mark.thorough
@few
@given(mappings)
def test_products_are_shared_out_and_none_is_lost(mapping: dict[str, object]) -> None:
    """Their operations on one accelerator times the accelerators are those of one alone."""
    done = []
    for told in (trained(**mapping), trained(**mapping | ONE_OF_ALL)):
        layer = sum(o.flops * o.count for o in told.results.records("layer_operators") if o.kind in PRODUCTS)
        done.append(layer * told["layer_passes"] * told["number_of_accelerators"])
    assert done[0] == pytest.approx(done[1], rel=1e-12)


# --- communication --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["tensor", "pipeline", "context"])
def test_a_degree_of_one_sends_nothing_of_its_kind(kind: str) -> None:
    assert trained()[exposed(kind)] > 0
    assert trained(**{f"{kind}_parallel_degree": 1})[exposed(kind)] == 0


@pytest.mark.parametrize(("kind", "values"), [
    ("tensor", {}), ("tensor", {"sequence_parallel": True}), ("pipeline", {}), ("context", {}), ("expert", EXPERTS),
    *(("data", {"zero_stage": stage}) for stage in range(4)),
])  # fmt: skip
def test_what_is_hidden_is_not_waited_for_but_slows_its_neighbor(kind: str, values: dict[str, object]) -> None:
    """Without its switch all is exposed."""
    off, on = (trained(**values, **{f"overlap_{kind}_communication": switch}) for switch in (False, True))
    assert off[hidden(kind)] == 0
    assert 0 < on[hidden(kind)] <= off[exposed(kind)]
    slowed = "exchange_slowdown_fraction" if kind == "expert" else "overlap_slowdown_fraction"
    won = on[hidden(kind)] * (1 - on[slowed])
    assert on[exposed(kind)] + won == pytest.approx(off[exposed(kind)], rel=1e-12)
    assert {name for name in COMPUTE if on[name] != off[name]} == set()


def test_sequence_parallelism_moves_the_same_bytes_in_other_pieces() -> None:
    rounds = {"all_gather": 1, "reduce_scatter": 1, "all_reduce": 2}
    bare = {"collective_algorithm": "ring", "collective_overhead_time": 0}
    whole, split = (trained(sequence_parallel=switch, **bare) for switch in (False, True))
    moved = [sum(rounds[c.kind] * c.volume * c.count for c in told.results.records("tensor_collectives"))
             for told in (whole, split)]  # fmt: skip
    assert moved[0] == moved[1] > 0
    assert forward_sending(whole) == pytest.approx(forward_sending(split), rel=1e-12)


def test_sharded_states_travel_once_a_step_or_with_each_micro_batch() -> None:
    """Of gradients from stage 2, and of weights, there and back, from stage 3; each as long as its bytes."""
    for stage, gradients, weights in ((0, 1, 0), (1, 1, 1), (2, 4, 1), (3, 4, 4)):
        one, four = (trained(number_of_microbatches_per_minibatch=m, zero_stage=stage, pipeline_parallel_degree=1)
                     for m in (1, 4))  # fmt: skip
        for name, times in (("gradient_communication_time", gradients), ("weight_communication_time", weights)):
            assert four[name] == pytest.approx(times * one[name], rel=1e-12)


def test_shards_inside_the_node_send_less_across_nodes() -> None:
    """Of 32 replicas 8 are in each node: gradients there and back across nodes, for weights twice and gradients once."""
    mapping = ONE_OF_ALL | {"data_parallel_degree": 32, "zero_stage": 3, "gradient_precision": 16, "gradient_bucket_bytes": 0,
                            "gradient_bucket_bytes_per_replica": 0}  # fmt: skip
    narrow = {"bandwidth_per_network_card": "1 MB/s", "collective_algorithm": "hierarchical"}
    kinds = ("weight_communication_time", "gradient_communication_time")
    everywhere, inside = (trained(**mapping, **narrow, sharding_degree=shards) for shards in (32, 8))
    assert inside[kinds[0]] == trained(**mapping, sharding_degree=8)[kinds[0]]
    assert sum(inside[k] for k in kinds) == pytest.approx(2 / 3 * sum(everywhere[k] for k in kinds), rel=1e-2)


# --- attention, recomputation, launches -----------------------------------------------------------------------------


def test_a_causal_fused_attention_computes_the_scores_on_and_below_the_diagonal() -> None:
    every, half = (trained(flash_attention=True, causal=causal) for causal in (False, True))
    flops = [sum(o.flops for o in told.results.records("fused_attention_operators")) for told in (every, half)]
    assert flops[1] == pytest.approx(flops[0] * 2049 / 4096, rel=1e-12)
    assert half["step_time"] < every["step_time"]
    assert trained(causal=True)["step_time"] == trained(causal=False)["step_time"]  # unfused, all are computed


@pytest.mark.parametrize("context", [2048, 8192, 32768])
@pytest.mark.parametrize("causal", [False, True])
def test_a_fused_attention_is_never_slower_over_long_sequences(context: int, causal: bool) -> None:
    unfused, fused = (trained(flash_attention=f, context=context, causal=causal, dropout=0) for f in (False, True))
    assert fused["step_time"] <= unfused["step_time"]
    assert repeats(fused).attention_core <= repeats(unfused).attention_core
    assert computed(fused).forward <= computed(unfused).forward
    assert computed(fused).input_gradient <= computed(unfused).input_gradient


@pytest.mark.parametrize("flash", [False, True])
def test_recomputation_costs_one_forward_pass_or_its_core(flash: bool) -> None:
    none, core, full = (trained(flash_attention=flash, activation_recomputation=kind)
                        for kind in ("none", "selective", "full"))  # fmt: skip
    assert none["recomputation_time"] == 0
    for told, once in ((core, repeats(core).attention_core), (full, computed(full).forward)):
        assert told["recomputation_time"] == pytest.approx(told["bottleneck_stage_layer_passes"] * once, rel=1e-12)
    again = full["bottleneck_stage_layer_passes"] * forward_sending(full)
    assert full[exposed("tensor")] == pytest.approx(core[exposed("tensor")] + again, rel=1e-12)
    assert core[exposed("tensor")] == none[exposed("tensor")]


def test_a_tiny_network_takes_as_long_as_its_launches() -> None:
    tiny = trained(dimensionality=128, attention_heads=4, context=64, vocabulary_size=128, **ONE_OF_ALL)
    for phase in ("forward", "input_gradient", "weight_gradient"):
        kernels = sum(o.kernels * o.count for o in tiny.results.records("layer_operators") if o.phase == phase)
        assert getattr(computed(tiny), phase) == pytest.approx(kernels * tiny["kernel_launch_time"], rel=1e-12)
    launched = sum(o.kernels * o.count for o in tiny.results.records("layer_operators"))
    assert tiny["step_time"] >= launched * tiny["kernel_launch_time"] * tiny["layer_passes"]


@pytest.mark.parametrize("shape", [(108, 1, 108), (85, 12, 68), (174, 20, 58), (54, 7, 6), (1, 3, 2)])
def test_tiles_that_fill_all_cores_leave_none_idle(shape: tuple[int, int, int]) -> None:
    """Their waves are a whole number, and no rounding may add one."""
    (tiles, batch, cores), one = shape, np.ones(1)
    sizes = (256.0 * tiles * one, 128.0 * one, 256.0 * one, batch * one)
    product = Operator("it", "contraction", "forward", *sizes, *[one] * 6)
    shapes = Tiles(
        "only large ones",
        *[1e-9 * one] * 3,
        quantization=one,
        cores=cores * one,
        ramp_depth=0,
        ramp_rows=one,
        edges=one,
    )
    products = Products("products", one, one, one, one, shapes, one, 0, group_overhead=0, operand=2, activation=2)
    rates = Kernels("rates", products, None, (), Streams("streams", *[one] * 9), one, one, kernel_time)
    waves = -(-tiles * batch // cores)
    assert product_time(product, rates, one, 2) == pytest.approx(waves * 256 * 128 * 256 * cores, rel=1e-12)


# --- pipeline, failures ---------------------------------------------------------------------------------------------


@pytest.mark.thorough
@few
@given(mappings, st.sampled_from([1, 51200, 512000]))
def test_the_slowest_stage_paces_the_step_that_is_executed_pass_by_pass(mapping: dict[str, object], words: int) -> None:
    told = trained(**mapping, vocabulary_size=words)
    stages, m = told["pipeline_parallel_degree"], told["number_of_microbatches_per_minibatch"]
    ends = [told["embedding_time"], *[0.0] * int(stages - 2), told["output_head_time"]]
    if stages == 1:
        ends = [told["embedding_time"] + told["output_head_time"]]
    each = [with_waits(told).whole * LAYERS / stages + end for end in ends]
    busy = sum(told[name] for name in (*COMPUTE, *map(exposed, ("tensor", "context"))))
    assert busy == pytest.approx(m * max(each), rel=1e-12)
    ran = executed_step(told)  # pass by pass; what is hidden slows no neighbor down there
    slowed = told["hidden_pipeline_communication_time"] * told["overlap_slowdown_fraction"]
    assert ran.step_time == pytest.approx(told["step_time"] - slowed, rel=0.03)


def test_a_large_vocabulary_makes_the_last_stage_pace_and_fewer_layers_there_help() -> None:
    small, large = trained(vocabulary_size=64), trained(vocabulary_size=512000)
    assert bottleneck(large) == "last"
    uneven = {"number_of_first_stage_layers": 5, "number_of_last_stage_layers": 1}  # and 5 on each of the others
    assert trained(vocabulary_size=512000, **uneven)["step_time"] < large["step_time"]
    assert trained(vocabulary_size=64, **uneven)["step_time"] > small["step_time"]


def test_failures_and_checkpoints_take_their_time() -> None:
    never, failing = trained(goodput_fraction=1), trained(**FAILING)
    assert failing["training_time"] == pytest.approx(never["training_time"] / failing["goodput_fraction"], rel=1e-12)
    assert failing["step_time"] == never["step_time"]
    assert 0 < failing["goodput_fraction"] < 1
    best = failing["checkpoint_interval_time"]
    for interval in (best / 2, best * 2):
        assert trained(**FAILING, checkpoint_interval_time=interval)["training_time"] > failing["training_time"]


def test_gradients_on_links_of_their_own_travel_while_tensor_parallelism_computes_and_waits() -> None:
    asked = {"tensor_parallel_degree": 8, "data_parallel_degree": 16, "pipeline_parallel_degree": 1, "zero_stage": 1,
             "context_parallel_degree": 1, "overlap_data_communication": True}  # fmt: skip
    own, shared = trained(**asked), trained(**asked, gradients_have_own_links=False)
    assert own["gradients_have_own_links"] == 1
    for told, on_links in ((own, 0), (shared, 1)):
        backward = sum(told[part] for part in ("compute_backward_time", "weight_update_time", "recomputation_time"))
        back = whole_passes(told).backward
        waited, sent = of_parallelism(back.exposed, "tensor"), on_links * back.tensor_link
        assert 0 < waited < back.tensor_link
        assert told["free_backward_time"] == pytest.approx(
            backward + (waited - sent) * told["bottleneck_stage_layer_passes"]
        )
    assert own["step_time"] <= shared["step_time"]
    assert trained(**asked | {"tensor_parallel_degree": 16})["gradients_have_own_links"] == 0
