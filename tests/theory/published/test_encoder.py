"""The operators of BERT's encoder layer against the published analysis of its data movement (arXiv 2007.00072).

Words are bytes by the size of an activation; dropout masks count as full words, as the paper's kernels store them.
The paper overwrites the gradients of weights, amped adds to them: what it reads to do so is left out of the words.
"""

from functools import cache

import pytest

import amped
from amped.estimation.breakdown import CONTRACTIONS, layer_lines
from amped.theory.language.quantity import ACCELERATOR, SYSTEM
from tests.helpers.formulas import sectioned
from tests.helpers.layers import with_waits

HEADS, WIDTH, INNER, WORD = 16, 1024, 4096, 2
ATTENTION = ("attention_scores", "attention_values")
LAYER = {
    "layers": 1, "dimensionality": WIDTH, "attention_heads": HEADS, "feedforward_dimension": INNER,
    "vocabulary_size": 0, "number_of_accelerators": 1, "tokens_to_train": "1 G", "norm_position": "post",
    "causal": False, "flash_attention": False, "dropout": 0.1, "dropout_mask_precision": "2 B",
    "matrix_precision": "fp16", "gradient_precision": "2 B", "activation_precision": "2 B",
    "query_key_value_bias": True, "attention_output_bias": True, "mlp_bias": True,
}  # fmt: skip
V100, H200 = "V100 SXM2 16GB", "H200 SXM"
# Batch and length of the paper's two layers.
LARGE, SHORT = (8, 512), (96, 128)
CLASSES = {"C": CONTRACTIONS, "S": ("normalization",), "E": ("element_wise",)}


@cache
def encoder(batch, length, accelerator=V100, **more):
    config = sectioned({**LAYER, **more}, {SYSTEM: "Selene", ACCELERATOR: accelerator})
    return amped.estimate(config, batch_size=batch, microbatch_size=batch, context=length)


def operators(shape, phase=None, name=None):
    """The operators that run; the list holds those of a fused attention too, with a count of nothing."""
    found = [o for o in encoder(*shape).results.records("layer_operators") if o.count > 0]
    return [o for o in found if phase in (None, o.phase) and name in (None, o.name)]


def flops(found):
    return sum(o.flops * o.count for o in found)


def words(found):
    """Words that must move, without the old gradients of weights (m by n) that are read to be added to."""
    old = sum(o.m * o.n * o.count for o in found if o.phase == "weight_gradient")
    return sum(o.bytes * o.count for o in found) / WORD - old


def of_class(letter, found):
    return [o for o in found if o.kind in CLASSES[letter]]


# Totals of the paper's operators: Gflop, and millions of words; to the last digit printed.
TOTALS = {"B=8, L=512": (LARGE, 335.73, 490.73, 587.25, 1077.98), "B=96, L=128": (SHORT, 948.30, None, None, 2101.4)}


@pytest.mark.parametrize(("shape", "gflop", "products", "kernels", "whole"), TOTALS.values(), ids=TOTALS)
def test_work_and_words_of_the_layer(shape, gflop, products, kernels, whole):
    found = operators(shape)
    assert flops(found) / 1e9 == pytest.approx(gflop, abs=0.005)
    assert words(found) / 1e6 == pytest.approx(whole, abs=0.05)
    if products:
        assert words(of_class("C", found)) / 1e6 == pytest.approx(products, abs=0.005)
        assert words(found) / 1e6 - words(of_class("C", found)) / 1e6 == pytest.approx(kernels, abs=0.005)


@pytest.mark.parametrize(("letter", "work", "traffic"), [("C", 99.785, 45.5), ("S", 0.180, 37.0), ("E", 0.035, 17.5)])
def test_products_do_the_work_and_the_rest_moves_the_words(letter, work, traffic):
    found = operators(LARGE)
    chosen = of_class(letter, found)
    assert 100 * flops(chosen) / flops(found) == pytest.approx(work, abs=0.0005)
    assert 100 * words(chosen) / words(found) == pytest.approx(traffic, abs=0.05)


