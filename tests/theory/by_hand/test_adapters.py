"""Adapters in a small world, worked out by hand: parameters, FLOPs, traffic, what is kept, sent and updated."""

from typing import Any

import pytest

import amped

D, LAYERS, WORDS, TOKENS, RANK = 256, 4, 1000, 128, 8
SMALL: dict[str, Any] = {
    "dimensionality": D, "layers": LAYERS, "attention_heads": 4, "head_dimension": 64, "feedforward_dimension": 4 * D, "vocabulary_size": WORDS,
    "context": TOKENS, "microbatch_size": 1, "batch_size": 2048, "tensor_parallel_degree": 2, "pipeline_parallel_degree": 1, "zero_stage": 1,
    "activation_recomputation": "none", "sequence_parallel": False, "norm_recomputation": False, "gated_mlp": False,
}  # fmt: skip
ONLY_ATTENTION = {"gate_adapters": False, "up_adapters": False, "down_adapters": False}


def adapted(**overrides: Any) -> amped.Estimate:
    return amped.estimate(
        "default", **SMALL | {"adapters": "lora", "adapter_rank": RANK, "joint_adapters": True} | overrides
    )


def operators(e: amped.Estimate, name: str) -> dict[str, Any]:
    return {o.phase: o for o in e.results.records("layer_operators") if o.name == name}


def volumes(e: amped.Estimate) -> dict[str, float]:
    sent = [c for c in e.results.records("sharding_collectives") if c.count > 0]
    return {c.name: float(c.volume) for c in sent if c.name != "gradient_copies"}


@pytest.mark.parametrize(
    ("switches", "widths"),
    [
        # One adapter for queries, keys and values: d + 3d; one for the output: d + d.
        (ONLY_ATTENTION, (D + 3 * D) + (D + D)),
        # An adapter for each of queries, keys and values.
        (ONLY_ATTENTION | {"joint_adapters": False}, 3 * (D + D) + (D + D)),
        # Queries and values only, as PEFT's default for Llama.
        (
            ONLY_ATTENTION | {"joint_adapters": False, "key_adapters": False, "attention_output_adapters": False},
            2 * (D + D),
        ),
        # The network too: d + 4d up and 4d + d down.
        ({}, (D + 3 * D) + (D + D) + 2 * (D + 4 * D)),
    ],
)
def test_an_adapter_has_its_rank_times_both_widths_of_its_product(switches: dict[str, Any], widths: int) -> None:
    e = adapted(**switches)
    assert e["trained_parameters"] == LAYERS * RANK * widths
    assert e["trained_parameters"] == adapted(**switches, tensor_parallel_degree=1)["trained_parameters"]


def test_adapters_are_all_that_is_sent_and_updated() -> None:
    e = adapted()
    own = e["trained_parameters"] / 2
    assert e["updated_parameters"] * e["sharding_degree"] == pytest.approx(own, rel=1e-12)
    assert volumes(e) == pytest.approx(
        {"gradients": own * e["gradient_precision"], "weights": own * e["weight_precision"]}
    )


def test_frozen_products_have_no_weight_gradient_and_keep_nothing() -> None:
    e = adapted(tensor_parallel_degree=1)
    frozen = operators(e, "query_key_value")
    assert set(frozen) == {"forward", "input_gradient"}
    assert frozen["forward"].stash == 0
    down, up = (operators(e, f"query_key_value_adapter_{way}") for way in ("down", "up"))
    assert set(down) == set(up) == {"forward", "input_gradient", "weight_gradient"}
    # The down projection keeps its input in 16 bits, the up projection its own of the width of the rank.
    assert down["forward"].stash == TOKENS * D * 2
    assert up["forward"].stash == TOKENS * RANK * 2


def test_adapters_of_one_input_keep_it_once_and_each_with_its_mask_if_dropout_changes_it() -> None:
    def kept(**overrides: Any) -> float:
        e = adapted(tensor_parallel_degree=1, joint_adapters=False, **overrides)
        return sum(operators(e, f"{name}_adapter_down")["forward"].stash for name in ("query", "key", "value"))

    assert kept() == TOKENS * D * 2
    assert kept(adapter_dropout=0.1) == 3 * TOKENS * D * (2 + 1)


def test_the_flops_of_the_model_are_two_passes_of_frozen_products_and_three_of_adapters() -> None:
    e, whole = adapted(tensor_parallel_degree=1), amped.estimate("default", **SMALL | {"tensor_parallel_degree": 1})
    parts = ("layer", "attention", "output_head")
    layers, scores, head = (whole[f"{p}_multiply_accumulates"] * whole["flops_per_multiply_accumulate"] for p in parts)
    micro_batches = whole["number_of_microbatches_per_minibatch"]
    own = 2 * TOKENS * e["trained_parameters"] * micro_batches
    assert e["model_flops_per_accelerator"] == pytest.approx(
        2 * (layers - scores + head) + 3 * (scores + own), rel=1e-12
    )


def test_trained_ends_have_gradients_and_states_too() -> None:
    ends = 2 * WORDS * D if not amped.estimate("default", **SMALL)["tied_embeddings"] else WORDS * D
    e, both = adapted(), adapted(trained_ends="both")
    assert both["trained_parameters"] - e["trained_parameters"] >= ends
    assert both["optimizer_state_bytes"] > e["optimizer_state_bytes"]


