"""Shampoo and SOAP by hand: a network of two layers whose matrices one can list."""

import pytest

import amped

# Sides of the matrices: hidden 64, heads 4 of 16 (keys 2), hidden units 128 with a gate, vocabulary 1,000.
SMALL = {
    "layers": 2, "dimensionality": 64, "attention_heads": 4, "key_value_heads": 2, "head_dimension": 16,
    "feedforward_dimension": 128, "gated_mlp": True, "vocabulary_size": 1000, "context": 128, "batch_size": 8,
    "number_of_accelerators": 4, "data_parallel_degree": 4, "tensor_parallel_degree": 1, "pipeline_parallel_degree": 1,
    "microbatch_size": 1, "norm_vectors": 1, "zero_stage": 0, "positions": "rope", "tied_embeddings": False,
}  # fmt: skip
# The sides of all matrices of a layer: queries, keys, values, output, gate, up and down.
MATRICES = [(64, 64), (64, 32), (64, 32), (64, 64), (64, 128), (64, 128), (128, 64)]


def small(optimizer: str, **changes: object) -> amped.Estimate:
    return amped.estimate("default", **SMALL | {"optimizer": optimizer} | changes)


def products(e: amped.Estimate, kernel: str) -> float:
    """The multiply-accumulates of the products of a kind in an optimizer step, or the number of decompositions."""
    found = [o for o in e.results.records("optimizer_operators") if o.name.endswith(f"_{kernel}")]
    return sum(float(o.m * o.n * o.k * o.count) for o in found)


def test_soap_keeps_two_squares_for_each_side_beside_the_moments_of_adam() -> None:
    """Source: arXiv 2409.11321, section 7.2: 2·m² + 2·n² + 2·m·n."""
    squares = 2 * sum(2 * (m * m + n * n) for m, n in MATRICES)
    soap, adam = small("soap"), small("adam")
    assert soap["optimizer_state_bytes"] - adam["optimizer_state_bytes"] == pytest.approx(4 * squares, rel=1e-12)


def test_soap_multiplies_a_gradient_four_times_on_each_side_and_refreshes_every_tenth_step() -> None:
    e = small("soap")
    assert products(e, "factor") == pytest.approx(2 * sum(4 * m * n * (m + n) for m, n in MATRICES), rel=1e-12)
    cubes = 2 * sum(m**3 + n**3 for m, n in MATRICES)
    assert products(e, "refresh") == pytest.approx(3 * cubes / 10, rel=1e-12)
    assert products(e, "decomposition") == pytest.approx(cubes / 10, rel=1e-12)
    assert products(small("soap", preconditioner_refresh_steps=1), "refresh") == pytest.approx(3 * cubes, rel=1e-12)


def test_a_side_that_is_too_long_is_left_as_it_is() -> None:
    e = small("soap", largest_preconditioner_side=64)
    pairs = [(s, m * n // s) for m, n in MATRICES for s in (m, n) if s <= 64]
    assert products(e, "factor") == pytest.approx(2 * sum(4 * s * s * other for s, other in pairs), rel=1e-12)


def test_shampoo_cuts_matrices_into_blocks() -> None:
    """Blocks of 32 × 32: a 64 × 128 matrix has eight, each with two factors and two roots of 32 × 32."""
    blocks = 2 * sum(m // 32 * (n // 32) for m, n in MATRICES)
    e, adam = small("shampoo", largest_preconditioner_side=32), small("adam")
    extra = e["optimizer_state_bytes"] - adam["optimizer_state_bytes"]
    assert extra == pytest.approx(4 * blocks * 2 * 2 * 32 * 32, rel=1e-12)
    assert products(e, "factor") == pytest.approx(blocks * 2 * 2 * 32**3, rel=1e-12)
    assert products(e, "refresh") == pytest.approx(blocks * 2 * 32**3 / 10, rel=1e-12)


def test_replicas_that_shard_states_share_the_work() -> None:
    whole, shared = small("soap"), small("soap", zero_stage=1)
    assert products(shared, "factor") == pytest.approx(products(whole, "factor") / 4, rel=1e-12)
    assert shared["optimizer_state_bytes"] == pytest.approx(whole["optimizer_state_bytes"] / 4, rel=1e-12)


def test_a_refresh_more_often_is_never_faster_and_adam_is_the_fastest() -> None:
    for name in ("soap", "shampoo"):
        times = [small(name, preconditioner_refresh_steps=f)["optimizer_time"] for f in (100, 10, 1)]
        assert times == sorted(times)
        assert small("adam")["optimizer_time"] < times[0]


@pytest.mark.parametrize("name", ["soap", "shampoo"])
def test_states_are_not_offloaded(name: str) -> None:
    with pytest.raises(amped.AmpedError, match="optimizer_offload"):
        small(name, optimizer_offload=1)
