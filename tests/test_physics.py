"""What any model of training must do: faster is never slower, sharing never needs more memory, work is linear."""

from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import amped
from amped.config import Config
from amped.estimation import MEMORY_PARTS, PARALLELISMS, STEP_PARTS

LAYERS = 16
DENSE = {
    "neural_network_training_parameters": {"parameters": {
        "layers": {"value": LAYERS}, "dimensionality": {"value": 4096}, "attention_heads": {"value": 32},
        "vocabulary_size": {"value": 51200}, "context": {"value": 2048}, "batch_size": {"value": 256},
        "tokens_to_train": {"value": "10 G"},
    }},
    "mapping_parameters": {"parameters": {
        "data_parallel_degree": {"value": 4}, "tensor_parallel_degree": {"value": 4},
        "pipeline_parallel_degree": {"value": 4}, "context_parallel_degree": {"value": 2},
        "microbatch_size": {"value": 2},
    }},
    "system_architecture_parameters": {"lookup_config": {"lookup_table_row": "DGX A100"}},
    "accelerator_architecture_parameters": {"lookup_config": {"lookup_table_row": "A100 SXM 80GB"}},
}  # fmt: skip
EXPERTS = {"number_of_experts": 8, "experts_per_token": 2, "expert_tensor_parallel_degree": 1,
           "expert_parallel_degree": 4}  # fmt: skip
# With one share of everything nothing is sent.
ONE_OF_ALL = {"data_parallel_degree": 1, "tensor_parallel_degree": 1, "pipeline_parallel_degree": 1,
              "context_parallel_degree": 1}  # fmt: skip
RATES = (
    "bf16_peak_flop_rate", "memory_bandwidth", "inter_accelerator_bandwidth", "bandwidth_per_network_card",
    "number_of_network_cards_per_node", "vector_flop_rate",
)  # fmt: skip
SHARES = ("matrix_efficiency", "inter_accelerator_efficiency", "inter_node_efficiency")
BURDENS = ("inter_accelerator_latency", "inter_node_latency", "oversubscription", "flops_per_nonlinear_operation",
           "exposed_bubble_fraction")  # fmt: skip
degree = st.sampled_from([1, 2, 4, 8])
factor = st.sampled_from([1, 2, 4, 16])
few = settings(max_examples=30, deadline=None)


@cache
def read() -> Config:
    return amped.load_config(DENSE)


def trained(**values: object) -> amped.Estimate:
    return amped.estimate(read(), **values)


mappings = st.fixed_dictionaries({
    "data_parallel_degree": degree, "tensor_parallel_degree": degree, "pipeline_parallel_degree": degree,
    "context_parallel_degree": st.sampled_from([1, 2]), "microbatch_size": st.sampled_from([1, 2, 4]),
    "zero_stage": st.sampled_from([0, 1, 2, 3]), "sequence_parallel": st.booleans(),
    "activation_recomputation": st.sampled_from(["none", "selective", "full"]),
    "pipeline_schedule": st.sampled_from(["1f1b", "gpipe"]), "flash_attention": st.booleans(),
    "placement_order": st.sampled_from(["tensor_context_data_pipeline", "tensor_context_pipeline_data"]),
})  # fmt: skip


# --- time -----------------------------------------------------------------------------------------------------------


@few
@given(mappings, st.sampled_from(RATES), factor)
def test_a_faster_part_never_makes_training_slower(mapping: dict[str, object], name: str, times: int) -> None:
    base = trained(**mapping)
    faster = trained(**mapping, **{name: base[name] * times})
    assert faster["step_time"] <= base["step_time"] * (1 + 1e-12)


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


@few
@given(mappings, st.sampled_from([2, 3, 8]))
def test_compute_is_linear_in_the_batch(mapping: dict[str, object], times: int) -> None:
    one, many = trained(**mapping), trained(**mapping, batch_size=256 * times)
    for name in ("compute_forward_time", "compute_backward_time", "weight_update_time", "recomputation_time"):
        assert many[name] == pytest.approx(times * one[name], rel=1e-12)
    assert many["optimizer_time"] == one["optimizer_time"]


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
    assert one["exposed_data_communication_time"] == 0
    assert trained(data_parallel_degree=2, context_parallel_degree=1)["exposed_data_communication_time"] > 0
    assert trained(data_parallel_degree=1, context_parallel_degree=2)["exposed_data_communication_time"] > 0


def test_experts_in_one_place_send_no_tokens() -> None:
    assert trained(**EXPERTS)["exposed_expert_communication_time"] > 0
    assert trained(**EXPERTS | {"expert_parallel_degree": 1})["exposed_expert_communication_time"] == 0
    assert trained()["exposed_expert_communication_time"] == 0


