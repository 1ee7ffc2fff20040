"""Attention to compressed keys (CSA and HCA), on paper.

A network of four layers with a width of 8: two heads of 4 entries, of which 2 are rotated; latent vectors of 3 (queries)
and 5 (outputs, two groups of a head each); a window of 2 tokens. A layer of each kind: one sparsely compressed (entries
of 2 tokens, 1 chosen by an indexer with 2 heads of 3), two heavily compressed (entries of 4 tokens), one with the window alone.
A sequence has 8 tokens, on one accelerator.

Parameters of each layer: queries 8·3 + 3 + 3·8 = 51, the key 8·4 + 4 = 36, outputs 8·5 + 2·5·8 = 120, a sink of each head: 2.
Entries: sparsely 4·(4·8 + 2·2 + 1) = 148, heavily 4·(2·8 + 4 + 1) = 84. Indexer: 3·2·3 = 18, weights 8·2 = 16, entries 3·37 = 111.

Pairs of 8·8 = 64: in the window 1 + 7·2 = 15. A token t (from 1) sees ⌊t / 2⌋ entries of 2 tokens: 0 1 1 2 2 3 3 4 = 16, of which it
reads one: 7; and ⌊t / 4⌋ of 4 tokens: 0 0 0 1 1 1 1 2 = 6. Averaged over the layers: 15 + 7/4 + 2·6/4 = 19.75.
"""

from typing import Any

import pytest

from amped.configuring.scenario import read_scenario
from amped.estimation.estimation import Estimation, estimated
from tests.helpers.formulas import sectioned

NETWORK = {
    "layers": 4, "dimensionality": 8, "attention_heads": 2, "key_value_heads": 1, "head_dimension": 4, "rotary_head_dimension": 2,
    "query_latent_dimension": 3, "output_latent_dimension": 5, "output_groups": 2, "attention_window": 2, "attention_sinks": True,
    "number_of_sparsely_compressed_layers": 1, "number_of_heavily_compressed_layers": 2, "sparse_compression_ratio": 2, "heavy_compression_ratio": 4,
    "indexer_heads": 2, "indexer_head_dimension": 3, "indexed_keys": 1, "feedforward_dimension": 16, "vocabulary_size": 16, "context": 8,
    "batch_size": 1, "number_of_accelerators": 1, "number_of_accelerators_per_node": 1, "dropout": 0, "positions": "rope",
    "fp16_peak_flop_rate": "1 TFLOP/s", "memory_capacity": "1 GB", "memory_bandwidth": "1 TB/s", "activation_recomputation": "none",
    "flash_attention": True,
}  # fmt: skip


def of(**changes: Any) -> Estimation:
    return estimated(read_scenario(sectioned(NETWORK | changes)))


def operators(e: Estimation) -> dict[tuple[str, str], Any]:
    return {(o.name, o.phase): o for o in e.results.records("layer_operators")}


def test_parameters() -> None:
    layers = 4 * (51 + 36 + 120 + 2) + 148 + 2 * 84 + 18 + 16 + 111
    # norms of two vectors, before both blocks and at the end; a feed-forward network without biases; tied embeddings
    rest = 4 * (2 * 2 * 8 + 2 * 8 * 16) + 2 * 8 + 16 * 8
    assert of()["number_of_parameters"] == layers + rest


def test_pairs() -> None:
    e = of()
    assert e["causal_score_fraction"] == pytest.approx(19.75 / 64)
    assert e["all_score_fraction"] == pytest.approx(16 / 64)
    assert e["indexer_loss_score_fraction"] == pytest.approx(7 / 64)


def test_flops_of_a_layer() -> None:
    """Forward: two for each product of 8 tokens; a share of the layers has entries; scores and values of 2 heads of 4."""
    found = {name: float(o.flops * o.count) for (name, phase), o in operators(of()).items() if phase == "forward"}
    assert found["query_down"] == 2 * 8 * 24
    assert found["query_up"] == 2 * 8 * 24
    assert found["key_value"] == 2 * 8 * 32
    assert found["sparse_compressor"] == 2 * 8 * 8 * 16 / 4
    assert found["heavy_compressor"] == 2 * 8 * 8 * 8 * 2 / 4
    assert found["output_down"] == 2 * 8 * 8 * 5
    assert found["attention_output"] == 2 * 8 * 80
    assert found["index_queries"] == 2 * 8 * 18 / 4
    assert found["index_key"] == 2 * 8 * 8 * 12 / 4
    assert found["index_scores"] == pytest.approx(2 * 16 * 2 * 3 / 4)
    assert found["fused_attention"] == pytest.approx(2 * 19.75 * 2 * (4 + 4))


def test_the_model_flops_are_those_of_all_products() -> None:
    """Three passes of the products of attention; two of the indexer's, and of its scores one and two of the chosen."""
    e = of(attention_flop_convention="causal")
    always = 8 * (24 + 24 + 32 + 40 + 80) + 19.75 * 2 * 8
    sparse, heavy = 8 * (8 * 16), 8 * (8 * 8)
    indexer = 2 * 8 * (18 + 8 * 12 + 16) + 16 * 6 + 2 * 7 * 6
    network = 4 * 8 * (2 * 8 * 16) + 8 * 16 * 8
    by_hand = 3 * (4 * always + sparse + 2 * heavy + network) + indexer
    assert e["model_flops_per_accelerator"] == pytest.approx(2 * by_hand)


@pytest.mark.parametrize("changes", [{"attention_window": 8}, {"attention_window": 100}, {"attention_window": 0}])
def test_a_window_as_long_as_the_context_without_entries_is_full_attention(changes: dict[str, Any]) -> None:
    none = {"number_of_sparsely_compressed_layers": 0, "number_of_heavily_compressed_layers": 0}
    assert of(**changes, **none)["causal_score_fraction"] == pytest.approx((8 + 1) / 2 / 8)


def test_as_many_chosen_as_there_are_entries_is_all_entries() -> None:
    """16 pairs of tokens and entries of 2 in place of 7."""
    assert (
        of(indexed_keys=4)["causal_score_fraction"]
        == of(indexed_keys=99)["causal_score_fraction"]
        == pytest.approx((15 + 16 / 4 + 3) / 64)
    )


def test_tensor_parallelism_splits_heads_and_groups() -> None:
    split = operators(of(tensor_parallel_degree=2, number_of_accelerators=2, number_of_accelerators_per_node=2))
    whole = operators(of())
    for name, share in (("query_up", 2), ("output_down", 2), ("attention_output", 2), ("key_value", 1), ("sparse_compressor", 1), ("index_queries", 1)):  # fmt: skip
        assert float(whole[name, "forward"].flops) == share * float(split[name, "forward"].flops)


def test_keys_are_sent_once_for_all_heads() -> None:
    """4 entries of 2 bytes for each of 8 tokens, and a share of the layers has one for 2 or for 4 tokens."""
    assert of()["key_bytes"] == 8 * 4 * 2 * (1 + 1 / 4 / 2 + 2 / 4 / 4)
    assert of()["value_bytes"] == 0