# Gflop of one product, the same forward and for each of its two gradients.
PRODUCTS = {"query_key_value": 25.770, "attention_scores": 4.295, "attention_values": 4.295, "attention_output": 8.590,
            "feedforward_up": 34.360, "feedforward_down": 34.360}  # fmt: skip


@pytest.mark.parametrize(("name", "gflop"), PRODUCTS.items())
def test_work_of_each_product(name, gflop):
    found = operators(LARGE, name=name)
    assert [round(o.flops / 1e9, 3) for o in found] == [gflop] * 3


# Millions of words in and out of fused kernels, in the paper's names: SM, BS, aib, baib, BRD, BDRB, BDRLN, BSB with EBSB.
KERNELS = {
    "SM": ("softmax", "forward", 33.55, 100.66), "BS": ("softmax", "input_gradient", 100.66, 33.55),
    "aib": ("projection_bias", "forward", 12.59, 12.58), "baib": ("projection_bias", "input_gradient", 12.58, 0.003),
    "BRD": ("activation_function", "forward", 16.78, 50.33),
    "BDRB": ("activation_function", "input_gradient", 50.33, 16.78),
    "BDRLN 1": ("attention_residual", "forward", 8.39, 16.78),
    "BDRLN 2": ("feedforward_residual", "forward", 8.39, 20.98),
    "EBSB": ("attention_residual", "input_gradient", 16.78, 4.20),
    "BSB": ("feedforward_residual", "input_gradient", 8.39, 4.20),
    "BLNRD 1": ("attention_residual_norm", "input_gradient", 12.59, 8.39),
    "BAOB": ("attention_output_bias", "input_gradient", 4.19, 0.001),
    "BEI": ("layer_input", "input_gradient", 8.39, 4.19),
}  # fmt: skip


@pytest.mark.parametrize(("name", "phase", "read", "written"), KERNELS.values(), ids=KERNELS)
def test_words_of_each_fused_kernel(name, phase, read, written):
    (found,) = operators(LARGE, phase, name)
    assert found.read / WORD / 1e6 == pytest.approx(read, abs=0.006)
    assert found.written / WORD / 1e6 == pytest.approx(written, abs=0.006)


@pytest.mark.parametrize("shape", [LARGE, SHORT, (2, 256), (1, 1024)])
def test_words_and_work_are_the_closed_forms(shape):
    """a, s, m, r: words of the stream, the scores, the hidden units, and rows; N is the width, U the inner one."""
    (batch, length), n, u = shape, WIDTH, INNER
    a, s, m, r = batch * length * n, HEADS * batch * length**2, batch * length * u, batch * length
    found = operators(shape)
    assert flops(of_class("C", found)) == 24 * r * n * n + 12 * r * length * n + 12 * r * n * u
    assert words(of_class("C", found)) == 36 * a + 6 * s + 6 * m + 12 * n * n + 6 * n * u
    # Vectors: biases and norms are read and their gradients written, 20 N and 2 U; 1/σ of a row is written and read twice.
    vectors = 20 * n + 2 * u + 4 * r
    assert words(of_class("S", found)) + words(of_class("E", found)) == 44 * a + 8 * s + 8 * m + vectors


def test_gradients_of_weights_are_added_to():
    """The old gradient is read and the new one written, in their own precision: 4N² + 2NU more words than the paper's."""
    found = operators(LARGE, "weight_gradient")
    counted = sum(o.bytes * o.count for o in found) / WORD
    assert counted - words(found) == 4 * WIDTH**2 + 2 * WIDTH * INNER
    wide = encoder(*LARGE, gradient_precision="4 B").results.records("layer_operators")
    pairs = zip(found, [o for o in wide if o.phase == "weight_gradient"], strict=True)
    assert all(new.bytes - old.bytes == 2 * 2 * old.m * old.n for old, new in pairs)