@pytest.mark.parametrize(("form", "bits"), [("nf4", 4 + 32 / 64), ("nf4_double", 4 + 8 / 64 + 32 / (64 * 256))])
def test_frozen_weights_of_four_bits_have_the_bytes_of_bitsandbytes(form: str, bits: float) -> None:
    """Source: bitsandbytes, functional.py (quantize_4bit): half a byte each, and a scale of 4 bytes for each 64."""
    e = adapted(frozen_weight_format=form, tensor_parallel_degree=1)
    matrices = LAYERS * 12 * D * D
    others = e["number_of_parameters"] - matrices + e["trained_parameters"]
    assert e["weight_bytes"] == pytest.approx(matrices * bits / 8 + others * 2, rel=1e-12)
    widened = operators(e, "query_key_value_widening")
    assert {phase: o.read for phase, o in widened.items()} == pytest.approx(
        dict.fromkeys(("forward", "input_gradient"), 3 * D * D * bits / 8)
    )
    assert {o.written for o in widened.values()} == {3 * D * D * 2}


def test_dora_trains_a_length_for_each_row_beside_the_adapter() -> None:
    e, lora = adapted(adapters="dora", tensor_parallel_degree=1), adapted(tensor_parallel_degree=1)
    assert e["trained_parameters"] - lora["trained_parameters"] == LAYERS * (3 * D + D + 4 * D + D)
    assert e["step_time"] > lora["step_time"]


def test_a_higher_rank_is_never_faster_and_a_frozen_base_never_larger() -> None:
    times = [adapted(adapter_rank=rank)["step_time"] for rank in (1, 8, 64, 512)]
    assert times == sorted(times)
    assert (
        adapted()["memory_per_accelerator_bytes"] < amped.estimate("default", **SMALL)["memory_per_accelerator_bytes"]
    )


EXPERTS, WIDTH, CHOSEN = 8, 512, 2
MIXTURE: dict[str, Any] = SMALL | {
    "number_of_experts": EXPERTS, "experts_per_token": CHOSEN, "number_of_MoE_layers": LAYERS, "number_of_shared_experts": 0,
    "expert_feedforward_dimension": WIDTH, "gated_mlp": True, "tensor_parallel_degree": 1, "number_of_accelerators": 8,
    "batch_size": 64, "expert_parallel_degree": 4,
}  # fmt: skip
# An adapter beside the gate and the up projection together, and one beside the down projection.
OF_AN_EXPERT = RANK * ((D + 2 * WIDTH) + (WIDTH + D))


def mixed(expert_adapters: str, **overrides: Any) -> amped.Estimate:
    return adapted(**MIXTURE | {"expert_adapters": expert_adapters} | overrides)


@pytest.mark.parametrize(("sharing", "adapters"), [("none", 0), ("shared", 4), ("each", EXPERTS)])
def test_experts_have_an_adapter_each_or_one_for_all_of_an_accelerator(sharing: str, adapters: int) -> None:
    """Four accelerators hold two experts each. Source: Megatron-Bridge, docs/training/peft.md (share_expert_adapters)."""
    e, without = mixed(sharing), mixed("none")
    own = LAYERS * adapters * OF_AN_EXPERT
    assert e["trained_parameters"] - without["trained_parameters"] == own
    # Both replicas of an expert exchange the gradients of its adapters; other accelerators have other adapters.
    sent = {c.kind: c for c in e.results.records("expert_sharding_collectives") if c.count > 0}
    assert sent["reduce_scatter"].volume == own / 4 * e["gradient_precision"]
    assert sent["all_gather"].volume == own / 4 * e["weight_precision"]
    assert sent["all_gather"].group.degree == 2
    assert e["updated_parameters"] - without["updated_parameters"] == own / 4 / 2


def test_all_rows_of_an_accelerator_pass_its_adapters_and_frozen_experts_have_no_weight_gradient() -> None:
    rows = TOKENS * CHOSEN
    for sharing, groups in (("shared", 1), ("each", 2)):
        e = mixed(sharing)
        down, up = (operators(e, f"experts_gate_and_up_adapter_{way}")["forward"] for way in ("down", "up"))
        assert [float(n) for n in (down.m, down.n, down.k, down.batch)] == [rows / groups, RANK, D, groups]
        assert [float(n) for n in (up.m, up.n, up.k, up.batch)] == [rows / groups, 2 * WIDTH, RANK, groups]
        assert (down.stash, up.stash) == (rows * D * 2, rows * RANK * 2)
        assert set(operators(e, "experts_up")) == {"forward", "input_gradient"}


def test_expert_tensor_parallelism_splits_the_adapters_of_experts() -> None:
    e, split = mixed("each"), mixed("each", expert_tensor_parallel_degree=2, tensor_parallel_degree=2)
    assert split["trained_parameters"] == e["trained_parameters"]
    gathers = [c for c in split.results.records("adapter_collectives") if c.name.startswith("experts_") and c.count > 0]
    assert {c.group.degree for c in gathers} == {2}


def test_shared_experts_are_adapted_like_a_dense_network() -> None:
    shared = {"number_of_shared_experts": 1}
    without, e = (mixed(sharing, **shared) for sharing in ("none", "shared"))
    assert e["trained_parameters"] - without["trained_parameters"] == LAYERS * (4 + 1) * OF_AN_EXPERT
