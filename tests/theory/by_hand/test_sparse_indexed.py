"""An indexer that chooses keys (DSA), on paper.

A network of two layers, a width of 8, two heads of 3 + 1 entries with values of 2, latent vectors of 4 (queries) and 5 (keys
and values); the indexer has 2 heads of 3 entries and chooses 2 keys. A sequence has 4 tokens, on one accelerator.

Parameters of an indexer: queries 4·2·3 = 24, the key 8·3 = 24, weights 8·2 = 16, a layer norm 2·3 = 6: 70.
Pairs: tokens read 1 + 2 + 3 + 4 = 10 of 16 pairs; of the chosen keys 1 + 2 + 2 + 2 = 7.
"""

from typing import Any

import pytest

from amped.configuring.scenario import read_scenario
from amped.estimation.estimation import Estimation, estimated
from tests.helpers.formulas import sectioned

NETWORK = {
    "layers": 2, "dimensionality": 8, "attention_heads": 2, "head_dimension": 4, "value_head_dimension": 2, "rotary_head_dimension": 1,
    "query_latent_dimension": 4, "key_value_latent_dimension": 5, "feedforward_dimension": 16, "vocabulary_size": 16, "context": 4,
    "batch_size": 1, "number_of_accelerators": 1, "number_of_accelerators_per_node": 1, "dropout": 0, "positions": "rope",
    "fp16_peak_flop_rate": "1 TFLOP/s", "memory_capacity": "1 GB", "memory_bandwidth": "1 TB/s", "activation_recomputation": "none",
    "flash_attention": True, "absorbed_latent_attention": True,
}  # fmt: skip
INDEXER = {"indexer_heads": 2, "indexer_head_dimension": 3, "indexed_keys": 2}


def of(**changes: Any) -> Estimation:
    return estimated(read_scenario(sectioned(NETWORK | changes)))


def flops(e: Estimation) -> dict[tuple[str, str], float]:
    """The flops of the indexer's operators in a layer, by name and pass."""
    operators = e.results.records("layer_operators")
    return {(o.name, o.phase): float(o.flops * o.count) for o in operators if o.name.startswith("index_")}


def test_an_indexer_has_70_parameters_in_each_layer() -> None:
    plain = of()["number_of_parameters"]
    assert of(**INDEXER)["number_of_parameters"] == plain + 2 * 70
    assert of(**INDEXER, number_of_indexer_layers=1)["number_of_parameters"] == plain + 70


def test_products_of_the_indexer() -> None:
    """Forward: 4 tokens by the weights; 10 pairs of 2 heads of 3; the target has 7 pairs of 2 absorbed heads of 5 + 1."""
    found = flops(of(**INDEXER))
    assert found["index_queries", "forward"] == found["index_queries", "weight_gradient"] == 2 * 4 * 24
    assert (found["index_key", "forward"], found["index_weights", "forward"]) == (2 * 4 * 24, 2 * 4 * 16)
    assert found["index_scores", "forward"] == 2 * 10 * 2 * 3
    # the scores again and two gradients, of the 7 chosen pairs
    assert found["index_scores", "input_gradient"] == pytest.approx(3 * 2 * 7 * 2 * 3)
    assert found["index_target", "forward"] == pytest.approx(2 * 7 * 2 * 6)
    assert ("index_queries", "input_gradient") not in found


def test_an_indexer_that_does_not_learn_has_a_forward_pass_alone() -> None:
    found = flops(of(**INDEXER, indexer_loss="none"))
    assert sum(value for (name, phase), value in found.items() if phase != "forward" or name == "index_target") == 0


def test_attention_reads_the_chosen_keys_or_masks_all() -> None:
    """7 of 16 pairs, if latent vectors are read; else all 10 are computed, and those of other keys masked."""
    assert of(**INDEXER)["causal_score_fraction"] == pytest.approx(7 / 16)
    assert of(**INDEXER, absorbed_latent_attention=False)["causal_score_fraction"] == pytest.approx(10 / 16)


@pytest.mark.parametrize("absorbed", [True, False])
@pytest.mark.parametrize("keys", [4, 100])
def test_as_many_keys_as_tokens_are_dense_attention_and_its_indexer(keys: int, absorbed: bool) -> None:
    dense, sparse = (of(absorbed_latent_attention=absorbed, **more) for more in ({}, INDEXER | {"indexed_keys": keys}))
    assert sparse["causal_score_fraction"] == dense["causal_score_fraction"]
    plain, more = ({(o.name, o.phase): o for o in e.results.records("layer_operators")} for e in (dense, sparse))
    assert {key for key in more if key not in plain} <= {
        (o.name, o.phase) for o in more.values() if o.name.startswith(("index_", "key_choice"))
    }
    for key, operator in plain.items():
        assert float(more[key].flops * more[key].count) == float(operator.flops * operator.count), key


def test_the_utilization_counts_the_products_of_the_indexer_and_the_chosen_keys() -> None:
    """Three passes of the plain network less 3 pairs of scores (2·(5 + 1) + 2·5 products a pair and layer), and the indexer."""
    plain, sparse = (of(attention_flop_convention="causal", **more) for more in ({}, INDEXER))
    core = 3 * 2 * (10 - 7) * (2 * 6 + 2 * 5)
    indexer = (
        2 * 4 * (24 + 24 + 16) + 10 * 2 * 3 + 2 * 7 * 2 * 3
    )  # two passes of products, one of scores, two of chosen scores
    layer = 2 * (2 * indexer - core)
    more = sparse["model_flops_per_accelerator"] - plain["model_flops_per_accelerator"]
    assert more == pytest.approx(layer)