def test_one_accelerator_alone_only_computes() -> None:
    alone = trained(**ONE_OF_ALL)
    idle = {name: alone[name] for name in STEP_PARTS if "communication" in name or "bubble" in name}
    assert set(idle.values()) == {0.0}
    assert alone["step_time"] > 0


def test_one_stage_has_no_bubble_and_more_micro_batches_have_less() -> None:
    assert trained(pipeline_parallel_degree=1)["pipeline_bubble_time"] == 0
    bubbles = [
        trained(microbatch_size=size, exposed_tensor_communication_time=0)["pipeline_bubble_time"]
        for size in (1, 2, 4, 8)
    ]
    assert bubbles == sorted(bubbles)
    assert bubbles[1] == pytest.approx(2 * bubbles[0])


def test_virtual_stages_shorten_the_bubble_by_their_number() -> None:
    plain, interleaved = trained(), trained(virtual_pipeline_stages=4)
    assert interleaved["pipeline_bubble_time"] == pytest.approx(plain["pipeline_bubble_time"] / 4)


def test_sharing_the_weights_out_costs_half_as_much_communication_again() -> None:
    """With one micro-batch and gradients as wide as weights, 3Ψ for 2Ψ. Source: arXiv 1910.02054, section 7.2.2."""
    alike = {"gradient_precision": 16, "number_of_microbatches_per_minibatch": 1}
    times = [trained(**alike, zero_stage=stage)["exposed_data_communication_time"] for stage in range(4)]
    assert times[:3] == [times[0]] * 3
    assert times[3] == pytest.approx(1.5 * times[0])


def test_shared_out_weights_are_gathered_for_every_micro_batch() -> None:
    gathered = [trained(number_of_microbatches_per_minibatch=m, zero_stage=3)["weight_gathering_time"] for m in (1, 4)]
    assert gathered[1] == pytest.approx(4 * gathered[0])
    assert trained(zero_stage=2)["weight_gathering_time"] == 0


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


# --- memory ---------------------------------------------------------------------------------------------------------


@few
@given(mappings, st.sampled_from(["tensor_parallel_degree", "pipeline_parallel_degree"]))
def test_memory_never_grows_with_sharding(mapping: dict[str, object], kind: str) -> None:
    needed = [
        trained(**(mapping | {kind: shares}))["memory_per_accelerator_bytes"]
        for shares in (1, 2, 4, 8)
    ]  # fmt: skip
    assert needed == sorted(needed, reverse=True)


@few
@given(mappings)
def test_memory_never_grows_with_the_stage_of_zero(mapping: dict[str, object]) -> None:
    stages = [trained(**(mapping | {"zero_stage": stage})) for stage in range(4)]
    needed = [stage["memory_per_accelerator_bytes"] for stage in stages]
    assert needed == sorted(needed, reverse=True)
    replicas = stages[0]["data_parallel_degree"] * stages[0]["context_parallel_degree"]
    for since, name in ((1, "optimizer_state_bytes"), (2, "gradient_bytes"), (3, "weight_bytes")):
        expected = [stages[0][name] / (replicas if stage >= since else 1) for stage in range(4)]
        assert [stage[name] for stage in stages] == pytest.approx(expected, rel=1e-12)


def test_sequence_parallelism_and_flash_attention_keep_less() -> None:
    plain = trained()["activation_bytes"]
    assert trained(sequence_parallel=True)["activation_bytes"] < plain
    assert trained(flash_attention=True)["activation_bytes"] < plain


def test_gpipe_keeps_every_micro_batch_where_1f1b_keeps_as_many_as_stages() -> None:
    one, all_of_them = trained(), trained(pipeline_schedule="gpipe")
    count = one["number_of_microbatches_per_minibatch"]
    assert all_of_them["activation_bytes"] == pytest.approx(one["activation_bytes"] * count / 4)


@few
@given(mappings)
def test_the_largest_micro_batch_fits_and_one_more_sequence_does_not(mapping: dict[str, object]) -> None:
    told = trained(**mapping)
    largest = told["largest_microbatch_size"]
    states = told["weight_bytes"] + told["gradient_bytes"] + told["optimizer_state_bytes"]
    states += told["gathered_weight_bytes"]  # temporary, but the same for any micro-batch
    growing = told["activation_bytes"] + told["temporary_bytes"] - told["gathered_weight_bytes"]
    growing /= told["microbatch_size"]
    assert largest == int(largest)
    assert 0 <= largest <= told["minibatch_size"]
    if largest > 0:
        assert states + largest * growing <= told["memory_capacity"] * (1 + 1e-12)
    if largest < told["minibatch_size"]:
        assert states + (largest + 1) * growing > told["memory_capacity"] * (1 - 1e-12)
    assert told["fits_in_memory"] == (largest >= told["microbatch_size"])
