"""The ladder by two constants of a machine: its work by hand, and the published rungs within five percent."""

from dataclasses import replace

import pytest

from amped.base.errors import ConfigError
from amped.kernels.ladder.analytic import H100_PCIE, H100_SXM, H200, Board, predictions
from amped.kernels.layer_shape import Shape

SEED = Shape(dtype="float16")  # the quickstart: 4096 wide, 32 heads, 2048 tokens, 4 sequences
LATER = Shape(batch=8, causal=True)

# Milliseconds published, by board, layer and rung. Sources: outputs of Transformer Engine's quickstart notebook of 2022
# (an H100-PCIe-class board), and docs/getting_started of its later versions ("an H100", B = 8, bf16; causal from the
# fused attention on).
PUBLISHED = [
    (H100_PCIE, SEED, "eager", 43.07), (H100_PCIE, SEED, "functional", 43.14), (H100_PCIE, SEED, "functional", 43.20),
    (H100_PCIE, SEED, "fused_softmax", 39.99), (H100_PCIE, SEED, "fp8_explicit", 28.61),
    (H100_SXM, replace(LATER, causal=False), "eager", 48.28), (H100_SXM, LATER, "sdpa", 35.71), (H100_SXM, LATER, "fp8_delayed", 21.67),
    (H100_SXM, LATER, "fp8_delayed", 22.96), (H100_SXM, LATER, "fp8_delayed", 23.41),
]  # fmt: skip


@pytest.mark.parametrize(("board", "shape", "rung", "milliseconds"), PUBLISHED)
def test_published_rungs_are_within_five_percent(board, shape, rung, milliseconds):
    assert predictions(shape, board)[rung] * 1e3 == pytest.approx(milliseconds, rel=0.05)


def test_work_and_sizes_by_hand():
    assert SEED.linear_flops == pytest.approx(3.298e12, rel=1e-3)
    assert SEED.attention_flops == pytest.approx(0.275e12, rel=1e-3)
    assert SEED.step_flops == pytest.approx(10.72e12, rel=1e-3)
    assert SEED.parameters == pytest.approx(201.3e6, rel=1e-3)
    assert SEED.score_bytes == pytest.approx(1.074e9, rel=1e-3)
    assert SEED.activation_bytes == 67_108_864


def test_a_processor_waits_for_exponentials_and_random_numbers():
    s = Shape(hidden=512, ffn=2048, heads=8, seq=256, batch=4, dtype="float32")
    scores, of_gelu, hidden = 4 * 8 * 256**2, 4 * 1024 * 2048, 1024 * 512
    own = {"peak": 160e9, "bandwidth": 10e9, "products": 0.8, "streams": 0.9}
    fast, slow = predictions(s, Board(**own)), predictions(s, Board(**own, function_time=1e-9, drawing_time=1e-8))
    dropped = (scores + hidden) * 1e-8
    assert slow["eager"] - fast["eager"] == pytest.approx((scores + of_gelu) * 1e-9 + dropped)
    assert slow["sdpa"] - fast["sdpa"] == pytest.approx(of_gelu * 1e-9 + dropped)
    still = replace(s, dropout=0.0)
    least = predictions(still, Board(**own, drawing_time=1e-8))["eager"] - predictions(still, Board(**own))["eager"]
    assert least == 0


def test_a_causal_mask_that_is_filled_in_passes_over_the_scores_four_times():
    """By hand: 8 · 32 · 2048² scores in 16 bits are 2.147 GB, and four passes over them at 0.9 of 3.35 TB/s 2.85 ms."""
    masked, plain = (predictions(s, H100_SXM) for s in (LATER, replace(LATER, causal=False)))
    assert (masked["eager"] - plain["eager"]) * 1e3 == pytest.approx(2.85, rel=0.01)
    assert masked["sdpa"] < plain["sdpa"]


def test_an_sxm_board_cannot_have_made_the_first_table():
    assert predictions(SEED, H100_SXM)["eager"] * 1e3 == pytest.approx(24.5, rel=0.05)


@pytest.mark.parametrize(("shape", "low", "high"), [(SEED, 19.9, 22.3), (LATER, 41.0, 46.0)])
def test_an_h200_lies_where_its_products_and_copies_put_it(shape, low, high):
    assert low < predictions(shape, H200)["eager"] * 1e3 < high


@pytest.mark.parametrize("board", [H100_PCIE, H100_SXM, H200])
@pytest.mark.parametrize("shape", [SEED, LATER])
def test_each_rung_is_faster_than_the_one_below(board, shape):
    times = predictions(shape, board)
    order = ["eager", "fused_softmax", "sdpa", "compiled", "fp8_dynamic", "fp8_delayed"]
    assert [times[n] for n in order] == sorted((times[n] for n in order), reverse=True)


@pytest.mark.parametrize(("sizes", "told"), [
    ({"heads": 30}, r"--heads 30 does not divide --hidden 4096\n    32, 16, 8 do"),
    ({"batch": 0}, "--batch 0 is not positive"),
    ({"dropout": 1.0}, "--dropout 1.0 is no share"),
])  # fmt: skip
def test_sizes_that_are_none_are_refused(sizes, told):
    with pytest.raises(ConfigError, match=told):
        Shape(**sizes)
