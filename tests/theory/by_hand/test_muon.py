"""Muon by hand: a network of two layers whose matrices one can list."""

import pytest

import amped

# Sides of the matrices: hidden 64, heads 4 of 16 (keys 2), hidden units 128 with a gate, vocabulary 1,000.
SMALL = {
    "layers": 2, "dimensionality": 64, "attention_heads": 4, "key_value_heads": 2, "head_dimension": 16,
    "feedforward_dimension": 128, "gated_mlp": True, "vocabulary_size": 1000, "context": 128, "batch_size": 8,
    "number_of_accelerators": 4, "data_parallel_degree": 4, "tensor_parallel_degree": 1, "pipeline_parallel_degree": 1,
    "microbatch_size": 1, "norm_vectors": 1, "zero_stage": 0, "positions": "rope", "tied_embeddings": False,
    "optimizer": "muon",
}  # fmt: skip
# The sides of all matrices of a layer: queries, keys, values, output, gate, up and down.
MATRICES = [(64, 64), (64, 32), (64, 32), (64, 64), (64, 128), (64, 128), (128, 64)]


def small(**changes: object) -> amped.Estimate:
    """The small network with changes, on H100."""
    return amped.estimate("default", **SMALL | changes)


def products(e: amped.Estimate) -> float:
    """The multiply-accumulates of all products of an optimizer step."""
    return sum(float(o.m * o.n * o.k * o.batch * o.count) for o in e.results.records("optimizer_operators")
               if o.kind == "batched_contraction")  # fmt: skip


def of_a_step(sides: list[tuple[int, int]]) -> float:
    """The multiply-accumulates of a Newton–Schulz step on matrices of these sides, counted by product."""
    return sum(min(s) ** 2 * max(s) + min(s) ** 3 + min(s) ** 2 * max(s) for s in sides)


def messages(e: amped.Estimate) -> dict[str, tuple[str, float, float]]:
    """Kind, bytes and number of each message of the optimizer that is sent."""
    sent = e.results.records("optimizer_collectives")
    return {c.name: (c.kind, float(c.volume), float(c.count)) for c in sent if c.count * (c.group.degree > 1) > 0}


def test_newton_schulz_multiplies_each_matrix_fifteen_times() -> None:
    assert products(small()) == pytest.approx(2 * 5 * of_a_step(MATRICES), rel=1e-12)
    assert products(small(newton_schulz_steps=1)) == pytest.approx(2 * of_a_step(MATRICES), rel=1e-12)
    assert messages(small()) == {}


def test_a_matrix_has_a_momentum_and_all_else_the_states_of_adam() -> None:
    matrices, muon, adam = 2 * sum(rows * columns for rows, columns in MATRICES), small(), small(optimizer="adam")
    others = muon["number_of_parameters"] - matrices
    assert muon["optimizer_state_bytes"] == pytest.approx(4 * (2 * matrices + 3 * others), rel=1e-12)
    assert adam["optimizer_state_bytes"] == pytest.approx(4 * 3 * (matrices + others), rel=1e-12)


def test_replicas_that_own_matrices_share_the_work_but_not_a_matrix() -> None:
    """Four replicas do a quarter each; a hundred do at least the largest matrix."""
    assert products(small(zero_stage=1)) == pytest.approx(2 * 5 * of_a_step(MATRICES) / 4, rel=1e-12)
    many = small(zero_stage=1, number_of_accelerators=128, data_parallel_degree=128, batch_size=128)
    assert products(many) == pytest.approx(5 * of_a_step([(64, 128)]), rel=1e-12)


def test_replicas_that_gather_do_all_the_work() -> None:
    e = small(zero_stage=1, muon_replicas="all")
    assert products(e) == pytest.approx(2 * 5 * of_a_step(MATRICES), rel=1e-12)
    assert messages(e)["feedforward_down_shards"] == ("all_gather", 4 * 64 * 128, 2)
    assert messages(e)["key_shards"] == ("all_gather", 4 * 64 * 32, 4), "keys and values are a matrix each"


