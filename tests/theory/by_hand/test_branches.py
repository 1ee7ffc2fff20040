"""Small products beside the blocks of a layer, keys that layers share, and maps of scores that are subtracted, on paper.

A network of 2 layers and a width of 16: 4 heads of 4 entries, 2 key heads, feed-forward networks of 32 with a gate, RMS
norms. Projections of a layer: 16·4·(4 + 2·2) + 16·16 = 768 weights. A sequence has 8 tokens.
"""

from typing import Any

import pytest

from amped.base.errors import AmpedError
from amped.configuring.scenario import read_scenario
from amped.estimation.estimation import Estimation, estimated
from tests.helpers.formulas import sectioned

NETWORK = {
    "layers": 2, "dimensionality": 16, "attention_heads": 4, "key_value_heads": 2, "feedforward_dimension": 32, "gated_mlp": True,
    "vocabulary_size": 16, "context": 8, "batch_size": 2, "microbatch_size": 1, "number_of_accelerators": 1,
    "number_of_accelerators_per_node": 2, "dropout": 0, "positions": "rope", "frequency": "1 GHz", "number_of_cores": 64,
    "fp16_peak_flop_rate": "1 TFLOP/s", "memory_capacity": "1 GB", "memory_bandwidth": "1 TB/s", "activation_recomputation": "none",
    "norm_vectors": 1, "inter_accelerator_bandwidth": "100 GB/s", "flash_attention": True,
}  # fmt: skip
# A gate of the rank 3 in both layers: 2·(16·3 + 3·16) = 192 weights; a norm and a product: 4·16 entries in each layer.
GATES = {"branch_weights": 192, "branch_values": 128}


def of(**changes: Any) -> Estimation:
    return estimated(read_scenario(sectioned(NETWORK | changes)))


def operators(e: Estimation) -> dict[tuple[str, str], Any]:
    return {(o.name, o.phase): o for o in e.results.records("layer_operators")}


def test_weights_of_branches_are_parameters_and_products() -> None:
    plain, gated = of(), of(**GATES)
    assert gated["number_of_parameters"] == plain["number_of_parameters"] + 192
    product = operators(gated)["branches", "forward"]
    # 96 weights of a layer, 8 tokens, two operations; the product reads what the projections keep
    assert (product.flops, product.stash) == (2 * 8 * 96, 0)
    # Forward and twice as much backward, of 2 micro-batches and 2 layers.
    assert gated["model_flops_per_accelerator"] == plain["model_flops_per_accelerator"] + 3 * 2 * 2 * (2 * 8 * 96)


def test_values_of_branches_are_read_and_written() -> None:
    """Forward 32 of 64 entries of a token are read and 32 written; backward 64 are read and 32 written. Two bytes each."""
    found = operators(of(**GATES))
    forward, backward = found["branch_values", "forward"], found["branch_values", "input_gradient"]
    assert (forward.read, forward.written, forward.stash) == (8 * 32 * 2,) * 3
    assert (backward.read, backward.written) == (8 * 64 * 2, 8 * 32 * 2)


def test_branches_without_weights_have_no_product() -> None:
    found = operators(of(branch_weights=0, branch_values=128))
    assert float(found["branches", "forward"].count) == 0
    assert found["branch_values", "forward"].read == 8 * 32 * 2
    assert ("branches", "forward") not in operators(of())


def test_tensor_parallelism_splits_branches() -> None:
    half = operators(of(**GATES, tensor_parallel_degree=2, number_of_accelerators=2))
    assert half["branches", "forward"].flops == 8 * 96
    assert half["branch_values", "forward"].read == 8 * 16 * 2


def test_tables_are_on_the_stage_of_the_embedding() -> None:
    plain, tables = of(), of(further_tables=1000)
    assert tables["number_of_parameters"] == plain["number_of_parameters"] + 1000
    assert tables["embedding_parameters"] == plain["embedding_parameters"] + 1000


