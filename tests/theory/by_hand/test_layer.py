"""One layer on paper: its multiply-accumulates, the bytes that it moves, and what it keeps for the backward pass.

The machine has no losses. Where it multiplies once a second, the time of a pass is the number of its multiply-accumulates;
where it moves a byte a second, the time is the number of its bytes (roofline: Williams et al., CACM 52(4), 2009).
"""

import pytest

from tests.helpers.layers import computed, kernels, repeats, whole_bytes
from tests.helpers.round_machine import ONE_BYTE_A_SECOND, ONE_PRODUCT_A_SECOND, trained

PASSES = ("forward", "input_gradient", "weight_gradient")
# A GPT: one sequence of 4 tokens of width 8, two heads of 4, 32 hidden units; layer norms, no dropout, no biases.
GPT: dict[str, object] = {
    "layers": 1, "dimensionality": 8, "attention_heads": 2, "key_value_heads": 2, "head_dimension": 4,
    "feedforward_dimension": 32, "vocabulary_size": 0, "context": 4, "batch_size": 1, "microbatch_size": 1,
    "number_of_accelerators": 1, "dropout": 0, "activation_recomputation": "none",
}  # fmt: skip
# A Llama: two sequences of 4 tokens of width 8, four heads of 2 that share two key heads, 12 hidden units with a gate,
# RMS norms, rotary positions, and a fused attention that computes the scores on and below the diagonal.
LLAMA = GPT | {
    "attention_heads": 4, "head_dimension": 2, "feedforward_dimension": 12, "gated_mlp": True, "norm_vectors": 1,
    "positions": "rope", "flash_attention": True, "causal": True, "batch_size": 2, "microbatch_size": 2,
}  # fmt: skip


def passes(*worlds: dict[str, object], **given: object) -> list[float]:
    layer = computed(trained(*worlds, **given))
    return [getattr(layer, name) for name in PASSES]


def test_the_products_of_a_dense_layer() -> None:
    """Two products backward for each forward one (arXiv 2104.04473, appendix).

    Queries, keys and values    4·8·24 = 768      scores  2 heads · 4·4·4 = 128, values as many
    output of attention         4·8·8  = 256      up      4·8·32 = 1024,         down as many
    """
    weighted, core = 768 + 256 + 1024 + 1024, 128 + 128
    assert passes(GPT, ONE_PRODUCT_A_SECOND) == [weighted + core, weighted + 2 * core, weighted]


# Bytes of tensors (2 an entry): the stream 4·8, hidden units 4·32, queries, keys, values and scores 4·8 each.
STREAM, HIDDEN, NORM_WEIGHTS = 64, 256, 2 * 8 * 2
FORWARD = {
    "two norms": 2 * (STREAM + NORM_WEIGHTS + STREAM),
    "query_key_value": STREAM + 8 * 24 * 2 + 3 * 64,  # input, weights, output: 640
    "scores": 64 + 64 + 64,
    "softmax": 64 + 64,
    "values": 64 + 64 + 64,
    "heads side by side again": 64 + 64,
    "attention_output": 64 + 8 * 8 * 2 + STREAM,  # 256
    "two sums": 2 * (2 * STREAM + STREAM),
    "up": STREAM + 8 * 32 * 2 + HIDDEN,  # 832
    "activation function": HIDDEN + HIDDEN,
    "down": HIDDEN + 32 * 8 * 2 + STREAM,  # 832
}
INPUT_GRADIENT = {
    # The gradients of input and weights each read the input and the output's gradient (arXiv 2007.00072, table 3).
    "two norms": 2 * (4 * STREAM + NORM_WEIGHTS + STREAM + NORM_WEIGHTS),
    "query_key_value": 3 * 64 + 384 + STREAM,
    "queries and keys": 2 * (64 + 64 + 64),
    "softmax": 2 * 64 + 64,  # its output and that one's gradient
    "scores and values": 2 * (64 + 64 + 64),
    "heads apart again": 64 + 64,
    "attention_output": STREAM + 128 + 64,
    "two sums": 2 * (2 * STREAM + STREAM),
    "up": HIDDEN + 512 + STREAM,
    "activation function": 2 * HIDDEN + HIDDEN,
    "down": STREAM + 512 + HIDDEN,
}
# Input and output's gradient are read; the sum of 4 bytes an entry is read and written (Megatron-LM, fused accumulation).
WEIGHT_GRADIENT = {
    "query_key_value": STREAM + 3 * 64 + 2 * 8 * 24 * 4, "attention_output": 64 + STREAM + 2 * 8 * 8 * 4,
    "up": STREAM + HIDDEN + 2 * 8 * 32 * 4, "down": HIDDEN + STREAM + 2 * 32 * 8 * 4,
}  # fmt: skip


