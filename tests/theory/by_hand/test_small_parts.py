"""Small parts of networks on paper: wide norms of queries and keys, ends of two stacks, experts without compute, and the rest.

The network has two layers, a width of 8, two query heads and one key head of width 4, a feed-forward network of 16 without a
gate, a vocabulary of 10 words without a head of its own, and a final norm. All norms have one vector.

A layer: queries 8·8, keys and values 8·4 each, output 8·8 = 192; network 2·8·16 = 256; two norms 2·8 = 16: 464.
Two layers, words 10·8 = 80 and the final norm 8: 928 + 88 = 1016.
"""

from typing import Any

import pytest

from amped.configuring.scenario import read_scenario
from amped.engine.evaluate import run
from amped.engine.resolve import plan

NETWORK = {
    "layers": 2, "dimensionality": 8, "attention_heads": 2, "key_value_heads": 1, "head_dimension": 4, "feedforward_dimension": 16,
    "vocabulary_size": 10, "context": 4, "norm_vectors": 1,
}  # fmt: skip
PLAIN = 1016


def number(name: str, **changes: Any) -> float:
    parameters = {name: {"value": value} for name, value in {**NETWORK, **changes}.items()}
    asked = read_scenario({"neural_network_training_parameters": {"parameters": parameters}})
    chosen = plan(asked.catalogue, (name,), asked.sources)
    return run(chosen, asked.sources.given).number(name)


@pytest.mark.parametrize(
    ("changes", "more"),
    [
        ({"query_key_norm": True}, 2 * 2 * 4),  # in each layer a vector of 4 for queries, and one for keys
        ({"query_key_norm": True, "wide_query_key_norm": True}, 2 * (2 + 1) * 4),  # for all three heads
        ({"query_key_norm": True, "norm_vectors": 2}, 2 * 2 * 2 * 4 + (2 * 2 + 1) * 8),  # all norms have biases
        ({"position_table": 4, "embedding_norm": True}, 4 * 8 + 8),
        # a second table, a second norm behind it, and a second final norm
        ({"position_table": 4, "embedding_norm": True, "number_of_stacks": 2}, 2 * (4 * 8 + 8) + 8),
        # words of 4 entries instead of 8, and two projections; or one with a bias, and narrow positions and norm
        ({"embedding_dimension": 4}, -10 * 4 + 2 * 4 * 8),
        (
            {"embedding_dimension": 4, "narrow_embeddings": True, "position_table": 4, "embedding_norm": True},
            -10 * 4 + 5 * 8 + 5 * 4,
        ),
        ({"further_parameters": 7}, 7),
    ],
)
def test_parameters_of_small_parts(changes: dict[str, Any], more: int) -> None:
    assert number("number_of_parameters", **changes) == PLAIN + more


def test_experts_without_compute_have_a_place_in_the_router_alone() -> None:
    """Two mixtures of three experts: 256 a network, and a router of 3·8; two more choices are 2·8 more weights."""
    mixture = {"number_of_experts": 3, "experts_per_token": 2}
    assert number("number_of_parameters", **mixture) == PLAIN + 2 * (2 * 256 + 3 * 8)
    assert number("number_of_parameters", **mixture, zero_compute_experts=2) == PLAIN + 2 * (2 * 256 + 5 * 8)
    assert number("active_parameters", **mixture, zero_compute_experts=2) == PLAIN + 2 * (256 + 5 * 8)
