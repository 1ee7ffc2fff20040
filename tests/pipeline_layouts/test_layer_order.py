"""Which kind each layer is: from patterns, or spread as networks are; and the smallest set of kinds that tells them apart."""

from typing import Any

import pytest

from amped.base.errors import ConfigError, MappingError
from amped.configuring.layout_text import Blocks, read_blocks
from amped.pipeline_layouts.layer_order import COUNTED, layer_order, patterned_numbers


def numbers(layers: int, attention: int = 0, linear: int = 0, dense: int = 0, mixtures: int = 0) -> dict[str, int]:
    return {"layers": layers} | dict(zip(COUNTED, (attention, linear, dense, mixtures), strict=True))


def order(counts: dict[str, int], **choices: Any) -> tuple[str, list[int]]:
    found = layer_order(choices, counts, counts["number_of_MoE_layers"] > 0)
    return found.name, list(found.places)


def test_layers_with_attention_are_the_last_of_equal_groups() -> None:
    assert order(numbers(8, attention=2, linear=6, mixtures=8)) == ("linear_and_attention", [0, 0, 0, 1] * 2)


def test_a_pattern_says_where_linear_attention_is() -> None:
    found = order(numbers(4, attention=1, linear=3, dense=4), linear_layer_pattern="0,1*3")
    assert found == ("linear_and_attention", [1, 0, 0, 0])


def test_dense_layers_with_linear_attention_are_a_kind_of_their_own() -> None:
    """The first of four layers is dense; attention is in the last of each pair: LD, AM, LM, AM."""
    name, places = order(numbers(4, attention=2, linear=2, dense=1, mixtures=3))
    assert (name, places) == ("mixers_and_networks", [0, 3, 2, 3])


def test_layers_of_one_block_each() -> None:
    written = Blocks("MEM*|-")
    found = order(numbers(5, 1, 2, 1, 1), single_block_pattern=written)
    assert found == ("single_blocks", [0, 3, 0, 1, 2])
    spread = order(numbers(6, attention=1, linear=3, dense=2))[1]
    assert [spread.count(kind) for kind in range(4)] == [3, 1, 2, 0]


def test_layers_that_are_alike_have_no_kinds() -> None:
    assert order(numbers(4, attention=4, dense=4)) == ("", [0] * 4)
    assert order(numbers(4, linear=4, mixtures=4)) == ("", [0] * 4)


def test_a_mixture_of_dense_layers_and_mixtures_is_as_before() -> None:
    assert order(numbers(4, attention=4, dense=1, mixtures=3)) == ("dense_and_mixture", [0, 1, 1, 1])
    assert order(numbers(4, attention=4, dense=2, mixtures=2)) == ("dense_and_mixture", [0, 1, 0, 1])


def test_patterns_count_layers() -> None:
    found = patterned_numbers({"single_block_pattern": Blocks("MM*E")}, numbers(4))
    assert found == dict(zip(COUNTED, (1.0, 2.0, 0.0, 1.0), strict=True))
    both = {"linear_layer_pattern": "1,1,0,0", "mixture_layer_pattern": "0,1,0,1"}
    assert patterned_numbers(both, numbers(4)) == {
        "number_of_MoE_layers": 2.0, "number_of_linear_attention_layers": 2.0, "number_of_attention_layers": 2.0,
        "number_of_dense_linear_layers": 1.0,
    }  # fmt: skip


def test_a_pattern_of_other_layers_is_refused() -> None:
    with pytest.raises(MappingError, match="linear_layer_pattern lists other layers than the 4 that there are"):
        patterned_numbers({"linear_layer_pattern": "1,0"}, numbers(4))


@pytest.mark.parametrize("written", ["MXE", "", "|", 3, "M" * 10_001])
def test_blocks_that_nobody_knows_are_refused(written: object) -> None:
    with pytest.raises(ConfigError, match="is no pattern of blocks"):
        read_blocks("single_block_pattern", written)
