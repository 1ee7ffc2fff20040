"""What any model of memory must do: sharing never needs more, what does not fit is told, the rest has room."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import amped
from tests.helpers.physics import LAYERS, few, mappings, trained
from tests.helpers.stages import of_stage, working_bytes


@pytest.mark.thorough
@few
@given(mappings, st.sampled_from(["tensor_parallel_degree", "pipeline_parallel_degree"]))
def test_memory_never_grows_with_sharding(mapping: dict[str, object], kind: str) -> None:
    """Dropout aside: the first of more stages keeps the embedding's mask of more micro-batches."""
    dropout = 0 if kind == "pipeline_parallel_degree" else 0.1
    needed = [
        trained(**(mapping | {kind: shares}), dropout=dropout)["memory_per_accelerator_bytes"]
        for shares in (1, 2, 4, 8)
    ]  # fmt: skip
    assert needed == sorted(needed, reverse=True)


def test_more_stages_keep_more_masks_of_the_embedding_and_as_much_of_the_layers() -> None:
    own = {"data_parallel_degree": 1, "tensor_parallel_degree": 1}
    told = [trained(**own, pipeline_parallel_degree=stages) for stages in (2, 4, 8)]
    mask = told[0]["embedding_activation_bytes"]
    assert mask == told[0]["microbatch_tokens"] * 4096
    layers = [of_stage(e, "first", "activation_bytes") - p * mask for e, p in zip(told, (2, 4, 8), strict=True)]
    assert layers == [LAYERS * told[0]["kept_activation_bytes_per_layer"]] * 3


@pytest.mark.thorough
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
    """On the first stage 4 of them, behind it 3, on the last 1; with the head's inputs and logits, all as well."""
    one, all_of_them = trained(), trained(pipeline_schedule="gpipe")
    count = one["number_of_microbatches_per_minibatch"]
    for stage, held in (("first", 4), ("middle", 3), ("last", 1)):
        kept = of_stage(one, stage, "activation_bytes")
        assert of_stage(all_of_them, stage, "activation_bytes") == pytest.approx(kept * count / held)


def needed(told: amped.Estimate, sequences: float) -> list[float]:
    """Bytes of the first stage, of one between, and of the last with micro-batches of so many sequences."""
    stages = ("first", "middle", "last") if told["pipeline_parallel_degree"] > 2 else ("first", "last")
    fixed = [of_stage(told, stage, "state_bytes") + told["gathered_weight_bytes"] for stage in stages]
    growing = [of_stage(told, s, "activation_bytes") + working_bytes(told, s == "last") for s in stages]
    return [own + sequences / told["microbatch_size"] * more for own, more in zip(fixed, growing, strict=True)]


@few
@given(mappings)
def test_the_fullest_stage_is_the_one_that_is_told(mapping: dict[str, object]) -> None:
    told = trained(**mapping)
    assert told["memory_per_accelerator_bytes"] == pytest.approx(max(needed(told, told["microbatch_size"])), rel=1e-12)


@few
@given(mappings)
def test_the_largest_micro_batch_fits_and_one_more_sequence_does_not(mapping: dict[str, object]) -> None:
    told = trained(**mapping)
    largest, capacity = told["largest_microbatch_size"], told["memory_capacity"] - told["reserved_memory_bytes"]
    assert largest == int(largest)
    assert 0 <= largest <= told["minibatch_size"]
    if largest > 0:
        assert max(needed(told, largest)) <= capacity * (1 + 1e-12)
    if largest < told["minibatch_size"]:
        assert max(needed(told, largest + 1)) > capacity * (1 - 1e-12)
    assert told["fits_in_memory"] == (largest >= told["microbatch_size"])


@pytest.mark.thorough
@few
@given(mappings, st.sampled_from([0, 1e9, 5e9]))
def test_what_is_needed_fits_where_as_much_is_left_and_nowhere_else(
    mapping: dict[str, object], reserved: float
) -> None:
    own = {"reserved_memory_bytes": reserved}
    capacity = trained(**mapping)["memory_per_accelerator_bytes"] + reserved
    assert trained(**mapping, **own, memory_capacity=capacity)["fits_in_memory"] == 1
    assert trained(**mapping, **own, memory_capacity=capacity - 1)["fits_in_memory"] == 0


# --- what is kept ---------------------------------------------------------------------------------------------------

POLICIES = ("in_place_norm", "in_place_activation", "dropout_recomputation", "activation_function_recomputation",
            "norm_recomputation")  # fmt: skip


@pytest.mark.parametrize("policy", POLICIES)
def test_a_policy_keeps_less_of_each_layer(policy: str) -> None:
    plain, frugal = trained(), trained(**{policy: True})
    assert frugal["activation_bytes"] < plain["activation_bytes"]
    assert frugal["step_time"] >= plain["step_time"]


def test_fewer_layers_at_the_ends_make_room_for_their_embedding_and_head() -> None:
    """A large vocabulary fills the last stage; with layers taken from it, another is the fullest."""
    own = {"vocabulary_size": 512_000, "batch_size": 8, "number_of_microbatches_per_minibatch": 2, "dropout": 0}
    even = trained(**own)
    uneven = trained(**own, number_of_first_stage_layers=3, number_of_last_stage_layers=3)
    assert even.fullest_stage == "last"
    assert uneven["middle_stage_layers"] == 5
    assert of_stage(uneven, "last", "state_bytes") < of_stage(even, "last", "state_bytes")
    assert uneven["memory_per_accelerator_bytes"] < even["memory_per_accelerator_bytes"]


def test_states_shared_in_smaller_groups_take_more_memory() -> None:
    """Stage 3 in groups of 1, 2, 4 and all 8 replicas: as many bytes as there are shares fewer."""
    told = [trained(zero_stage=3, sharding_degree=group) for group in (1, 2, 4, 8)]
    for name in ("weight_bytes", "gradient_bytes", "optimizer_state_bytes"):
        assert [each[name] for each in told] == pytest.approx([told[0][name] / n for n in (1, 2, 4, 8)], rel=1e-12)
