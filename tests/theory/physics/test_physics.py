"""What any model of training must do: faster is never slower, more never takes less time, work is linear."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import amped
from amped.estimation.parts import MEMORY_PARTS, STEP_PARTS
from amped.theory.nouns.parallelisms import PARALLELISMS
from tests.helpers.layers import with_waits
from tests.helpers.physics import EXPERTS, LAYERS, ONE_OF_ALL, few, mappings, trained

RATES = (
    "bf16_peak_flop_rate", "memory_bandwidth", "inter_accelerator_bandwidth", "bandwidth_per_network_card",
    "number_of_network_cards_per_node", "vector_flop_rate",
)  # fmt: skip
SHARES = (
    "matrix_efficiency", "inter_accelerator_efficiency", "inter_node_efficiency", "gemm_sustained_fraction",
    "medium_tile_efficiency", "small_tile_efficiency", "smallest_tile_efficiency", "memory_bandwidth_efficiency",
    "attention_forward_efficiency", "attention_backward_efficiency", "tree_bandwidth_fraction",
)  # fmt: skip
BURDENS = (
    "inter_accelerator_latency", "inter_node_latency", "oversubscription", "flops_per_nonlinear_operation",
    "exposed_bubble_fraction", "gemm_ramp_depth", "wave_quantization", "bandwidth_ramp_bytes", "kernel_overhead_time",
    "kernel_launch_time", "attention_ramp_length", "attention_backward_ramp_length", "attention_edge_length",
    "exposed_softmax_fraction", "overlap_slowdown_fraction",
    "inter_accelerator_ramp_bytes", "inter_node_ramp_bytes", "collective_overhead_time",
)  # fmt: skip
NOTHING_HIDDEN = {"performance_model": "operators"} | {
    f"overlap_{kind}_communication": False for kind in PARALLELISMS
}  # fmt: skip
factor = st.sampled_from([1, 2, 4, 16])


# --- time -----------------------------------------------------------------------------------------------------------


@few
@given(mappings, st.sampled_from(RATES), factor)
def test_a_faster_part_never_makes_training_slower(mapping: dict[str, object], name: str, times: int) -> None:
    base = trained(**mapping)
    faster = trained(**mapping, **{name: base[name] * times})
    assert faster["step_time"] <= base["step_time"] * (1 + 1e-12)


@pytest.mark.thorough
@few
@given(mappings, st.sampled_from(SHARES), st.floats(0.05, 1.0), st.floats(0.05, 1.0))
def test_a_better_used_part_never_makes_training_slower(
    mapping: dict[str, object], name: str, one: float, other: float
) -> None:
    worse, better = (trained(**mapping, **{name: share})["step_time"] for share in sorted((one, other)))
    assert better <= worse * (1 + 1e-12)


@few
@given(mappings, st.sampled_from(BURDENS), st.floats(0.0, 1.0), st.floats(0.0, 1.0))
def test_a_heavier_burden_never_makes_training_faster(
    mapping: dict[str, object], name: str, one: float, other: float
) -> None:
    own = 1.0 if name in ("oversubscription", "flops_per_nonlinear_operation") else 0.0
    lighter, heavier = (trained(**mapping, **{name: own + by})["step_time"] for by in sorted((one, other)))
    assert lighter <= heavier * (1 + 1e-12)


@few
@given(mappings, st.sampled_from([{}, EXPERTS]))
def test_no_part_of_a_step_or_of_the_memory_is_negative(mapping: dict[str, object], experts: dict[str, object]) -> None:
    if experts and (mapping["data_parallel_degree"] * mapping["tensor_parallel_degree"]) % 4:  # type: ignore[operator]
        experts = experts | {"expert_parallel_degree": 1}
    told = trained(**mapping, **experts)
    parts = (*STEP_PARTS, *MEMORY_PARTS, *(f"hidden_{kind}_communication_time" for kind in PARALLELISMS))
    assert {name: told[name] for name in parts if told[name] < 0} == {}
    assert told["memory_per_accelerator_bytes"] == pytest.approx(sum(told[name] for name in MEMORY_PARTS), rel=1e-12)
    assert 0 < told["model_flops_utilization"] <= told["hardware_flops_utilization"] < 1


def assert_hidden_behind_work(told: amped.Estimate) -> None:
    work = ("compute_forward_time", "compute_backward_time", "recomputation_time", "weight_update_time")
    computed = sum(told[name] for name in work)
    waited = told["exposed_tensor_communication_time"] if told["gradients_have_own_links"] else 0.0
    for kind in PARALLELISMS:  # gradients on links of their own also travel while tensor parallelism is waited for
        room = computed + waited if kind in ("data", "pipeline") else computed
        # sharded ones, of every micro-batch, also while the stage waits for others
        room += told["pipeline_bubble_time"] if kind == "data" and told["zero_stage"] > 1 else 0
        assert told[f"hidden_{kind}_communication_time"] <= room * (1 + 1e-12)


@pytest.mark.parametrize("reached", [0.8, 0.3, 0.1, 0.01])
def test_sharded_weights_and_gradients_hide_behind_the_same_work(reached: float) -> None:
    """Sharded in full over a slow network, both cannot have all of the backward pass to themselves."""
    sharded = ONE_OF_ALL | {"data_parallel_degree": 16, "microbatch_size": 1, "zero_stage": 3}
    assert_hidden_behind_work(trained(**sharded, inter_node_efficiency=reached))


@pytest.mark.thorough
@few
@given(mappings, st.sampled_from([1.0, 0.1, 0.01]))
def test_no_more_is_hidden_than_there_is_to_hide_and_to_hide_it_behind(
    mapping: dict[str, object], reached: float
) -> None:
    told = trained(**mapping | {"performance_model": "operators", "inter_node_efficiency": reached})
    assert_hidden_behind_work(told)
    shown = trained(**mapping | NOTHING_HIDDEN | {"inter_node_efficiency": reached})
    for kind in ("data", "context", "pipeline", "expert"):
        whole = shown[f"exposed_{kind}_communication_time"]
        assert told[f"hidden_{kind}_communication_time"] <= whole * (1 + 1e-12)
        assert told[f"exposed_{kind}_communication_time"] <= whole * (1 + 1e-12)


@pytest.mark.thorough
@few
@given(mappings, st.sampled_from([2, 3, 8]))
def test_compute_is_linear_in_the_batch(mapping: dict[str, object], times: int) -> None:
    one, many = trained(**mapping), trained(**mapping, batch_size=256 * times)
    for name in ("compute_forward_time", "compute_backward_time", "weight_update_time", "recomputation_time"):
        assert many[name] == pytest.approx(times * one[name], rel=1e-12)
    assert many["optimizer_time"] == one["optimizer_time"]


@pytest.mark.thorough
@few
@given(mappings)
def test_work_is_shared_out_and_none_is_lost(mapping: dict[str, object]) -> None:
    """Forward FLOPs times accelerators are those of one accelerator alone."""
    alone = trained(**(mapping | ONE_OF_ALL))
    together = trained(**mapping)
    for name in ("model_flops_per_accelerator", "hardware_flops_per_accelerator"):
        assert together[name] * together["number_of_accelerators"] == pytest.approx(alone[name], rel=1e-12)


@pytest.mark.parametrize("kind", ["tensor", "pipeline", "context"])
def test_a_degree_of_one_costs_no_communication_of_its_kind(kind: str) -> None:
    assert trained()[f"exposed_{kind}_communication_time"] > 0
    assert trained(**{f"{kind}_parallel_degree": 1})[f"exposed_{kind}_communication_time"] == 0


def test_one_replica_of_a_whole_sequence_has_no_gradients_to_add_up() -> None:
    one = trained(data_parallel_degree=1, context_parallel_degree=1)
    assert one["exposed_data_communication_time"] == one["tied_embedding_communication_time"]  # of two stages
    assert trained(data_parallel_degree=2, context_parallel_degree=1)["exposed_data_communication_time"] > 0
    assert trained(data_parallel_degree=1, context_parallel_degree=2)["exposed_data_communication_time"] > 0


def test_experts_in_one_place_send_no_tokens() -> None:
    assert trained(**EXPERTS)["exposed_expert_communication_time"] > 0
    whole = EXPERTS | {"expert_parallel_degree": 1, "sequence_parallel": True}
    assert trained(**whole)["exposed_expert_communication_time"] == 0
    # Who shares an expert's matrices gathers its visits; without sequence parallelism all gather what came back.
    shared = whole | {"expert_tensor_parallel_degree": 2}
    assert trained(**shared)["exposed_expert_communication_time"] > 0
    assert trained()["exposed_expert_communication_time"] == 0


def test_one_accelerator_alone_only_computes() -> None:
    alone = trained(**ONE_OF_ALL)
    idle = {name: alone[name] for name in STEP_PARTS if "communication" in name or "bubble" in name}
    assert set(idle.values()) == {0.0}
    assert alone["step_time"] > 0


def bubbles(model: str) -> list[float]:
    """Of micro-batches of 1, 2, 4 and 8 sequences."""
    own = {"performance_model": model, "exposed_tensor_communication_time": 0}
    return [trained(microbatch_size=size, **own)["pipeline_bubble_time"] for size in (1, 2, 4, 8)]


@pytest.mark.parametrize("model", ["operators", "amped"])
def test_one_stage_has_no_bubble_and_more_micro_batches_have_less(model: str) -> None:
    assert trained(pipeline_parallel_degree=1, performance_model=model)["pipeline_bubble_time"] == 0
    assert bubbles(model) == sorted(bubbles(model))


def test_the_bubble_is_what_the_other_stages_do_for_one_micro_batch() -> None:
    closed = bubbles("amped")
    assert closed[1] == pytest.approx(2 * closed[0])
    told = trained()  # the others have 12 of 16 layers, and the embedding; the last, with the head, paces
    others = LAYERS * 3 / 4 * with_waits(told).whole + told["embedding_time"] + 2 * 3 * told["stage_send_time"]
    assert told["pipeline_bubble_time"] == pytest.approx(others, rel=1e-12)


def test_virtual_stages_shorten_the_bubble_by_their_number() -> None:
    plain, interleaved = (trained(performance_model="amped", virtual_pipeline_stages=v) for v in (1, 4))
    assert interleaved["pipeline_bubble_time"] == pytest.approx(plain["pipeline_bubble_time"] / 4)
    # Of the operators, the layers alone: the embedding is whole in one chunk, and the first micro-batch is handed over as
    # many boundaries as before.
    plain, interleaved = (trained(virtual_pipeline_stages=v) for v in (1, 4))
    whole = 2 * 3 * plain["stage_send_time"] + plain["embedding_time"]
    waits = [each["pipeline_bubble_time"] - whole for each in (plain, interleaved)]
    assert waits[1] == pytest.approx(waits[0] / 4)


def test_sharing_the_weights_out_costs_half_as_much_communication_again() -> None:
    """With one micro-batch and gradients as wide as weights, 3Ψ for 2Ψ. Source: arXiv 1910.02054, section 7.2.2."""
    alike = {"gradient_precision": 16, "number_of_microbatches_per_minibatch": 1, "performance_model": "amped"}
    times = [trained(**alike, zero_stage=stage)["exposed_data_communication_time"] for stage in range(4)]
    assert times[:3] == [times[0]] * 3
    assert times[3] == pytest.approx(1.5 * times[0])


@pytest.mark.parametrize(
    ("model", "name", "least"), [("amped", "weight_gathering_time", 3), ("operators", "weight_communication_time", 1)]
)
def test_shared_out_weights_are_gathered_for_every_micro_batch(model: str, name: str, least: int) -> None:
    """Nothing is gathered below the stage that needs it: the operators gather what stage 1 has updated apart, too."""
    own = {"zero_stage": 3, "performance_model": model}
    gathered = [trained(number_of_microbatches_per_minibatch=m, **own)[name] for m in (1, 4)]
    assert gathered[1] == pytest.approx(4 * gathered[0])
    assert trained(zero_stage=least, performance_model=model)[name] > 0
    assert trained(zero_stage=least - 1, performance_model=model)[name] == 0


def test_recomputing_more_takes_longer_and_keeps_less() -> None:
    kinds = [trained(activation_recomputation=kind) for kind in ("none", "selective", "full")]
    times = [each["recomputation_time"] for each in kinds]
    kept = [each["activation_bytes"] for each in kinds]
    assert times[0] == 0 < times[1] < times[2]
    assert kept[0] > kept[1] > kept[2]


def test_recomputing_all_layers_of_a_stage_by_block_is_full_recomputation() -> None:
    block = trained(activation_recomputation="block", number_of_recomputed_layers=LAYERS // 4)
    full = trained(activation_recomputation="full")
    for name in ("step_time", "activation_bytes", "temporary_bytes", "hardware_flops_per_accelerator"):
        assert block[name] == pytest.approx(full[name], rel=1e-12)


def test_recomputing_no_layers_by_block_is_no_recomputation() -> None:
    block = trained(activation_recomputation="block", number_of_recomputed_layers=0)
    none = trained(activation_recomputation="none")
    for name in ("step_time", "activation_bytes", "temporary_bytes", "hardware_flops_per_accelerator"):
        assert block[name] == pytest.approx(none[name], rel=1e-12)


def test_the_causal_convention_counts_less_and_takes_as_long() -> None:
    full, causal = trained(), trained(attention_flop_convention="causal")
    for name in ("model_flop_rate_per_accelerator", "hardware_flops_utilization", "model_flops_utilization"):
        assert causal[name] < full[name]
    assert causal["step_time"] == full["step_time"]


def test_an_older_accelerator_takes_longer() -> None:
    times = [amped.estimateTrainingTime(row) for row in ("V100", "A100", "H100 PCIe", "H100 SXM")]
    assert times == sorted(times, reverse=True)
    assert len(set(times)) == 4
    assert all(type(time) is float for time in times)


def test_a_smaller_transformer_trains_sooner() -> None:
    assert amped.estimateTrainingTime("A100", "GPT-3 13B") < amped.estimateTrainingTime("A100", "GPT-3 175B")