def test_a_layer_that_reads_the_keys_of_another_projects_queries_alone() -> None:
    """One of two layers has no keys and values: 16·2·2·4 = 256 weights less, and 4 of its norm of keys."""
    plain, shared = of(query_key_norm=True), of(query_key_norm=True, shared_key_value_layers=1)
    assert plain["number_of_parameters"] - shared["number_of_parameters"] == 256 + 4
    # On average 4 + 2 heads are projected, of 4 + 4.
    assert operators(shared)["query_key_value", "forward"].flops == 2 * 8 * 16 * 4 * 6
    assert operators(shared)["fused_attention", "forward"].flops == operators(plain)["fused_attention", "forward"].flops


def test_some_layer_projects_the_keys() -> None:
    with pytest.raises(AmpedError, match="shared_key_value_layers"):
        of(shared_key_value_layers=2)


def test_maps_that_are_subtracted_weight_values_of_two_heads() -> None:
    """Scores of 4 heads take 2·8·8·4 operations each; their values are 8 wide and take twice that."""
    plain, differential = (operators(of(flash_attention=False, differential_attention=on)) for on in (False, True))
    assert differential["attention_scores", "forward"].flops == plain["attention_scores", "forward"].flops == 4 * 512
    assert differential["attention_values", "forward"].flops == 2 * plain["attention_values", "forward"].flops


def test_gates_of_full_rank_have_one_projection() -> None:
    """2 heads of keys and of values, 8 wide: with a rank of 8 four matrices of 16·8; else two of 16·16."""
    kimi = {
        "linear_attention_kind": "kimi_delta_attention", "number_of_linear_attention_layers": 1, "number_of_attention_layers": 1,
        "linear_key_heads": 2, "linear_value_heads": 2, "linear_key_head_dimension": 8, "linear_value_head_dimension": 8,
    }  # fmt: skip
    narrow, whole = of(**kimi), of(**kimi, linear_gate_rank=0)
    assert narrow["number_of_parameters"] == whole["number_of_parameters"]  # 4·16·8 = 2·16·16
    thin = of(**kimi, linear_gate_rank=4)
    assert whole["number_of_parameters"] - thin["number_of_parameters"] == 256
    assert operators(whole)["linear_decay_down", "forward"].flops == 2 * 8 * 16 * 16
    assert float(operators(whole)["linear_decay_up", "forward"].count) == 0
    assert whole["model_flops_per_accelerator"] == narrow["model_flops_per_accelerator"]


# The second layer has no window, heads of 8 instead of 4 entries, and 4 key heads instead of 2.
WIDER = {
    "attention_window": 4, "number_of_windowed_layers": 1, "head_dimension": 4, "full_attention_head_dimension": 8,
    "full_attention_key_value_heads": 4,
}  # fmt: skip


def test_wider_heads_of_layers_without_a_window_are_parameters() -> None:
    """Queries 16·(32 - 16), keys and values 2·16·(32 - 8), output 16·(32 - 16): 1,280 weights; norms 2·(8 - 4)."""
    plain = of(query_key_norm=True, attention_window=4, number_of_windowed_layers=1, head_dimension=4)
    assert of(query_key_norm=True, **WIDER)["number_of_parameters"] == plain["number_of_parameters"] + 1280 + 8


def test_scores_of_wider_heads_are_those_of_layers_without_a_window() -> None:
    """4 heads, 8 tokens, 36 of 64 scores of the mask: 4 more entries take 2·4·36·4 operations for scores, as many for values.

    An average layer has half of it; backward there are 5 products instead of 2. Tensors of 8·4·2 entries are moved.
    """
    found = operators(of(**WIDER))
    forward, backward = found["wider_heads", "forward"], found["wider_heads", "input_gradient"]
    assert (float(forward.count), float(backward.count)) == (2, 5)  # products
    assert forward.flops == backward.flops == pytest.approx(2 * 4 * 36 * 4 / 2)
    assert (2 * forward.read, 2 * forward.written, 2 * forward.stash) == (3 * 128, 128, 3 * 128)
    whole = operators(of(**WIDER, flash_attention=False))["wider_heads", "forward"]
    assert whole.flops == 2 * 4 * 64 * 4 / 2  # all scores are computed, and masked


def test_heads_without_a_window_are_no_narrower() -> None:
    with pytest.raises(AmpedError, match="full_attention_head_dimension"):
        of(**WIDER | {"full_attention_head_dimension": 2})