def test_the_bytes_of_a_dense_layer() -> None:
    """4416 forward, 5568 for the gradients of inputs, 7168 for those of weights."""
    by_hand = [sum(operators.values()) for operators in (FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT)]
    assert by_hand == [4416, 5568, 7168]
    assert passes(GPT, ONE_BYTE_A_SECOND) == by_hand


def test_a_kernel_takes_the_longer_of_its_work_and_its_bytes() -> None:
    """A product and a byte a second: forward 768 products beat 640 bytes, 192 bytes of the scores beat 128 products."""
    longer = {"query_key_value": 768, "up": 1024, "down": 1024}  # attention_output: 256 of both
    by_hand = sum((FORWARD | longer).values())
    assert by_hand == 4928
    assert passes(GPT, ONE_PRODUCT_A_SECOND, memory_bandwidth=1)[0] == by_hand


def test_operations_of_a_vector_unit() -> None:
    """One operation a second: norms 7 an entry, softmax 4, sums 2, GELU 9; backward 13, 4, 1 and 14 (arXiv 2007.00072)."""
    stream, hidden, scores = 4 * 8, 4 * 32, 2 * 4 * 4
    assert passes(GPT, vector_flop_rate=1) == pytest.approx([
        2 * 7 * stream + 4 * scores + 2 * 2 * stream + 9 * hidden,
        2 * 13 * stream + 4 * scores + 2 * stream + 14 * hidden, 0,
    ])  # fmt: skip


def test_dropout_moves_masks_and_biases_move_gradients_once_more() -> None:
    """Masks of a byte: written forward; backward read, and what was dropped out is written and read again.

    Behind each block         forward + 32, backward + 32 + 2·64       of the scores  forward 64 + 64 + 32, backward as many
    The gradient of a bias reads that of the output: behind attention 64, behind the network 64, of the hidden units 256; of
    queries, keys and values in a kernel of its own 192, which writes 24 sums of 2 bytes.
    """
    plain = passes(GPT, ONE_BYTE_A_SECOND)
    dropped = passes(GPT, ONE_BYTE_A_SECOND, dropout=0.1)
    assert [a - b for a, b in zip(dropped, plain, strict=True)] == [2 * 32 + 160, 2 * (32 + 128) + 160, 0]
    biases = {"query_key_value_bias": True, "attention_output_bias": True, "mlp_bias": True}
    biased = passes(GPT, ONE_BYTE_A_SECOND, biases)
    assert [a - b for a, b in zip(biased, plain, strict=True)] == [0, 64 + 64 + 256 + 192 + 48, 0]


def test_the_products_of_a_gated_layer_with_shared_key_heads() -> None:
    """8 tokens. Of 4·4 scores of a sequence and head 10 lie on or below the diagonal (arXiv 2307.08691, section 4.1).

    Queries, keys, values   8·8·(4 + 2·2)·2 = 1024        scores and values   2 sequences · 4 heads · 10·2·2 = 320
    output of attention     8·8·8 = 512                   gate and up         8·8·24 = 1536,      down  8·12·8 = 768
    A fused attention computes its scores again and four gradients of two products: 2.5 times as much backward.
    """
    weighted, core = 1024 + 512 + 1536 + 768, 320
    assert passes(LLAMA, ONE_PRODUCT_A_SECOND) == [weighted + core, weighted + 2.5 * core, weighted]