TENSOR = {"tensor_parallel_degree": 2, "data_parallel_degree": 2, "sequence_parallel": True}


def test_each_tensor_parallel_rank_takes_its_share_as_a_matrix() -> None:
    shares = [(64, 32), (64, 16), (64, 16), (64, 32), (64, 64), (64, 64), (64, 64)]
    e = small(**TENSOR)
    assert products(e) == pytest.approx(2 * 5 * of_a_step(shares), rel=1e-12)
    assert messages(e) == {}


def test_tensor_parallel_ranks_that_duplicate_gather_each_momentum() -> None:
    e = small(**TENSOR, muon_tensor_parallel_mode="duplicated")
    assert products(e) == pytest.approx(2 * 5 * of_a_step(MATRICES), rel=1e-12)
    assert messages(e)["query_momentum"] == ("all_gather", 4 * 64 * 64, 2)
    assert sum(count for _, _, count in messages(e).values()) == 2 * 7


def test_tensor_parallel_ranks_that_work_together_add_up_the_square_product() -> None:
    """The side that is not cut is 64, for all matrices; the other one is a half."""
    e = small(**TENSOR, muon_tensor_parallel_mode="distributed")
    halves = [32, 16, 16, 32, 64, 64, 64]
    assert products(e) == pytest.approx(2 * 5 * sum(2 * 64**2 * half + 64**3 for half in halves), rel=1e-12)
    assert messages(e)["feedforward_down_gram"] == ("all_reduce", 2 * 64 * 64, 2 * 5)
    assert messages(e)["feedforward_down_norm"] == ("all_reduce", 4, 2)


def test_layer_sharding_gives_each_matrix_one_rank() -> None:
    e = small(**TENSOR, muon_tensor_parallel_mode="layer_sharded")
    assert products(e) == pytest.approx(2 * 5 * of_a_step(MATRICES) / 2, rel=1e-12)
    entries = 2 * sum(rows * columns for rows, columns in MATRICES) / 2
    assert messages(e) == {"momentum": ("all_to_all", pytest.approx(4 * entries), 2)}


def test_the_time_of_an_optimizer_step_is_that_of_its_kernels_and_messages() -> None:
    e = small(**TENSOR, muon_tensor_parallel_mode="duplicated")
    parts = sum(float(d.time * d.count) for d in e.results.records("optimizer_durations"))
    sent = sum(float(d.time * d.count) for d in e.results.records("optimizer_message_durations"))
    assert e["optimizer_time"] == pytest.approx(parts + sent + e["host_time_per_step"], rel=1e-9)
    assert sent > 0


def test_a_host_does_not_orthogonalize() -> None:
    with pytest.raises(amped.AmpedError, match="optimizer_offload"):
        small(optimizer_offload=1)


def test_moments_of_other_sizes_and_averages_of_weights() -> None:
    number = small()["number_of_parameters"]
    bytes_ = {
        "adam_8bit": 4 + 2 * (1 + 4 / 256), "lion": 4 + 4, "adafactor": 4, "sgd": 4 + 4, "lamb": 4 + 8,
    }  # fmt: skip
    kept = {name: small(optimizer=name)["optimizer_state_bytes"] for name in bytes_}
    assert kept == pytest.approx({name: number * size for name, size in bytes_.items()}, rel=1e-12)
    mixed = small(optimizer="adam", moment_precision=16, weight_averages=1)
    assert mixed["optimizer_state_bytes"] == pytest.approx(number * (4 + 2 * 2 + 4), rel=1e-12)
    assert mixed["optimizer_time"] > small(optimizer="adam", moment_precision=16)["optimizer_time"]


def test_both_matrices_of_an_adapter_are_orthogonalized_and_frozen_ones_are_not() -> None:
    """Of rank 4, beside seven projections of each of two layers: k × 4 and 4 × n."""
    sides = [pair for rows, columns in MATRICES for pair in ((rows, 4), (4, columns))]
    assert products(small(adapters="lora", adapter_rank=4)) == pytest.approx(2 * 5 * of_a_step(sides), rel=1e-12)
