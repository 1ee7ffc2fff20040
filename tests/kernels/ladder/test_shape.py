"""The sizes of a layer: its work by hand, and what is refused."""

import pytest

from amped.base.errors import ConfigError
from amped.kernels.layer_shape import Shape

SEED = Shape(dtype="float16")  # the quickstart: 4096 wide, 32 heads, 2048 tokens, 4 sequences


def test_work_and_sizes_by_hand():
    assert SEED.linear_flops == pytest.approx(3.298e12, rel=1e-3)
    assert SEED.attention_flops == pytest.approx(0.275e12, rel=1e-3)
    assert SEED.step_flops == pytest.approx(10.72e12, rel=1e-3)
    assert SEED.parameters == pytest.approx(201.3e6, rel=1e-3)


def test_a_share_of_a_gated_layer_with_few_keys_by_hand():
    """One of two shares: 2 of 4 heads that are 16 wide, 1 of 2 of keys and values, 96 of 192 hidden units with a gate."""
    s = Shape(64, 96, 2, 8, 3, key_value_heads=1, width_of_a_head=16, gated=True)
    assert s.shapes == {"qkv": (32 + 2 * 16, 64), "projection": (64, 32), "up": (192, 64), "down": (64, 96)}
    assert s.attention_flops == 4 * 3 * 2 * 16 * 8**2


@pytest.mark.parametrize(("sizes", "told"), [
    ({"heads": 30}, r"hidden 4096 is not divisible by 30 heads\n    --heads 16 or 32 would do"),
    ({"batch": 0}, r"batch is 0\n    give --batch a whole number above 0"),
    ({"dropout": 1.0}, "--dropout 1.0 is no share"),
])  # fmt: skip
def test_sizes_that_are_none_are_refused(sizes, told):
    with pytest.raises(ConfigError, match=told):
        Shape(**sizes)
