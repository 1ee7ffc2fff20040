"""Block-sparse attention whose blocks of keys an indexer chooses (MSA), on paper.

A network of two layers with a width of 8, four heads of 4 and two key heads; in one layer an indexer with two heads of 3 chooses
2 blocks of 4 keys, the block of the token itself among them. A sequence has 16 tokens, on one accelerator.

Parameters of the indexer: queries 8·2·3 = 48, the key 8·3 = 24, two norms of 3: 78; no weights of heads.
Keys of a token: 8 tokens of two blocks read 1 to 8 keys, the others 4 + 1, …, 4 + 4 = 4 + 2.5 on average: like a window of 6.5.
"""

from typing import Any

import pytest

from amped.configuring.scenario import read_scenario
from amped.estimation.estimation import Estimation, estimated
from tests.helpers.formulas import sectioned

NETWORK = {
    "layers": 2, "dimensionality": 8, "attention_heads": 4, "key_value_heads": 2, "head_dimension": 4, "feedforward_dimension": 16,
    "vocabulary_size": 16, "context": 16, "batch_size": 1, "number_of_accelerators": 1, "number_of_accelerators_per_node": 1, "dropout": 0,
    "positions": "rope", "fp16_peak_flop_rate": "1 TFLOP/s", "memory_capacity": "1 GB", "memory_bandwidth": "1 TB/s",
    "activation_recomputation": "none", "flash_attention": True,
}  # fmt: skip
BLOCKS = {
    "indexer_heads": 2, "indexer_head_dimension": 3, "indexed_keys": 8, "indexed_block_tokens": 4, "indexer_head_weights": False,
    "number_of_sparse_attention_layers": 1,
}  # fmt: skip


def of(**changes: Any) -> Estimation:
    return estimated(read_scenario(sectioned(NETWORK | changes)))


def test_the_indexer_of_one_layer_has_78_parameters() -> None:
    assert of(**BLOCKS)["number_of_parameters"] - of()["number_of_parameters"] == 78


def test_a_token_reads_two_blocks_in_one_layer_and_all_keys_in_the_other() -> None:
    """136 of 256 pairs in the full layer; in the other 36 + 8·6.5 = 88, and the law of a window of 6.5 has 86.1."""
    full, exact = 136 / 256, 88 / 256
    assert of(**BLOCKS)["causal_score_fraction"] == pytest.approx((full + exact) / 2, rel=0.01)


def test_as_many_blocks_as_there_are_is_full_attention() -> None:
    assert of(**BLOCKS | {"indexed_keys": 16})["causal_score_fraction"] == of()["causal_score_fraction"]


def test_the_indexer_writes_the_largest_score_of_each_block_and_head() -> None:
    """136 pairs, and half a score of each: 2 heads, blocks of 4. The choice keeps 2 blocks for each head and token, in 4 bytes."""
    found = {o.name: o for o in of(**BLOCKS).results.records("layer_operators") if o.phase == "forward"}
    assert float(found["index_scores"].written) == pytest.approx(136 * 2 / 4 * 4)
    assert float(found["key_choice"].stash) == 16 * 2 * 2 * 4
    assert float(found["index_weights"].count) == 0
    assert float(found["index_queries"].flops * found["index_queries"].count) == 2 * 16 * 48 / 2