def test_the_bytes_of_a_gated_layer_with_shared_key_heads() -> None:
    """Bytes of tensors: stream and queries 128, keys and values 64 each, gate and up 384, hidden units 192, weights of a norm 16.

    The fused attention keeps the logarithm of each row's sum: 8 tokens · 4 heads · 4 bytes = 128 (arXiv 2205.14135).
    """
    stream, queries, keys, both, hidden, statistics = 128, 128, 64, 384, 192, 128
    turned = queries + keys
    products = (128 + 8 * 16 * 2 + 256) + (128 + 8 * 8 * 2 + 128) + (128 + 8 * 24 * 2 + 384) + (192 + 12 * 8 * 2 + 128)
    forward = {
        "two norms": 2 * (stream + 16 + stream), "rotation": 2 * turned, "two sums": 2 * 3 * stream,
        "attention": queries + 2 * keys + queries + statistics, "activation": both + hidden, "products": products,
    }  # fmt: skip
    back = {
        "two norms": 2 * (5 * stream + 2 * 16), "rotation": 2 * turned, "two sums": 2 * 3 * stream,
        "attention reads": queries + 2 * keys + 2 * queries + statistics, "and writes": queries + 2 * keys,
        "activation": both + hidden + both, "products": products,  # each reads what it wrote, and writes what it read
    }  # fmt: skip
    weights = (128 + 256 + 8 * 8 * 16) + (128 + 128 + 8 * 8 * 8) + (128 + 384 + 8 * 8 * 24) + (192 + 128 + 8 * 12 * 8)
    assert passes(LLAMA, ONE_BYTE_A_SECOND) == [sum(forward.values()), sum(back.values()), weights]
    assert [sum(forward.values()), sum(back.values()), weights] == [5216, 6784, 5312]


def test_what_a_layer_keeps() -> None:
    """GPT: s·b·h·32 + 2·a·s²·b without masks (arXiv 2205.05198, section 4.1): 1024 + 64.

    Llama: inputs of two norms and of two blocks 4·128; queries, keys, values 256; statistics 128; input of the output
    projection 128; gate and up 384; hidden units 192.
    """
    assert whole_bytes(trained(GPT)) == 1088
    assert whole_bytes(trained(LLAMA)) == 4 * 128 + 256 + 128 + 128 + 384 + 192


def test_products_in_fp8_read_and_keep_a_byte_an_entry_but_attention_two() -> None:
    """arXiv 2209.05433: operands of products with weights have a byte; what comes out, and attention, keep two.

    Forward the four products read 128·… halves of (128 + 256) + (128 + 128) + (128 + 384) + (192 + 192) = 1536: 768 less.
    They are cast before: 8·8 + 8·16 = 192, 8·8 + 8·8 = 128, 8·8 + 8·24 = 256, 8·12 + 12·8 = 192 entries, 768 in all, read
    as 2 bytes and written as 1 in two layouts: 4 · 768 more.
    Kept: inputs of the two blocks, of the output projection and of down with 1 byte: (2·128 + 128 + 192)/2 less.
    """
    narrow = {
        "matrix_precision": "fp8",
        "fp8_gemm_sustained_fraction": 1,
        "fp8_peak_flop_rate": 1e30,
        "bf16_peak_flop_rate": 1e30,
    }
    wide, fp8 = trained(LLAMA, ONE_BYTE_A_SECOND), trained(LLAMA, ONE_BYTE_A_SECOND, narrow)
    assert computed(fp8).forward - computed(wide).forward == 4 * 768 - 768
    assert whole_bytes(wide) - whole_bytes(fp8) == (2 * 128 + 128 + 192) / 2
    # Backward gradients of the outputs, 8·(16 + 8 + 24 + 8) = 448 entries, are cast; of gradients and weights
    # (256 + 256) + (128 + 128) + (384 + 384) + (128 + 192) = 1856 bytes half are read.
    assert computed(fp8).input_gradient - computed(wide).input_gradient == 4 * 448 - 1856 / 2


@pytest.mark.parametrize(("recomputation", "again"), [("none", 0), ("selective", 192 + 128 + 192), ("full", 4416)])
def test_what_is_computed_again(recomputation: str, again: int) -> None:
    """Scores, softmax and values, or the whole forward pass (arXiv 2205.05198, section 5)."""
    e = trained(GPT, ONE_BYTE_A_SECOND, activation_recomputation=recomputation)
    assert computed(e).recomputation == again