# --- use of the machine ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [LARGE, SHORT])
@pytest.mark.parametrize("accelerator", [V100, H200])
def test_no_operator_uses_more_than_there_is_and_shares_agree_with_its_time(accelerator, shape):
    e = encoder(*shape, accelerator)
    for line in layer_lines(e):
        assert 0 < line.memory_use_efficiency <= 1
        assert 0 <= line.peak_fraction <= 1
        assert line.memory_use_efficiency * line.time * e["memory_bandwidth"] == pytest.approx(line.bytes, rel=1e-12)
        assert line.peak_fraction * line.time * e["matrix_peak_flop_rate"] == pytest.approx(line.flops, rel=1e-12)
    assert sum(line.time for line in layer_lines(e)) == pytest.approx(with_waits(e).whole, rel=1e-12)
    assert sum(line.share for line in layer_lines(e)) == pytest.approx(1, rel=1e-12)


@pytest.mark.parametrize("accelerator", [V100, H200])
def test_only_products_with_weights_are_bound_by_compute(accelerator):
    """The six products of the size of the scores use more of the bandwidth than of the peak, as do all other kernels."""
    lines = layer_lines(encoder(*LARGE, accelerator))
    bound = {line.name for line in lines if line.memory_use_efficiency < line.peak_fraction}
    assert bound == set(PRODUCTS) - set(ATTENTION)


# Peaks that the paper's analysis is held against, flop/s and byte/s, and the floor in ms of products and of all.
FLOORS = {"V100 datasheet": (125e12, 0.9e12, None, 4.34), "H200 measured": (0.78e15, 4.3e12, 0.51, 0.79)}


@pytest.mark.parametrize(("peak", "bandwidth", "products", "whole"), FLOORS.values(), ids=FLOORS)
def test_floor_of_the_layer(peak, bandwidth, products, whole):
    floors = [(line.kind, max(line.flops / peak, line.bytes / bandwidth)) for line in layer_lines(encoder(*LARGE))]
    assert sum(time for _, time in floors) * 1e3 == pytest.approx(whole, abs=0.006)
    if products:
        found = sum(time for kind, time in floors if kind in CONTRACTIONS)
        assert found * 1e3 == pytest.approx(products, abs=0.006)


# ms of the layer on a V100, forward and backward: the paper's best layouts, whose fusion this is, and PyTorch's kernels.
@pytest.mark.parametrize(("shape", "best", "pytorch"), [(LARGE, 6.71, 9.14), (SHORT, 15.42, 18.43)])
def test_time_of_the_layer_on_a_v100(shape, best, pytorch):
    time = with_waits(encoder(*shape)).whole * 1e3
    assert time == pytest.approx(best, rel=0.1)
    assert time < pytorch


# --- encoders of the table -----------------------------------------------------------------------------------------------


ENCODERS = {"BERT base": "post", "BERT large": "post", "ViT-B/16": "pre", "ViT-L/16": "pre", "ViT-H/14": "pre",
            "ViT-g/14 giant": "pre", "ViT-G/14 gigantic": "pre", "ViT-22B": "pre", "vit_era5": "pre"}  # fmt: skip
RUN = {"tensor_parallel_degree": 1, "pipeline_parallel_degree": 1, "microbatch_size": 1, "batch_size": 64,
       "number_of_accelerators": 8, "tokens_to_train": "1 G", "activation_recomputation": "none"}  # fmt: skip


@pytest.mark.parametrize(("model", "position"), ENCODERS.items())
def test_encoders_of_the_table_are_estimated(model, position):
    e = amped.estimate("default", model=model, **RUN)
    assert e.choices["norm_position"] == position
    assert e["causal"] == 0
    assert 0 < e["model_flops_utilization"] < e["hardware_flops_utilization"] * (1 + 1e-9) < 1
    assert {line.name for line in layer_lines(e)} >= set(PRODUCTS)


def test_bert_large_is_24_of_the_papers_layers():
    run = {"batch_size": 8, "microbatch_size": 8, "number_of_accelerators": 1, "flash_attention": False}
    e = amped.estimate("default", model="BERT large", **{**RUN, **run}, dropout=0.1, dropout_mask_precision="2 B")
    found = [o for o in e.results.records("layer_operators") if o.count > 0]
    one = operators(LARGE)
    assert e["layers"] == 24
    assert flops(found) == flops(one)
    assert words(of_class("S", found)) == words(of_class("S", one))