def test_a_pass_stops_at_the_last_product_that_is_needed() -> None:
    """Nothing in the layer needs the output of down, 832 bytes (PyTorch, set_checkpoint_early_stop)."""
    e = trained(GPT, ONE_BYTE_A_SECOND, activation_recomputation="full", recomputation_stops_early=True)
    assert computed(e).recomputation == 4416 - 832


def test_gradients_that_software_adds_up_in_a_kernel_of_its_own() -> None:
    """What the product left (2 bytes) and the sum (4) are read, the sum is written: 10 bytes of each of 768 weights.

    Where the gradients of every micro-batch are sent, only a copy is made: 4 bytes (PyTorch, AccumulateGrad).
    """
    apart = {"weight_gradient_accumulation": "separate"}
    plain, added = passes(GPT, ONE_BYTE_A_SECOND), passes(GPT, ONE_BYTE_A_SECOND, apart)
    assert added[2] - plain[2] == 10 * 768
    assert passes(GPT, ONE_BYTE_A_SECOND, apart, zero_stage=2)[2] - plain[2] == 4 * 768


def test_a_host_that_is_slower_than_its_accelerator_is_waited_for() -> None:
    """Half of the host's time backward is spent on each kind of gradient; launches take theirs one after the other.

    A forward pass of GPT has 2 norms, 2 products of attention's weights, scores, softmax, values, a permutation, 2 sums, up,
    the activation function and down: 13 kernels. Backward the six products take two each: norms 2, sums 2, softmax,
    permutation and activation 3, products with weights 4, scores and values 2·2: 15; and 4 gradients of weights.
    """
    assert passes(GPT, host_time_per_layer=100) == [100, 50, 50]
    assert passes(GPT, host_time_per_layer=40, host_time_factor=2.5) == [100, 50, 50]
    assert passes(GPT, kernel_launch_time=1) == [13, 15, 4]


# --- the time of a product -------------------------------------------------------------------------------------------


def forward_of_ones(**given: object) -> float:
    """Forward seconds of a layer whose only work are its four products and attention, one product a second and core."""
    return float(computed(trained(GPT, ONE_PRODUCT_A_SECOND, given)).forward)


def test_tiles_are_begun_whole_where_waves_are_lost() -> None:
    """All products of the layer are smaller than the smallest tile of 64 · 64, on one core: each takes that tile's time.

    Their k: 8, 8, 8 and 32; of scores 4 and of values 4, in each of two heads (CUTLASS, efficient GEMM).
    """
    assert forward_of_ones(wave_quantization=1, number_of_cores=1) == 64 * 64 * (8 + 8 + 8 + 32 + 2 * 4 + 2 * 4)


def test_waves_of_tiles_over_cores() -> None:
    """One tile on 4 cores that share the peak takes as long as four; the two tiles of both heads take one wave together."""
    assert forward_of_ones(wave_quantization=1, number_of_cores=4) == 4 * 64 * 64 * (8 + 8 + 8 + 32 + 4 + 4)


def test_smaller_tiles_that_are_less_efficient() -> None:
    """At a quarter of the rate a tile of 64 · 64 takes as long as 128 · 128: the tile between, at half, takes as long."""
    one = forward_of_ones(wave_quantization=1, number_of_cores=1)
    small = {"smallest_tile_efficiency": 0.25, "small_tile_efficiency": 0.5}
    assert forward_of_ones(wave_quantization=1, number_of_cores=1, **small) == 4 * one
    # With both at an eighth, 128 · 128 at its full rate is the best.
    small = {"smallest_tile_efficiency": 0.125, "small_tile_efficiency": 0.125}
    assert forward_of_ones(wave_quantization=1, number_of_cores=1, **small) == 4 * one


def test_k_is_ramped_up_once_for_each_tile() -> None:
    """A ramp of 8: k of 8, 8, 8, 32, 4 and 4 becomes 16, 16, 16, 40, 12 and 12; m·n as in the products of the layer."""
    by_hand = 4 * 24 * 16 + 4 * 8 * 16 + 4 * 32 * 16 + 4 * 8 * 40 + 2 * 4 * 4 * 12 + 2 * 4 * 4 * 12
    assert forward_of_ones(gemm_ramp_depth=8) == by_hand


def test_rows_lost_to_packing_on_a_processor() -> None:
    """Four rows more where there are four: twice the time. A product with a vector is not packed."""
    assert forward_of_ones(gemm_ramp_rows=4) == 2 * 3328
    alone = {"context": 1, "feedforward_dimension": 32}
    assert forward_of_ones(**alone, gemm_ramp_rows=4) == forward_of_ones(**alone) == 24 * 8 + 8 * 8 + 2 * 8 * 32 + 16


def test_bytes_that_a_processors_products_do_not_hide() -> None:
    """Caches keep 600 bytes of a product: of 640, 832 and 832 the rest, of which a half is waited for."""
    world = GPT | {"fp16_peak_flop_rate": 2, "memory_bandwidth": 1}
    plain = computed(trained(world)).forward
    waits = computed(trained(world, cached_operand_bytes=600, exposed_operand_fraction=0.5)).forward
    assert waits - plain == pytest.approx((40 + 232 + 232) / 2)


def test_a_long_k_is_cut_among_cores_that_would_be_idle() -> None:
    """Down has one tile and k = 1024 or 2048: in 2 or 4 parts of 512 at once both take as long (CUTLASS, split-K).

    For each part the partial sums, 4·8 entries of 2 bytes, go out and come in: 2 · 2 · 64 bytes more. Up has 8 or 16
    tiles of 128 · 128, one wave on 16 cores. The activation function reads and writes 1024 units more for each of 4 tokens.
    """
    cores = {
        "wave_quantization": 1,
        "number_of_cores": 16,
        "small_tile_efficiency": 1e-6,
        "smallest_tile_efficiency": 1e-6,
    }
    shallow, deep = (
        trained(GPT, cores, feedforward_dimension=units, fp16_peak_flop_rate=2, memory_bandwidth=1)
        for units in (1024, 2048)
    )
    more = computed(deep).forward - computed(shallow).forward
    assert more == 2 * 2 * 64 + 2 * 1024 * 4 * 2


# --- attention in one kernel -----------------------------------------------------------------------------------------


def test_a_fused_attention_is_slower_over_short_sequences_and_with_narrow_heads() -> None:
    """320 products of Llama's attention: a token attends to 2.5 of 4 keys, on average.

    A ramp of 2.5 keys doubles the time. So does an edge of 2.5 keys: a causal mask has one. Without a mask, a token
    attends to 4 keys, in 512 products: a ramp of 4 keys doubles the time, and an edge costs nothing. A ramp of 128 in
    width makes heads of 128 √2 as slow. At heads of 2 it is √(1 + 1²) / √(1 + 64²) = √(2/4097) of the rate (arXiv 2307.08691; arXiv 2407.08608, section 3.1).
    """
    weighted = 4160 - 320
    for name in ("attention_ramp_length", "attention_edge_length"):
        ramp = trained(LLAMA, ONE_PRODUCT_A_SECOND, **{name: 2.5})
        assert computed(ramp).forward == weighted + 2 * 320
    for name, times in (("attention_ramp_length", 2), ("attention_edge_length", 1)):
        ramp = trained(LLAMA, ONE_PRODUCT_A_SECOND, causal=False, **{name: 4})
        assert computed(ramp).forward == weighted + times * 512
    narrow = trained(LLAMA, ONE_PRODUCT_A_SECOND, attention_head_ramp=128)
    assert computed(narrow).forward == pytest.approx(weighted + 320 * (4097 / 2) ** 0.5)


def test_what_else_slows_a_fused_attention() -> None:
    """Dropout to its fraction; deterministic sums backward; softmax that products do not hide: 4 operations a score."""
    dropped = trained(LLAMA, ONE_PRODUCT_A_SECOND, dropout=0.1, attention_dropout_fraction=0.5)
    assert repeats(dropped).attention_core == 320 * 2
    in_order = trained(LLAMA, ONE_PRODUCT_A_SECOND, deterministic=True, deterministic_attention_fraction=0.5,
                       deterministic_kernel_fraction=1)  # fmt: skip
    assert kernels(in_order).gradient.attention_core == 2 * 2.5 * 320
    assert repeats(in_order).attention_core == 320
    exposed = trained(LLAMA, ONE_PRODUCT_A_SECOND, exposed_softmax_fraction=0.25, vector_flop_rate=1)
    assert repeats(exposed).attention_core == 320 + 8 * 4 * 4 * 4 * 0.25
